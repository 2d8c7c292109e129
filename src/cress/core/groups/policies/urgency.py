"""Urgency: the job with the nearest deadline, in relation to its remaining time, goes first (source S, design note
0023).

Behind a head that does not fit, the others are offered in the same order beside its reservation, as in EASY backfill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Self

import numpy as np

from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.base import MOST_AHEAD, PassedOver, Policy, nobody
from cress.core.groups.policies.most_urgent import MostUrgent
from cress.core.groups.policies.queue import GAP, J, QueuedJob
from cress.core.groups.policies.ranked_queue import RankedQueue
from cress.core.job_times import longest_left, shortest_left
from cress.core.kernels.urgency import DEADLINES, RUNS
from cress.core.placing.fit import Fit
from cress.model.group import Group
from cress.model.options import Options


def _measures(job: QueuedJob) -> tuple[int, ...]:
    return job.deadline, job.run, shortest_left(job), longest_left(job)


class UrgencyPolicy(BackfillPolicy[J]):
    """Policy that offers all jobs by urgency; equally urgent ones go by submit time.

    ``late`` is the urgency of a job that can no longer meet its deadline.
    """

    timed = True
    overtakes = True
    keeps_order = True

    by_deadline = False
    measures = staticmethod(_measures)
    columns = 4

    def __init__(self, fit: Fit, depth: int, late: float, *, backfills: bool = True) -> None:
        super().__init__(fit, depth, conservative=False)
        self.offers_more = backfills
        self.queue: RankedQueue[J] = RankedQueue(self.columns, self.measures)
        self._most_urgent = MostUrgent(late, by_deadline=self.by_deadline)
        # The position of the head; invalid once ``_known`` is False or the time ``_until`` has come.
        self._head = -1
        self._known = False
        self._until: int | None = None

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        return cls(
            fit, options.backfill_depth, 1.0 if options.late == "urgent" else 0.0, backfills=options.backfill != "off"
        )

    def pass_time(self, now: int) -> bool:
        if now != self.now and (self._until is None or now >= self._until):
            self._known = False
        self.now = now
        return False

    def next_change(self) -> int:
        self._look()
        if self._until is None:
            self._until = self._most_urgent.next_change(self.queue, self._head, self.now)
        return self._until

    def head(self) -> J | None:
        self._look()
        return self.queue.at(self._head) if self._head >= 0 else None

    def __iter__(self) -> Iterator[J]:
        places = np.flatnonzero(self.queue.limits[: self.queue.end] != GAP)
        return (
            job
            for place in self._most_urgent.order(self.queue, places, self.now)
            if (job := self.queue.at(place)) is not None
        )

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver = nobody) -> Iterator[J]:
        self._look()
        queue = self.queue
        self._refresh_bounds(memo)
        durations = queue.values[RUNS] if head.is_predicted else queue.limits
        places = self._most_urgent.that_fit(queue, durations, self._bound, self._fit.cluster.rows, self.now)
        return self._offered_in(places, head, memo, passed_over)

    def looked_at(self, passed_over: PassedOver = nobody) -> list[J]:
        return super().looked_at(passed_over) if self.offers_more else Policy.looked_at(self, passed_over)

    def looks_at(self, job: J, passed_over: PassedOver = nobody) -> bool:
        if not self.offers_more:
            return Policy.looks_at(self, job, passed_over)
        return super().looks_at(job, passed_over)

    def _last(self, passed_over: PassedOver = nobody) -> int:
        return self.queue.end

    def _look(self) -> None:
        if not self._known:
            self._known = True
            self._until = None
            self._head = self._most_urgent.find(self.queue, self.now)

    def add(self, job: J) -> None:
        end = self.queue.end
        super().add(job)
        self._known = False
        place = self.queue.position(job)
        if place < end < self.queue.end:
            # The jobs behind it have moved.
            self._most_urgent.forget()
        else:
            self._most_urgent.changed(place, job.shape.row)

    def fill(self, jobs: Collection[J]) -> None:
        super().fill(jobs)
        self._known = False
        self._most_urgent.forget()

    def remove(self, job: J) -> None:
        self._changed(job)
        end = self.queue.end
        super().remove(job)
        if self.queue.end < end:
            self._most_urgent.forget()

    def reshaped(self, job: J) -> None:
        super().reshaped(job)
        self._changed(job)

    def revalued(self, job: J) -> None:
        self.queue.revalued(job)
        self._changed(job)

    def _changed(self, job: J) -> None:
        self._known = False
        self._most_urgent.changed(self.queue.position(job), job.shape.row)

    def work(self) -> int:
        return self.queue.work

    def ahead(self, job: J) -> tuple[list[J], int]:
        # A job with a nearer deadline usually becomes more urgent first.
        nearer = np.flatnonzero(self.queue.values[DEADLINES, : self.queue.end] < job.deadline)
        first = nearer[np.argsort(self.queue.values[DEADLINES][nearer], kind="stable")[:MOST_AHEAD]]
        return [other for place in first.tolist() if (other := self.queue.at(place)) is not None], len(nearer)
