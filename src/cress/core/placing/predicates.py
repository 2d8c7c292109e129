"""Predicates of hard clauses: conditions that keep a shape off nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.context import Context
from cress.core.placing.relations import Whose
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.language.clauses import Clause
from cress.language.program import Program


class Predicate:
    """A condition that keeps a shape off nodes; ``text`` is its form for people.

    A ``dynamic`` one follows what runs where; the others only what nodes are.
    """

    text = ""
    dynamic = False
    # Whether it says different things of different nodes.
    of_nodes = True
    # Whether it is about all tasks of a gang together.
    binds = False
    # Whose starts and ends anywhere may change what it says of any node.
    watches: tuple[Whose, ...] = ()

    def excludes(self, places: Ints) -> Bools:
        """Per node of ``places``, whether it keeps the shape off it at the moment."""
        raise NotImplementedError

    def never(self, places: Ints) -> Bools:
        """Per node of ``places``, whether it keeps the shape off it whatever runs where."""
        return np.zeros(len(places), np.bool_) if self.dynamic else self.excludes(places)

    def suits(self, places: Ints) -> Floats:
        """Per node of ``places``, what it counts as a term of a rank: 1 where it does not exclude the node, else 0."""
        return (~self.excludes(places)).astype(np.float32)

    def shown(self) -> str:
        """The clause as it is matched at this moment: a name of a job as its nodes."""
        return self.text

    def undefined(self, f: int) -> bool:
        """Return whether it excludes node ``f`` because its value is undefined there."""
        return False

    def caps(self) -> Ints | None:
        """Per node (as many as the cluster has), how many tasks of a gang may start there together; None: any number."""
        return None

    def caps_when_empty(self) -> Ints | None:
        """Return these caps for empty nodes."""
        return None


class Condition(Predicate):
    """An expression over one node that must be true: it may not be undefined."""

    def __init__(self, context: Context, clause: Clause) -> None:
        self.text = str(clause)
        self._cluster = context.cluster
        self._program = Program(context.columns, clause.expression)
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


# How a predicate is made of a clause, and how those are that come from no clause.
Maker: TypeAlias = Callable[[Context, Clause, Wants], Predicate]
ExtraMaker: TypeAlias = Callable[[Context, Wants], Iterable[Predicate]]
