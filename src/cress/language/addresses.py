"""Addresses and ranges of them: ``192.168.1.2``, ``192.168.1.2-8``, ``10.0.0.0/8``, ``2001:db8::/32``, ``[::1]``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

# An IP version and the address as an integer.
Address: TypeAlias = tuple[int, int]

_FOUR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_BITS = {4: 32, 6: 128}


# As many as a large cluster has: a list is compared with the addresses of all nodes in turn.
@lru_cache(maxsize=131_072)
def parse_address(text: str) -> Address | None:
    """Return the address in ``text``; None if it is not an address."""
    four = _FOUR.fullmatch(text)
    if four:
        a, b, c, d = map(int, four.groups())
        return (4, a << 24 | b << 16 | c << 8 | d) if max(a, b, c, d) < 256 else None
    return _six(text[1:-1] if text.startswith("[") and text.endswith("]") else text)


def looks_like_addresses(text: str) -> bool:
    """Return whether a list entry is meant as an address, well-formed or not."""
    return re.match(r"\[?[0-9a-fA-F:]*:[0-9a-fA-F:.]*", text) is not None or (
        re.match(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+([-/]|$)", text) is not None
    )


def parse_span(text: str) -> tuple[int, int, int] | None:
    """Return IP version, first and last address (as integers) of an entry of a list; None if it has no addresses."""
    base, slash, bits = text.partition("/")
    if slash:
        found = parse_address(base)
        if found is None or not re.fullmatch(r"[0-9]{1,3}", bits) or int(bits) > _BITS[found[0]]:
            return None
        size = 1 << (_BITS[found[0]] - int(bits))
        first = found[1] // size * size
        return found[0], first, first + size - 1
    base, dash, end = text.partition("-")
    found = parse_address(base)
    if found is None:
        return None
    if not dash:
        return found[0], found[1], found[1]
    if found[0] == 4 and re.fullmatch(r"[0-9]{1,3}", end):
        last = (4, found[1] & ~0xFF | int(end)) if int(end) < 256 else None
    else:
        last = parse_address(end)
    if last is None or last[0] != found[0] or last[1] < found[1]:
        return None
    return found[0], found[1], last[1]


def _six(text: str) -> Address | None:
    """Return an IPv6 address without its zone after ``%``."""
    text = text.partition("%")[0]
    if text.count(":") < 2 or len(text) > 45 or ":::" in text or text.count("::") > 1:
        return None
    head, gap, tail = text.partition("::")
    before, after = (_groups(part) for part in (head, tail))
    if before is None or after is None:
        return None
    missing = 8 - len(before) - len(after)
    if missing < 1 if gap else missing != 0:
        return None
    value = 0
    for group in (*before, *[0] * (missing if gap else 0), *after):
        value = value << 16 | group
    return 6, value


def _groups(text: str) -> list[int] | None:
    if not text:
        return []
    groups: list[int] = []
    for part in text.split(":"):
        if re.fullmatch(r"[0-9a-fA-F]{1,4}", part):
            groups.append(int(part, 16))
        else:
            # The last 32 bits may have the form of an IPv4 address.
            four = _FOUR.fullmatch(part)
            if not four or not text.endswith(part) or max(map(int, four.groups())) > 255:
                return None
            a, b, c, d = map(int, four.groups())
            groups += [a << 8 | b, c << 8 | d]
    return groups
