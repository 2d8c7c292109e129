"""BackFill by estimates: an order other than that of submission, and ends predicted from earlier runs (design note
0022).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.base import PassedOver, nobody
from cress.core.groups.policies.queue import GAP, J, QueuedJob
from cress.core.groups.policies.ranked_queue import RankedQueue
from cress.core.kernels.order import OVERDUE, RUNS, candidates, first_by_factor, in_order
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.times import NEVER


def _measures(job: QueuedJob) -> tuple[int, ...]:
    return job.run, job.cost, job.submitted, job.overdue_at


class RankedBackfill(BackfillPolicy[J]):
    """EASY backfill in the order of ``backfill_order``; with ``expansion_factor`` the head follows that order too.

    In that order an overdue job becomes the head; in the others the head becomes overdue some time after its
    submission. While the head is overdue no estimate counts (``Cycle``), so no start can delay it.

    The order is that of the last change. Time alone changes it only when a job becomes overdue, so decisions do not
    depend on how often they are requested.
    """

    timed = True
    # A new estimate or longer waiting changes the place of a job.
    keeps_order = False

    def __init__(self, fit: Fit, depth: int, *, order: str, predicts: bool) -> None:
        super().__init__(fit, depth, conservative=False)
        self.queue: RankedQueue[J] = RankedQueue(OVERDUE + 1, _measures)
        self._by_factor = order == "expansion_factor"
        self._by_submit = order == "submit"
        self._predicts = predicts
        self._head: J | None = None
        # The time and the state of the cluster for which the head was found; -1 means that it is to be found again.
        self._time = 0
        self._found = -1
        # True if the queue has not changed since, so that its head is the same at the same time.
        self._same = False

    def pass_time(self, now: int) -> bool:
        self._time = now
        if now >= self._change:
            self._forget()
        return False

    def _forget(self) -> None:
        self._found = -1
        self._same = False

    def next_change(self) -> int:
        if self._found != self._fit.cluster.loosened:
            self._look()
        return self._change

    def head(self) -> J | None:
        if self._found != self._fit.cluster.loosened:
            self._look()
        return self._head

    def head_is_overdue(self) -> bool:
        """Return True if a wrong estimate must delay the head no longer."""
        if not self._predicts:
            return False
        head = self.head()
        return head is not None and head.overdue_at <= self.now

    def order_time(self) -> int | None:
        """Return the time (µs) whose order holds; ``None`` if the order is to be found again."""
        return self.now if self._found == self._fit.cluster.loosened else None

    def order_as_at(self, time: int) -> None:
        """Find the order of an earlier time (µs), which still holds."""
        self._time = time
        self._look()

    def _look(self) -> None:
        """Find the head, and the time at which the head may change or become overdue."""
        self._found = self._fit.cluster.loosened
        if self._same and self.now == self._time:
            return
        self._same = True
        self.now = self._time
        queue = self.queue
        if self._by_factor and len(queue) > 1:
            place, change = first_by_factor(queue.limits, GAP, queue.values, queue.first, queue.end, self.now)
            self._head = queue.at(place) if place >= 0 else None
            self._change = int(change)
        else:
            self._head = queue.head
            counts = self._by_factor or self._predicts
            overdue = NEVER if self._head is None or not counts else self._head.overdue_at
            self._change = overdue if overdue > self.now else NEVER

    def add(self, job: J) -> None:
        super().add(job)
        self._forget()

    def fill(self, jobs: Collection[J]) -> None:
        super().fill(jobs)
        self._forget()

    def remove(self, job: J) -> None:
        super().remove(job)
        self._forget()

    def revalued(self, job: J) -> None:
        self.queue.revalued(job)
        self._forget()

    def work(self) -> int:
        return self.queue.work

    def __iter__(self) -> Iterator[J]:
        return (job for place in self._places().tolist() if (job := self.queue.at(place)) is not None)

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver = nobody) -> Iterator[J]:
        if self._by_submit:
            yield from super().later(head, memo, passed_over)
            return
        queue = self.queue
        self._refresh_bounds(memo)
        if len(queue) == 1:
            return
        places = candidates(
            queue.rows,
            queue.limits,
            GAP,
            queue.values,
            self._by_estimates(),
            self._by_factor,
            queue.first,
            queue.end,
            self.now,
            self._bound,
            self._fit.cluster.rows,
        )
        if len(places):
            yield from self._offered_in(places.tolist(), head, memo, passed_over)

    def _by_estimates(self) -> bool:
        head = self.queue.head
        return head is not None and head.is_predicted

    def _durations(self) -> Ints:
        return self.queue.values[RUNS] if self._by_estimates() else self.queue.limits

    def _places(self) -> Ints:
        """Return the positions of all jobs in the order in which they are offered."""
        queue = self.queue
        if self._by_submit:
            return np.flatnonzero(queue.limits[: queue.end] != GAP)
        places: Ints = in_order(
            queue.limits, GAP, queue.values, self._by_estimates(), self._by_factor, queue.first, queue.end, self.now
        )
        if not self._by_factor:
            # The head is the job submitted first.
            places = np.concatenate([[queue.first], places[places != queue.first]]) if len(places) else places
        return places

    def _last(self, passed_over: PassedOver = nobody) -> int:
        return self.queue.end if not self._by_submit else super()._last(passed_over)
