"""Shapes: tasks of one shape are equal to the matcher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cress.core.kernels.holding import NONE
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.device_requests import ask_of
from cress.core.placing.match import Match
from cress.core.tables.arrays import Ints
from cress.model.resources import ResourceVector


class Shape:
    """A shape: the request, the number of tasks that start together, and their wants.

    ``row`` is its row in the fit table while it has one; ``waiting`` counts the queued jobs with the shape. ``match``
    is the match of its clauses, ``None`` without clauses. ``reach`` is the last result of ``within_reach`` and
    ``closed`` that of ``waits_for_node``, each after the state of the cluster at that time. While the cluster has the
    open nodes of ``open_at``, a unit without clauses does not wait for a node. ``kinds`` are the shapes of the kinds
    of tasks of a gang with several kinds; its own request is then the least of each amount in them, and the places of
    a unit are ordered by kind. ``least_cores`` is the least charge of a task in the accounting ``cpu``, after the state
    of the cluster for which it holds.
    """

    __slots__ = (
        "ask",
        "closed",
        "cpu_charge",
        "early",
        "kinds",
        "least_cores",
        "match",
        "open_at",
        "reach",
        "request",
        "request_array",
        "row",
        "seen",
        "size",
        "waiting",
        "wants",
    )

    def __init__(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> None:
        self.request = request
        self.request_array = np.array(request, np.int64)
        self.ask = ask_of(request, wants, size)
        self.size = size
        # The charge per task in the accounting ``cpu`` if it asks for cores only.
        self.cpu_charge: tuple[int, ...] = () if any(request[1:]) else (request[0],)
        self.wants = wants
        self.match: Match | None = None
        self.row = NONE
        self.waiting = 0
        self.early: Ints | None = None
        self.seen = -1
        # The state of the cluster at the last check, and a suitable node; NONE if there was none.
        self.reach = (-1, -1, NONE)
        self.closed = ((-1, -1, -1), NONE)
        self.open_at = -1
        self.least_cores = (-1, 0)
        self.kinds: tuple[Shape, ...] = ()

    @property
    def every_kind(self) -> tuple[Shape, ...]:
        """The shapes of its kinds of tasks: ``kinds``, or itself if all tasks are alike."""
        return self.kinds or (self,)

    def by_kind(self, nodes: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """Split the places of a unit (nodes and numbers of tasks) by kind; a shape without kinds counts as one."""
        if not self.kinds:
            return [list(nodes)]
        found: list[list[tuple[int, int]]] = [[] for _ in self.kinds]
        i, left = 0, self.kinds[0].size
        for f, count in nodes:
            found[i].append((f, count))
            left -= count
            if not left and i + 1 < len(self.kinds):
                i += 1
                left = self.kinds[i].size
        return found

    def copies(self, nodes: Iterable[tuple[int, int]]) -> Iterator[tuple[Shape, int, int]]:
        """Yield the places of a unit with the shape of the tasks on each."""
        if not self.kinds:
            for f, count in nodes:
                yield self, f, count
            return
        for kind, places in zip(self.kinds, self.by_kind(nodes), strict=True):
            for f, count in places:
                yield kind, f, count
