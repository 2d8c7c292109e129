"""Predicates of hard clauses: conditions that keep a shape off nodes."""

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
    """A condition that keeps a shape off nodes; ``text`` is its form for people.

    A ``dynamic`` one depends on running tasks; the others only on the descriptions of nodes.
    """

    text = ""
    dynamic = False
    # Whether its result differs between nodes.
    of_nodes = True
    # Whether the nodes that satisfy it are ordered by ``suits``, before any rank.
    orders = False
    # Whether it is about all tasks of a gang together.
    binds = False
    # Whether it compares domains: which of them count depends on all nodes.
    compares = False
    # Whether nodes that choose their jobs ask it, so that it is about some nodes only.
    chooses = False
    # The tasks whose starts and ends anywhere may change its result on any node.
    watches: tuple[Whose, ...] = ()

    @abstractmethod
    def excludes(self, places: Ints) -> Bools:
        """Return, per node of ``places``, whether it excludes it at the moment."""

    def never(self, places: Ints) -> Bools:
        """Return, per node of ``places``, whether it excludes it whatever tasks run."""
        return np.zeros(len(places), np.bool_) if self.dynamic else self.excludes(places)

    def text_for(self, places: Ints) -> str:
        """Return its text for people, with these nodes alone; of one that nodes ask."""
        return self.text

    def suits(self, places: Ints) -> Floats:
        """Return, per node of ``places``, its value as a term of a rank: 0 if it excludes the node, else 1."""
        return (~self.excludes(places)).astype(np.float32)

    def shown(self) -> str:
        """Return the clause as it is matched now, with nodes in place of the name of a job."""
        return self.text

    def undefined(self, f: int) -> bool:
        """Return whether it excludes node ``f`` because its value is undefined there."""
        return False

    def among(self, others: Sequence[Predicate]) -> None:  # noqa: B027 - most need no notice
        """Take notice of all predicates of the unit, itself among them."""

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        """Return what it asks of all tasks of a gang together; ``empty``: while no other task runs."""
        return ()

    @property
    def domains(self) -> Domains:
        """The domains that it compares."""
        raise NotImplementedError

    def close(self, closed: Bools, changed: Ints) -> int:
        """Bring ``closed`` up to date: per domain, whether it is closed at the moment, in the last place nodes without
        the attribute.

        The numbers of the domains whose answer changed are written into ``changed``; returns how many these are.
        """
        raise NotImplementedError

    def weigh(self, weight: float, worth: Floats, changed: Ints) -> int:
        """Bring ``worth`` up to date, ``weight`` times the value of each domain as a term of a rank, in the way of
        ``close``.
        """
        raise NotImplementedError

    def detail(self) -> str:
        """Return a sentence about the moment for who waits for it; "" if there is nothing to tell."""
        return ""

    def change(self, places: Ints) -> str:
        """Return what would help a task that fits on these nodes but for this predicate; of those that compare
        domains.
        """
        return f"without {self.text}, {len(places)} node{'s' * (len(places) > 1)} would do"

    def caps(self) -> Ints | None:
        """Return, per node of the cluster, the limit of tasks of a gang that may start there together; None: any
        number.
        """
        return None

    def caps_when_empty(self) -> Ints | None:
        """Return these caps for empty nodes."""
        return None


class NodeCondition(Predicate):
    """The predicate of an expression over one node, which must be true: undefined excludes the node."""

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


# Makers of predicates: of one from a clause, and of those from keys of the job.
Maker: TypeAlias = Callable[[ClauseContext, Clause, Wants], Predicate]
ExtraMaker: TypeAlias = Callable[[ClauseContext, Wants], Iterable[Predicate]]
