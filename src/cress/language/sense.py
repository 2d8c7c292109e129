"""Expressions that could be evaluated but are meaningless.

Examples are percentages of nothing, bytes without a unit, and shares above 1. They are refused in new texts. Jobs that
were accepted earlier keep their texts.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeAlias

from cress.language.checks import measure_in
from cress.language.namepatterns import is_pattern, parse_pattern
from cress.language.names import (
    FREE_MEMORY,
    IDLE,
    JOB,
    LOADS,
    NAMES,
    SIZED,
    SPELLING,
    UNDEFINED,
    amount_of,
    is_quantity,
    measure_of,
)
from cress.language.shares import is_quotient_of_amounts, operands_of
from cress.language.tree import (
    EXTREMES,
    IF,
    Arithmetic,
    Call,
    Compare,
    Expression,
    In,
    Name,
    Negative,
    Number,
    Text,
    Truth,
    choices,
    is_truth,
    parts,
    place_of,
)
from cress.language.trouble import trouble
from cress.language.values import number_value, unit_of
from cress.model.errors import InputError
from cress.model.resources import Measure

# Exponents of the units of SIZED, then of counts (cores, operations/s): 2G / core is (1, 0, 0, -1).
Unit: TypeAlias = tuple[int, ...]
_NO_UNIT: Unit = (0, 0, 0, 0)
_COUNT: Unit = (0, 0, 0, 1)
_UNIT_WORDS = ("bytes", "bit/s", "bytes/s")
# An amount of each unit, and one without K, M, G, T.
_EXAMPLES = (("G", "B"), ("M", "bit/s"), ("M", "B/s"))
# From this value on a number without a unit is taken literally: 17179869184 bytes.
_SURELY_MEANT = 1_000_000
# Most patterns in one text, since each is searched in every distinct value.
MOST_PATTERNS, MOST_NAME_PATTERNS = 8, 64
_SHARE = (0.0, 1.0)
_ANY = (-math.inf, math.inf)


class Sense:
    """Examines the checked expressions of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._counts: dict[str, int] = {}

    def condition(self, expression: Expression) -> None:
        """Raise InputError if a condition, or a condition inside it, is meaningless."""
        self._inside(expression, None)

    def term(self, expression: Expression) -> None:
        """Raise InputError if a term of a rank is meaningless."""
        if is_truth(expression):
            self.condition(expression)
        elif isinstance(expression, Number):
            if unit_of(expression.text) not in ("", "%"):
                hint = "a share of a node such as IdleMemory / 16G; (IdleMemory >= 16G) counts 1 where it is true"
                raise self._wrong(expression, f"{expression} is an amount, and a rank adds shares", hint)
        elif isinstance(expression, Arithmetic) and is_quotient_of_amounts(expression):
            measure = measure_in(expression)
            self._inside(expression, measure)
            unit = _unit(expression, measure)
            if unit is not None and any(unit[:-1]):
                hint = "divide by an amount of the same kind, such as IdleMemory / 16G"
                raise self._wrong(expression, f"{expression} is not a share", hint)
        else:
            for part in parts(expression):
                self.term(part)

    def _inside(self, expression: Expression, measure: Measure | None) -> None:
        if isinstance(expression, Compare):
            measure = measure_in(expression)
            for left in choices(expression.left):
                for right in choices(expression.right):
                    self._compared(expression, left, right, measure)
        elif isinstance(expression, In):
            measure = measure_in(expression)
            self._patterns(expression)
            for item in expression.items:
                if isinstance(item, (Number, Text, Truth)):
                    for subject in choices(expression.subject):
                        self._compared(expression, subject, item, measure)
        elif isinstance(expression, Call):
            measure = self._called(expression, measure)
        elif isinstance(expression, Arithmetic) and expression.operators[0] in "+-":
            for one, other in zip(expression.operands, expression.operands[1:], strict=False):
                self._alike(one, other, measure)
        elif is_truth(expression):
            measure = None
        for part in parts(expression):
            self._inside(part, measure)

    def _called(self, call: Call, measure: Measure | None) -> Measure | None:
        """Examine a function; return the measure of the numbers in it."""
        if call.function == "regexp":
            self._count(call, "regular expressions", MOST_PATTERNS)
        numbers = _numbers_of(call)
        for one, other in pairwise(numbers):
            self._alike(one, other, measure)
        return measure if numbers else None

    def _count(self, expression: Expression, what: str, most: int) -> None:
        """Refuse more than ``most`` parts that take time for each name of a node."""
        self._counts[what] = self._counts.get(what, 0) + 1
        if self._counts[what] > most:
            raise self._wrong(expression, f"more than {most} {what} in one text", f"at most {most}")

    def _patterns(self, member: In) -> None:
        """Refuse invalid patterns of names."""
        if isinstance(member.subject, Name) and member.subject.key in NAMES:
            for item in member.items:
                if isinstance(item, Text) and is_pattern(item.value):
                    self._count(item, "patterns of names", MOST_NAME_PATTERNS)
                    try:
                        parse_pattern(item.value)
                    except InputError as error:
                        raise self._wrong(item, error.what, error.hint) from None

    def _compared(self, whole: Compare | In, left: Expression, right: Expression, measure: Measure | None) -> None:
        if UNDEFINED in (getattr(left, "key", ""), getattr(right, "key", "")):
            asked = left if getattr(right, "key", "") == UNDEFINED else right
            if not isinstance(whole, Compare) or whole.operator not in ("is", "is not"):
                hint = f"{asked} is undefined"
                raise self._wrong(whole, f"{whole} is neither true nor false on any node", hint)
            return
        if _is_constant(left) and _is_constant(right):
            if isinstance(whole, Compare) and (left is not whole.left or right is not whole.right):
                # One choice of an ``if``.
                return
            if not isinstance(left, Text) and not isinstance(right, Text):
                return
            what = f"{whole} does not depend on the node"
            raise self._wrong(whole, what, 'an attribute is written without quotes, or in `…`: Rack = "r1"')
        for one, other in ((left, right), (right, left)):
            self._truths(one, other)
        self._alike(left, right, measure)
        for one, other in ((left, right), (right, left)):
            self._within_bounds(one, other, measure)

    def _truths(self, one: Expression, other: Expression) -> None:
        """Refuse the comparison of an amount with a truth value, and of a condition with a number."""
        if isinstance(one, Truth) and _is_number(other):
            raise self._wrong(one, f"{other} is a number, not a truth value", f"{other} > 0")
        if is_truth(one) and not isinstance(one, Truth) and (_is_number(other) or isinstance(other, (Number, Text))):
            raise self._wrong(other, f"({one}) is a truth value, and {other} is not", f"({one}) = True")

    def _alike(self, one: Expression, other: Expression, measure: Measure | None) -> None:
        """Refuse to compare or add amounts of different kinds."""
        for amount, constant in ((one, other), (other, one)):
            if _is_numeric_constant(constant) and not _is_numeric_constant(amount):
                self._constant_of(amount, constant, measure)
                return
        first, second = _unit(one, measure), _unit(other, measure)
        if first is None or second is None or first[:-1] == second[:-1]:
            return
        if all(_kind(unit) is not None or not any(unit[:-1]) for unit in (first, second)):
            what = f"{one} is {_told(first)} and {other} is {_told(second)}"
            raise self._wrong(one, what, "amounts of one kind, or shares such as IdleMemory / Memory")

    def _constant_of(self, amount: Expression, constant: Expression, measure: Measure | None) -> None:
        """Refuse a percentage or a number without a unit where an amount with a unit is expected."""
        unit, value = _unit(amount, measure), _value(constant, measure)
        numbers = [operand for operand in operands_of(constant) if isinstance(operand, Number)]
        sized = any(unit_of(number.text) not in ("", "%") for number in numbers)
        if unit is None or not value or sized:
            return
        kind = _kind(unit)
        if any(number.text.endswith("%") for number in numbers):
            if kind is not None or unit == _COUNT:
                raise self._wrong(
                    constant, f"{constant} of what? {amount} is an amount, not a share", _share_of(amount)
                )
        elif kind is not None and abs(value) < _SURELY_MEANT:
            large, plain = _EXAMPLES[kind]
            hint = f"a unit: {constant}{large}" + (f", or {constant}{plain}" if isinstance(constant, Number) else "")
            raise self._wrong(constant, f"{constant} has no unit, and {amount} is in {_UNIT_WORDS[kind]}", hint)

    def _within_bounds(self, share: Expression, constant: Expression, measure: Measure | None) -> None:
        """Refuse the comparison of a share with a number that it can never reach."""
        value = _value(constant, measure) if _is_numeric_constant(constant) else None
        low, high = _ANY if _is_constant(share) or is_truth(share) else _bounds(share, measure)
        if value is None or math.isinf(high) or low <= value <= high:
            return
        percent = f"{value:g}% or {value / 100:g}" if high == 1 < value <= 100 else f"{low:g} to {high:g}"
        raise self._wrong(constant, f"{share} is between {low:g} and {high:g}", percent)

    def _wrong(self, expression: Expression, what: str, hint: str) -> InputError:
        return trouble(self.text, place_of(expression), what, hint)


