"""Predicates of hard clauses: conditions that exclude nodes for a shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.gang_rules import Rule
from cress.core.placing.relations import Whose
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.domains import Domains
from cress.language.clauses import Clause, brief


class Predicate(ABC):
    """A condition that excludes nodes for a shape; ``text`` is its form for people.

    A ``dynamic`` predicate depends on running tasks, the others only on the descriptions of nodes.
    """

    text = ""
    dynamic = False
    # True if its result differs between nodes.
    of_nodes = True
    # True if ``suits`` orders the nodes that satisfy it, before any rank.
    orders = False
    # True if it applies to all tasks of a gang together.
    binds = False
    # True if it compares domains.
    compares = False
    # True if its result depends on the set of eligible domains, and so on all nodes.
    counts_eligible = False
    # True if it may have rules for all tasks of a gang together.
    ruled = False
    # True if it is a choice of nodes, and so applies to some nodes only.
    chooses = False
    # The tasks whose starts and ends anywhere may change its result on any node.
    watches: tuple[Whose, ...] = ()

    @abstractmethod
    def excludes(self, places: Ints) -> Bools:
        """Return, per node of ``places``, True if the node is excluded now."""

    def never(self, places: Ints) -> Bools:
        """Return, per node of ``places``, True if the node is excluded with any running tasks."""
        return np.zeros(len(places), np.bool_) if self.dynamic else self.excludes(places)

    def text_for(self, places: Ints) -> str:
        """Return its text for people with these nodes only, for a choice of nodes."""
        return self.text

    def suits(self, places: Ints) -> Floats:
        """Return the value of each node of ``places`` as a term of a rank: 0 if it is excluded, else 1."""
        return (~self.excludes(places)).astype(np.float32)

    def shown(self) -> str:
        """Return the clause as matched now, with nodes in place of a job name."""
        return self.text

    def undefined(self, f: int) -> bool:
        """Return True if node ``f`` is excluded because the value is undefined there."""
        return False

    def among(self, others: Sequence[Predicate]) -> None:  # noqa: B027 - most need no notice
        """Receive all predicates of the unit, including this one."""

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        """Return its rules for all tasks of a gang together; ``empty``: as if no other task ran."""
        return ()

    @property
    def domains(self) -> Domains:
        """The compared domains."""
        raise NotImplementedError

    def close(self, closed: Bools, changed: Ints) -> int:
        """Update ``closed``: per domain, True if it is closed now; the last element is for nodes without the
        attribute.

        The numbers of changed domains are written into ``changed``; returns their number.
        """
        raise NotImplementedError

    def weigh(self, weight: float, worth: Floats, changed: Ints) -> int:
        """Update ``worth``, as ``close`` does: ``weight`` times the value of each domain as a term of a rank."""
        raise NotImplementedError

    def detail(self) -> str:
        """Return a sentence about the present state for a waiting user; "" without one."""
        return ""

    def change(self, places: Ints) -> str:
        """Return a change that would let a task start on these nodes, excluded by this predicate only.

        For predicates that compare domains.
        """
        return f"without {self.text}, {len(places)} node{'s' * (len(places) > 1)} would do"

    def caps(self, *, empty: bool) -> Ints | None:
        """Return the limit of gang tasks per node that may start together; ``None`` means no limit.

        ``empty``: on empty nodes.
        """
        return None


class NodeCondition(Predicate):
    """The predicate of an expression over one node, which must be true; an undefined value excludes the node."""

    def __init__(self, context: ClauseContext, clause: Clause) -> None:
        self.text = brief(clause)
        self._cluster = context.cluster
        self._program = context.program(clause.expression)
        self.dynamic = self._program.dynamic

    def excludes(self, places: Ints) -> Bools:
        nodes = self._cluster.nodes
        if len(places) == 1:
            return np.array([self._program.truth(nodes, int(places[0])) != 1])
        out = np.empty(len(nodes), np.int8)
        self._program.truths(nodes, out, places)
        excluded: Bools = out[places] != 1
        return excluded

    def undefined(self, f: int) -> bool:
        return self._program.truth(self._cluster.nodes, f) == -1


# Makers of predicates, from a clause or from keys of the job.
Maker: TypeAlias = Callable[[ClauseContext, Clause, Wants], Predicate]
ExtraMaker: TypeAlias = Callable[[ClauseContext, Wants], Iterable[Predicate]]
