"""The match of one shape: the nodes that satisfy its clauses, and their scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.kernels.holding import CLAUSE_BIT, SHUT
from cress.core.placing.clause_kinds import CLAUSES, EXTRAS
from cress.core.placing.constraints import BY_EXPRESSION, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.domain_answers import Closures, DomainScores
from cress.core.placing.gang_rules import GangRules, Rule, either
from cress.core.placing.predicates import NodeCondition, Predicate
from cress.core.tables.arrays import Floats, Ints
from cress.language.clauses import Clause

Firsts: TypeAlias = npt.NDArray[np.int8]

# The highest index in bits 24 to 28 of ``lack``; all further predicates share it.
LAST_PLACE = 31


def predicates(context: ClauseContext, wants: Wants) -> list[Predicate]:
    """Return the predicates that exclude nodes for a task with these wants."""
    made = [predicate(context, clause, wants) for clause in wants.hard]
    for extra in EXTRAS:
        made += extra(context, wants)
    for each in made:
        each.among(made)
    return made


def predicate(context: ClauseContext, clause: Clause, wants: Wants) -> Predicate:
    """Return the predicate of a clause, for a task with these wants."""
    if clause.kind in BY_EXPRESSION:
        return NodeCondition(context, clause)
    return CLAUSES[clause.kind](context, clause, wants)


class Match:
    """The match of one shape: its predicates, the first static one that excludes each node, and the scores of nodes.

    ``first`` (int8, per node) is 1 + the index of that predicate, 0 without one. ``closures`` are the predicates that
    compare domains: they exclude whole domains, the others single nodes. ``scores`` (float32, per node) are the sums
    of the terms; ``at`` is the position in the log of changes up to which they are valid. ``orders`` are, per node,
    the values of the hard clauses that order nodes before the rank; a clause that is also a term of the rank has none.
    """

    __slots__ = (
        "_cluster",
        "_dynamic",
        "_ordering",
        "_program",
        "_static",
        "_terms",
        "at",
        "by_domains",
        "closures",
        "compares",
        "counts_eligible",
        "dynamic_scores",
        "first",
        "follows_nodes",
        "orders",
        "predicates",
        "scores",
        "wants",
        "watches",
    )

    def __init__(self, context: ClauseContext, wants: Wants) -> None:
        self.wants = wants
        self.predicates: list[Predicate] = predicates(context, wants)
        self.closures = Closures(self.predicates)
        # Predicates about single nodes, with their indexes.
        single = [(place, each) for place, each in enumerate(self.predicates, 1) if not each.compares]
        self._static = [(place, each) for place, each in single if not each.dynamic]
        self._dynamic = [(place, each) for place, each in single if each.dynamic]
        self.follows_nodes = bool(self._dynamic)
        self.first: Firsts = np.zeros(0, np.int8)
        # The expressions of the rank form one program; the other terms are predicates.
        self._cluster = context.cluster
        self._program = context.program(tuple(wants.terms))
        self._terms = [
            (np.float32(term.weight), predicate(context, term.what, wants))
            for term in wants.terms
            if isinstance(term.what, Clause)
        ]
        for _, each in self._terms:
            each.among(self.predicates)
        self.compares = bool(self.closures) or any(each.compares for _, each in self._terms)
        self.dynamic_scores = self._program.dynamic or any(
            each.dynamic and not each.compares for _, each in self._terms
        )
        # The scores of a rank with a single term that compares domains.
        self.by_domains: DomainScores | None = None
        if len(wants.terms) == 1 and self._terms and self._terms[0][1].compares:
            self.by_domains = DomainScores(self._terms[0][1], wants.terms[0].weight)
        weighed = {term.what.hard() for term in wants.terms if isinstance(term.what, Clause)}
        # The predicates of the hard clauses come first.
        self._ordering = [
            each
            for clause, each in zip(wants.hard, self.predicates, strict=False)
            if each.orders and clause not in weighed
        ]
        asked = (*self.predicates, *(each for _, each in self._terms))
        self.counts_eligible = any(each.counts_eligible for each in asked)
        self.watches = tuple(whose for each in asked for whose in each.watches)
        self.scores: Floats | None = None
        self.orders: list[Floats] | None = None
        self.at = 0

    @property
    def depends_on_tasks(self) -> bool:
        """True if running tasks, or licences that they use, decide which nodes its predicates exclude."""
        return any(test.dynamic or test.compares or test.watches for test in self.predicates)

    def forget_scores(self) -> None:
        """Drop scores and orders; they are computed again when needed."""
        self.scores = self.orders = None

    def tasks_moved(self) -> None:
        """Note starts or ends of tasks that its clauses count."""
        if self._terms and self.by_domains is None:
            self.scores = None
        self.orders = None

    def order(self, size: int) -> list[Floats]:
        """Return ``orders``, each with ``size`` elements."""
        if not self._ordering:
            return []
        if self.orders is None or len(self.orders[0]) < size:
            n = self._cluster.node_count
            self.orders = []
            for each in self._ordering:
                values = np.zeros(size, np.float32)
                values[:n] = each.suits(np.arange(n))
                self.orders.append(values)
        return self.orders

    def first_excluding(self, places: Ints, facts: bool) -> Firsts:
        """Return, per node, 1 + the index of the first predicate about single nodes that excludes it, 0 without one.

        ``facts``: static predicates are included.
        """
        if facts:
            self.first[places] = _first(self._static, places)
        first = self.first[places]
        if self.follows_nodes:
            moving = _first(self._dynamic, places)
            first = np.where((moving > 0) & ((first == 0) | (moving < first)), moving, first)
        return first

    def excluded(self) -> npt.NDArray[np.int32]:
        """Return, per node, the bits ``EXCLUDED`` of the row, and keep them up to date from now on."""
        n = self._cluster.node_count
        if len(self.first) < n:
            self.first = np.zeros(len(self._cluster.nodes), np.int8)
        bits: npt.NDArray[np.int32] = self.first_excluding(np.arange(n), True).astype(np.int32) << CLAUSE_BIT
        if self.closures:
            bits[self.closures.renew()] |= SHUT
        return bits

    def first_from_nothing(self) -> Firsts:
        """Return, per node, 1 + the index of the first predicate that excludes it, 0 without one; no cached result is
        used.
        """
        return _first(list(enumerate(self.predicates, 1)), np.arange(self._cluster.node_count))

    def score(self, places: Ints) -> Floats:
        """Return the sum of the terms on each of these nodes."""
        nodes = self._cluster.nodes
        if len(places) == 1:
            total = np.array([self._program.value(nodes, int(places[0]))], np.float32)
        else:
            out = np.empty(len(nodes), np.float32)
            self._program.values(nodes, out, places)
            total = out[places]
        for weight, term in self._terms:
            total += weight * term.suits(places)
        # + 0 turns -0 into 0, because scores are compared by their bits.
        return total + np.float32(0)

    def rules(self) -> GangRules:
        """Return the rules for all tasks of a gang together; terms with a positive weight are preferences."""
        return rules_of(self.predicates, self.preferences)

    @property
    def preferences(self) -> list[Predicate]:
        """The terms of the rank with a positive weight that are clauses."""
        return [term for weight, term in self._terms if weight > 0]

    @property
    def has_rules(self) -> bool:
        """True if hard clauses may have rules for all tasks of a gang."""
        return any(each.ruled for each in self.predicates)

    def caps(self) -> Ints:
        """Return the limit of copies per node that may start together; empty means no limit."""
        return least(each.caps(empty=False) for each in self.predicates)


def _first(asked: list[tuple[int, Predicate]], places: Ints) -> Firsts:
    """Return, per node, the index of the first of these (index, predicate) pairs that excludes it; 0 without one."""
    first = np.zeros(len(places), np.int8)
    for place, each in reversed(asked):
        first[each.excludes(places)] = min(place, LAST_PLACE)
    return first


def rules_of(hard: Iterable[Predicate], soft: Iterable[Predicate], *, empty: bool = False) -> GangRules:
    """Return the rules of predicates for all tasks of a gang together; ``empty``: as if no other task ran."""
    return GangRules(
        tuple(rule for each in hard for rule in each.rules(empty=empty)),
        tuple(rule for each in soft for rule in each.rules(empty=empty)),
    )


def rules_of_kinds(matches: Iterable[Match | None]) -> GangRules:
    """Return the rules for all tasks of a unit of several kinds together, each once."""
    found = [match for match in matches if match is not None]
    return GangRules(
        merged(predicate for match in found for predicate in match.predicates),
        merged(term for match in found for term in match.preferences),
    )


def merged(asked: Iterable[Predicate], *, empty: bool = False) -> tuple[Rule, ...]:
    """Return the rules of predicates of several kinds of tasks: each constraint once, since it is about all tasks.

    A domain is eligible if some kind may use it.
    """
    found: dict[tuple[type[Predicate], str], list[Rule]] = {}
    for predicate in asked:
        for i, rule in enumerate(predicate.rules(empty=empty)):
            same = found.setdefault((type(predicate), predicate.text), [])
            if i == len(same):
                same.append(rule)
            else:
                same[i] = either(same[i], rule)
    return tuple(rule for rules in found.values() for rule in rules)


def least(bounds: Iterable[Ints | None]) -> Ints:
    """Return the smallest of these bounds per node; empty without any."""
    smallest: Ints = np.zeros(0, np.int64)
    for bound in bounds:
        if bound is not None:
            smallest = np.minimum(smallest, bound) if len(smallest) else bound
    return smallest
