"""Rolling updates: a new version replaces the old one member by member, or is rolled back.

In a service at most ``max_unavailable`` members are out of service at once. With ``surge``, members beyond the count
run while the update goes on, and each that is ready allows one more to be out. With ``canary`` only so many are
replaced until the update is promoted. Members that are not ready go first.
Members that only wait for a node are all replaced at once, since they have nothing to lose. In a database it is one
member at a time, from the highest index down. A member of a new version that never gets ready is evidence against it:
the last version that was ready as a whole comes back, in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.families import replicas
from cress.lifecycle.jobs import jobs, members
from cress.lifecycle.jobs.replica_status import look, replica_index_of
from cress.lifecycle.tables.family_rows import Family, ReplicaState, Version
from cress.lifecycle.tables.replica_index import ReplicaIndex, ReplicaStatus
from cress.lifecycle.tables.rows import LiveJob
from cress.model.family import Service
from cress.model.job import Job

# Failures in a row, before a task was ever ready, that are blamed on the version.
UNFIT_FAILURES = 3

_REPLACED = "replaced by a new version"
_SURPLUS = "the update for which it ran is over"
_OLD = (ReplicaStatus.IDLE, ReplicaStatus.OLD, ReplicaStatus.OLD_READY)


def begin(family: Family) -> None:
    """Begin an update to the family's newest version."""
    state = replicas.state_of(family)
    family.reason, state.failed, state.updating, state.gained = "", 0, True, ()
    state.failed_version, state.failed_member = 0, 0
    state.promoted = False
    _surge(family, state)


def _surge(family: Family, state: ReplicaState) -> None:
    plan = family.job.plan
    state.surging = plan.surge if isinstance(plan, Service) and family.job.tasks else 0


def is_alike(one: Job, other: Job) -> bool:
    """Return whether tasks of one job may continue under the other; the runs are not compared."""
    return _of_tasks(one) == _of_tasks(other)


def _of_tasks(job: Job) -> Job:
    """Return the part of a job that defines its tasks, without their count and their supervision."""
    assert job.plan is not None
    plan = type(job.plan)(checked=job.plan.checked)  # type: ignore[call-arg, union-attr]
    alike = {"id": 0, "tasks": 1, "gang": False, "after": (), "hold": False, "user": "", "group": "", "movable": None}
    return msgspec.structs.replace(job, plan=plan, **alike)


def relabel(context: Context, family: Family, before: int) -> None:
    """Give a new run id to an unchanged version, which had the id ``before``: its members keep running."""
    state, now = replicas.state_of(family), family.template
    family.version -= 1
    state.surging = 0
    for member in members.of(context, family):
        if member.template == before:
            member.template = now
            member.kept = replicas.plan_of(family)
    for places in (state.proven, state.ran):
        for index, template in places.items():
            places[index] = now if template == before else template
    if state.good is not None and state.good.template == before:
        state.good = Version(now, family.job)


def unfit(context: Context, family: Family, member: LiveJob, why: str) -> None:
    """Roll the newest version back, because of a member that was never ready, if there is an earlier good version."""
    state = replicas.state_of(family)
    if member.template != family.template or member.ending:
        return
    if state.good is None or state.good.template == family.template:
        return
    good, plan = state.good, replicas.plan_of(family)
    assert isinstance(good.job.plan, type(plan))
    family.reason = f"version {family.version} was rolled back: task {member.index} {why}"
    state.failed, state.updating, state.gained = family.template, True, ()
    state.failed_version, state.failed_member = family.version, member.job.id
    state.promoted = True
    context.noticed.rolled_back(family.job.id, family.reason)
    # The task count and the readiness rules do not belong to a version.
    plan = msgspec.structs.replace(plan, checked=good.job.plan.checked, ready_after=good.job.plan.ready_after)
    family.job = msgspec.structs.replace(good.job, tasks=family.job.tasks, plan=plan, group=family.job.group)
    family.template, family.version = good.template, family.version + 1
    family.publish(context.utc, "")
    _end_surge(context, family)
    _surge(family, state)
    context.unsettled.touched[family.job.id] = None


def advance(context: Context, family: Family, changed: Iterable[int]) -> None:
    """Take the next members out of service for the update, within its limits; or note that it is done.

    ``changed`` are the indices with changes since the last call.
    """
    state, wanted = replicas.state_of(family), family.job.tasks
    look(context, family, changed)
    if not state.updating:
        return
    there = replica_index_of(context, family)
    if state.parked or state.gained:
        ready = (*state.gained, *state.parked)
        state.gained = tuple(index for index in ready if there.of.get(index) is ReplicaStatus.DONE)
    if state.out:
        state.out = _not_done(state.out, there, wanted)
    if state.parked:
        state.parked = _not_done(state.parked, there, wanted)
    if len(there.lists[ReplicaStatus.DONE]) == wanted:
        if wanted:
            state.good, state.updating, state.gained = Version(family.template, family.job), False, ()
        state.surging = 0
        _end_surge(context, family)
        return
    if family.held:
        return
    for index in sorted((*state.out, *state.parked)):
        if there.of[index] in _OLD:
            _replace(context, family, index)
    if isinstance(family.job.plan, Service):
        _take_out(context, family, family.job.plan, state)
    elif not state.out:
        _take_highest(context, family, state)


