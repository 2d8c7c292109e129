"""Requirements, ranks and expressions from text."""

from __future__ import annotations

import math
from functools import lru_cache

from cress.language.checks import EXAMPLES, Checker, measure_in
from cress.language.clauses import MOST_CLAUSES, Clause, Kind, Rank, RankTerm, Requirement
from cress.language.domain_clauses import check_jobs, domain_clause, is_domain_clause
from cress.language.jobfacts import check_facts
from cress.language.names import (
    DATA_LOCALITY,
    DEPENDED_JOB,
    EXCLUSIVE_DISK,
    ISSUE_AS_WHOLE,
    JOB_DEPENDENCY,
    MOMENT,
    NETWORK_ADJACENT,
    NODES,
    PLACEMENT,
    PORT,
    WAITTIME,
)
from cress.language.raw import Raw, Relaxes
from cress.language.relaxation import Relaxation, load_share, sides, waiting_time
from cress.language.sense import Sense
from cress.language.syntax import parse_raw
from cress.language.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Expression,
    In,
    Name,
    Negative,
    Not,
    Number,
    Or,
    Resource,
    Text,
    Truth,
    conjunction,
    place_of,
)
from cress.language.trouble import trouble
from cress.language.values import number_value
from cress.model.datanames import parse_data_name
from cress.model.errors import InputError
from cress.model.resources import Dimensions
from cress.model.units import closest

MOST_DISKS = 1000
# Larger weights are of no use; the limit also keeps the text of a weight short.
_WEIGHTS = (1e-9, 1e9)


@lru_cache(maxsize=1024)
def parse_requirement(text: str, *, stored: bool = False) -> Requirement:
    """Return the clauses of a requirement; an empty text has none. Raise InputError, which points at the character.

    A ``stored`` text was accepted before, perhaps by an older release: its meaning is not checked again.
    """
    if not text.strip():
        return Requirement()
    if not stored:
        requirement, sense = parse_requirement(text, stored=True), Sense(text)
        for clause in requirement.clauses:
            if clause.kind in (Kind.CONDITION, Kind.NODES):
                sense.condition(clause.expression)
            check_jobs(text, clause)
        return requirement
    reader = _TreeReader(text)
    clauses = reader.clauses(parse_raw(text))
    if len(clauses) > MOST_CLAUSES:
        raise InputError(f"{len(clauses)} clauses are too many", hint=f"at most {MOST_CLAUSES}")
    return Requirement(tuple(clauses))


@lru_cache(maxsize=1024)
def parse_rank(text: str, *, stored: bool = False) -> Rank:
    """Return the terms of a rank; an empty text has none. Raise InputError, which points at the character.

    ``stored`` as for requirements.
    """
    if not text.strip():
        return Rank()
    reader = _TreeReader(text, stored)
    raw = parse_raw(text)
    signed = [(1.0, raw)]
    if isinstance(raw, Arithmetic) and raw.operators[0] in "+-":
        signs = (1.0, *(1.0 if operator == "+" else -1.0 for operator in raw.operators))
        signed = list(zip(signs, raw.operands, strict=True))
    terms = (reader.term(sign, operand) for sign, operand in signed)
    return Rank(tuple(term for term in terms if term is not None))


def check_names_of_jobs(text: str, constraints: Requirement | Rank, dimensions: Dimensions) -> None:
    """Raise InputError, which points at the character, if no job of such a cluster has an attribute of the constraints.

    ``text`` is the text of the constraints.
    """
    asked: list[Clause | Expression] = (
        [*constraints.clauses] if isinstance(constraints, Requirement) else [term.what for term in constraints.terms]
    )
    for found in asked:
        if isinstance(found, Clause):
            check_jobs(text, found, dimensions)
        expression = found.expression if isinstance(found, Clause) else found
        check_facts(text, expression, dimensions)


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Expression:
    """Return a condition over one node; its meaning is not checked. Raise InputError, which points at the character."""
    if not text.strip():
        raise InputError("nothing is given", hint="a condition such as GCC >= 4.5")
    return _TreeReader(text).checker.condition(parse_raw(text))


