"""Preemption: the choice of victims for a unit of a group below its quota (source G, steps i to k), or inside its
group.

For each candidate node: take victims in order until the unit fits, then spare in reverse order the victims that are
not needed. The node with the cheapest set wins. A *claim* keeps the freed resources for the unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cress.core.advance.covering import covering
from cress.core.books import Books
from cress.core.charging import charge_of
from cress.core.eviction import Eviction
from cress.core.groups.guarantees import charge_of_tasks, too_dear_for
from cress.core.groups.lenders import Taker, Yielding, yielding_to
from cress.core.job_times import takes_back, urgency_of
from cress.core.jobs import Attempt, GroupState, JobEntry, WorkloadLease
from cress.core.kernels.holding import AMOUNTS, NODE, NONE
from cress.core.kernels.victims import (
    JOB,
    LOSS,
    NO_NODE,
    NUMBER,
    OF,
    R_CHARGE,
    R_DEADLINE,
    R_GROUP,
    R_JOB,
    R_LIMIT,
    R_LONGEST,
    R_MINIMUM,
    R_PRIORITY,
    R_SHORTEST,
    R_START,
    R_YIELDS,
    ROWS,
    UNSET,
    WHOLE,
    cheapest_node,
    devices_hold,
    lose,
    name_victims,
)
from cress.core.placing.fit import capped, caps_beside, rules_of_unit
from cress.core.placing.gang_rules import NO_RULES, GangRules
from cress.core.placing.gangs import GangRoom, by_domains
from cress.core.placing.shape import Shape
from cress.core.placing.together import rooms_in
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, Ints
from cress.core.tree.amounts import Amounts, add_amounts
from cress.core.tree.kinds import spare_by_kind
from cress.core.urgent_cost import WITHOUT_DEADLINE, cost_of, worthwhile
from cress.core.victims_by_kind import Growth, groups_that_yield_kinds, keep_to_kinds, yields_kinds
from cress.model.group import PreemptivePolicy, SchedPolicy
from cress.model.job import JobType
from cress.model.times import NEVER

# More than any group can lose.
_ANY = 2**61
# Urgency 1.
_WHOLE = 1_000_000


def find_eviction(
    core: Books,
    job: JobEntry,
    takers: list[Taker],
    *,
    to_quota: bool = False,
    foreseen: bool = False,
    spares_new: bool = False,
) -> Eviction | None:
    """Return the victims for one unit of ``job`` on behalf of ``takers``, or ``None`` if no allowed set makes it fit.

    Victims belong to groups above quota × B, or with ``to_quota`` to any group above its quota. ``foreseen``: as if all
    tasks had run for ``min_runtime``. ``spares_new``: not tasks in the grace of their start (``Attempt.spared_until``).
    """
    yielding = _groups_that_yield(core, job, takers, to_quota=to_quota)
    # Victims of groups with a higher priority are considered only if the others do not suffice.
    priorities = sorted({each.group.spec.preempt_priority for each in yielding})
    searches: list[_VictimSearch] = []
    # Only as a last resort, the last victim takes its group below its quota.
    for beyond in (False, True):
        for i, priority in enumerate(priorities):
            if i == len(searches):
                asked = [each for each in yielding if each.group.spec.preempt_priority <= priority]
                terms = _Terms(to_quota=to_quota, foreseen=foreseen, spares_new=spares_new)
                searches.append(_VictimSearch(core, job, asked, terms))
            found = searches[i].plan(beyond=beyond)
            if found is None and searches[i].has_room:
                # All free room is kept for other units, so it does not count.
                searches[i].leave_reserved(core)
                found = searches[i].plan(beyond=beyond)
            if found is not None:
                return found
    return None


def find_exchange(core: Books, job: JobEntry, takers: list[Taker], *, to_quota: bool = False) -> Eviction | None:
    """Return victims that hold the whole request of one unit of ``job`` themselves, or ``None``.

    Free room does not count.
    """
    yielding = _groups_that_yield(core, job, takers, to_quota=to_quota)
    search = _VictimSearch(core, job, yielding, _Terms(to_quota=to_quota, spares_new=True))
    np.minimum(search.levels, 0, out=search.levels)
    return search.first_plan()


def find_eviction_within(core: Books, job: JobEntry, takers: list[Taker], *, to_quota: bool = False) -> Eviction | None:
    """Return victims of lower priority in the group of ``job``, beside the reservations in force, or ``None``.

    Victims that ``find_eviction`` may take on behalf of ``takers`` come first; they alone make too little room.
    """
    if not job.group.attempts:
        return None
    yielding = _groups_that_yield(core, job, takers, to_quota=to_quota)
    search = _VictimSearch(core, job, yielding, _Terms(to_quota=to_quota, spares_new=True), own=True)
    return search.first_plan()


def find_eviction_in_workload(core: Books, job: JobEntry) -> Eviction | None:
    """Return victims of lower priority in the workload of ``job`` (source F), beside the reservations in force, or
    ``None``.

    The jobs of a workload have equal shares (``_give_way``).
    """
    for may in _give_way(core, job):
        search = _VictimSearch(core, job, [], _Terms(only={each.slot for each in may}, spares_new=True), own=True)
        found = search.first_plan()
        if found is not None:
            if job.shape.size == 1:
                found.leased = tuple(part for each in found.attempts for part in core.pool.brought(each))
            return found
    return None


def _give_way(core: Books, job: JobEntry) -> Iterator[list[Attempt]]:
    """Yield the tasks of lower priority in the workload of ``job`` that may give way to it; more of them each time.

    First those without which every job keeps its equal share. If these do not suffice, also one more task of each job
    that has more than its share. A job takes up to its share. If nothing of it runs yet, its first unit may be larger
    than its share, and may at last take any task of lower priority. So no task is too large to give way.
    """
    tasks = [task for task in job.group.attempts.values() if task.job.workload == job.workload and not task.stopping]
    entries = {task.job.job.id: task.job for task in tasks} | {job.job.id: job}
    cost = {number: sum(claim.charge[0] for claim in entry.claims) for number, entry in entries.items()}
    for task in tasks:
        cost[task.job.job.id] += task.charge[0]
    total, first = sum(cost.values()), not cost[job.job.id]
    own = cost[job.job.id] + charge_of_tasks(job, job.shape.size, core.cluster)[0]
    if len(cost) < 2 or (own * len(cost) > total and not first):
        return
    lower = [
        task
        for task in sorted(tasks, key=lambda task: (-task.start, -task.id))
        if task.job.job.priority < job.job.priority
    ]
    within: list[Attempt] = []
    for task in lower:
        left = cost[task.job.job.id] - task.charge[0]
        if left * len(cost) >= total:
            within.append(task)
            cost[task.job.job.id] = left
    across: dict[int, Attempt] = {}
    for task in lower:
        if task not in within and cost[task.job.job.id] * len(cost) > total:
            across.setdefault(task.job.job.id, task)
    found: list[Attempt] = []
    for more in (within, [*within, *across.values()], lower if first else []):
        if len(more) > len(found):
            found = more
            yield found


def leave_to(core: Books, job: JobEntry) -> Iterator[set[int]]:
    """Yield the ids of tasks inside leases of the workload of ``job`` that may give way to it, for their lower
    priority; more of them each time.
    """
    group, now = job.group, core.now
    if group.options.preempt_within == "off":
        choices = _give_way(core, job)
    else:
        choices = iter([[
            task
            for task in group.attempts.values()
            if task.job.workload == job.workload
            and not (task.due and now < task.keeps_until)
            and group.policy.outranks(job, task.job, task.start)
            and not (group.spec.policy is SchedPolicy.URGENCY and takes_back(task.job, job, now))
        ]])  # fmt: skip
    latest = now - group.options.min_runtime
    for tasks in choices:
        yield {
            task.id
            for task in tasks
            if task.inside and task.start <= latest and task.spared_until(job) <= now
            # A gang yields only as a whole, a database never, and a service keeps its minimum.
            and not task.job.job.gang and task.job.job.type is not JobType.DATABASE and not task.job.job.minimum
        }  # fmt: skip


def find_eviction_by_urgency(
    core: Books, job: JobEntry, takers: list[Taker], *, spares_new: bool = False
) -> Eviction | None:
    """Return less urgent victims for one unit of ``job``, beside the reservations in force, or ``None`` (source S).

    The least urgent come first. They belong to groups above their quota, on behalf of ``takers``; if these do not
    suffice, also to the group of ``job``. Tasks that might then miss their own deadlines come last. Fewer of them are
    taken than ``urgency_cost``: by default none, for one deadline saved for one lost is no gain.
    """
    yielding = list(yielding_to(core.groups, job.group, takers, lambda node: node.excess() > 1))
    search = _VictimSearch(core, job, yielding, _Terms(by_urgency=True, spares_new=spares_new), own=True)
    found = search.first_plan()
    if found is None:
        return None
    lost = {victim.job.job.id for victim in found.attempts if search.loses[victim.slot]}
    if lost and len(lost) >= job.group.options.urgency_cost:
        return None
    return None if sum(cost_of(victim, core.now) for victim in found.attempts) > worthwhile(job) else found


def _groups_that_yield(core: Books, job: JobEntry, takers: list[Taker], *, to_quota: bool) -> list[Yielding]:
    """Return the groups that may be preempted for a unit of another group.

    The lowest priority comes first, then the group furthest above its quota.
    """
    if core.groups.kinds:
        return groups_that_yield_kinds(core, job, takers, to_quota=to_quota)
    preemptible = core.groups.preemptible(to_quota=to_quota)
    found = yielding_to(preemptible, job.group, takers, lambda node: node.can_be_preempted(to_quota=to_quota))
    return sorted(found, key=lambda each: each.order)


def yields_to(
    core: Books, job: JobEntry, takers: list[Taker], group: GroupState, start: Growth, *, to_quota: bool
) -> bool:
    """Return True if a group may be preempted for a unit of another group; with kinds of nodes, in this start."""
    if core.groups.kinds:
        return yields_kinds(core, job, group, start, to_quota=to_quota)
    return any(found.group is group for found in _groups_that_yield(core, job, takers, to_quota=to_quota))


class _Taken:
    """The victims of one plan: their rows as a mask and in the order in which they were taken.

    ``lost`` and ``gone`` are what groups and jobs lose by them, in the shapes of ``spare`` and ``left``.
    """

    def __init__(self, victims: int, spare: Ints, left: Ints) -> None:
        self.mask: Bools = np.zeros(victims, np.bool_)
        self.order: list[int] = []
        self.lost = np.zeros_like(spare)
        self.gone = np.zeros_like(left)


class _Terms(NamedTuple):
    """The tasks that yield in a search: less urgent ones (``by_urgency``), or those in the slots ``only``.

    ``to_quota`` allows groups above their quota but within quota × B; then victims of the first group come first on all
    nodes. ``foreseen``: no task is too young. ``spares_new``: tasks stay that are in the grace of their start.
    """

    by_urgency: bool = False
    only: set[int] | None = None
    to_quota: bool = False
    foreseen: bool = False
    spares_new: bool = False


class _VictimSearch:
    """The search: future free amounts per node, and the victims that could add to them (tables:
    ``kernels/victims.py``).

    ``yielding`` are the groups that may be preempted, in their order, followed by the group of ``job`` if ``own``.
    """

    def __init__(
        self, core: Books, job: JobEntry, yielding: list[Yielding], terms: _Terms, *, own: bool = False
    ) -> None:
        by_urgency, only, to_quota, foreseen, spares_new = terms
        cluster = core.cluster
        groups = [*(each.group for each in yielding), *([job.group] if own else ())]
        self.takers = {each.group.name: each.taker for each in yielding}
        self.chains = {each.group.name: each.chain for each in yielding}
        self.to_quota = to_quota
        self.by_urgency = by_urgency
        # By slot: tasks that might miss a deadline if they began again. Only a search by urgency asks.
        self.loses: Bools = np.zeros(0, np.bool_)
        self.job = job
        # The nodes on which the groups that yield would not yield to the unit, as it is charged too much there. A gang
        # may have some of its tasks there.
        dear = None if own else too_dear_for([each.taker for each in yielding], job, cluster)
        self.dear: Bools | None = None
        self.closed_in_turn = [None, dear] if dear is not None and job.shape.size > 1 else [dear]
        self.cluster = cluster
        self.fit = core.fit
        self.relations = core.relations
        self.levels = cluster.free_now().copy()
        # Claims own the amounts that stopping tasks will free: both are counted, so that no amount is promised twice.
        stopping = np.zeros(len(cluster.leases), np.bool_)
        for attempt in core.leaving.values():
            self.levels[attempt.node] += core.freed_by(attempt)
            stopping[attempt.slot] = True
        self.stopping = _devices_come_free(core, stopping)
        # True if the unit was found to need no victims.
        self.has_room = False
        self.claimed = np.zeros(len(self.levels), np.bool_)
        if core.advance_reservations:
            kept_ahead = core.advance_reservations.kept_from(job.group, _latest_end(core, job))
            self.claimed |= kept_ahead.any(axis=1)
            self.levels -= kept_ahead
        within = own
        kept = [claim.reservation for claim in core.claims]
        if within:
            # A unit that takes from its own group respects the reservations of others.
            kept += core.reservations.in_force(job)
        amounts = core.timeline.kept_by(kept)
        self.claimed |= amounts.any(axis=1)
        self.levels -= amounts
        others = [each.slot for each in (*core.strangers.values(), *core.foreign_use.values())]
        others += [part.slot for part in core.pool.parts()]
        core.running.refresh(core.cluster, core.groups, core.attempts, others)
        self.holders = core.holders
        self.table, self.base = core.running.table, core.running.base
        held = [lease for lease in core.pool.leases.values() if lease.is_held]
        core.running.write_idle(core.groups, held)
        self.above, self.spare = self._what_groups_can_spare(groups, yielding, to_quota=to_quota)
        job_of, self.left = self._what_jobs_can_spare(stopping)
        unit_of = self._what_yields_together(job_of, held)
        rank = {group.name: i for i, group in enumerate(groups)}
        rank_of = np.array([rank.get(name, UNSET) for name in core.groups.by_name], np.int64)
        protected = [0 if foreseen else group.options.min_runtime for group in groups]
        latest = core.now - np.array(protected, np.int64)
        self.victims: Ints = np.empty((len(self.table), LOSS + self.spare.shape[1]), np.int64)
        if by_urgency:
            stay, worth = self._worth_by_urgency(core, rank_of)
            stay = self._and_not_taking_back(stay | stopping, core.now)
        else:
            if only is not None:
                stay = stopping.copy()
                stay[[each.slot for each in core.attempts.values() if each.slot not in only]] = True
            else:
                stay = self._and_not_outranked(stopping) if within else stopping
            if within:
                stay = self._and_not_taking_back(stay, core.now)
            kind = PreemptivePolicy.LOW_PRIORITY_FIRST if within else job.group.spec.preemptive
            worth = self._worth(core, kind)
            if to_quota:
                worth = self._by_group(worth, rank_of)
        stay = self._and_not_new(stay, core, spares_new)
        if core.advance_reservations:
            sheltered = core.advance_reservations.sheltered_from(job.group)
            stay = stay | np.isin(cluster.leases[:, NODE], sheltered)
            stay[covering(core, job, _latest_end(core, job), worth)] = True
        for attempt in core.attempts.values() if core.pool.leases else ():
            if attempt.parts:
                # Loans go first.
                worth[attempt.slot] = -_ANY
        name_victims(
            self.table,
            cluster.leases,
            stay,
            job_of,
            unit_of,
            int(unit_of.max(initial=UNSET)) + 1,
            rank_of,
            latest,
            core.now,
            worth,
            self.victims,
        )
        if core.groups.kinds:
            keep_to_kinds(core, job, yielding, self.victims, by_urgency=by_urgency, to_quota=to_quota)

    def _and_not_new(self, stay: Bools, core: Books, spares_new: bool) -> Bools:
        """Return ``stay``, with ``spares_new`` also the tasks that are in the grace of their start."""
        if not spares_new:
            return stay
        # The table may have rows for slots that nothing has held yet.
        starts = self.table[: len(self.holders), R_START]
        longest = core.groups.longest_grace
        recent = np.flatnonzero((starts > core.now - longest) & (starts >= self.job.submitted)).tolist()
        holders = ((slot, self.holders[slot]) for slot in recent)
        new = [slot for slot, each in holders if isinstance(each, Attempt) and core.now < each.spared_until(self.job)]
        if new:
            stay = stay.copy()
            stay[new] = True
        return stay

    def leave_reserved(self, core: Books) -> None:
        """Count free room that is reserved for other units as taken."""
        self.has_room = False
        amounts = core.timeline.kept_by(core.reservations.in_force(self.job))
        self.claimed |= amounts.any(axis=1)
        self.levels -= np.minimum(amounts, np.maximum(self.levels, 0))

    def _worth(self, core: Books, kind: PreemptivePolicy) -> Ints:
        """Return the worth of the task in each slot; tasks with the least worth yield first."""
        if kind is PreemptivePolicy.LOW_PRIORITY_FIRST:
            return self.table[:, R_PRIORITY].copy()
        if kind is PreemptivePolicy.MOST_RECENT_FIRST:
            return core.now - self.table[:, R_START]
        return self._urgencies(core)

    def _by_group(self, worth: Ints, rank_of: Ints) -> Ints:
        """Return the worth of each slot, ordered first by the place of its group.

        The use of a group above its quota counts on all nodes.
        """
        order = np.unique(worth, return_inverse=True)[1].reshape(worth.shape)
        found: Ints = rank_of[self.table[:, R_GROUP]] * len(worth) + order
        return found

    def _worth_by_urgency(self, core: Books, rank_of: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Return the slots whose tasks stay, and the worth of each slot.

        Tasks stay that are as urgent as the unit within the margin, or belong to its job. Tasks that might miss a
        deadline which they can meet now are worth most, then those of the unit's own group.
        """
        table, job = self.table, self.job
        urgencies = self._urgencies(core)
        least = round((urgency_of(job, core.now) - job.group.options.urgency_margin) * _WHOLE)
        left = table[:, R_DEADLINE] - core.now
        # A task whose deadline is already lost has none to lose. Begun again, a task waits as well as runs: it keeps
        # its deadline only if it has as much time to wait as to run. (Without that time, far more deadlines were
        # missed where all jobs have one: note 0054.)
        self.loses = (table[:, R_DEADLINE] < NEVER) & (urgencies > 0) & (2 * table[:, R_LONGEST] > left)
        own = rank_of[table[:, R_GROUP]] == rank_of.max()
        stay = (urgencies > least) | (table[:, R_JOB] == job.job.counted_as)
        # Even without a margin, an equally urgent task stays.
        stay |= urgencies >= round(urgency_of(job, core.now) * _WHOLE)
        # Their common bound on lost work is also a bound for each of them.
        most = worthwhile(job) * np.where(table[:, R_DEADLINE] < NEVER, 1, WITHOUT_DEADLINE)
        stay |= (core.now - table[:, R_START]) * np.maximum(1.0, core.cluster.leases[:, AMOUNTS]) > most
        if job.group.options.urgency_cost <= 1:
            stay |= self.loses
        return stay, urgencies + 2 * _WHOLE * own + 4 * _WHOLE * self.loses

    def _urgencies(self, core: Books) -> Ints:
        """Return the urgency of the task in each slot by its remaining run, in millionths."""
        table, ran = self.table, core.now - self.table[:, R_START]
        longest = np.where(ran < table[:, R_LONGEST], table[:, R_LONGEST], table[:, R_LIMIT]) - ran
        late = np.array([group.options.late == "urgent" for group in core.groups])[table[:, R_GROUP]]
        left = table[:, R_DEADLINE] - core.now
        # A task that outlived its estimate ends now at best, so beyond its deadline it is late.
        lost = np.maximum(table[:, R_SHORTEST] - ran, 0) > left
        share = np.minimum(1.0, np.maximum(longest, 0) / np.maximum(left, 1))
        known = (table[:, R_DEADLINE] < NEVER) & (table[:, R_LONGEST] < NEVER)
        found: Ints = np.rint(_WHOLE * np.where(known, np.where(lost, late, share), 0.0)).astype(np.int64)
        return found

    def _and_not_outranked(self, stopping: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return ``stopping`` plus the slots of tasks in the unit's own group that its job does not outrank."""
        stay = stopping.copy()
        job, group = self.job, self.job.group
        for attempt in group.attempts.values():
            if not group.policy.outranks(job, attempt.job, attempt.start):
                stay[attempt.slot] = True
        return stay

    def _and_not_taking_back(self, stay: npt.NDArray[np.bool_], now: int) -> npt.NDArray[np.bool_]:
        """Return ``stay`` plus some slots of the unit's own group.

        Their tasks recently started as due units, or could take the room back at once by their urgency.
        """
        job, group = self.job, self.job.group
        stay = stay.copy()
        known: dict[int, bool] = {}
        for attempt in group.attempts.values():
            number = attempt.job.job.id
            if number not in known:
                known[number] = group.spec.policy is SchedPolicy.URGENCY and takes_back(attempt.job, job, now)
            if known[number] or (attempt.due and now < attempt.keeps_until):
                stay[attempt.slot] = True
        return stay

    def _what_groups_can_spare(
        self, groups: list[GroupState], yielding: list[Yielding], *, to_quota: bool
    ) -> tuple[Ints, Ints]:
        """Return, per group, the row of the group above it, and the amount per measure that it may lose down to its
        quota.

        Rows for the groups above follow. The amount is -1 in measures that a group does not have.
        """
        nodes: list[Amounts] = [*groups]
        for each in yielding:
            nodes += (node for node in each.chain[1:] if node not in nodes)
        place = {node.name: i for i, node in enumerate(nodes)}
        above = np.full(len(nodes), UNSET, np.int64)
        for each in yielding:
            for node, outer in pairwise(each.chain):
                above[place[node.name]] = place[outer.name]
        spare = np.full((len(nodes), self.table.shape[1] - R_CHARGE), -1, np.int64)
        for i, node in enumerate(nodes):
            # The room stays within the unit's own group, so its quota sets no bound.
            if node is self.job.group:
                spare[i] = _ANY
            elif node.kinds is not None:
                spare[i] = spare_by_kind(node, self.base, to_quota=to_quota)
            else:
                spare[i, : len(node.quota)] = node.spare()
        return above, spare

    def _what_jobs_can_spare(self, stopping: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return the number of the job in each slot, and the tasks that each numbered job may lose.

        Gangs and jobs with a minimum have numbers.
        """
        slots = np.flatnonzero(
            (self.cluster.leases[:, NODE] != NONE)
            & ((self.table[:, R_YIELDS] == WHOLE) | (self.table[:, R_MINIMUM] > 0))
        )
        _, first, numbers = np.unique(self.table[slots, R_JOB], return_index=True, return_inverse=True)
        job_of = np.full(len(self.table), UNSET, np.int64)
        job_of[slots] = numbers
        stay = np.bincount(numbers[~stopping[slots]], minlength=len(first))
        return job_of, stay - self.table[slots[first], R_MINIMUM]

    def _what_yields_together(self, job_of: Ints, held: list[WorkloadLease]) -> Ints:
        """Return, per slot, the number of the whole with which it yields: a gang, or a held lease.

        A held lease yields with all tasks inside and its idle parts. Its amounts stay in it, so the end of one task
        inside makes room for its own workload only.
        """
        unit_of = np.where(self.table[:, R_YIELDS] == WHOLE, job_of, UNSET)
        number = len(self.left)
        for lease in held:
            assert lease.holder is not None
            inside = [each for each in lease.tasks.values() if not each.stopping]
            slots = [lease.holder.slot, *(each.slot for each in inside), *(part.slot for part in lease.idle.values())]
            # A task may be inside two leases, and a holder may belong to a gang.
            known = sorted({int(unit) for unit in unit_of[slots] if unit != UNSET})
            for other in known[1:]:
                unit_of[unit_of == other] = known[0]
            unit_of[slots] = known[0] if known else number
            number += not known
            if job_of[lease.holder.slot] == UNSET:
                # With tasks of a service with a minimum, it yields if the service can spare as many tasks as the lease
                # has.
                job_of[lease.holder.slot] = max(int(job_of[each.slot]) for each in inside) if inside else UNSET
            else:
                self.left[job_of[lease.holder.slot]] += len(inside)
        return unit_of

    def plan(self, *, beyond: bool) -> Eviction | None:
        """Return the victims of the unit, on nodes where the groups for which others yield may take it.

        ``beyond``: a group above its quota may lose a victim that takes it below. A group within quota × B may do so
        if it then still has more of its quota than the unit's group.
        """
        for dear in self.closed_in_turn:
            self.dear = dear
            found = self._plan_in_domains(beyond=beyond)
            # With a single choice the caller asks, who knows what the unit's own group saves by its victims.
            if found is not None and (len(self.closed_in_turn) == 1 or found.is_allowed(self.cluster, self.job)):
                return found
        return None

    def first_plan(self) -> Eviction | None:
        """Return the victims, those that take a group below its quota as a last resort."""
        return self.plan(beyond=False) or self.plan(beyond=True)

    def _plan_in_domains(self, *, beyond: bool) -> Eviction | None:
        """Return the victims of the unit; for a gang with rules for domains, those in the domains that cost the fewest
        tasks.
        """
        levels, best = self.levels, None
        for among, room in self._choices():
            self.levels = levels.copy()
            plan = self._plan_within(among, beyond, room)
            if plan is not None and beyond and self._is_undone(plan):
                plan = None
            if plan is not None and (best is None or len(plan.attempts) < len(best.attempts)):
                best = plan
        self.levels = levels
        return best

    def _is_undone(self, plan: Eviction) -> bool:
        """Return True if a group that a plan takes below its quota could take the room back.

        It could while the groups of the unit are above their quotas then, up to the level on which the paths part. With
        ``to_quota`` the yielding groups must keep more of their quotas than the unit's group has now; otherwise groups
        would preempt each other in turn.
        """
        own, less = self.job.group, dict[str, list[int]]()
        losing: dict[str, Amounts] = {}
        for victim in plan.attempts:
            name = victim.job.group.name
            for node in self.chains.get(name, own.path()):
                if name in self.chains:
                    losing[node.name] = node
                change = less.setdefault(node.name, [-amount for amount in node.leaving])
                add_amounts(change, [-amount for amount in victim.charge])
        if self.to_quota:
            least = own.ratio(own.claimed)
            if any(node.ratio(less[name]) <= least for name, node in losing.items()):
                return True
        # The victims themselves wait again.
        if not any(
            node.needs_preemption(less[node.name])
            and node.may_take(tuple(map(int.__add__, less[node.name], victim.charge)))
            for victim in plan.attempts
            for node in self.chains.get(victim.job.group.name, ())
        ):
            return False
        charge = charge_of(self.cluster, self.job, plan.nodes)
        sides = {
            self.takers[victim.job.group.name].group.name for victim in plan.attempts if victim.job.group is not own
        }
        for node in own.path():
            gain = less.get(node.name, [-amount for amount in node.leaving]).copy()
            add_amounts(gain, charge)
            if not node.above_with_claims(gain):
                return False
            if node.name in sides:
                return True
        return False

    def _choices(self) -> Iterator[tuple[list[Ints], list[GangRoom] | None]]:
        """Yield limits of copies per node, and the room for any order of tasks, both by kind, for each choice of
        domains.

        Only choices that could hold the unit when empty count. An empty array means no limit.
        """
        shape = self.job.shape
        rules = rules_of_unit(shape) if shape.kinds or by_domains(shape) else NO_RULES
        if not rules.hard:
            yield [self._without_dear(self.fit.caps(kind)) for kind in shape.every_kind], None
            return
        room = self.fit.when_empty(shape)
        room.rules = GangRules(rules.hard) if shape.kinds else rules
        for rooms in rooms_in(room):
            yield [room.open_copies() for room in rooms], rooms

    def _without_dear(self, caps: Ints) -> Ints:
        if self.dear is None:
            return caps
        return capped(np.where(self.dear, 0, self.job.shape.size), caps)

    def _plan_within(self, among: list[Ints], beyond: bool, rooms: list[GangRoom] | None) -> Eviction | None:
        """Place one copy after the other at the smallest cost, then spare the victims that are not needed."""
        taken = _Taken(len(self.table), self.spare, self.left)
        shapes = self.job.shape.every_kind
        placed = np.zeros((len(shapes), len(self.levels)), np.int64)
        before = np.zeros_like(self.levels)
        for i in self._in_turn(shapes):
            bound = among[i] if len(shapes) == 1 else caps_beside(shapes[i], among[i], placed.sum(axis=0))
            room = None if rooms is None else rooms[i]
            if not self._place(shapes[i], placed[i], bound, taken, beyond=beyond, room=room):
                self.levels += before
                return None
            if len(shapes) > 1:
                # Room taken by one kind is not left for the next.
                needs = shapes[i].request_array * placed[i][:, None]
                self.levels -= needs
                before += needs
        self.levels += before
        return self._without_needless(shapes, placed, taken)

    def _in_turn(self, shapes: Sequence[Shape]) -> list[int]:
        """Return the order of kinds: the one with the least room to spare on empty nodes comes first."""
        if len(shapes) == 1:
            return [0]
        spare = [int(self.fit.room_when_empty(each).sum()) / each.size for each in shapes]
        return sorted(range(len(shapes)), key=lambda i: (spare[i], i))

    def _place(
        self, shape: Shape, placed: Ints, caps: Ints, taken: _Taken, *, beyond: bool, room: GangRoom | None
    ) -> bool:
        """Place the copies of one shape, and add the victims to ``taken``; return True if all have a place."""
        request, lack = shape.request_array, self.cluster.lack[shape.row]
        chosen = np.empty(len(self.table), np.int64)
        for _ in range(shape.size):
            f, count = cheapest_node(
                request, lack, caps, placed, self.levels, self.cluster.nodes, self.cluster.leases, self.victims,
                taken.mask, self.above, self.spare, self.left, taken.lost, taken.gone, chosen, shape.ask, self.stopping,
                self.claimed, beyond, self.by_urgency, self.base,
            )  # fmt: skip
            if f == NO_NODE:
                return False
            placed[f] += 1
            if room is not None:
                # The clauses of a single task suffice; only a gang fills domains by itself.
                number = room.of[f]
                room.left[number] -= 1
                if not room.left[number]:
                    caps[room.of == number] = 0
            for v in chosen[:count].tolist():
                taken.order.append(v)
                taken.mask[v] = True
                self._free(v, 1)
                lose(v, self.victims, self.above, taken.lost)
                if self.victims[v, JOB] != UNSET:
                    taken.gone[self.victims[v, JOB]] += self.victims[v, NUMBER]
        return True

    def _without_needless(self, shapes: Sequence[Shape], placed: Ints, taken: _Taken) -> Eviction | None:
        """Spare the victims that are not needed; return the others with the places, kind after kind, or ``None`` if
        none is left.
        """
        # For a single copy the kernel has spared them already, in the same order.
        if self.job.shape.size > 1:
            copies = placed.sum(axis=0)
            needed = sum(shape.request_array * each[:, None] for shape, each in zip(shapes, placed, strict=True))
            for v in reversed(taken.order.copy()):
                self._free(v, -1)
                taken.mask[v] = False
                on = self.cluster.leases[self._slots(v), NODE]
                on = on[copies[on] > 0]
                if np.all(self.levels[on] >= needed[on]) and self._devices_hold(shapes, placed, taken.mask):
                    taken.order.remove(v)
                else:
                    self._free(v, 1)
                    taken.mask[v] = True
        attempts = [attempt for v in taken.order for attempt in self._tasks(v)]
        if not attempts:
            self.has_room = True
            return None
        takers = {self.takers[each.job.group.name] for each in attempts if each.job.group.name in self.takers}
        places = [(f, int(each[f])) for each in placed for f in np.flatnonzero(each).tolist()]
        return Eviction(attempts, places, takers=tuple(takers))

    def _devices_hold(self, shapes: Sequence[Shape], placed: Ints, taken: Bools) -> bool:
        """Return True if the placed copies find their devices with the ends of the victims ``taken``; each kind counts
        alone.
        """
        cluster = self.cluster
        return all(
            devices_hold(f, int(each[f]), shape.ask, cluster.nodes, cluster.leases, self.victims, taken, self.stopping)
            for shape, each in zip(shapes, placed, strict=True)
            if devices.cares(cluster, shape.ask)
            for f in np.flatnonzero(each).tolist()
        )

    def _tasks(self, v: int) -> list[Attempt]:
        """Return the tasks that yield with a victim, in the order of their starts."""
        tasks = [each for each in map(self.holders.__getitem__, self._slots(v)) if isinstance(each, Attempt)]
        assert tasks, f"no attempt holds lease {v}"
        return sorted(tasks, key=lambda each: each.id)

    def _slots(self, v: int) -> list[int]:
        if self.victims[v, ROWS] == 1:
            return [v]
        found: list[int] = np.flatnonzero(self.victims[:, OF] == v).tolist()
        return found

    def _free(self, v: int, sign: int) -> None:
        """Add (``sign`` 1) the amounts that a victim frees on its nodes, or subtract them (-1)."""
        for slot in self._slots(v):
            self.levels[self.cluster.leases[slot, NODE]] += sign * self.cluster.held_in(slot)


def _latest_end(core: Books, job: JobEntry) -> int:
    """Return the latest end (µs) of a task of a job that starts after the grace of its victims."""
    grace = core.groups.longest_grace
    return min(core.now + grace + job.limit, NEVER)


def _devices_come_free(core: Books, stopping: Bools) -> Bools:
    """Return the slots whose devices count as free.

    These are the slots of ``stopping`` tasks whose amounts stay in no lease, and the idle parts of leases that end.
    """
    leases = [lease for lease in core.pool.leases.values() if lease.holder is not None]
    staying = [attempt.slot for attempt in core.leaving.values() if attempt.keeps and attempt.inside]
    if not leases and not staying:
        return stopping
    found = stopping.copy()
    found[staying] = False
    for lease in leases:
        if lease.is_held:
            found[[each.slot for each in lease.tasks.values()]] = False
        else:
            found[[part.slot for part in lease.idle.values()]] = True
    return found