def _is_constant(expression: Expression) -> bool:
    return isinstance(expression, (Text, Truth)) or _is_numeric_constant(expression)


def _is_numeric_constant(expression: Expression) -> bool:
    if is_truth(expression):
        return False
    inside = parts(expression)
    return all(map(_is_numeric_constant, inside)) if inside else isinstance(expression, Number)


def _is_number(expression: Expression) -> bool:
    """Return whether an expression is a number on every node, but not a constant."""
    if isinstance(expression, Name):
        return is_quantity(expression.key) or measure_of(expression.key) is not None
    if isinstance(expression, Call):
        return not is_truth(expression) and expression.function != IF
    return isinstance(expression, (Arithmetic, Negative)) and not _is_numeric_constant(expression)


def _numbers_of(call: Call) -> tuple[Expression, ...]:
    """Return the arguments from which a function chooses its number."""
    if call.function in EXTREMES:
        return call.arguments
    branches = call.arguments[1:] if call.function == IF else ()
    return branches if any(map(_is_number, branches)) and not is_truth(call) else ()


def _value(constant: Expression, measure: Measure | None) -> float | None:
    """Return the value of a constant; None for a version, and for an invalid calculation."""
    match constant:
        case Number():
            try:
                return number_value(constant.text, measure)
            except InputError:
                return None
        case Negative():
            inner = _value(constant.operand, measure)
            return None if inner is None else -inner
        case Arithmetic():
            total = _value(constant.operands[0], measure)
            for sign, operand in zip(constant.operators, constant.operands[1:], strict=True):
                other = _value(operand, measure)
                if total is None or other is None or (sign in "/%" and not other):
                    return None
                total = {"+": total + other, "-": total - other, "×": total * other}.get(sign, total)
                total = math.fmod(total, other) if sign == "%" else total
                total = total / other if sign == "/" else total
            return total
    return None


