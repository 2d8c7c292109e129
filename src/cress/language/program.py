"""Conditions and ranks as flat programs for the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cress.language import machine
from cress.language.checks import EQUALITIES, measure_in
from cress.language.clauses import Clause, Rank, RankTerm
from cress.language.functions import OF_TWO, matches, size
from cress.language.names import DATA_LOCALITY, FREE_MEMORY, LOADS, MEMORY, NAMES, NODES, amount_of, is_quantity, key_of
from cress.language.questions import (
    comparison,
    is_there,
    is_true,
    listed,
    member,
    operand_of,
    pair_comparison,
    same,
    with_constants,
)
from cress.language.shares import is_quotient_of_amounts
from cress.language.tree import (
    EXTREMES,
    IF,
    And,
    Arithmetic,
    Call,
    Compare,
    Defined,
    Expression,
    In,
    Name,
    Negative,
    Not,
    Number,
    Or,
    Pattern,
    Resource,
    Text,
    Truth,
    is_truth,
)
from cress.language.values import MIRRORED, compared, contained, measured, number_in, number_value
from cress.model.errors import InputError
from cress.model.resources import DISK, Measure

if TYPE_CHECKING:
    from cress.language.columns import AnswerTable, Column, Columns, Question

_UNDEFINED = float("nan")
_ALL = np.zeros(0, np.int64)
_ARITHMETIC = {
    "+": machine.ADD,
    "-": machine.SUBTRACT,
    "×": machine.MULTIPLY,
    "/": machine.DIVIDE,
    "%": machine.REMAINDER,
}
_COMPARISONS = {
    "=": machine.EQUAL,
    "!=": machine.UNEQUAL,
    "<": machine.LESS,
    "<=": machine.LESS_EQUAL,
    ">": machine.GREATER,
    ">=": machine.GREATER_EQUAL,
}


class Program:
    """A condition, or the terms of a rank, compiled: it runs over all nodes of ``columns`` or over some.

    ``dynamic``: it reads idle amounts or loads. Terms of a rank that are not expressions (a port, a disk …) are left
    out.
    """

    def __init__(self, columns: Columns, what: Expression | Rank | Iterable[RankTerm]) -> None:
        self.columns = columns
        self._what: Expression | tuple[RankTerm, ...]
        if isinstance(what, Rank):
            self._what = what.terms
        else:
            self._what = what if isinstance(what, Expression) else tuple(what)
        self._build()

    def truths(
        self, nodes: npt.NDArray[np.int64], out: npt.NDArray[np.int8], places: npt.NDArray[np.int64] | None = None
    ) -> None:
        """Set ``out[f]`` to 1 (true), 0 (false) or −1 (undefined) for every node, or for those in ``places``.

        ``nodes`` is the core's table, one row per node.
        """
        if self._stamp != self.columns.stamp:
            self._refresh()
        if places is None or len(places):
            machine.truths(
                self._code,
                self._constants,
                self.columns.codes,
                self._tables,
                nodes,
                _ALL if places is None else places,
                self.columns.node_count,
                self._depth,
                out,
            )

    def values(
        self, nodes: npt.NDArray[np.int64], out: npt.NDArray[np.float32], places: npt.NDArray[np.int64] | None = None
    ) -> None:
        """Set ``out[f]`` to the value, 0 if it is undefined, for every node, or for those in ``places``."""
        if self._stamp != self.columns.stamp:
            self._refresh()
        if places is None or len(places):
            machine.values(
                self._code,
                self._constants,
                self.columns.codes,
                self._tables,
                nodes,
                _ALL if places is None else places,
                self.columns.node_count,
                self._depth,
                out,
            )

    def truth(self, nodes: npt.NDArray[np.int64], f: int) -> int:
        """Return 1, 0 or −1 for node ``f``, like ``truths``."""
        value = self._at(nodes, f)
        return int(value) if value == value else -1  # noqa: PLR0124 - what is not itself is NaN, undefined

    def value(self, nodes: npt.NDArray[np.int64], f: int) -> float:
        """Return the value on node ``f``, like ``values``."""
        value = self._at(nodes, f)
        limited = max(-machine.MOST, min(machine.MOST, value))
        return float(np.float32(limited)) if value == value else 0.0  # noqa: PLR0124

    def _at(self, nodes: npt.NDArray[np.int64], f: int) -> float:
        if self._stamp != self.columns.stamp:
            self._refresh()
        value: float = machine.value_at(
            self._code, self._constants, self.columns.codes, self._tables, nodes, f, self._depth
        )
        return value

    def _refresh(self) -> None:
        """Rebuild the program if a new value or attribute of some node affects it."""
        if self._seen == self._looks():
            self._stamp = self.columns.stamp
        else:
            self._build()

    def _looks(self) -> list[tuple[int, int]]:
        """Return the mutable inputs from which the program was made."""
        seen = []
        for names in self._names:
            column = self.columns.column(*names)
            seen.append((-1, 0) if column is None else (column.epoch, len(column.values)))
        return seen

    def _build(self) -> None:
        built = _Compiler(self.columns)
        if isinstance(self._what, tuple):
            built.rank(self._what)
        else:
            built.truth(self._what)
        self.dynamic = built.dynamic
        self._depth = built.deepest
        self._constants = np.array(built.constants or [0.0], np.float64)
        starts: list[int] = []
        answers: list[float] = []
        for table in built.tables:
            starts.append(len(answers))
            answers += table.refresh()
        self._tables = np.array(answers or [0.0], np.float64)
        self._code = np.array(built.code, np.int64).reshape(-1, 3)
        if starts:
            lookups = self._code[:, 0] == machine.LOOKUP
            self._code[lookups, 2] = np.array(starts, np.int64)[self._code[lookups, 2]]
        self._names = built.names
        self._seen = self._looks()
        self._stamp = self.columns.stamp


class _Compiler:
    """Writes the instructions of one program."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.code: list[tuple[int, int, int]] = []
        self.constants: list[float] = []
        self.tables: list[AnswerTable] = []
        self.names: list[tuple[str, ...]] = []
        self.dynamic = False
        self.deepest = 1
        self._depth = 0

    def rank(self, terms: tuple[RankTerm, ...]) -> None:
        """Write the sum of the terms that are expressions."""
        self._constant(0.0)
        for term in terms:
            if isinstance(term.what, Clause):
                continue
            self._share(term.what)
            self.constants.append(term.weight)
            self._emit(machine.TERM, -1, len(self.constants) - 1)

    def _share(self, expression: Expression) -> None:
        """Leave a number on the stack in which amounts are shares of the node, except in quotients."""
        match expression:
            case Name(key=key):
                dimension = MEMORY if key == FREE_MEMORY else self._amount_of(expression)[1]
                if not dimension:
                    self.number(expression, None)
                    return
                if key == FREE_MEMORY:
                    self.number(expression, None)
                else:
                    self._amount(True, dimension)
                self._amount(False, dimension)
                self._emit(machine.DIVIDE, -1)
            case Negative():
                self._share(expression.operand)
                self._emit(machine.NEGATE, 0)
            case Arithmetic() if not is_quotient_of_amounts(expression, self.columns.dimensions):
                self._share(expression.operands[0])
                for operator, operand in zip(expression.operators, expression.operands[1:], strict=True):
                    self._share(operand)
                    self._emit(_ARITHMETIC[operator], -1)
            case Call(function="if") if not is_truth(expression):
                self._choose(expression, self._share)
            case Call() if expression.function in EXTREMES:
                self._extreme(expression, self._share)
            case _:
                self.number(expression, measure_in(expression))

    def truth(self, expression: Expression) -> None:
        """Leave a truth value on the stack."""
        match expression:
            case Truth():
                self._constant(float(expression.value))
            case Not():
                self.truth(expression.operand)
                self._emit(machine.NOT, 0)
            case And() | Or():
                for i, operand in enumerate(expression.operands):
                    self.truth(operand)
                    if i:
                        self._emit(machine.AND if isinstance(expression, And) else machine.OR, -1)
            case Compare():
                self._compare(expression.operator, expression.left, expression.right, measure_in(expression))
            case In():
                self._member(expression)
            case Defined():
                if self._amount_of(expression.name)[1]:
                    self._constant(1.0)
                else:
                    self._lookup((expression.name.key,), "defined", is_there, nothing=0.0)
            case Resource():
                self._resource(expression)
            case Call():
                self._truth_of_call(expression)
            case Name() if not self._amount_of(expression)[1]:
                self._lookup((expression.key,), "truth", is_true)
            case _:
                self._constant(_UNDEFINED)

    def number(self, expression: Expression, measure: Measure | None) -> None:
        """Leave a number on the stack; numbers in the text are read in ``measure``."""
        match expression:
            case Number():
                self._constant(_read(expression, measure))
            case Name():
                idle, dimension = self._amount_of(expression)
                if dimension:
                    self._amount(idle, dimension)
                else:
                    self._lookup((expression.key,), "number", number_in)
            case Negative():
                self.number(expression.operand, measure)
                self._emit(machine.NEGATE, 0)
            case Arithmetic():
                self.number(expression.operands[0], measure)
                for operator, operand in zip(expression.operators, expression.operands[1:], strict=True):
                    self.number(operand, measure)
                    self._emit(_ARITHMETIC[operator], -1)
            case Text():
                self._constant(_UNDEFINED)
            case Call(function="size"):
                self._ask("size", size, expression.arguments)
            case Call(function="if") if not is_truth(expression):
                self._choose(expression, lambda branch: self.number(branch, measure))
            case Call() if expression.function in EXTREMES:
                self._extreme(expression, lambda branch: self.number(branch, measure))
            case _:
                self.truth(expression)

    def _truth_of_call(self, call: Call) -> None:
        if call.function == IF:
            self._choose(call, self.truth)
        elif call.function in OF_TWO:
            self._ask(call.function, OF_TWO[call.function], call.arguments)
        elif call.function == "regexp":
            subject, pattern = call.arguments
            assert isinstance(pattern, Pattern)
            self._ask(("regexp", pattern.text), matches(pattern.text), (subject,))
        else:
            # A number: only a hand-made tree has one in this place.
            self._constant(_UNDEFINED)

    def _choose(self, call: Call, value: Callable[[Expression], None]) -> None:
        """Write ``if(…)``: ``value`` leaves both branches on the stack, and one of them is chosen."""
        condition, *branches = call.arguments
        self.truth(condition)
        for branch in branches:
            value(branch)
        self._emit(machine.CHOOSE, -2)

    def _extreme(self, call: Call, value: Callable[[Expression], None]) -> None:
        for i, argument in enumerate(call.arguments):
            value(argument)
            if i:
                self._emit(machine.LESSER if call.function == "min" else machine.LARGER, -1)

    def _ask(self, about: object, question: Question, operands: tuple[Expression, ...]) -> None:
        """Answer a question about values, some of them constants: by a table, or at once."""
        if any(map(self._computed, operands)):
            # An amount of this cluster, which the parser cannot know.
            self._constant(_UNDEFINED)
            return
        names = tuple(operand.key for operand in operands if isinstance(operand, Name))
        constants = tuple(None if isinstance(operand, Name) else operand_of(operand) for operand in operands)
        if names:
            self._lookup(names, (about, constants), with_constants(question, constants))
        else:
            answer = question(*constants)
            self._constant(_UNDEFINED if answer is None else float(answer))

    def _compare(self, operator: str, left: Expression, right: Expression, measure: Measure | None) -> None:
        if operator in ("is", "is not"):
            self._same(left, right, measure)
            if operator == "is not":
                self._emit(machine.NOT, 0)
        elif isinstance(left, Call) and left.function == IF:
            self._choose(left, lambda branch: self._compare(operator, branch, right, measure))
        elif isinstance(right, Call) and right.function == IF:
            self._choose(right, lambda branch: self._compare(operator, left, branch, measure))
        elif self._computed(left) or self._computed(right):
            self._compare_computed(operator, left, right, measure)
        elif isinstance(left, Name) and isinstance(right, Name):
            self._lookup((left.key, right.key), operator, pair_comparison(operator))
        elif isinstance(left, Name):
            constant = operand_of(right)
            self._lookup((left.key,), (operator, right), comparison(operator, constant))
        elif isinstance(right, Name):
            self._compare(MIRRORED[operator], right, left, measure)
        else:
            self._answer(compared(operator, operand_of(left), operand_of(right)))

    def _same(self, left: Expression, right: Expression, measure: Measure | None) -> None:
        """Write ``left is right``: they are equal, or both are undefined."""
        sides = (left, right)
        if not any(map(self._computed, sides)) and any(map(self._attribute, sides)):
            names = tuple(side.key for side in sides if isinstance(side, Name))
            constants = tuple(None if isinstance(side, Name) else operand_of(side) for side in sides)
            # If no node has the attribute, it is as undefined as the other one.
            nothing = float(len(names) == 2)
            self._lookup(names, ("is", constants), with_constants(same, constants), nothing)
            return
        self._compare("=", left, right, measure)
        self._constant(1.0)
        self._emit(machine.SAME, -1)
        for i, side in enumerate(sides):
            self._undefined(side, measure)
            if i:
                self._emit(machine.AND, -1)
        self._emit(machine.OR, -1)

    def _undefined(self, side: Expression, measure: Measure | None) -> None:
        """Leave 1 on the stack if one side of a comparison is undefined, otherwise 0."""
        if isinstance(side, Call) and side.function == IF:
            # The whole is undefined if its condition is.
            self._choose(side, lambda branch: self._undefined(branch, measure))
            self._constant(0.0)
            self._emit(machine.SAME, -1)
            self._emit(machine.NOT, 0)
        elif isinstance(side, Name) and self._attribute(side):
            self._lookup((side.key,), "defined", is_there, nothing=0.0)
            self._emit(machine.NOT, 0)
        elif isinstance(side, (Number, Text, Truth)):
            self._constant(0.0)
        else:
            self.number(side, measure)
            self._constant(_UNDEFINED)
            self._emit(machine.SAME, -1)

    def _compare_computed(self, operator: str, left: Expression, right: Expression, measure: Measure | None) -> None:
        """Write a comparison with a side that is computed on each node: of two truth values, or of two numbers."""
        sides = (left, right)
        if any(is_truth(side) and not isinstance(side, Truth) for side in sides):
            alike = all(is_truth(side) or self._attribute(side) for side in sides)
            if not alike or operator not in EQUALITIES:
                self._constant(_UNDEFINED)
                return
            for side in sides:
                self.truth(side)
        else:
            for side in sides:
                if self._attribute(side):
                    assert isinstance(side, Name)
                    self._lookup((side.key,), "measured", measured)
                elif isinstance(side, Truth):
                    self._constant(_UNDEFINED)
                else:
                    self.number(side, measure)
        self._emit(_COMPARISONS[operator], -1)

    def _member(self, expression: In, measure: Measure | None = None) -> None:
        subject, items = expression.subject, expression.items
        if isinstance(subject, Name) and subject.key in (NODES, DATA_LOCALITY):
            for i, key in enumerate(("name", "hostname", "address")):
                self._lookup((key,), ("nodes", items), listed(items), nothing=0.0)
                if i:
                    self._emit(machine.OR, -1)
        elif isinstance(subject, Name) and self._attribute(subject):
            self._lookup((subject.key,), items, member(items, names=subject.key in NAMES))
        elif isinstance(subject, Call) and subject.function == IF:
            self._choose(subject, lambda branch: self._member(In(branch, items), measure_in(expression)))
        elif self._computed(subject):
            measure = measure or measure_in(expression)
            for i, item in enumerate(items):
                if isinstance(item, (Number, Truth)):
                    self._compare_computed("=", subject, item, measure)
                else:
                    self._constant(_UNDEFINED)
                if i:
                    self._emit(machine.OR, -1)
        else:
            self._answer(contained(operand_of(subject), items))

    def _resource(self, resource: Resource) -> None:
        dimensions = self.columns.dimensions
        self._constant(1.0)
        for name, amount in resource.amounts:
            if name in dimensions.index:
                self._load(dimensions.index[name], 1.0)
                self._constant(float(amount))
                self._emit(machine.GREATER_EQUAL, -1)
            else:
                self._constant(_UNDEFINED)
            self._emit(machine.AND, -1)
        self.dynamic = True

    def _amount(self, idle: bool, key: str) -> None:
        """Leave an amount of the node on the stack, in the unit of the language: cores, bytes, bit/s, 1/s."""
        dimensions = self.columns.dimensions
        names = ("disk_read", "disk_write") if key == DISK else (next(x for x in dimensions.names if key_of(x) == key),)
        for i, name in enumerate(names):
            unit = 1000.0 if dimensions.measure(name) is Measure.MILLI else 1.0
            self._load(dimensions.index[name] + (0 if idle else len(dimensions)), unit)
            if i:
                self._emit(machine.LESSER, -1)
        self.dynamic = self.dynamic or idle

    def _load(self, k: int, unit: float) -> None:
        self.constants.append(unit)
        self._emit(machine.AMOUNT, 1, self.columns.free + k, len(self.constants) - 1)

    def _lookup(self, names: tuple[str, ...], about: object, question: Question, nothing: float | None = None) -> None:
        """Look up the answer to a question about attributes; ``nothing`` is the answer for nodes without them."""
        self.names.append(names)
        self.dynamic = self.dynamic or any(name in LOADS for name in names)
        column: Column | None = self.columns.column(*names)
        if column is None:
            self._constant(_UNDEFINED if nothing is None else nothing)
            return
        self.tables.append(self.columns.table(column, about, question, nothing))
        self._emit(machine.LOOKUP, 1, column.row, len(self.tables) - 1)

    def _answer(self, answer: bool | None) -> None:
        self._constant(_UNDEFINED if answer is None else float(answer))

    def _constant(self, value: float) -> None:
        self.constants.append(value)
        self._emit(machine.CONSTANT, 1, len(self.constants) - 1)

    def _emit(self, operation: int, grows: int, first: int = 0, second: int = 0) -> None:
        self.code.append((operation, first, second))
        self._depth += grows
        self.deepest = max(self.deepest, self._depth)

    def _amount_of(self, expression: Expression) -> tuple[bool, str]:
        return amount_of(expression.key, self.columns.dimensions) if isinstance(expression, Name) else (False, "")

    def _attribute(self, expression: Expression) -> bool:
        return isinstance(expression, Name) and not is_quantity(expression.key, self.columns.dimensions)

    def _computed(self, expression: Expression) -> bool:
        """Return whether an expression is neither an attribute nor a constant."""
        return not (isinstance(expression, (Number, Text, Truth)) or self._attribute(expression))


def _read(number: Number, measure: Measure | None) -> float:
    try:
        value = number_value(number.text, measure)
    except InputError:
        # The parser refuses these, but hand-made trees may have them.
        value = None
    return _UNDEFINED if value is None else value
