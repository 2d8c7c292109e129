"""Conservative backfill: every waiting job has a planned start, made in queue order, that delays none before it.

When something that may help happens (``cluster.loosened``), jobs are planned again in queue order while all other
plans stay in force: a job's old place is still there, so none moves later.
"""

from __future__ import annotations

from cress.core.cluster import Cluster
from cress.core.groups import GroupState
from cress.core.jobs import JobState
from cress.core.timeline import Reservation, Timeline
from cress.model.times import NEVER

# Tasks of one array that are planned at once; the rest is planned as these start.
MOST_TASKS = 256


class GroupPlan:
    """The planned units of one group: per job its reservations, in queue order."""

    def __init__(self) -> None:
        self.units: dict[int, list[Reservation]] = {}
        self.loosened = -1


class Plans:
    """The plans of all groups with conservative backfill."""

    def __init__(self, cluster: Cluster, timeline: Timeline) -> None:
        self.cluster = cluster
        self.timeline = timeline
        self.by_group: dict[str, GroupPlan] = {}

    def due(self, group: GroupState, now: int) -> Reservation | None:
        """Bring the group's plan up to date; the first unit whose start has come and that has room."""
        plan = self.by_group.setdefault(group.name, GroupPlan())
        self._enforce(plan, True)
        jobs = group.policy.looked_at()
        self._match_queue(plan, jobs)
        again = plan.loosened != self.cluster.loosened
        plan.loosened = self.cluster.loosened
        for job in jobs:
            units = plan.units.setdefault(job.job.id, [])
            if again:
                for i, unit in enumerate(units):
                    units[i] = self._plan(job, now, unit)
            wanted = 1 if job.job.gang else min(job.waiting, MOST_TASKS)
            while len(units) < wanted:
                units.append(self._plan(job, now, None))
        for job in jobs:
            for unit in plan.units[job.job.id]:
                if unit.start <= now and unit.nodes and self.cluster.has_room(job.shape, unit.nodes):
                    return unit
        return None

    def rest(self, group: GroupState) -> None:
        """The group's turn is over: others need not heed its plan."""
        plan = self.by_group.get(group.name)
        if plan is not None:
            self._enforce(plan, False)

    def started(self, group: GroupState, unit: Reservation) -> None:
        """A planned unit starts: its place is taken by the unit itself."""
        self.timeline.drop(unit)
        self.by_group[group.name].units[unit.job.job.id].remove(unit)

    def forget(self) -> None:
        """Drop all plans; they are made again from the queues."""
        for plan in self.by_group.values():
            for units in plan.units.values():
                for unit in units:
                    self.timeline.drop(unit)
        self.by_group.clear()

    def planned_start(self, job: JobState) -> int | None:
        """The earliest planned start of a job's units, if one is known."""
        plan = self.by_group.get(job.group.name)
        starts = [unit.start for unit in plan.units.get(job.job.id, ()) if unit.rows] if plan else []
        return min(starts, default=None)

    def _match_queue(self, plan: GroupPlan, jobs: list[JobState]) -> None:
        """Drop the plans of units that do not wait any more."""
        waiting = {job.job.id: job for job in jobs}
        for number in list(plan.units):
            job = waiting.get(number)
            units = plan.units[number]
            if job is None:
                keep = 0
            else:
                keep = 1 if job.job.gang else job.waiting
                if units and units[0].job.shape is not job.shape:
                    keep = 0
            while len(units) > keep:
                self.timeline.drop(units.pop())
            if not units:
                del plan.units[number]

    def _plan(self, job: JobState, now: int, old: Reservation | None) -> Reservation:
        if old is not None:
            self.timeline.drop(old)
        slot = self.timeline.earliest(job.shape, job.limit, now)
        if slot is None:
            return Reservation(job, NEVER, [], self.cluster.stamp)
        unit = Reservation(job, slot.start, slot.nodes, self.cluster.stamp)
        self.timeline.reserve(unit, job.limit)
        return unit

    def _enforce(self, plan: GroupPlan, on: bool) -> None:
        for units in plan.units.values():
            for unit in units:
                self.timeline.enforce(unit, on)
