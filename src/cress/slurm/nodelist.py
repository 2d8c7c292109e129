"""Lists of nodes as Slurm writes them: ``n[1-3,07],login``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number

MOST = 100_000


def expanded(text: str) -> list[str]:
    """Return the names of a list, in order. Raises InputError."""
    names: list[str] = []
    for word in _words(text):
        begun = [""]
        for plain, inside in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", word):
            parts = [plain] if plain else list(_numbers(inside, text))
            begun = [name + part for name in begun for part in parts]
            if len(begun) > MOST:
                raise InputError(f"{text!r} names more than {MOST:,} nodes", hint="a shorter list")
        if re.sub(r"[^\[\]]+|\[[^\[\]]*\]", "", word):
            raise InputError(f"{text!r} is not a list of nodes", hint="such as n1,n2 or n[1-3,7]")
        names += begun
    return names


def _words(text: str) -> list[str]:
    return [word for word in re.split(r",(?![^\[]*\])", text.strip()) if word]


def _numbers(inside: str, whole: str) -> Iterable[str]:
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is None or end is None or end - begin > MOST:
            raise InputError(f"{whole!r} is not a list of nodes", hint="such as n1,n2 or n[1-3,7]")
        for value in range(begin, end + 1):
            yield f"{value:0{len(first)}d}"


def compressed(names: Iterable[str]) -> str:
    """Return names in their order, with numbers at their ends as ranges: ``n[1-3]``."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in dict.fromkeys(names):
        found = re.fullmatch(r"(.*?[^\d.])(\d{1,9})", name)
        if found is None:
            plain.append(name)
            continue
        width = len(found[2]) if found[2].startswith("0") else 0
        groups.setdefault((found[1], width), []).append(int(found[2]))
    written = []
    for (prefix, width), numbers in groups.items():
        texts = []
        for first, last in _ranges(sorted(numbers)):
            texts.append(f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}")
        one = len(texts) == 1 and "-" not in texts[0]
        written.append(f"{prefix}{texts[0]}" if one else f"{prefix}[{','.join(texts)}]")
    return ",".join(written + plain)


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for value in numbers:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found
