"""Values and the results of comparisons: true, false, or undefined (None)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

from cress.language.addresses import parse_address
from cress.language.tree import Item, Number, Span
from cress.language.versions import has_prefix, is_pre_release, is_prefix, is_version, version_key
from cress.model.errors import InputError
from cress.model.node import Value
from cress.model.resources import Measure
from cress.model.times import SECOND
from cress.model.units import parse_amount, parse_duration

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# An operand of a comparison: a value of a node or a constant.
Operand: TypeAlias = Value | Number | None

_PLAIN = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?|-?\.[0-9]+)([^0-9.\-~+].*)?")
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"([KMGTPkgtp]?)(i?)(?:[Bb](?:ytes?)?|bits?)?(?:/s)?")
_UNIT_HINT = "K, M, G, T for powers of 1000, %, or a duration such as 15s or 5min"


@lru_cache(maxsize=4096)
def number_value(text: str, measure: Measure | None = None) -> float | None:
    """Return the value of a number compared with an amount in this unit (cores, bytes, bit/s …); None for a version.

    Without a measure K, M, G, T are powers of 1000 (Ki … of 1024), ``m`` thousandths, durations seconds. Raise
    InputError for an invalid unit.
    """
    found = _PLAIN.fullmatch(text)
    if not found:
        return None
    number, unit = found[1], found[2] or ""
    if not unit:
        return float(number)
    if unit == "%":
        return float(number) / 100
    if is_pre_release(unit):
        return None
    if measure is Measure.MILLI:
        return parse_amount(text, measure, words=("core", "cores", "cpu", "cpus")) / 1000
    if measure is not None:
        return float(parse_amount(text, measure))
    if unit == "m":
        return float(number) / 1000
    size = _SIZE.fullmatch(unit)
    if size:
        return float(number) * (1024.0 if size[2] else 1000.0) ** _SIZES[size[1].lower()]
    try:
        return parse_duration(text) / SECOND
    except InputError:
        raise InputError(f"{text!r} has an unknown unit {unit!r}", hint=_UNIT_HINT) from None


def unit_of(text: str) -> str:
    """Return the unit of a number as written: ``G``, ``%``, ``min``; "" if it has none, and for a version."""
    found = _PLAIN.fullmatch(text)
    unit = found[2] or "" if found else ""
    return "" if is_pre_release(unit) else unit


def number_in(value: Value | None) -> float | None:
    """Return a value as a number in arithmetic: numbers, texts that look like one, and 1 or 0 for a truth value."""
    return float(value) if isinstance(value, bool) else measured(value)


def measured(value: Value | None) -> float | None:
    """Return a value as a number beside a computed one: numbers, and texts that look like one."""
    if isinstance(value, str):
        if len(value) > 60 or not _NUMBER.fullmatch(value):
            return None
        return _finite(float(value))
    if value is None or isinstance(value, bool):
        return None
    try:
        return _finite(float(value))
    except OverflowError:
        return None


def known(value: Value | None) -> Value | None:
    """Return the value, or None for NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compared(operator: str, left: Operand, right: Operand) -> bool | None:
    """Return the answer to ``left operator right`` for two values or constants (design note 0005)."""
    if isinstance(left, Number):
        return _with_number(operator, left, right)
    if isinstance(right, Number):
        return _with_number(MIRRORED[operator], right, left)
    if left is None or right is None:
        return None
    compare = OPERATORS[operator]
    if isinstance(left, bool) or isinstance(right, bool):
        both = isinstance(left, bool) and isinstance(right, bool)
        return compare(left, right) if both and operator in ("=", "!=") else None
    if isinstance(left, str) and isinstance(right, str):
        if operator in ("=", "!="):
            return compare(left.casefold(), right.casefold())
        return compare(version_key(left), version_key(right))
    if isinstance(left, str) or isinstance(right, str):
        return _by_version(compare, text_of(left), text_of(right))
    return _by_number(compare, measured(left), measured(right))


def _with_number(operator: str, number: Number, other: Operand) -> bool | None:
    """Return the answer to ``number operator other`` for a number that has kept its text."""
    if other is None or isinstance(other, bool):
        return None
    compare = OPERATORS[operator]
    if isinstance(other, Number) and is_prefix(other.text):
        number, other = other, number
    if is_prefix(number.text):
        return _with_prefix(operator, number.text, other.text if isinstance(other, Number) else text_of(other))
    value = number_value(number.text)
    if isinstance(other, Number):
        against = number_value(other.text)
        if value is None or against is None:
            return _by_version(compare, number.text, other.text)
        return compare(value, against)
    # Without a unit it is compared with text like a version; a version is always compared so.
    if value is None or (isinstance(other, str) and number.text[-1].isdigit()):
        return _by_version(compare, number.text, text_of(other))
    return _by_number(compare, value, measured(other))


def _by_version(compare: Callable[[Any, Any], bool], left: str, right: str) -> bool | None:
    return compare(version_key(left), version_key(right)) if is_version(left) and is_version(right) else None


def _with_prefix(operator: str, prefix: str, version: str) -> bool | None:
    """Return the answer to ``version = 11.*`` or ``!=``; prefixes have no order."""
    if operator not in ("=", "!=") or not is_version(version):
        return None
    return has_prefix(version, prefix) is (operator == "=")


def _by_number(compare: Callable[[Any, Any], bool], left: float | None, right: float | None) -> bool | None:
    return None if left is None or right is None else compare(left, right)


def text_of(value: float | str) -> str:
    """Return the text of a value; a number without needless decimals."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def contained(value: Operand, items: tuple[Item, ...]) -> bool | None:
    """Return whether a value is in a list: true if it equals an item, else undefined if a comparison is."""
    found: bool | None = False
    for item in items:
        if isinstance(item, Span):
            equal = within(value, item)
        else:
            equal = compared("=", value, item if isinstance(item, Number) else item.value)
        if equal:
            return True
        if equal is None:
            found = None
    return found


def within(value: Operand, span: Span) -> bool | None:
    """Return whether a value is an address in ``span``; undefined if it is not a text."""
    if not isinstance(value, str):
        return None
    address = parse_address(value)
    return address is not None and address[0] == span.version and span.first <= address[1] <= span.last


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