class _TreeReader:
    """Finds the clauses or terms in the tree of one text."""

    def __init__(self, text: str, stored: bool = False) -> None:
        self.text = text
        self.checker = Checker(text)
        self.stored = stored

    def clauses(self, raw: Raw) -> list[Clause]:
        """Return the clauses of a conjunction, in order, without those that request nothing (``… = False``)."""
        operands = raw.operands if isinstance(raw, And) else (raw,)
        found: list[Clause] = []
        for operand, after in zip(operands, (*operands[1:], None), strict=True):
            if isinstance(operand, Relaxes):
                # If it follows a clause, it has already been read together with that.
                if operand is operands[0] or isinstance(operands[_place(operands, operand) - 1], Relaxes):
                    raise trouble(
                        self.text,
                        operand.at,
                        "f(x) follows the clause that it relaxes, only once",
                        "clause && f(x) = (Waittime > 15s)",
                    )
                continue
            if isinstance(after, Relaxes):
                clause = self._clause(operand, self.relaxation(after))
            elif isinstance(operand, And):
                found += self.clauses(operand)
                continue
            else:
                clause = self._clause(operand, None)
            if clause is not None:
                found.append(clause)
        return found

    def relaxation(self, relaxes: Relaxes) -> Relaxation:
        """Return the relaxation of f(x) = …, made of comparisons of Waittime and ClusterLoad with constants."""
        self._of_the_moment(relaxes.condition)
        return Relaxation(relaxes.condition, relaxes.weight)

    def term(self, sign: float, raw: Raw) -> RankTerm | None:
        """Return one term of a rank with its weight; None if it requests nothing."""
        weight, raw = self._weighed(sign, raw)
        if isinstance(raw, Relaxes):
            raise trouble(self.text, raw.at, "f(x) relaxes a clause of the requirement", "a rank is soft anyway")
        if _places(raw):
            clause = self._clause(raw, None)
            if clause is None:
                return None
            if not self.stored:
                check_jobs(self.text, clause)
            simple = clause.kind in (Kind.NODES, Kind.RESOURCE)
            return RankTerm(weight, clause.expression if simple else clause)
        if isinstance(raw, Text):
            raise self.checker.wrong(raw, f"{raw} is a text, not a number", "a rank is a sum of numbers")
        if self.stored:
            self.checker.number(raw, measure_in(raw))
        else:
            self.checker.term(raw)
            Sense(self.text).term(raw)
        return RankTerm(weight, raw)

    def _weighed(self, weight: float, raw: Raw) -> tuple[float, Raw]:
        """Return the constant factors at the beginning of a product, and the rest."""
        at = place_of(raw)
        while True:
            if isinstance(raw, Negative):
                weight, raw = -weight, raw.operand
                continue
            product = isinstance(raw, Arithmetic) and raw.operators[0] == "×" and "%" not in raw.operators
            factor = _factor(raw.operands[0]) if product else None
            if factor is None:
                break
            weight *= factor
            raw = raw.operands[1] if len(raw.operands) == 2 else Arithmetic(raw.operators[1:], raw.operands[1:])
        if weight and not _WEIGHTS[0] <= abs(weight) <= _WEIGHTS[1]:
            raise trouble(self.text, at, "the weight is beyond all measure", "between a billionth and a billion")
        return weight + 0.0, raw

    def _clause(self, raw: Raw, relaxation: Relaxation | None) -> Clause | None:
        if isinstance(raw, Call) and is_domain_clause(raw):
            return domain_clause(self.text, self.checker, raw, relaxation)
        if isinstance(raw, Resource):
            return Clause(Kind.RESOURCE, raw, raw.amounts, relaxation)
        if isinstance(raw, In) and isinstance(raw.subject, Name) and raw.subject.key in (NODES, DATA_LOCALITY):
            for item in raw.items:
                if isinstance(item, (Number, Truth)):
                    raise self.checker.wrong(item, f"{item} is neither a node nor an address", EXAMPLES["Nodes"])
            return Clause(Kind.NODES, raw, None, relaxation)
        if isinstance(raw, Name) and raw.key in PLACEMENT:
            raise self.checker.wrong(raw, f"{raw} alone is not a condition", EXAMPLES[PLACEMENT[raw.key]])
        if isinstance(raw, Compare) and isinstance(raw.left, Name) and raw.left.key in PLACEMENT:
            return self._placement(raw, raw.left, relaxation)
        if isinstance(raw, In) and isinstance(raw.subject, Name) and raw.subject.key in PLACEMENT:
            raise self.checker.wrong(raw, f"{raw.subject} is not asked by a list", EXAMPLES[PLACEMENT[raw.subject.key]])
        condition = self.checker.condition(conjunction(raw.operands) if _flat(raw) else raw)
        return Clause(Kind.CONDITION, condition, None, relaxation)

    def _placement(self, compare: Compare, name: Name, relaxation: Relaxation | None) -> Clause | None:
        example = EXAMPLES[PLACEMENT[name.key]]
        value = compare.right
        if name.key == DATA_LOCALITY and compare.operator == "=" and isinstance(value, Text):
            return self._data(name, value, relaxation)
        if compare.operator != "=" or name.key in (NODES, DATA_LOCALITY):
            raise self.checker.wrong(name, f"{compare} is not how {name} is asked", example)
        if name.key in (JOB_DEPENDENCY, DEPENDED_JOB):
            if not isinstance(value, Text) or not value.value.strip() or value.value.count("/") > 1:
                raise self.checker.wrong(
                    value, f"{value} is not a job", f'{example}, or = "group/A" for one of another group'
                )
            return Clause(Kind.DEPENDENCY, compare, value.value.strip(), relaxation)
        if name.key == PORT:
            port = (
                int(value.text) if isinstance(value, Number) and value.text.isdecimal() and len(value.text) < 9 else 0
            )
            if not 1 <= port <= 65_535:
                raise self.checker.wrong(value, f"{value} is not a port", "a number from 1 to 65535")
            return Clause(Kind.PORT, Compare("=", name, Number(str(port))), port, relaxation)
        if name.key == ISSUE_AS_WHOLE:
            return self._whole(name, value, relaxation)
        if isinstance(value, Truth) and name.key in (EXCLUSIVE_DISK, NETWORK_ADJACENT):
            kind = Kind.DISK if name.key == EXCLUSIVE_DISK else Kind.ADJACENT
            return Clause(kind, compare, 1 if kind is Kind.DISK else None, relaxation) if value.value else None
        if name.key == EXCLUSIVE_DISK and isinstance(value, Number) and value.text.isdecimal() and len(value.text) < 5:
            # The operators that join clauses.
            count = int(value.text)
            if 1 <= count <= MOST_DISKS:
                right = Truth(True) if count == 1 else Number(str(count))
                return Clause(Kind.DISK, Compare("=", name, right), count, relaxation)
        raise self.checker.wrong(value, f"{value} is not a possible value of {name}", example)

    def _whole(self, name: Name, value: Expression, relaxation: Relaxation | None) -> Clause:
        """Return the clause of a gang that may start in part: with all tasks, later with a least number of them."""
        least = 1 if value == Truth(True) else 0
        if isinstance(value, Number) and value.text.isdecimal() and len(value.text) < 9:
            least = int(value.text)
        if relaxation is None or least < 1:
            raise self.checker.wrong(value, f"{name} = {value} does not depend on the node", EXAMPLES["IssueAsWhole"])
        right = Truth(True) if least == 1 else Number(str(least))
        return Clause(Kind.WHOLE, Compare("=", name, right), least, relaxation)

    def _data(self, name: Name, value: Text, relaxation: Relaxation | None) -> Clause:
        try:
            data = str(parse_data_name(value.value))
        except InputError as error:
            raise trouble(self.text, value.at, error.what, error.hint) from None
        return Clause(Kind.DATA, Compare("=", name, Text(data)), data, relaxation)

    def _of_the_moment(self, raw: Raw) -> None:
        """Check that ``raw`` is made of comparisons of Waittime and ClusterLoad with constants."""
        hint = "such as f(x) = (Waittime > 15s) or f(x) = (ClusterLoad < 80% || Waittime > 5min)"
        if isinstance(raw, Relaxes):
            raise trouble(self.text, raw.at, "f(x) inside f(x)", hint)
        match raw:
            case Truth():
                return
            case Not():
                self._of_the_moment(raw.operand)
                return
            case And() | Or():
                for operand in raw.operands:
                    self._of_the_moment(operand)
                return
            case Compare():
                if raw.operator in ("is", "is not"):
                    hint = f"{Compare('=' if raw.operator == 'is' else '!=', raw.left, raw.right)}"
                    raise self.checker.wrong(raw, f"f(x) does not have the operator {raw.operator}", hint)
                found = sides(raw)
                if found is not None and found[0].key in MOMENT:
                    self._constant(found[0], found[2])
                    return
                self._no_constant(raw)
        if isinstance(raw, Compare) and isinstance(raw.left, Name):
            near = closest(raw.left.written, MOMENT.values())
            hint = f"did you mean {near}? {hint}" if near else hint
        raise self.checker.wrong(raw, "f(x) can only compare Waittime and ClusterLoad with constants", hint)

    def _no_constant(self, compare: Compare) -> None:
        """Refuse the comparison of Waittime or ClusterLoad with anything but a constant."""
        for name, other in ((compare.left, compare.right), (compare.right, compare.left)):
            if isinstance(name, Name) and name.key in MOMENT:
                example = "15s" if name.key == WAITTIME else "80%"
                what = f"{name} is compared with a constant, and {other} is not one"
                raise self.checker.wrong(other, what, f"{name} > {example}")

    def _constant(self, name: Name, number: Number) -> None:
        try:
            if name.key == WAITTIME:
                waiting_time(number)
            elif load_share(number) > 1:
                hint = "at most 100%" if number.text.endswith("%") else f"{number}% or a share such as 0.8"
                raise self.checker.wrong(number, f"{name} is between 0 and 1", hint)
        except InputError as error:
            if error.what.startswith("at "):
                raise
            raise trouble(self.text, number.at, error.what, error.hint) from None


def _place(operands: tuple[Raw, ...], operand: Raw) -> int:
    return next(i for i, raw in enumerate(operands) if raw is operand)


def _flat(raw: Raw) -> bool:
    return isinstance(raw, And) and not any(isinstance(operand, Relaxes) for operand in raw.operands)


def _places(raw: Raw) -> bool:
    """Return whether ``raw`` is a whole placement clause."""
    subject = raw.left if isinstance(raw, Compare) else raw.subject if isinstance(raw, In) else raw
    return (
        isinstance(raw, Resource) or is_domain_clause(raw) or (isinstance(subject, Name) and subject.key in PLACEMENT)
    )


def _factor(raw: Raw) -> float | None:
    """Return the value of a constant factor; None if it is not constant."""
    if isinstance(raw, Negative):
        inner = _factor(raw.operand)
        return None if inner is None else -inner
    if isinstance(raw, Number) and (raw.text[-1] == "%" or raw.text.replace(".", "", 1).isdecimal()):
        value = number_value(raw.text)
        return value if value is not None and math.isfinite(value) else None
    return None
