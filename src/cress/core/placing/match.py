"""The match of one shape: the nodes that satisfy its clauses, and their scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.placing.clause_kinds import CLAUSES, EXTRAS
from cress.core.placing.constraints import BY_EXPRESSION, Wants
from cress.core.placing.context import Context
from cress.core.placing.gang_rules import Rules
from cress.core.placing.predicates import Condition, DomainsSeen, Predicate
from cress.core.tables.arrays import Floats, Ints
from cress.language.clauses import Clause
from cress.language.program import Program

Firsts: TypeAlias = npt.NDArray[np.int8]

# The number of places in bits 24 to 28 of ``lack``; further predicates share the last one.
LAST_PLACE = 31
NOBODY: Ints = np.zeros(0, np.int64)


def predicates(context: Context, wants: Wants) -> list[Predicate]:
    """Return the predicates that keep a task with these wants off nodes."""
    made = [predicate(context, clause, wants) for clause in wants.hard]
    for extra in EXTRAS:
        made += extra(context, wants)
    for each in made:
        each.among(made)
    return made


def predicate(context: Context, clause: Clause, wants: Wants) -> Predicate:
    """Return the predicate of a clause, for a task with these wants."""
    if clause.kind in BY_EXPRESSION:
        return Condition(context, clause)
    return CLAUSES[clause.kind](context, clause, wants)


class Match:
    """The match of one shape: its predicates, the first static one that excludes each node, the scores of nodes.

    ``first`` (int8, per node) has 1 + the place of that predicate, 0 for none. ``scores`` (float32, per node) are the
    sums of the terms; ``at`` is the position in the log of changes up to which they are valid. ``orders`` are the
    values of the hard clauses that order nodes before the rank, per node; none for a clause that the rank weighs itself.
    """

    __slots__ = (
        "_cluster", "_domains", "_only_domains", "_ordering", "_program", "_shut", "_terms", "_valued", "_worth",
        "at", "compares", "dynamic", "dynamic_scores", "first", "follows_nodes", "orders", "predicates", "scores",
        "wants", "watches",
    )  # fmt: skip

    def __init__(self, context: Context, wants: Wants) -> None:
        self.wants = wants
        self.predicates: list[Predicate] = predicates(context, wants)
        self.dynamic = any(each.dynamic for each in self.predicates)
        # Those that compare domains do not depend on a node alone.
        self.follows_nodes = any(each.dynamic and not each.compares for each in self.predicates)
        self.first: Firsts = np.zeros(0, np.int8)
        # The expressions of the rank are one program; the other terms are predicates.
        self._cluster = context.cluster
        self._program = Program(context.columns, wants.terms)
        self._terms = [
            (np.float32(term.weight), predicate(context, term.what, wants))
            for term in wants.terms
            if isinstance(term.what, Clause)
        ]
        for _, each in self._terms:
            each.among(self.predicates)
        self.compares = any(each.compares for each in (*self.predicates, *(each for _, each in self._terms)))
        self.dynamic_scores = self._program.dynamic or any(
            each.dynamic and not each.compares for _, each in self._terms
        )
        # Predicates that compare domains, what was closed and what each was worth when the row and the scores were brought up to date.
        self._domains = [each for each in self.predicates if each.compares]
        self._valued = [each for _, each in self._terms if each.compares]
        self._shut: list[DomainsSeen] = []
        self._worth: list[DomainsSeen] = []
        self._only_domains = len(self._valued) == len(self._terms)
        weighed = {term.what.hard() for term in wants.terms if isinstance(term.what, Clause)}
        # The predicates of the hard clauses come first.
        self._ordering = [
            each
            for clause, each in zip(wants.hard, self.predicates, strict=False)
            if each.orders and clause not in weighed
        ]
        asked = (*self.predicates, *(each for _, each in self._terms))
        self.watches = tuple(whose for each in asked for whose in each.watches)
        self.scores: Floats | None = None
        self.orders: list[Floats] | None = None
        self.at = 0

    def forget_scores(self) -> None:
        """Drop scores and orders; they are computed again when they are needed."""
        self.scores = self.orders = None

    def note_domains(self) -> None:
        """Note which domains are closed: the row is up to date."""
        self._shut = [each.seen_closed() for each in self._domains]

    def shifted(self) -> Ints | None:
        """Return the nodes in domains that were opened or closed since the row was brought up to date; ``None``: any node may be concerned.

        It is up to date again when those are.
        """
        before = self._shut
        if self.follows_nodes or len(before) != len(self._domains):
            return None
        self.note_domains()
        return _changed(before, self._shut)

    def shift_scores(self) -> None:
        """Note that tasks started or ended that the terms count."""
        if not self._only_domains:
            self.forget_scores()
        self.orders = None

    def note_values(self) -> None:
        """Note what the domains are worth: the scores are up to date."""
        self._worth = [each.seen_values() for each in self._valued]

    def rescored(self) -> Ints | None:
        """Return the nodes in domains whose worth changed since the scores were brought up to date; ``None``: all."""
        if not self._valued:
            return NOBODY
        before = self._worth
        self.note_values()
        return _changed(before, self._worth) if len(before) == len(self._worth) else None

    def order(self, size: int) -> list[Floats]:
        """Return ``orders``, each of ``size`` places."""
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
        """Return 1 + the place of the first predicate that excludes each of the nodes, 0 for none; ``facts``: also static ones."""
        if facts:
            self.first[places] = self._ask(False, places)
        first = self.first[places]
        if self.dynamic:
            moving = self._ask(True, places)
            first = np.where((moving > 0) & ((first == 0) | (moving < first)), moving, first)
        return first

    def first_from_nothing(self) -> Firsts:
        """Return ``first_excluding`` of all nodes, without cached results."""
        n = self._cluster.node_count
        self.first = np.zeros(n, np.int8)
        return self.first_excluding(np.arange(n), True)

    def _ask(self, dynamic: bool, places: Ints) -> Firsts:
        first = np.zeros(len(places), np.int8)
        for i in range(len(self.predicates) - 1, -1, -1):
            if self.predicates[i].dynamic == dynamic:
                first[self.predicates[i].excludes(places)] = min(i + 1, LAST_PLACE)
        return first

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
        # + 0 makes 0 of -0: scores are compared by their bits.
        return total + np.float32(0)

    def rules(self) -> Rules:
        """Return what the clauses ask of all tasks of a gang together; terms of a positive weight are preferences."""
        return rules_of(self.predicates, (term for weight, term in self._terms if weight > 0))

    @property
    def has_rules(self) -> bool:
        """The answer whether hard clauses compare the domains of all tasks of a gang."""
        return any(each.compares for each in self.predicates)

    def caps(self) -> Ints:
        """Return, per node, the limit of copies that may start there together; empty: any number."""
        return least(each.caps() for each in self.predicates)


def _changed(before: list[DomainsSeen], now: list[DomainsSeen]) -> Ints | None:
    """Return the nodes in domains of which something else is seen now; ``None`` if the domains are others, or most nodes are concerned."""
    places: list[Ints] = []
    for (then, old), (domains, new) in zip(before, now, strict=True):
        if then is not domains:
            return None
        if old is not new:
            numbers = np.flatnonzero(old != new)
            if len(numbers):
                places.append(domains.members(numbers))
    if not places:
        return NOBODY
    return places[0] if len(places) == 1 else np.unique(np.concatenate(places))


def rules_of(hard: Iterable[Predicate], soft: Iterable[Predicate], *, empty: bool = False) -> Rules:
    """Return what predicates ask of all tasks of a gang together; ``empty``: while no other task runs."""
    return Rules(
        tuple(rule for each in hard for rule in each.rules(empty=empty)),
        tuple(rule for each in soft for rule in each.rules(empty=empty)),
    )


def least(bounds: Iterable[Ints | None]) -> Ints:
    """Return the smallest of these bounds per node; empty if there are none."""
    smallest: Ints = np.zeros(0, np.int64)
    for bound in bounds:
        if bound is not None:
            smallest = np.minimum(smallest, bound) if len(smallest) else bound
    return smallest
