"""Conditions of steps of a dag (``when``): ``check.rows > 0 && check.state = succeeded`` (docs/workflows.md).

A condition compares values and states of earlier steps, numbers and texts. Two numbers are compared as numbers,
anything else as texts. A value that its step has not written is an empty text, which is neither smaller nor larger than
anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import msgspec

from cress.model.errors import InputError

# The key that names the state of a step.
STATE = "state"
# Most characters of a condition; deeper nesting than this is no condition that a person has written.
LONGEST, DEEPEST = 2_000, 50
HINT = "such as check.rows > 0 && check.state = succeeded"

_OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
_TOKEN = re.compile(
    r"\s*(?:(?P<sign>&&|\|\||<=|>=|!=|==|[=<>!()])|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<word>[A-Za-z0-9_+-][A-Za-z0-9_.+-]*))"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_REFERENCE = re.compile(r"(?P<step>[A-Za-z0-9_][A-Za-z0-9._-]*)\.(?P<key>[A-Za-z_][A-Za-z0-9_]*)")


class Literal(msgspec.Struct, frozen=True):
    """A number or a text."""

    text: str


class Reference(msgspec.Struct, frozen=True):
    """A value of a step, or its state."""

    step: str
    key: str


class Compared(msgspec.Struct, frozen=True):
    """Two operands and the operator between them."""

    left: Literal | Reference
    operator: str
    right: Literal | Reference


class Inverse(msgspec.Struct, frozen=True):
    """``!`` of a condition."""

    of: StepCondition


class JoinedConditions(msgspec.Struct, frozen=True):
    """Conditions of which all must hold (``every``), or one."""

    parts: tuple[StepCondition, ...]
    every: bool


StepCondition: TypeAlias = "Compared | Inverse | JoinedConditions"
# Returns the value of a step by its key; empty if it has none.
Lookup: TypeAlias = Callable[[str, str], str]


def parse_condition(text: str) -> StepCondition:
    """Read a condition. Raises InputError."""
    if len(text) > LONGEST:
        raise InputError(f"has {len(text):,} characters", hint=f"at most {LONGEST:,}")
    parser = _Parser(text)
    found = parser.either(0)
    if parser.now:
        raise InputError(f"{parser.now!r} is not expected here", hint=HINT)
    return found


def references(condition: StepCondition) -> Iterator[Reference]:
    """Yield all values of steps that a condition reads."""
    match condition:
        case Compared(left, _, right):
            yield from (operand for operand in (left, right) if isinstance(operand, Reference))
        case Inverse(of):
            yield from references(of)
        case JoinedConditions(parts):
            for part in parts:
                yield from references(part)


def holds(condition: StepCondition, value: Lookup) -> bool:
    """Return whether a condition holds for these values."""
    match condition:
        case Inverse(of):
            return not holds(of, value)
        case JoinedConditions(parts, every):
            return (all if every else any)(holds(part, value) for part in parts)
        case Compared(left, operator, right):
            return _compare(_text(left, value), operator, _text(right, value))


def _text(operand: Literal | Reference, value: Lookup) -> str:
    return operand.text if isinstance(operand, Literal) else value(operand.step, operand.key)


def _compare(left: str, operator: str, right: str) -> bool:
    one, other = _number(left), _number(right)
    if one is not None and other is not None:
        order = (one > other) - (one < other)
    else:
        order = (left > right) - (left < right)
        if operator[0] in "<>" and not (left and right):
            return False
    return {
        "=": order == 0,
        "==": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[operator]


def _number(text: str) -> Decimal | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text) or len(text) > 100:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


class _Parser:
    """A reader of one condition; ``now`` is the next token, empty at the end."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0

    @property
    def now(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        token = self.now
        self._place += 1
        return token

    def either(self, depth: int) -> StepCondition:
        return self._joined("||", lambda: self._joined("&&", lambda: self._one(depth + 1)))

    def _joined(self, sign: str, read: Callable[[], StepCondition]) -> StepCondition:
        parts = [read()]
        while self.now == sign:
            self._take()
            parts.append(read())
        return parts[0] if len(parts) == 1 else JoinedConditions(tuple(parts), every=sign == "&&")

    def _one(self, depth: int) -> StepCondition:
        if depth > DEEPEST:
            raise InputError("has too many parentheses", hint=f"at most {DEEPEST} inside each other")
        if self.now == "!":
            self._take()
            return Inverse(self._one(depth + 1))
        if self.now == "(":
            self._take()
            found = self.either(depth + 1)
            if self._take() != ")":
                raise InputError("lacks a closing parenthesis", hint=HINT)
            return found
        left = self._operand()
        if self.now not in _OPERATORS:
            # A value alone: it must be something that people read as yes.
            if isinstance(left, Literal):
                raise InputError(f"{left.text!r} is compared with nothing", hint=HINT)
            return JoinedConditions(
                tuple(Compared(left, "!=", Literal(no)) for no in ("", "0", "false", "no")), every=True
            )
        return Compared(left, self._take(), self._operand())

    def _operand(self) -> Literal | Reference:
        token = self._take()
        if not token:
            raise InputError("ends too early", hint=HINT)
        if token[0] in "\"'":
            return Literal(token[1:-1])
        if token in (*_OPERATORS, "&&", "||", "!", "(", ")"):
            raise InputError(f"{token!r} is not expected here", hint=HINT)
        if _NUMBER.fullmatch(token):
            return Literal(token)
        found = _REFERENCE.fullmatch(token)
        return Literal(token) if found is None else Reference(found["step"], found["key"])


def _tokens(text: str) -> Iterator[str]:
    place = 0
    end = len(text.rstrip())
    if not end:
        raise InputError("is empty", hint=HINT)
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise InputError(f"{text[place:].strip()[:20]!r} is not understood", hint=HINT)
        place = found.end()
        yield found.group().strip()
