"""Questions of programs about attribute values, answered once for each distinct value of a column."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable

from cress.language.addresses import parse_address
from cress.language.namepatterns import NamePattern, is_pattern, parse_pattern
from cress.language.tree import Expression, Item, Number, Span, Text, Truth
from cress.language.values import Operand, compared, contained
from cress.model.errors import InputError
from cress.model.node import Value


def is_true(value: Value) -> bool | None:
    """Return a truth value unchanged, and None for any other value."""
    return value if isinstance(value, bool) else None


def is_there(value: Value) -> bool:
    """Return true, since only existing values are asked."""
    return value is not None


def operand_of(constant: Expression) -> Operand:
    """Return the constant in the form for ``values.compared``."""
    match constant:
        case Text() | Truth():
            return constant.value
        case Number():
            return constant
    raise TypeError(f"{constant} is not a constant")


def comparison(operator: str, constant: Operand) -> Callable[[Value], bool | None]:
    """Return the question ``value operator constant``."""
    if isinstance(constant, str) and operator in ("=", "!="):
        # A shortcut for names, since every node has another one.
        folded, wanted = constant.casefold(), operator == "="
        return lambda value: (
            (value.casefold() == folded) is wanted if isinstance(value, str) else compared(operator, value, constant)
        )
    return lambda value: compared(operator, value, constant)


def pair_comparison(operator: str) -> Callable[[Value | None, Value | None], bool | None]:
    """Return the question ``value operator other value``."""
    return lambda left, right: compared(operator, left, right)


def same(left: Operand, right: Operand) -> bool:
    """Return the answer to ``left is right``: equal, or both undefined."""
    if left is None or right is None:
        return left is right
    return compared("=", left, right) is True


def with_constants(
    question: Callable[..., float | None], constants: tuple[Operand, ...]
) -> Callable[..., float | None]:
    """Return a question with some arguments set to constants; the arguments that are None are the values."""
    if all(constant is None for constant in constants):
        return question

    def ask(*values: Value | None) -> float | None:
        rest = iter(values)
        return question(*(next(rest) if constant is None else constant for constant in constants))

    return ask


def member(items: tuple[Item, ...], *, names: bool = False) -> Callable[[Value], bool | None]:
    """Return the question if a value is in a list; ``names``: a list of names, which may be patterns."""
    if not all(isinstance(item, (Text, Span)) for item in items):
        return lambda value: contained(value, items)
    within = listed(items, names=names)
    return lambda value: within(value) if isinstance(value, str) else contained(value, items)


def listed(items: tuple[Item, ...], *, names: bool = True) -> Callable[[Value], bool]:
    """Return the question if a value is a name or an address in a list; ``names``: entries may be name patterns."""
    patterns = patterns_in(items) if names else []
    texts = {item.value.casefold() for item in items if isinstance(item, Text)}
    spans = _disjoint(item for item in items if isinstance(item, Span))

    def found(value: Value) -> bool:
        if not isinstance(value, str):
            return False
        if value.casefold() in texts:
            return True
        if any(pattern.fits(value) for pattern in patterns):
            return True
        # The first character shows that most names are no addresses.
        if not spans or not ("0" <= value[:1] <= "9" or ":" in value):
            return False
        address = parse_address(value)
        if address is not None:
            # The last span that begins at or before the address.
            place = bisect_right(spans, (*address, math.inf)) - 1
            return place >= 0 and spans[place][0] == address[0] and address[1] <= spans[place][2]
        return False

    return found


def patterns_in(items: Iterable[Item]) -> list[NamePattern]:
    """Return the patterns of names in a list; a stored entry that is invalid matches nothing."""
    found = []
    for item in items:
        if isinstance(item, Text) and is_pattern(item.value):
            try:
                found.append(parse_pattern(item.value))
            except InputError:
                continue
    return found


def _disjoint(spans: Iterable[Span]) -> list[tuple[int, int, float]]:
    """Return sorted spans (IP version, first, last) without overlaps."""
    found: list[tuple[int, int, float]] = []
    for version, first, last in sorted((span.version, span.first, span.last) for span in spans):
        if found and found[-1][0] == version and first <= found[-1][2]:
            found[-1] = (version, found[-1][1], max(last, found[-1][2]))
        else:
            found.append((version, first, last))
    return found