def _end_surge(context: Context, family: Family) -> None:
    """Stop the members beyond the count."""
    for index in [index for index in family.members if index >= family.job.tasks]:
        member = context.jobs.get(family.members[index])
        if member is not None and not member.ending:
            jobs.cancel(context, member.job.id, _SURPLUS)


def _not_done(indices: tuple[int, ...], there: ReplicaIndex, wanted: int) -> tuple[int, ...]:
    return tuple(index for index in indices if index < wanted and there.of.get(index) is not ReplicaStatus.DONE)


def _replace(context: Context, family: Family, index: int) -> None:
    jobs.cancel(context, family.members[index], _REPLACED)
    look(context, family, (index,))


def _take_out(context: Context, family: Family, plan: Service, state: ReplicaState) -> None:
    # A member that was taken out, in this step or before, and waits for a node because another waiting member got its
    # room, is not a loss.
    waiting = 0
    if state.gained:
        lives = (context.jobs.get(family.members.get(index, 0)) for index in state.out)
        waiting = sum(live is not None and _is_idle(state, live) and live.submitted != context.utc for live in lives)
    room = plan.max_unavailable - len(state.out) - len(_stumbling(context, family, state))
    room += min(waiting, len(state.gained))
    lists = replica_index_of(context, family).lists
    room += _ready_surplus(context, family)
    idle = list(lists[ReplicaStatus.IDLE])
    if plan.canary and not state.promoted:
        allowed = max(0, plan.canary - _begun(lists, state))
        idle = idle[:allowed]
        room = min(room, allowed - len(idle))
    elif not plan.max_unavailable:
        # Tasks that are not ready have nothing to lose.
        room = max(room, len(lists[ReplicaStatus.OLD]))
    taken: list[int] = []
    for index in idle:
        # It must not get the room that the update makes for the new version.
        _replace(context, family, index)
    for left in (lists[ReplicaStatus.OLD], lists[ReplicaStatus.OLD_READY]):
        while left and len(taken) < room:
            taken.append(left[0])
            _replace(context, family, left[0])
    if idle:
        state.parked = (*state.parked, *idle)
    if taken:
        state.out = (*state.out, *taken)


def _ready_surplus(context: Context, family: Family) -> int:
    """Return the number of ready members of the new version beyond the count."""
    surplus = (context.jobs.get(number) for index, number in family.members.items() if index >= family.job.tasks)
    return sum(_is_done(family, member) for member in surplus)


def _begun(lists: Mapping[ReplicaStatus, Sequence[int]], state: ReplicaState) -> int:
    """Return the number of indices that have the new version, or will have it."""
    new = (ReplicaStatus.DONE, ReplicaStatus.NEW, ReplicaStatus.STUMBLING)
    return len({*state.out, *state.parked, *(index for status in new for index in lists[status])})


def _is_idle(state: ReplicaState, member: LiveJob) -> bool:
    """Return whether a member only waits for a node."""
    return not member.attempts and not state.failures.get(member.index)


def _take_highest(context: Context, family: Family, state: ReplicaState) -> None:
    """Take out the next index of a database, from the highest, with a member or between two lives."""
    lives = members.alive(context, family)
    for index in reversed(range(family.job.tasks)):
        member = lives.get(index)
        template = member.template if member is not None else state.ran.get(index, 0)
        if member is not None and template == family.template and not _is_done(family, member):
            # The update waits until all indices above the next one are new and ready.
            return
        if template not in (0, family.template):
            state.out = (*state.out, index)
            if member is not None:
                jobs.cancel(context, member.job.id, _REPLACED)
            return


def _is_done(family: Family, member: LiveJob | None) -> bool:
    return member is not None and member.template == family.template and replicas.is_ready(member)


def _stumbling(context: Context, family: Family, state: ReplicaState) -> list[int]:
    """Return the indices of the new version that were ready and failed since: the update must wait for them."""
    found = replica_index_of(context, family).lists[ReplicaStatus.STUMBLING]
    return [index for index in found if index not in state.out] if found else []


def why(context: Context, family: Family) -> str:
    """Return what an update waits for; empty: no update."""
    state = replicas.state_of(family)
    lives = members.of(context, family)
    left = sum(1 for live in lives if live.template != family.template and live.index < family.job.tasks)
    if not left:
        return ""
    if family.held:
        return f"{left} tasks of the previous version are not replaced while the job is held"
    plan = family.job.plan
    if isinstance(plan, Service) and plan.canary and not (state.promoted or state.out or state.parked):
        new = family.job.tasks - left
        if new >= plan.canary:
            return (
                f"{new} of {family.job.tasks} tasks have version {family.version}; the others follow after "
                f"`cress promote {family.job.id}`"
            )
    first = min((*state.out, *state.parked, *_stumbling(context, family, state)), default=None)
    waits = f", waiting for task {first} to be ready" if first is not None else ""
    return f"update in progress: {left} of {family.job.tasks} tasks left{waits}"
