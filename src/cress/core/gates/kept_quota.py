"""The part of its quota that a group keeps for its due unit (design note 0011)."""

from __future__ import annotations

from cress.core.advance.gaps import kept_off_until
from cress.core.books import Books
from cress.core.gates.gate import Gate
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.jobs import GroupState, JobEntry
from cress.core.placing.vetoes import Verdict
from cress.model.job import KEPT_RUNNING
from cress.model.times import NEVER


class KeptQuota(Gate[JobEntry]):
    """The part of its quota that a ``group`` keeps for its due unit during one pass, like a reservation of nodes.

    The unit comes within the quota as tasks of its group end. A unit of the group does not start if it would still run
    then and leave the due unit beyond the quota. Nothing is kept if services leave too little of the quota.
    """

    verdict = Verdict.BEHIND
    of_owner = True

    def __init__(self, core: Books) -> None:
        super().__init__(core)
        self.group: GroupState | None = None
        self._due: JobEntry | None = None
        # The excess of the due unit over the quota now, per measure.
        self._beyond: list[int] = []
        # Known bounds: units that end by the first time (µs) may start, units that end at the second or later may not.
        self._open_until, self._closed_from = 0, 0

    def forget(self) -> None:
        """Stop keeping quota."""
        self.group = self._due = None

    def keep_for(self, due: JobEntry) -> None:
        """Keep quota for a due unit that is within the quota of its group by itself."""
        group = self.group = due.group
        self._due = due
        unit = charge_of_tasks(due, due.shape.size, self._core.cluster)
        self._beyond = [
            used + claimed + more - quota
            for used, claimed, more, quota in zip(group.used, group.claimed, unit, group.quota, strict=True)
        ]
        # While an advance reservation keeps the due unit off, what ends before it does not put the unit off.
        self._open_until = kept_off_until(self._core, due) or self._core.now
        self._closed_from = 2 * NEVER

    def find(self, job: JobEntry) -> JobEntry | None:
        """Return the due unit of the group if a job may not start because of it, else ``None``."""
        if job.group is not self.group or job is self._due:
            return None
        own = charge_of_tasks(job, job.shape.size, self._core.cluster)
        if all(beyond + more <= 0 for beyond, more in zip(self._beyond, own, strict=True)):
            return None
        end = self._core.now + job.duration
        if self._open_until < end < self._closed_from:
            if self._is_within_before(self.group, end):
                self._closed_from = end
            else:
                self._open_until = end
        return self._due if end >= self._closed_from else None

    def _is_within_before(self, group: GroupState, time: int) -> bool:
        """Return True if the ends expected before ``time`` (µs) bring the due unit within the quota."""
        for i, more in enumerate(self._beyond):
            left = more
            for attempt in group.attempts.values():
                if left <= 0:
                    break
                if attempt.expected < time and attempt.job.job.type not in KEPT_RUNNING:
                    left -= attempt.charge[i]
            if left > 0:
                return False
        return True
