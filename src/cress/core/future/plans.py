"""Conservative backfill: every waiting job has a planned start, made in queue order, that delays no job before it.

When nodes get more free amounts, jobs are planned again in queue order while all other plans stay in force: each job
can at least keep its place, so none moves later. Only changed nodes can allow an earlier start.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.future.timeline import ALL, NO_PLAN, Slot, Timeline
from cress.core.groups.running_limits import that_may_start
from cress.core.jobs import GroupState, JobEntry, Reservation
from cress.core.kernels.holding import STAMP
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.model.times import NEVER

# The number of tasks of one array planned at once; the rest is planned as these start.
MOST_TASKS = 256


class Freer:
    """Nodes with more free amounts than before, also as an array for kernels."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = set(nodes)
        self.places: Ints = np.array(sorted(self._nodes), np.int64)

    def __contains__(self, f: int) -> bool:
        return f in self._nodes

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add(self, nodes: Iterable[int]) -> None:
        """Add nodes with more free amounts."""
        self._nodes.update(nodes)
        self.places = np.array(sorted(self._nodes), np.int64)


class GroupPlan:
    """The planned units of one group: reservations by job, in queue order, in a view of their own.

    ``stamp``, ``loosened`` and ``usable`` are those of the cluster when all units were last planned again.
    """

    def __init__(self, view: int) -> None:
        self.view = view
        self.units: dict[int, list[Reservation]] = {}
        self.stamp = -1
        self.loosened = -1
        self.usable = -1
        # Nodes that became freer before ``stamp``, which does not show them.
        self.freer: set[int] = set()


