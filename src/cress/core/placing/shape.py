"""Shapes: tasks of one shape are alike to the matcher."""

from __future__ import annotations

import numpy as np

from cress.core.kernels.holding import NONE
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.device_requests import ask_of
from cress.core.placing.match import Match
from cress.core.tables.arrays import Ints
from cress.model.resources import ResourceVector


class Shape:
    """A shape: the request, the number of tasks that start together, and their wants.

    ``row`` is its place in the fit table while it has one; ``waiting`` counts the queued jobs that have it. ``match`` is
    the match of its clauses, ``None`` if it has none; ``reach`` is the last result of ``within_reach``, ``closed`` that of
    ``waits_for_node``, each after the state of the cluster at that time; while the cluster has the open nodes of ``open_at``, a
    unit without clauses does not wait for a node.
    """

    __slots__ = (
        "ask", "closed", "cpu_charge", "early", "match", "open_at", "reach", "request", "request_array", "row", "seen", "size",
        "used_at", "waiting", "wants",
    )  # fmt: skip

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
        self.used_at = 0
        self.early: Ints | None = None
        self.seen = -1
        # The state of the cluster at the last check, and a suitable node, NONE if there was none.
        self.reach = (-1, -1, NONE)
        self.closed = ((-1, -1, -1), NONE)
        self.open_at = -1
