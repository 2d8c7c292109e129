"""Necessary conditions for a start, by which changes that cannot help are left out without a trial.

Each trial costs a fork. What passes here is tried nevertheless, so a condition may be too weak, but never too strong.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.books import Books
from cress.core.jobs import Attempt, JobEntry
from cress.core.placing.gangs import in_any_order
from cress.model.resources import ResourceVector


class Prospects:
    """The room for the next unit of a waiting job, and the unit that its group offers before it."""

    def __init__(self, core: Books, job: JobEntry) -> None:
        self._core = core
        self._job = job
        match = job.shape.match
        # Parts, companions, leases, and clauses about what runs make room in ways that amounts do not show.
        by_tasks = match is not None and match.depends_on_tasks
        self._simple = not (job.job.parts or job.companions or core.pool.leases or by_tasks)
        # Of a unit with rules about all its tasks it is only known whether it fits as a whole.
        self._counts = self._simple and in_any_order(job.shape)
        self._room = core.fit.copies_free(job.shape) if self._simple else 0
        group, policy = job.group, job.group.policy
        first = group.offered if group.visited == core.pass_number else None
        in_order = policy.keeps_order and not policy.offers_more and not policy.overtakes
        # A unit that must start before it, since its group keeps the order of submission. A job before that unit was
        # passed over, and would not be after a change. The queue may be long, so it is read only for such a group.
        self._first = first if in_order and job.queued and first is not job else None
        if self._first is not None and next((other for other in policy if other is job or other is first), None) is job:
            self._first = None

    @property
    def has_room(self) -> bool:
        """True if a change that makes no room could help."""
        return not self._simple or self._room >= self._job.shape.size

    @property
    def may_move(self) -> bool:
        """True if the job could start in another group, where other clauses of nodes and jobs apply to it."""
        return self.has_room or self._job.shape.match is not None

    @property
    def may_change(self) -> bool:
        """True if the job could start in its group, submitted anew with a change; the first unit does not start now."""
        return self._first is None

    def with_node(self, capacity: ResourceVector) -> bool:
        """Return True if one more node of this capacity could help."""
        request = self._job.job.request
        copies = min((has // asked for has, asked in zip(capacity, request, strict=True) if asked), default=2**31)
        return self._with(copies)

    def with_end(self, attempts: Iterable[Attempt]) -> bool:
        """Return True if the end of these attempts could help."""
        if self.has_room:
            # It waits for something else, which may end with them.
            return True
        cluster = self._core.cluster
        asked = [(i, amount) for i, amount in enumerate(self._job.job.request) if amount]
        freed: dict[int, list[int]] = {}
        for attempt in attempts:
            sums = freed.setdefault(attempt.node, [0] * cluster.k_count)
            for i, amount in enumerate(attempt.amounts):
                sums[i] += amount
        gained = 0
        for f, more in freed.items():
            # Plain numbers: hundreds of jobs are asked about, each on a node or two.
            free = cluster.free_now()[f].tolist()
            before = min((max(0, free[i]) // amount for i, amount in asked), default=2**31)
            after = min(((free[i] + more[i]) // amount for i, amount in asked), default=2**31)
            gained += max(0, after - before)
        return self._with(gained)

    def _with(self, copies: int) -> bool:
        """Return True if so many copies more could let the unit start."""
        if not self._counts:
            return True
        size, room = self._job.shape.size, self._room + copies
        # A unit of the same shape that is first takes its part of the room.
        ahead = size if self._first is not None and self._first.shape is self._job.shape else 0
        return room >= size + ahead
