"""Bounds on the running tasks of groups and users."""

from __future__ import annotations

from typing import Any

from cress.core.accounts import AtBound
from cress.core.diagnostics.amounts import say_bound
from cress.core.gates.gate import Gate
from cress.core.gates.rights import fits_in_own
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.groups.limits import kept_for_others, over_max
from cress.core.groups.running_limits import limit_reached
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict
from cress.model.times import NEVER


class BoundGate(Gate[AtBound]):
    """An account at its bound keeps a unit from starting."""

    def told(self, job: JobEntry, found: AtBound) -> dict[str, Any]:
        return {"at_bound": (found,)}


class RunningLimits(BoundGate):
    """MaxRunningJobs and MaxRunningJobsPerUser."""

    verdict = Verdict.RUNNING_LIMIT
    of_owner = True

    def opens(self) -> bool:
        return self._core.groups.counted

    def find(self, job: JobEntry) -> AtBound | None:
        return limit_reached(job)


class UserLimit(BoundGate):
    """The most that one user may use of a group with ``Capacity`` (``user_limit_factor``).

    A unit counts with its charge on the cheapest nodes; on others it may cost more.
    """

    verdict = Verdict.USER_LIMIT

    def opens(self) -> bool:
        return self._core.groups.limits_users

    def find(self, job: JobEntry) -> AtBound | None:
        policy = job.group.policy
        if not policy.limits_users:
            return None
        return policy.user_at_bound(job, charge_of_tasks(job, job.shape.size, self._core.cluster))


class Bounds(BoundGate):
    """MaxQuota, and the capacity that other groups keep for themselves (Lendable).

    Amounts inside a lease of the unit's own workload are already counted.
    """

    of_owner = True

    def opens(self) -> bool:
        return bool(self._core.groups.bounded or self._core.groups.tree.keeps)

    def find(self, job: JobEntry) -> AtBound | None:
        if not job.group.limited:
            return None
        groups, cluster = self._core.groups, self._core.cluster
        bound = over_max(groups, job, cluster) if groups.bounded else None
        if bound is None and groups.tree.keeps:
            bound = kept_for_others(groups, job, cluster)
        return None if bound is None or fits_in_own(self._core, job) else bound

    def kind(self, found: AtBound) -> Verdict:
        return Verdict.MAX_QUOTA if found.account else Verdict.KEPT

    def note(self, job: JobEntry, found: AtBound) -> int:
        group = job.group
        if group.beyond is None and found.account not in ("", group.name):
            group.beyond = job, found.account
        return NEVER

    def told(self, job: JobEntry, found: AtBound) -> dict[str, Any]:
        return {**super().told(job, found), "bounded": say_bound(self._core, job, found)}
