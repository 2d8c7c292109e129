"""Expressions over one node, as trees that can be compared, hashed and printed.

``str()`` gives the canonical text, which parses to an equal tree. ``at`` is the position of a leaf in the text (from
0). It and the spelling of a name are for messages, and comparisons of trees ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from cress.language.vectortext import vector_text

# Precedences of expressions; an expression with a lower one than its place requires gets parentheses.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(8)

# The function that chooses, those whose value is a truth value, and those that choose among numbers.
IF = "if"
IN_SET = "in"
TRUTH_FUNCTIONS = frozenset(("regexp", "startswith", "endswith", "contains", IN_SET))
EXTREMES = frozenset(("min", "max"))


def _shown(value: str, stands_for: str) -> str:
    """Return the text of a constant; after the attribute of the job, if it is the value of one."""
    return f"{stands_for} ({value})" if stands_for else value


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, with its unit: ``4.10``, ``2.6.32``, ``8G``, ``15s``, ``80%``.

    ``of``: the key of the dimension of which it is an amount; "": its place decides. ``stands_for``: the attribute of
    the job whose value it is, as written.
    """

    text: str
    at: int = field(default=0, compare=False, repr=False)
    of: str = ""
    stands_for: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return _shown(self.text, self.stands_for)


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    value: str
    at: int = field(default=0, compare=False, repr=False)
    # The characters between the quotes, if it was read from a text.
    written: str = field(default="", compare=False, repr=False)
    # As in ``Number``.
    stands_for: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return _shown('"' + self.value.replace("\\", "\\\\").replace('"', '\\"') + '"', self.stands_for)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression; its backslashes are its own, and a quote in it is preceded by one."""

    text: str
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f'"{self.text}"'


@dataclass(frozen=True, slots=True)
class Truth:
    """``True`` or ``False``."""

    value: bool
    at: int = field(default=0, compare=False, repr=False)
    # As in ``Number``.
    stands_for: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return _shown(str(self.value), self.stands_for)


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute of the node, found by its ``key`` (see ``names.key_of``)."""

    key: str
    written: str = field(compare=False)
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True, slots=True)
class Span:
    """Addresses in a list: ``192.168.1.2-8``, ``10.0.0.0/8``; as integers of one IP version, both ends included."""

    version: int
    first: int
    last: int
    written: str = field(compare=False)
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True, slots=True)
class Not:
    """``! x``."""

    operand: Expression

    def __str__(self) -> str:
        return "! " + _within(self.operand, NOT)


@dataclass(frozen=True, slots=True)
class And:
    """``a && b && …``: at least two operands, none of them an And."""

    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " && ".join(_within(operand, NOT) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Or:
    """``a || b || …``: at least two operands, none of them an Or."""

    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " || ".join(_within(operand, AND) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right``; the operator is one of ``= != < <= > >=``, ``is`` and ``is not``."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_within(self.left, SUM)} {self.operator} {_within(self.right, SUM)}"


@dataclass(frozen=True, slots=True)
class In:
    """``subject in (item, …)``."""

    subject: Expression
    items: tuple[Item, ...]

    def __str__(self) -> str:
        return f"{_within(self.subject, SUM)} in ({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A sum (``+ -``) or a product (``× / %``) from left to right; it has one operator less than operands."""

    operators: tuple[str, ...]
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        least = _binding(self) + 1
        parts = [_within(self.operands[0], least)]
        for operator, operand in zip(self.operators, self.operands[1:], strict=True):
            parts += [operator, _within(operand, least)]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Negative:
    """``-x``."""

    operand: Expression

    def __str__(self) -> str:
        return "-" + _within(self.operand, SIGN)


@dataclass(frozen=True, slots=True)
class Defined:
    """``defined(x)``: true if the node has the attribute."""

    name: Name

    def __str__(self) -> str:
        return f"defined({self.name})"


@dataclass(frozen=True, slots=True)
class Call:
    """``function(argument, …)``: one of ``functions.FUNCTIONS``; or ``member in Set``."""

    function: str
    arguments: tuple[Expression, ...]
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        if self.function == IN_SET:
            member, of = self.arguments
            return f"{_within(member, SUM)} in {of}"
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Resource:
    """``Resource = <…>``: every free amount is at least the given one; raw amounts above 0 by dimension."""

    amounts: tuple[tuple[str, int], ...]
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"Resource = {vector_text(self.amounts)}"


Item: TypeAlias = Number | Text | Truth | Span
Expression: TypeAlias = (
    Number
    | Text
    | Pattern
    | Truth
    | Name
    | Not
    | And
    | Or
    | Compare
    | In
    | Arithmetic
    | Negative
    | Defined
    | Call
    | Resource
)


def parts(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside one."""
    match expression:
        case Not() | Negative():
            return (expression.operand,)
        case And() | Or() | Arithmetic():
            return expression.operands
        case Compare():
            return (expression.left, expression.right)
        case In():
            return (expression.subject,)
        case Defined():
            return (expression.name,)
        case Call():
            return expression.arguments
        case _:
            return ()


def leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the names and constants of an expression from left to right (for a list, only those of its subject)."""
    inside = parts(expression)
    if not inside:
        yield expression
    for part in inside:
        yield from leaves(part)


def place_of(expression: Expression) -> int:
    """Return the position at which an expression begins: that of its leftmost leaf."""
    while True:
        at = getattr(expression, "at", None)
        if at is not None:
            return int(at)
        inside = parts(expression)
        if not inside:
            return 0
        expression = inside[0]


def conjunction(operands: tuple[Expression, ...]) -> Expression:
    """Return ``a && b && …`` of any number of operands, without an And inside an And."""
    flat: list[Expression] = []
    for operand in operands:
        flat += operand.operands if isinstance(operand, And) else (operand,)
    return flat[0] if len(flat) == 1 else And(tuple(flat)) if flat else Truth(True)


def disjunction(operands: tuple[Expression, ...]) -> Expression:
    """Return ``a || b || …`` of any number of operands, without an Or inside an Or."""
    flat: list[Expression] = []
    for operand in operands:
        flat += operand.operands if isinstance(operand, Or) else (operand,)
    return flat[0] if len(flat) == 1 else Or(tuple(flat)) if flat else Truth(False)


def is_truth(expression: Expression) -> bool:
    """Return whether the value of an expression is a truth value on every node."""
    if isinstance(expression, Call):
        branches = expression.arguments[1:] if expression.function == IF else ()
        return expression.function in TRUTH_FUNCTIONS or any(map(is_truth, branches))
    return isinstance(expression, (Truth, Not, And, Or, Compare, In, Defined, Resource))


def choices(expression: Expression) -> Iterator[Expression]:
    """Yield the possible results of an expression: the choices of ``if``, otherwise itself."""
    if isinstance(expression, Call) and expression.function == IF:
        for argument in expression.arguments[1:]:
            yield from choices(argument)
    else:
        yield expression


def _binding(expression: Expression) -> int:
    match expression:
        case Or():
            return OR
        case And():
            return AND
        case Not():
            return NOT
        case Compare() | In() | Resource() | Call(function="in"):
            return COMPARISON
        case Arithmetic():
            return SUM if expression.operators[0] in "+-" else PRODUCT
        case Negative():
            return SIGN
        case _:
            return ATOM


def _within(expression: Expression, least: int) -> str:
    return str(expression) if _binding(expression) >= least else f"({expression})"
