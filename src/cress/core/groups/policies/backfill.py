"""BackFill: FIFO, but units that fit beside the reservation of the head may start now.

EASY reserves for the head only; conservative backfill plans a start for every waiting job (``plans.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from cress.core.groups.policies.base import PassedOver, Policy, first_places, nobody
from cress.core.groups.policies.counted_queue import CountedQueue
from cress.core.groups.policies.queue import GAP, J
from cress.core.kernels.holding import next_candidate
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.group import Group
from cress.model.options import Options

# No longer than the duration at a position without a job, so that no scan stops there.
_UNBOUNDED = GAP


class BackfillPolicy(Policy[J]):
    """Policy that offers all jobs, in order.

    For each shape it remembers a bound: a unit with at least that duration has failed, and a longer one fits even less
    beside a reservation. A bound holds while ``memo`` is the same and the queue has a job of the shape, because a
    restored copy has only these shapes, in other rows.
    """

    offers_more = True
    keeps_order = True

    def __init__(self, fit: Fit, depth: int, *, conservative: bool) -> None:
        super().__init__()
        self.queue: CountedQueue[J] = CountedQueue()
        self.plans = conservative
        self._fit = fit
        self._depth = depth
        self._bound: Ints = np.zeros(0, np.int64)
        self._memo: tuple[int, tuple[int, ...]] | None = None

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        return cls(fit, options.backfill_depth, conservative=options.backfill == "conservative")

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver = nobody) -> Iterator[J]:
        self._refresh_bounds(memo)
        queue, bound = self.queue, self._bound
        if queue.count == 1:
            return
        rows, durations = self._fit.cluster.rows, self._durations()
        last = self._last(passed_over)
        place = queue.first + 1
        while True:
            place = next_candidate(queue.rows, durations, place, last, bound, rows)
            if place < 0:
                return
            job = queue.at(place)
            assert job is not None
            self.spared = False
            yield job
            # The generator goes on, so the job was not placed.
            if memo is not None and not self.spared:
                row, duration = job.shape.row, job.duration
                bound[row] = min(int(bound[row]), duration)
            place += 1

    def _offered_in(
        self, places: Iterable[int], head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver
    ) -> Iterator[J]:
        """Yield the jobs at these positions, in this order, that may be offered behind ``head``.

        For orders other than that of the queue.
        """
        offered = None if self._covers_all() else {job.key for job in self.looked_at(passed_over)}
        for place in places:
            job = self.queue.at(place)
            assert job is not None
            row, duration = job.shape.row, job.duration
            if job is head or duration >= self._bound[row] or (offered is not None and job.key not in offered):
                continue
            self.spared = False
            yield job
            # The generator goes on, so the job was not placed.
            if memo is not None and not self.spared:
                self._bound[row] = min(int(self._bound[row]), duration)

    def _refresh_bounds(self, memo: tuple[int, tuple[int, ...]] | None) -> None:
        """Keep the bounds if the cluster has not changed since they were learned, else drop them."""
        more = len(self._fit.cluster.rows) - len(self._bound)
        if more:
            self._bound = np.concatenate([self._bound, np.full(more, _UNBOUNDED, np.int64)])
        if memo is None or memo != self._memo:
            self._bound.fill(_UNBOUNDED)
            self._memo = memo

    def remove(self, job: J) -> None:
        self._forget_unless_waiting(self.queue.remove(job))

    def reshaped(self, job: J) -> None:
        row = int(self.queue.rows[self.queue.position(job)])
        super().reshaped(job)
        self._forget_unless_waiting(row)

    def _forget_unless_waiting(self, row: int) -> None:
        """Drop the bound of a row that no job of the queue has any more."""
        if row < len(self._bound) and not self.queue.waiting[row]:
            self._bound[row] = _UNBOUNDED

    def _durations(self) -> Ints:
        """Return the planned duration of each job by position (µs); ``GAP`` where there is none."""
        return self.queue.limits

    def looked_at(self, passed_over: PassedOver = nobody) -> list[J]:
        return list(self if self._covers_all() else first_places(self, self._depth + 1, passed_over))

    def looks_at(self, job: J, passed_over: PassedOver = nobody) -> bool:
        return self._covers_all() or job in self.looked_at(passed_over)

    def memory(self) -> tuple[tuple[int, tuple[int, ...]] | None, list[tuple[int, int]]]:
        """Return the memo and the bounds by row, which a copy needs to make the same offers."""
        bounds = [(row, bound) for row, bound in enumerate(self._bound.tolist()) if bound != _UNBOUNDED]
        return self._memo, bounds

    def remember(self, memo: tuple[int, tuple[int, ...]] | None, bounds: list[tuple[int, int]]) -> None:
        """Take over the memory of a copy, with the rows of this cluster."""
        self._memo = memo
        self._bound = np.full(len(self._fit.rows), _UNBOUNDED, np.int64)
        for row, bound in bounds:
            self._bound[row] = bound

    def count_lacking(self, fit: Fit, counts: Ints) -> None:
        # Every job in its range is offered.
        if self._last() == self.queue.end:
            self.queue.count_all_lacking(fit, counts)
        else:
            self.queue.count_lacking(fit, counts, self._last())

    def _covers_all(self) -> bool:
        return not self._depth or self.queue.count <= self._depth + 1

    def _last(self, passed_over: PassedOver = nobody) -> int:
        """Return the position behind the last job that may be offered."""
        return self.queue.end if self._covers_all() else self.queue.position(self.looked_at(passed_over)[-1]) + 1