def _unit(expression: Expression, measure: Measure | None) -> Unit | None:
    """Return the unit of a number; None if it depends on an attribute, which may have any unit."""
    if is_truth(expression):
        return _NO_UNIT
    match expression:
        case Number():
            return _of_measure(measure) if unit_of(expression.text) not in ("", "%") else _NO_UNIT
        case Name() if expression.key in LOADS and expression.key != FREE_MEMORY:
            return _NO_UNIT
        case Name() if is_quantity(expression.key) or measure_of(expression.key) is not None:
            return _of_measure(measure_of(expression.key)) or _COUNT
        case Negative():
            return _unit(expression.operand, measure)
        case Arithmetic() if expression.operators[0] in "+-":
            units = [_unit(operand, measure) for operand in expression.operands if not _is_numeric_constant(operand)]
            return units[0] if units and None not in units else None if units else _NO_UNIT
        case Arithmetic():
            return _unit_of_product(expression, measure)
        case Call(function="size"):
            return _COUNT
        case Call():
            units = [_unit(number, measure) for number in _numbers_of(expression) if not _is_numeric_constant(number)]
            return units[0] if units else None
    return None


def _unit_of_product(product: Arithmetic, measure: Measure | None) -> Unit | None:
    total = _unit(product.operands[0], measure)
    for sign, operand in zip(product.operators, product.operands[1:], strict=True):
        unit = _unit(operand, measure)
        if total is None or unit is None:
            return None
        if sign == "%":
            continue
        if sign == "/" and unit == _NO_UNIT:
            # IdleCPU / 8: the 8 may be cores.
            unit = (0, 0, 0, total[-1])
        total = tuple(x - y if sign == "/" else x + y for x, y in zip(total, unit, strict=True))
    return total


