"""Starts of parts of frameworks while their groups cool off, where nobody else could start anything."""

from __future__ import annotations

from itertools import islice

from cress.core.books import Books
from cress.core.gates.gates import Gates
from cress.core.gates.rights import is_cooling
from cress.core.jobs import GroupState, JobEntry, Rights
from cress.core.kernels.holding import FITTING
from cress.core.making_room.evictions import Evictions
from cress.core.passes import Pass
from cress.core.starting.starter import LOOKED_AT, Starter
from cress.core.tables.arrays import Bools


class Apart:
    """Starts a preempted part of a framework as soon as there is room that no other group waits for."""

    def __init__(self, books: Books, gates: Gates, starter: Starter, evictions: Evictions) -> None:
        self._books = books
        self._gates = gates
        self._starter = starter
        self._evictions = evictions
        self._cluster = books.cluster
        self._fit = books.fit
        self._reservations = books.reservations
        self._rejoining = books.units.rejoining

    def start(self, group: GroupState, current: Pass) -> bool:
        """Start a part of a framework whose group cools off, on nodes that no waiting unit of another group could use.

        The framework goes on without its part, but it takes nothing from anybody. Return True if one started.
        """
        if group.policy.plans or not is_cooling(self._books, group):
            return False
        first = islice(group.policy, LOOKED_AT)
        if not any(job.is_part and self._cluster.rows[job.shape.row, FITTING] for job in first):
            return False
        wanted = self._gates.wanted_from(group)
        if wanted.all():
            return False
        before = group.verdict
        for job in islice(group.policy, LOOKED_AT):
            if self._refuses_besides(job, current):
                continue
            if job.is_part and self._fits_apart(job, wanted, current):
                return True
            if not group.policy.offers_more:
                break
        group.verdict = before
        return False

    def _refuses_besides(self, job: JobEntry, current: Pass) -> bool:
        """Return True if a gate refuses a unit for another reason than the cooling-off of its group."""
        group, before = job.group, job.group.held_to
        group.held_to = Rights.ANY
        try:
            return current.refuses(job)
        finally:
            group.held_to = before

    def _fits_apart(self, job: JobEntry, wanted: Bools, current: Pass) -> bool:
        """Start a unit on nodes that are not wanted by others; a gang only if it fits on none of theirs."""
        shape = job.shape
        if shape.kinds or not self._cluster.rows[shape.row, FITTING] or (self._rejoining and job.moving):
            return False
        if current.owed and self._evictions.taken_back_by(job, current) is not None:
            return False
        self._reservations.heed_for(job.group, current.ahead, current.now)
        if shape.size == 1:
            return self._starter.start_one(job, current.now, due=False, but=wanted)
        if (self._fit.free_copies(shape)[wanted] > 0).any():
            return False
        return self._starter.start_gang(job, current.now, due=False)
