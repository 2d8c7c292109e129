"""Starts in idle parts of leases of the own workload, before every queue (source F, design note 0024)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice

from cress.core.books import Books
from cress.core.fragments.search import awaited_on, may_use, own_room
from cress.core.future.reservations import drain_due
from cress.core.jobs import GroupState, GroupWorkload, JobEntry
from cress.core.kernels.holding import NONE
from cress.core.passes import Pass
from cress.core.placing.vetoes import Verdict
from cress.core.starting.starts import TaskStarts
from cress.model.times import NEVER

# The number of jobs of a group that are considered, and of each workload of which none is among these.
_LOOKED_AT = 100


class OwnParts:
    """Starts the tasks of a workload in what its leases have idle."""

    def __init__(self, books: Books, starts: TaskStarts) -> None:
        self._books = books
        self._starts = starts
        self._cluster = books.cluster
        self._pool = books.pool

    def start_any(self, current: Pass) -> bool:
        """Start a task inside a lease, in any order of groups.

        What its workload holds and does not use is lost to all others anyway, so it comes before every queue.
        """
        if not self._pool.leases:
            return False
        for workload in self._pool.workloads.values():
            for f in workload.awaited:
                job = awaited_on(self._books, workload, f)
                if job is not None and not current.refuses(job) and self.start(job):
                    return True
        idle: dict[str, list[GroupWorkload]] = {}
        for (name, _), workload in self._pool.workloads.items():
            if workload.idle_on:
                idle.setdefault(name, []).append(workload)
        return any(
            self._start_before_queue(group, idle[group.name], current)
            for group in self._books.groups
            if group.name in idle and len(group.policy)
        )

    def _start_before_queue(self, group: GroupState, idle: list[GroupWorkload], current: Pass) -> bool:
        """Start one of the first jobs of a group in idle parts of its own workload, before other units of its queue.

        Inside a workload the order of the queue holds, unless the policy offers jobs behind the first. A lease without
        a holder is not kept for longer while a unit is due, behind a unit that has waited for ``drain_after``, and
        behind a job of its workload that cannot start in leases.
        """
        books, now, head = self._books, current.now, group.policy.head()
        due = next(books.turns.due(books.jobs, now), None) is not None if books.turns.since else False
        state = (
            books.arrivals, sum(workload.stamp for workload in idle), self._cluster.loosened, due,
            0 if head is None else head.job.id, self._cluster.stamp if books.live else 0,
        )  # fmt: skip
        tried = group.tried.own
        if tried.still(state, now) and not current.gates.timed:
            current.wake_at(tried.until)
            return False
        before, current.wake = current.wake, NEVER
        started = self._start_first_in_own(group, idle, current, held_only=due)
        if not started:
            tried.note(state, current.wake)
        current.wake_at(before)
        return started

    def _start_first_in_own(
        self, group: GroupState, idle: list[GroupWorkload], current: Pass, *, held_only: bool
    ) -> bool:
        tried: set[tuple[str, int]] = set()
        passed: set[str] = set()
        for job in _looked_at(group, idle):
            workload = self._pool.workload(job)
            kind = (job.workload, job.shape.row if group.policy.offers_more else NONE)
            before, held_only = held_only, held_only or (drain_due(job, current.now) and not current.refuses(job))
            if kind in tried or workload not in idle or current.refuses(job):
                continue
            if not may_use(job):
                passed.add(job.workload)
                continue
            tried.add(kind)
            held = before or (job.workload in passed and not group.policy.offers_more)
            room = own_room(self._books, job, workload, held=held)
            if room is not None:
                self._starts.start_in(job, room)
                group.verdict = Verdict.PLACED
                return True
        return False

    def start(self, job: JobEntry, *, due: bool = False) -> bool:
        """Start the next task of a job in idle parts of leases of its own workload, if they have room."""
        workload = self._pool.workload(job) if self._pool.leases else None
        if workload is None or not workload.idle_on or not may_use(job):
            return False
        asks = job.shape.match is not None
        sign = (workload.stamp, job.job.id, self._cluster.loosened, self._cluster.stamp if asks else 0)
        if sign == workload.no_room:
            return False
        room = own_room(self._books, job, workload)
        if room is None:
            workload.no_room = sign
            return False
        self._starts.start_in(job, room, due=due)
        job.group.verdict = Verdict.PLACED
        return True


def _looked_at(group: GroupState, idle: list[GroupWorkload]) -> Iterator[JobEntry]:
    """Yield the jobs that may start in idle parts: the first ones of the queue, then those of workloads that wait
    further behind.

    Without the latter, a long queue of others would keep a workload from what it has.
    """
    first = list(islice(group.policy, _LOOKED_AT))
    yield from first
    if len(group.policy) > _LOOKED_AT:
        seen = {job.workload for job in first}
        for workload in idle:
            if workload.name not in seen:
                queued = group.parts_queued.get(workload.name, {}).values()
                yield from nsmallest(_LOOKED_AT, queued, key=lambda job: job.key)