def _of_measure(measure: Measure | None) -> Unit:
    if measure in SIZED:
        place = SIZED.index(measure)
        return tuple(int(place == corner) for corner in range(4))
    return _NO_UNIT if measure is None else _COUNT


def _kind(unit: Unit) -> int | None:
    """Return the position of a unit in SIZED; None for counts, and for a product of several units."""
    return unit.index(1) if sorted(unit[:-1]) == [0, 0, 1] else None


def _told(unit: Unit) -> str:
    kind = _kind(unit)
    return "not" if kind is None else f"in {_UNIT_WORDS[kind]}"


def _share_of(amount: Expression) -> str:
    """Return the hint for a share of an amount."""
    dimension = amount_of(amount.key)[1] if isinstance(amount, Name) else ""
    if isinstance(amount, Name) and amount.key.startswith(JOB):
        return f"{amount} / {SPELLING[amount.key.removeprefix(JOB)]} is a share"
    if isinstance(amount, Name) and amount.key == FREE_MEMORY:
        return "FreeMemory / Memory is a share"
    return (
        f"Idle{SPELLING[dimension]} / {SPELLING[dimension]} is a share" if dimension else "IdleMemory / Memory is one"
    )


def _bounds(expression: Expression, measure: Measure | None) -> tuple[float, float]:
    """Return the least and the greatest value of a number on any node."""
    if is_truth(expression):
        return _SHARE
    match expression:
        case Number():
            value = _value(expression, measure)
            return _ANY if value is None else (value, value)
        case Name() if expression.key in LOADS and expression.key != FREE_MEMORY:
            return _SHARE
        case Name() if is_quantity(expression.key) or measure_of(expression.key) is not None:
            return 0.0, math.inf
        case Negative():
            low, high = _bounds(expression.operand, measure)
            return -high, -low
        case Arithmetic() if expression.operators[0] in "+-":
            low, high = _bounds(expression.operands[0], measure)
            for sign, operand in zip(expression.operators, expression.operands[1:], strict=True):
                least, most = _bounds(operand, measure)
                low, high = (low + least, high + most) if sign == "+" else (low - most, high - least)
            return low, high
        case Arithmetic():
            return _bounds_of_product(expression, measure)
        case Call(function="size"):
            return 0.0, math.inf
        case Call() if _numbers_of(expression):
            return _bounds_of_call(expression, measure)
    return _ANY


def _bounds_of_call(call: Call, measure: Measure | None) -> tuple[float, float]:
    lows, highs = zip(*(_bounds(number, measure) for number in _numbers_of(call)), strict=True)
    if call.function == IF:
        return min(lows), max(highs)
    extreme = min if call.function == "min" else max
    return extreme(lows), extreme(highs)


def _bounds_of_product(product: Arithmetic, measure: Measure | None) -> tuple[float, float]:
    """Return the bounds of ``share × constants``; other products have no known bounds."""
    factor = 1.0
    above: list[Expression] = []
    below: list[Expression] = []
    for sign, operand in zip(("×", *product.operators), product.operands, strict=True):
        value = _value(operand, measure) if _is_numeric_constant(operand) else None
        if value is None:
            if sign == "%":
                return _ANY
            (below if sign == "/" else above).append(operand)
        elif sign == "%" or (sign == "/" and not value):
            return _ANY
        else:
            factor = factor / value if sign == "/" else factor * value
    if len(above) == 1 and not below:
        low, high = _bounds(above[0], measure)
    elif len(above) == len(below) == 1 and _is_part(above[0], below[0]):
        low, high = _SHARE
    else:
        return _ANY
    if math.isinf(low) or math.isinf(high):
        return _ANY
    return min(low * factor, high * factor), max(low * factor, high * factor)


def _is_part(part: Expression, whole: Expression) -> bool:
    """Return whether ``part / whole`` is a share of a node: ``IdleCPU / CPU``, ``(CPU - IdleCPU) / CPU``."""
    if not isinstance(whole, Name):
        return False
    idle, dimension = amount_of(whole.key)
    if idle or not dimension:
        return False
    if isinstance(part, Arithmetic) and part.operators == ("-",):
        return part.operands[0] == whole and _is_part(part.operands[1], whole)
    return isinstance(part, Name) and (
        part.key in (whole.key, IDLE + whole.key)
        or (part.key == FREE_MEMORY and measure_of(whole.key) == Measure.BYTES)
    )