class Plans:
    """The plans of all groups with conservative backfill."""

    def __init__(self, cluster: Cluster, fit: Fit, timeline: Timeline) -> None:
        self.cluster = cluster
        self.fit = fit
        self.timeline = timeline
        self.by_group: dict[str, GroupPlan] = {}
        self._views = 0

    def keep(self, names: list[str]) -> None:
        """Drop the plans of all other groups."""
        for name in [name for name in self.by_group if name not in names]:
            for units in self.by_group.pop(name).units.values():
                for unit in units:
                    self.timeline.drop(unit)

    def reconsider(self) -> None:
        """Plan every unit again: the change was on no node, and may let any of them start earlier."""
        for plan in self.by_group.values():
            plan.stamp = -1

    def plan_of(self, name: str) -> GroupPlan:
        """Return the plan of a group, at first an empty one."""
        plan = self.by_group.get(name)
        if plan is None:
            self._views += 1
            plan = self.by_group[name] = GroupPlan(ALL + self._views)
        return plan

    def due(self, group: GroupState, now: int, jobs: list[JobEntry], *, beside_others: bool) -> Reservation | None:
        """Update the group's plan for these jobs; return the first unit with a due start and room.

        ``beside_others``: reservations of other groups are in force, perhaps newer than the plan.
        """
        plan = self.plan_of(group.name)
        self.timeline.view = plan.view
        try:
            return self._due(plan, list(that_may_start(group, jobs)), now, beside_others)
        finally:
            self.timeline.view = NO_PLAN

    def _due(self, plan: GroupPlan, jobs: list[JobEntry], now: int, beside_others: bool) -> Reservation | None:
        cluster = self.cluster
        gone = self._match_queue(plan, jobs)
        freer = Freer(())
        loosened = plan.loosened != cluster.loosened
        if loosened or gone:
            # After an end, every unit that can is moved earlier, once, in queue order.
            freer = Freer(gone | self.changed_since(plan))
            plan.freer.clear()
            plan.stamp = cluster.stamp
            plan.loosened = cluster.loosened
        replan = plan.usable != cluster.usable_changes
        plan.usable = cluster.usable_changes
        for job in jobs:
            units = plan.units.setdefault(job.job.id, [])
            for i, unit in enumerate(units):
                if job.shape.match is not None and self.fit.excludes_any(job.shape, unit.nodes):
                    units[i] = self._moved(plan, unit, freer, now)
                elif replan or freer or (loosened and not unit.rows):
                    units[i] = self._better(plan, unit, freer, replan, now)
            wanted = min(job.units, MOST_TASKS)
            while len(units) < wanted:
                units.append(self._reserve(plan, job, self._earliest(job, now)))
        for job in jobs:
            units = plan.units[job.job.id]
            for i, unit in enumerate(units):
                if beside_others and self._could_start(unit, now) and not self._holds(unit, now):
                    unit = units[i] = self._moved(plan, unit, freer, now)
                if self._could_start(unit, now):
                    return unit
        return None

    def _could_start(self, unit: Reservation, now: int) -> bool:
        return unit.start <= now and bool(unit.nodes) and self.fit.has_room(unit.job.shape, unit.nodes)

    def _holds(self, unit: Reservation, now: int) -> bool:
        """Return True if the unit delays no reservation with its planned start."""
        unit.stamp = -1  # its nodes did not change, but reservations on them may have
        self.timeline.enforce(unit, False)
        holds = self.timeline.holds(unit, unit.job.duration, now)
        self.timeline.enforce(unit, True)
        return holds

    def changed_since(self, plan: GroupPlan) -> set[int]:
        """Return the nodes that may have more free amounts since the last update of the plan."""
        changed = self.cluster.nodes[: self.cluster.node_count, STAMP] > plan.stamp
        return plan.freer.union(np.flatnonzero(changed).tolist())

    def started(self, group: GroupState, unit: Reservation) -> None:
        """Remove the plan of a unit that starts, because its leases replace the bookings."""
        self.timeline.drop(unit)
        self.by_group[group.name].units[unit.job.job.id].remove(unit)

    def forget(self, job: JobEntry) -> None:
        """Drop the plans of a job with changed constraints, so that its units are planned again and others may use the
        room.
        """
        plan = self.by_group.get(job.group.name)
        if plan is not None:
            for unit in plan.units.pop(job.job.id, ()):
                plan.freer.update(f for f, _ in unit.nodes)
                self.timeline.drop(unit)

    def planned_start(self, job: JobEntry) -> int | None:
        """Return the earliest planned start of a job's units (µs); ``None`` if unknown."""
        plan = self.by_group.get(job.group.name)
        starts = [unit.start for unit in plan.units.get(job.job.id, ()) if unit.rows] if plan else []
        return min(starts, default=None)

    def soonest_but(self, job: JobEntry) -> JobEntry | None:
        """Return the job with the earliest start among the other jobs in the plan of its group."""
        plan = self.by_group.get(job.group.name)
        units = [unit for others in plan.units.values() for unit in others] if plan else []
        planned = ((unit.start, unit.job.job.id, unit.job) for unit in units if unit.rows and unit.job is not job)
        return min(planned, default=(0, 0, None))[2]

    def _match_queue(self, plan: GroupPlan, jobs: list[JobEntry]) -> set[int]:
        """Drop the plans of units that no longer wait; return the nodes that this freed."""
        waiting = {job.job.id: job for job in jobs}
        freer: set[int] = set()
        for number in list(plan.units):
            job = waiting.get(number)
            units = plan.units[number]
            if job is None or (units and units[0].job.shape is not job.shape):
                keep = 0
            else:
                keep = job.units
            while len(units) > keep:
                gone = units.pop()
                freer.update(f for f, _ in gone.nodes)
                self.timeline.drop(gone)
            if not units:
                del plan.units[number]
        return freer

    def _better(self, plan: GroupPlan, unit: Reservation, freer: Freer, replan: bool, now: int) -> Reservation:
        """Return the unit's plan, moved to an earlier start if the freer nodes allow one.

        It is planned again if its place is lost: a node was lost, or another group took it.
        """
        job, timeline = unit.job, self.timeline
        stands = bool(unit.rows) and not replan
        single = job.shape.size == 1
        if stands and single and unit.nodes[0][0] not in freer:
            # Its own booking is on other nodes, so the question need not exclude it.
            slot = timeline.earliest_among(freer.places, job.shape, job.duration, now, job.group.asker)
            if _not_earlier(slot, unit):
                return unit
        timeline.enforce(unit, False)
        if stands and any(f in freer for f, _ in unit.nodes):
            stands = timeline.holds(unit, job.duration, now)
        if not stands:
            slot = None
        elif single:
            slot = timeline.earliest_among(freer.places, job.shape, job.duration, now, job.group.asker)
        else:
            slot = timeline.earliest(job.shape, job.duration, now, unit.start + 1, job.group.asker)
        if stands and _not_earlier(slot, unit):
            timeline.enforce(unit, True)
            unit.stamp = self.cluster.stamp
            return unit
        self._leave(plan, unit, freer)
        return self._reserve(plan, job, slot or self._earliest(job, now))

    def _moved(self, plan: GroupPlan, unit: Reservation, freer: Freer, now: int) -> Reservation:
        """Plan the unit again, because it can no longer start in its place."""
        self._leave(plan, unit, freer)
        return self._reserve(plan, unit.job, self._earliest(unit.job, now))

    def _leave(self, plan: GroupPlan, unit: Reservation, freer: Freer) -> None:
        """Free the unit's place, for units behind it now, and for those before it when all are planned again."""
        self.timeline.drop(unit)
        nodes = [f for f, _ in unit.nodes]
        freer.add(nodes)
        plan.freer.update(nodes)

    def _earliest(self, job: JobEntry, now: int) -> Slot | None:
        return self.timeline.earliest(job.shape, job.duration, now, asker=job.group.asker)

    def _reserve(self, plan: GroupPlan, job: JobEntry, slot: Slot | None) -> Reservation:
        if slot is None:
            return Reservation(job=job, start=NEVER, nodes=[], stamp=self.cluster.stamp, view=plan.view)
        unit = Reservation(job=job, start=slot.start, nodes=slot.nodes, stamp=self.cluster.stamp, view=plan.view)
        self.timeline.reserve(unit, job.duration)
        return unit


def _not_earlier(slot: Slot | None, unit: Reservation) -> bool:
    # At equal starts the first registered nodes win, each with as many copies as it takes, as in a first plan.
    return slot is None or (slot.start, _filled(slot.nodes)) >= (unit.start, _filled(unit.nodes))


def _filled(nodes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(f, -count) for f, count in nodes]
