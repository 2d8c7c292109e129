"""Databases: services whose tasks have an identity. Each life of a task is a separate member.

The next life is made when the one before has ended and is known to be gone, so at most one of each is alive. It is
bound to the node where the task ran last, with its directory, while that node belongs to the cluster and is not away
for too long.
"""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.families import readiness, replicas, rolling_updates
from cress.lifecycle.jobs import jobs, members, replica_status
from cress.lifecycle.jobs.members import timer_name
from cress.lifecycle.jobs.reasons import again_in, lasting, reason
from cress.lifecycle.tables.family_rows import Family, ReplicaState, Version
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import AGAIN, MOVE
from cress.model.family import Database
from cress.model.job import Job
from cress.model.records import JobRecord
from cress.model.units import format_duration

_TOO_MANY = "scaled down"
_MOVES = "its node is gone; it moves to another node"


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` if the plan is invalid."""
    replicas.check(job)


def begin(context: Context, family: Family) -> None:
    """Begin: the family is accepted and has no open dependency."""
    replicas.state_of(family)


def member_over(context: Context, family: Family, member: LiveJob | Family, record: JobRecord) -> None:
    """Do nothing: ``tend`` makes the next life."""


def tend(context: Context, family: Family) -> None:
    """Make the next life of each index, in order at first; cancel surplus members from the highest;
    continue an update.
    """
    state, wanted = replicas.state_of(family), family.job.tasks
    highest = max(family.members, default=-1)
    if highest >= wanted:
        jobs.cancel(context, family.members[highest], _TOO_MANY)
    for member in members.of(context, family):
        _free(context, family, state, member)
    rolling_updates.advance(context, family, replica_status.take(context, family))
    for index in range(wanted):
        if index not in family.members and _may_begin(context, family, state, index):
            _make(context, family, state, index)


def due(context: Context, family: Family, kind: str, index: int) -> None:
    """Handle a timer; those of lives and nodes need nothing here, since ``tend`` follows."""
    if kind not in (AGAIN, MOVE):
        readiness.due(context, family, kind, index)


def updated(context: Context, family: Family, before: Job) -> None:
    """Begin a rolling update."""
    rolling_updates.begin(family)


def wall_stepped(context: Context, family: Family) -> None:
    """Do nothing: a database does not depend on the wall clock."""


def why(context: Context, family: Family, now: int) -> str:
    """Return why the first waiting task waits, else why an update waits, else which task has left its node."""
    state = replicas.state_of(family)
    for index in range(family.job.tasks):
        waits = _waits(context, family, state, index, now)
        if waits:
            return waits
    return rolling_updates.why(context, family) or next((state.moved[index] for index in sorted(state.moved)), "")


def _waits(context: Context, family: Family, state: ReplicaState, index: int, now: int) -> str:
    again = context.timers.get(AGAIN, timer_name(family, index))
    if again is not None and index not in family.members:
        return f"task {index}: {again_in(family, index, lasting(again - now))}"
    if index not in family.members:
        return f"task {index} starts when task {index - 1} is ready" if index and index not in state.ran else ""
    number, home = family.members[index], state.nodes.get(index)
    node = context.nodes.get(home) if home is not None else None
    if node is not None and not node.connected and not context.jobs[number].attempts:
        due = context.timers.get(MOVE, timer_name(family, index))
        moves = f"; it moves to another node in {lasting(due - now)}" if due is not None else ""
        return f"task {index} waits for its node {home}, which is away{moves}"
    waits = reason(context, number, now)
    return f"task {index}: {waits}" if waits else ""


def node_changed(context: Context, name: str) -> None:
    """Mark the databases with a task bound to a node that joined, is away, or left the cluster."""
    there = context.homes.get(name)
    if not there:
        return
    for number in sorted(there):
        family = context.families.get(number)
        if family is not None and name in replicas.state_of(family).nodes.values():
            context.unsettled.touched[number] = None
        else:
            there.discard(number)


def _may_begin(context: Context, family: Family, state: ReplicaState, index: int) -> bool:
    """Return whether the next life of an index may be made: not during a backoff, and the first life only after lower
    indices are ready.
    """
    if context.timers.get(AGAIN, timer_name(family, index)) is not None:
        return False
    if index in state.ran or not index:
        return True
    return replicas.is_ready(context.jobs.get(family.members.get(index - 1, 0)))


def _make(context: Context, family: Family, state: ReplicaState, index: int) -> None:
    version = Version(family.template, family.job)
    if index not in state.out and state.good is not None and state.ran.get(index) == state.good.template:
        # A task that an update has not reached yet goes on unchanged.
        version = state.good
    home = state.nodes.get(index)
    if home is not None and (gone := _gone(context, family, home)):
        del state.nodes[index]
        state.moved[index] = f"task {index} has left node {home}, which {gone}; its directory is still there"
        home = None
    replicas.make(context, family, index, version, bound(version.job.requirement, home) if home is not None else "")
    if index in family.members:
        _free(context, family, state, context.jobs[family.members[index]])


def bound(requirement: str, node: str) -> str:
    """Return the requirement of a task that runs on one node only."""
    quoted = node.replace("\\", "\\\\").replace('"', '\\"')
    here = f'Name = "{quoted}"'
    return f"({requirement}) && {here}" if requirement else here


def _free(context: Context, family: Family, state: ReplicaState, member: LiveJob) -> None:
    """Cancel a life that waits for a node that does not come back, so that the next one can go elsewhere."""
    name, home = timer_name(family, member.index), state.nodes.get(member.index)
    context.timers.drop(MOVE, name)
    if home is None or member.attempts or member.ending:
        return
    if _gone(context, family, home):
        jobs.cancel(context, member.job.id, _MOVES)
        return
    since = context.nodes[home].away_since
    if since is not None:
        context.timers.set(MOVE, name, since + _plan(family).move_after)


def _gone(context: Context, family: Family, name: str) -> str:
    """Return why the tasks bound to a node no longer wait for it; empty if they wait."""
    node = context.nodes.get(name)
    if node is None:
        return "was removed from the cluster"
    wait = _plan(family).move_after
    if node.away_since is not None and node.away_since + wait <= context.now:
        return f"was away for {format_duration(wait)}"
    return ""


def _plan(family: Family) -> Database:
    assert isinstance(family.job.plan, Database)
    return family.job.plan
