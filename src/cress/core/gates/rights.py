"""Rights of units, within quotas or by taking room from others, and the cooling-off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cress.core.books import Books
from cress.core.fragments.search import may_use, own_room
from cress.core.gates.gate import Gate
from cress.core.groups.guarantees import charge_of_tasks, charge_where_it_fits, may_be_dear, too_dear_on
from cress.core.groups.lenders import Taker, takers_of
from cress.core.jobs import GroupState, JobEntry, Rights, has_charge_of_shape
from cress.core.placing.vetoes import Verdict
from cress.core.tree.amounts import Amounts
from cress.core.tree.kinds import is_guaranteed, within_on
from cress.core.victims_by_kind import rights_of
from cress.model.times import NEVER


def takers_for(core: Books, job: JobEntry, *, to_quota: bool = False) -> list[Taker]:
    """Return the groups that may take room from their siblings for the next unit of a job: its own and those above."""
    group, tasks = job.group, job.shape.size
    if group.kinds is not None:
        return [taker for taker, _ in rights_of(core, job, tasks, to_quota=to_quota)]
    # Asked for each blocked unit of a pass, most of them in groups that need nothing.
    node: Amounts = group
    while not node.needs_preemption():
        if node.parent is None:
            return []
        node = node.parent
    return takers_of(group, charge_of_tasks(job, tasks, core.cluster), to_quota=to_quota)


def is_within_quota(core: Books, job: JobEntry) -> bool:
    """Return True if the next unit of a job keeps its group within its quota, so that no other group can take it
    back.
    """
    group = job.group
    charge = charge_of_tasks(job, job.shape.size, core.cluster)
    if group.kinds is not None and job.shape.size == 1:
        return bool((within_on(group, job.job.request, charge) & group.kinds.open_to(job.shape)).any())
    if group.kinds is not None:
        return is_guaranteed(group, job.shape) and not is_beyond_quota(group, charge_where_it_fits(job, core.cluster))
    if group.counts_cores:
        # Asked for each unit that is offered while several groups wait.
        return group.used[0] + group.claimed[0] + charge[0] <= group.quota[0]
    return group.may_take(charge, to_quota=True)


def is_beyond_quota(group: GroupState, charge: tuple[int, ...] = ()) -> bool:
    """Return True if a group is above its quota with its claims, or with ``charge`` in a measure that this counts in.

    Use of a kind of node without a quota is borrowed.
    """
    amounts = zip(group.used, group.claimed, charge or [0] * len(group.quota), group.quota, strict=True)
    return any(
        used + claimed + more > quota
        for i, (used, claimed, more, quota) in enumerate(amounts)
        if (more or not charge) and (quota or i >= group.base)
    )


def claims_wait(group: GroupState) -> bool:
    """Return True if claimed units of a group wait until all groups that may take room were served.

    So it is beyond the quota where quotas name kinds of nodes.
    """
    return group.kinds is not None and is_beyond_quota(group)


def stays_within_quota(core: Books, job: JobEntry) -> bool:
    """Return True if the next unit of a job keeps its group within its quota on every node on which it may start."""
    group = job.group
    if not is_within_quota(core, job) or may_be_dear(job, core.cluster) or too_dear_on(job, core.cluster) is not None:
        return False
    if group.kinds is None or job.shape.size > 1:
        return True
    within = within_on(group, job.job.request, charge_of_tasks(job, 1, core.cluster))
    return bool(within[group.kinds.open_to(job.shape)].all())


def is_within_rights(core: Books, job: JobEntry, rights: Rights) -> bool:
    """Return True if the next unit of a job is within the quota of its group, or if ``rights`` let it take room.

    The group itself, or with ``Rights.ABOVE`` a group above it, could take the room.
    """
    if rights is Rights.ANY or is_within_quota(core, job):
        return True
    found = [] if rights is Rights.QUOTA else takers_for(core, job)
    return bool(found) and (rights is Rights.ABOVE or found[0].group is job.group)


def fits_in_own(core: Books, job: JobEntry) -> bool:
    """Return True if the next task of a job has room in idle parts of leases of its own workload."""
    if not core.pool.leases or not may_use(job):
        return False
    workload = core.pool.workload(job)
    return workload is not None and bool(workload.idle_on) and own_room(core, job, workload) is not None


def is_cooling(core: Books, group: GroupState) -> bool:
    """Return True if a group is in its cooling-off after a preemption."""
    return group.kept.preempted_at is not None and core.now < group.cools_until()


class HeldToRights(Gate[Rights]):
    """A group restricted to its rights: it cools off while others wait, or groups that may take room come first
    (``held_to``).
    """

    verdict = Verdict.COOLING
    of_owner = True
    between_groups = True

    def __init__(self, core: Books, must_cool: Callable[[GroupState], bool]) -> None:
        super().__init__(core)
        self._must_cool = must_cool

    def find(self, job: JobEntry) -> Rights | None:
        rights = job.group.held_to
        if rights is Rights.ANY or is_within_quota(self._core, job):
            return None
        return self._beyond(job, rights)

    def answers_alike(self, job: JobEntry) -> bool:
        return not self._core.pool.leases and has_charge_of_shape(job)

    def found_last(self, job: JobEntry) -> Rights | None:
        return self._beyond(job, Rights.ABOVE) if self._must_cool(job.group) else None

    def _beyond(self, job: JobEntry, rights: Rights) -> Rights | None:
        allowed = is_within_rights(self._core, job, rights) or fits_in_own(self._core, job)
        return None if allowed else rights

    def note(self, job: JobEntry, found: Rights) -> int:
        return job.group.cools_until() if is_cooling(self._core, job.group) else NEVER

    def told(self, job: JobEntry, found: Rights) -> dict[str, Any]:
        return {"until": job.group.cools_until(), "preempted_for": job.group.kept.preempted_for}
