"""Requirements as conjunctions of clauses, ranks as sums of terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from cress.language.relaxation import Relaxation
from cress.language.tree import (
    IN_SET,
    And,
    Arithmetic,
    Call,
    Compare,
    Expression,
    In,
    Name,
    Number,
    Or,
    Resource,
    Truth,
)
from cress.model.errors import InputError
from cress.model.resources import BASE_DIMENSIONS
from cress.model.units import format_share

# 1 + the position of a clause must fit into five bits.
MOST_CLAUSES = 31
# Most entries of a list that are shown to users.
MOST_SHOWN = 20


class Kind(Enum):
    """The kind of a clause, in the order in which people read them: clauses about a node itself, then amounts, then
    clauses that depend on running tasks (source E, (iii) to (viii)).
    """

    CONDITION = "condition"
    RESOURCE = "resource"
    ADJACENT = "adjacent"
    PORT = "port"
    DISK = "disk"
    NODES = "nodes"
    DATA = "data"
    DEPENDENCY = "dependency"
    WITHIN = "within"
    NEAR = "near"
    AWAY = "away"
    SPREAD = "spread"
    WHOLE = "whole"


# The place of each kind in that order.
PLACES = {kind: place for place, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class OverDomains:
    """The request of a clause about domains, the values of the attribute ``by`` with the key ``key``.

    ``jobs`` is the text of a selector. SPREAD: the tasks of a domain exceed those of the least used one by at most
    ``most_skew``; with ``targets`` (values of the attribute and shares in thousandths of a percent), they exceed its
    share by at most that.
    """

    key: str
    by: str = field(compare=False)
    jobs: str = ""
    most_skew: int = 1
    targets: tuple[tuple[str, int], ...] = ()


# RESOURCE: raw amounts by dimension; PORT: the port; DISK: the number; DEPENDENCY: "job" or "group/job"; DATA: its
# name; WHOLE: the least number of tasks that start together; SPREAD, AWAY, NEAR, WITHIN: OverDomains; others: None.
ClauseValue: TypeAlias = tuple[tuple[str, int], ...] | int | str | OverDomains | None


@dataclass(frozen=True, slots=True)
class Clause:
    """A top-level conjunct. CONDITION, NODES and RESOURCE are decided by ``expression``, the others by ``value``."""

    kind: Kind
    expression: Expression
    value: ClauseValue = None
    relaxation: Relaxation | None = None

    def hard(self) -> Clause:
        """Return the clause without its f(x)."""
        return self if self.relaxation is None else Clause(self.kind, self.expression, self.value)

    def __str__(self) -> str:
        # A conjunction in one clause keeps the conditions together that f(x) relaxes.
        text = f"({self.expression})" if isinstance(self.expression, (And, Or)) else str(self.expression)
        return text if self.relaxation is None else f"{text} && {self.relaxation}"


def brief(clause: Clause) -> str:
    """Return the text of a clause for users; of a long list only the beginning."""
    expression = clause.expression
    if not isinstance(expression, In) or len(expression.items) <= MOST_SHOWN:
        return str(clause)
    short = Clause(clause.kind, In(expression.subject, expression.items[:MOST_SHOWN]), clause.value, clause.relaxation)
    head, bracket, tail = str(short).partition(")")
    return f"{head}, … and {len(expression.items) - MOST_SHOWN:,} more{bracket}{tail}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A conjunction of clauses; without clauses every node satisfies it."""

    clauses: tuple[Clause, ...] = ()
    _hash: list[int] = field(default_factory=list, init=False, compare=False, repr=False)

    def __str__(self) -> str:
        if len(self.clauses) == 1 and isinstance(self.clauses[0].expression, Or) and not self.clauses[0].relaxation:
            return str(self.clauses[0].expression)
        return " && ".join(map(str, self.clauses))

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def __hash__(self) -> int:
        if not self._hash:
            self._hash.append(hash(self.clauses))
        return self._hash[0]


@dataclass(frozen=True, slots=True)
class RankTerm:
    """``weight × what``: an expression, or a clause of a kind that expressions cannot decide (port, disk …)."""

    weight: float
    what: Expression | Clause

    def __str__(self) -> str:
        expression = self.what.expression if isinstance(self.what, Clause) else self.what
        text = str(expression)
        simple = (
            isinstance(expression, (Number, Name, Truth))
            # A member of a set is printed like a comparison.
            or (isinstance(expression, Call) and expression.function != IN_SET)
            or (
                isinstance(expression, Arithmetic)
                and expression.operators[0] not in "+-"
                and "%" not in expression.operators
            )
        )
        text = text if simple else f"({text})"
        bare_sum = isinstance(expression, Arithmetic) and expression.operators[0] in "+-"
        if self.weight != 1 or bare_sum:
            return f"{format_share(self.weight)} × {text}"
        return text


@dataclass(frozen=True, slots=True)
class Rank:
    """A sum of terms; without terms all nodes are equal."""

    terms: tuple[RankTerm, ...] = ()
    _hash: list[int] = field(default_factory=list, init=False, compare=False, repr=False)

    def __str__(self) -> str:
        text = ""
        for term in self.terms:
            if not text:
                text = str(term)
            elif term.weight < 0:
                text += f" - {RankTerm(-term.weight, term.what)}"
            else:
                text += f" + {term}"
        return text

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __hash__(self) -> int:
        if not self._hash:
            self._hash.append(hash(self.terms))
        return self._hash[0]


def joined(requirements: Iterable[Requirement]) -> Requirement:
    """Return all clauses of several requirements, each once; resources are added, and so are whole disks.

    A port that occurs twice stays one clause: the code that joins tasks checks for equal ports. Raise InputError if
    there are too many clauses.
    """
    clauses: list[Clause] = []
    for requirement in requirements:
        for clause in requirement.clauses:
            place = next((i for i, other in enumerate(clauses) if _adds(other, clause)), None)
            if place is not None:
                clauses[place] = _added(clauses[place], clause)
            elif clause not in clauses:
                clauses.append(clause)
    if len(clauses) > MOST_CLAUSES:
        raise InputError(f"{len(clauses)} clauses are too many", hint=f"at most {MOST_CLAUSES}")
    return Requirement(tuple(clauses))


def _adds(one: Clause, other: Clause) -> bool:
    return one.kind is other.kind and one.kind in (Kind.RESOURCE, Kind.DISK) and one.relaxation == other.relaxation


def _added(one: Clause, other: Clause) -> Clause:
    if isinstance(one.value, int) and isinstance(other.value, int):
        count = one.value + other.value
        return Clause(one.kind, Compare("=", _left(one), Number(str(count))), count, one.relaxation)
    assert isinstance(one.value, tuple)
    assert isinstance(other.value, tuple)
    sums = dict(one.value)
    for name, amount in other.value:
        sums[name] = sums.get(name, 0) + amount
    resource = Resource(ordered(sums))
    return Clause(one.kind, resource, resource.amounts, one.relaxation)


def _left(clause: Clause) -> Expression:
    assert isinstance(clause.expression, Compare)
    return clause.expression.left


def ordered(amounts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Return amounts by dimension in the order of a requirement."""
    base = [(name, amounts[name]) for name in BASE_DIMENSIONS if name in amounts]
    return (*base, *sorted((name, amount) for name, amount in amounts.items() if name not in BASE_DIMENSIONS))
