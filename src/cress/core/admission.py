"""Admission: the check of a whole batch of events before the first of them changes anything."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from cress.core.advance.choice import check as check_reservation
from cress.core.advance.choice import no_reservation
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.leaf_groups import check_takes_jobs
from cress.core.placing.constraints import asks_for_more, check_constraints, keys_of
from cress.core.placing.kinds import check_parts, constraints_of
from cress.core.placing.node_choices import check_choice
from cress.core.placing.placement_clauses import relation_of
from cress.model.errors import InputError
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    ClockSet,
    DataLocated,
    Event,
    ForeignUse,
    GroupsApplied,
    JobAfter,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    LeaseUsed,
    LicencesSet,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    PortsSeen,
    RacksSet,
    RunEstimated,
    TaskAdopted,
    TaskEnded,
    TasksReleased,
    ZoneSet,
)
from cress.model.group import DEFAULT_GROUP, MAX_GROUP_NAME_LENGTH, Group, Quota
from cress.model.groups.measures import MOST_KINDS, measures_in, split
from cress.model.groups.tree import NO_QUOTA, inner_names, leaf_names, problems
from cress.model.job import Job
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import one_of
from cress.model.zones import zone_of

# Amounts stay below this, so that sums over a cluster and products with shares stay exact in 64 bits.
AMOUNT_LIMIT = 2**50
MOST_PORT = 65_535
# Groups that are checked between two pauses.
PAUSE = 100
# Groups in the hint where to move jobs.
MOST_MOVES = 3
_NAME = re.compile(r"[A-Za-z0-9_]+")


def check_events(core: Books, events: Sequence[Event]) -> None:
    """Raise ``InputError`` if one of these events cannot be applied after those before it.

    Nothing changes. Ends of unknown attempts and events of unknown jobs are accepted, because reports come late or
    twice. The caller checks the right of the user to submit to a group.
    """
    groups: Container[str] = core.groups.by_name
    jobs: set[int] = set()
    asking: list[Job] = []
    # Nodes that join or leave in this batch; True if the node is present after it.
    there: dict[str, bool] = {}
    # Attempts that this batch adopts, with their jobs and tasks.
    adopted: dict[int, tuple[int | None, int]] = {}
    for event in events:
        match event:
            case JobSubmitted() | JobChanged():
                _check_described(event, core, groups, jobs, asking)
            case TaskEnded():
                if event.after < 0:
                    raise InputError(f"a backoff of {event.after} µs", hint="0 or more", field="after")
            case LeaseUsed():
                _amounts(event.amounts, core.dimensions, f"amounts that lease {event.lease} uses")
            case (
                RunEstimated()
                | JobCancelled()
                | JobHeld()
                | JobAfter()
                | TasksReleased()
                | ClockSet()
                | RacksSet()
                | DataLocated()
                | LicencesSet()
            ):
                pass
            case NodeAdded():
                check_choice(event.node.accepts, event.node.repels, stored=True)
                _amounts(event.node.capacity, core.dimensions, f"capacity of node {event.node.name}")
                if there.get(event.node.name, _is_there(core, event.node.name)):
                    raise InputError(
                        f"node {event.node.name!r} is registered already", hint="node names must be unique"
                    )
                there[event.node.name] = True
            case TaskAdopted():
                _check_adopted(event, core, there, jobs, adopted)
            case NodeLost() | NodeCordoned() | NodeChanged() | PortsSeen() | LoadSeen() | ForeignUse():
                _check_node_event(event, core, there)
            case ZoneSet() | AdvanceReserved() | AdvanceReservationRemoved():
                _check_times(event, core)
            case GroupsApplied():
                check_groups(core, event)
                groups = leaf_names(event.groups)
            case _:
                raise InputError(f"{event!r} is not an event", hint="one of the events of cress.model.events")
    if asking:
        relations = (
            relation_of(job, constraints_of(job, core.dimensions), job.group or DEFAULT_GROUP) for job in asking
        )
        core.relations.dependencies.check(relations)


def _check_described(
    event: JobSubmitted | JobChanged, core: Books, groups: Container[str], jobs: set[int], asking: list[Job]
) -> None:
    """Check a submitted or changed job, and add it to ``asking`` if it asks for more than amounts; add a submitted one
    to ``jobs``.
    """
    job = event.job
    if check_job(job, core.dimensions):
        asking.append(job)
    if (job.group or DEFAULT_GROUP) not in groups:
        check_takes_jobs(core, job.group)
        raise InputError(
            f"there is no group {job.group or DEFAULT_GROUP!r}", hint="a group that was applied", field="group"
        )
    if isinstance(event, JobChanged):
        return
    if job.id in core.jobs or job.id in jobs:
        raise InputError(f"job {job.id} is known already", hint="a new id", field="id")
    jobs.add(job.id)


def _check_times(event: ZoneSet | AdvanceReserved | AdvanceReservationRemoved, core: Books) -> None:
    """Check a time zone or an advance reservation."""
    if isinstance(event, ZoneSet):
        zone_of(event.zone)
    elif isinstance(event, AdvanceReserved):
        check_reservation(core, event.reservation)
    elif event.name not in core.advance_reservations.by_name:
        raise no_reservation(core, event.name)


def _check_node_event(
    event: NodeLost | NodeCordoned | NodeChanged | PortsSeen | LoadSeen | ForeignUse,
    core: Books,
    there: dict[str, bool],
) -> None:
    """Check an event of a node, and mark a lost node in ``there``."""
    name = event.node.name if isinstance(event, NodeChanged) else event.name
    if name not in core.cluster.index and name not in there:
        raise InputError(f"there is no node {name!r}", hint="a registered node")
    if isinstance(event, NodeChanged):
        check_choice(event.node.accepts, event.node.repels, stored=True)
        _amounts(event.node.capacity, core.dimensions, f"capacity of node {name}")
    if isinstance(event, ForeignUse):
        _amounts(event.amounts, core.dimensions, f"amounts that others use on node {name}")
    if isinstance(event, NodeLost):
        there[name] = False


def _check_adopted(
    event: TaskAdopted, core: Books, there: dict[str, bool], jobs: set[int], adopted: dict[int, tuple[int | None, int]]
) -> None:
    """Check an adopted task, and add its attempt to ``adopted``."""
    what = f"attempt {event.attempt} on node {event.node}"
    if not there.get(event.node, _is_there(core, event.node)):
        raise InputError(f"{what}: there is no such node", hint="a registered node")
    if (
        event.attempt < 1
        or event.attempt in core.attempts
        or event.attempt in core.strangers
        or event.attempt in adopted
    ):
        raise InputError(f"{what} is known already", hint="a new attempt")
    _amounts(event.amounts, core.dimensions, what)
    if event.node in core.cluster.index and event.node not in there:
        has = {(device.kind, device.id) for device in core.cluster.devices[core.cluster.index[event.node]]}
        for device in event.devices:
            if (device.kind, device.id) not in has:
                raise InputError(f"{what}: the node has no {device.kind} {device.id}", hint="devices of the node")
    if event.job is not None:
        job = core.jobs.get(event.job)
        if job is None and event.job not in jobs:
            raise InputError(f"{what}: there is no job {event.job}", hint="the id of a live job, or a name")
        if (event.job, event.task) in adopted.values() or (job is not None and not _may_adopt(job, event.task)):
            raise InputError(f"{what}: task {event.task} of job {event.job} is not waiting", hint="a waiting task")
    adopted[event.attempt] = (event.job, event.task)


def _may_adopt(job: JobEntry, task: int) -> bool:
    """Return True if a running task can be adopted as this one: it waits, or its job is cancelled."""
    if not 0 <= task < job.job.tasks or any(attempt.task == task for attempt in job.attempts.values()):
        return False
    claimed = any(task in claim.tasks for claim in job.claims)
    waits = task >= job.next_task or task in job.again or task in job.later or task in job.carried
    return job.cancelled or waits or claimed


def _is_there(core: Books, name: str) -> bool:
    f = core.cluster.index.get(name)
    return f is not None and not core.cluster.lost[f]


def check_job(job: Job, dimensions: Dimensions) -> bool:
    """Raise ``InputError`` unless the job is valid; return True if it asks for anything besides amounts."""
    _amounts(job.request, dimensions, "request")
    if job.tasks < 1:
        raise InputError(f"{job.tasks} tasks", hint="at least 1", field="tasks")
    if job.parts:
        for part in job.parts:
            _amounts(part.request, dimensions, "parts")
        check_parts(job)
    if job.time_limit is not None and job.time_limit < 0:
        raise InputError(f"a time limit of {job.time_limit} µs", hint="0 or more, or none", field="time_limit")
    if job.minimum < 0 or (job.minimum > job.tasks and job.counted_as == job.id):
        raise InputError(f"a minimum of {job.minimum} of {job.tasks} tasks", hint="0 to the tasks", field="minimum")
    if job.starts_with and (job.gang or job.tasks > 1):
        hint = "of members of a service, with one task each"
        raise InputError(f"{job.tasks} tasks that start with job {job.starts_with}", hint=hint, field="tasks")
    if job.max_running < 0 or (job.max_running and job.gang):
        what = "a gang" if job.gang else f"at most {job.max_running} tasks"
        raise InputError(f"{what} at once", hint="0 (any number) or more; not of a gang", field="max_running")
    if job.retries < 0:
        raise InputError(f"{job.retries} retries", hint="0 or more", field="retries")
    if job.stop_grace < 0:
        raise InputError(f"a stop_grace of {job.stop_grace} µs", hint="0 or more", field="stop_grace")
    if job.backoff < 0:
        raise InputError(f"a backoff of {job.backoff} µs", hint="0 or more", field="backoff")
    more = asks_for_more(job)
    if more:
        _constraints(job)
    return more


def _constraints(job: Job) -> None:
    check_constraints(job.requirement, job.rank)
    numbers = [number for _, number in job.ports]
    if any(not 0 <= number <= MOST_PORT for number in numbers):
        raise InputError(f"port {max(numbers, key=abs)}", hint=f"0 (a dynamic one) to {MOST_PORT}", field="ports")
    fixed = [number for number in numbers if number]
    if len(set(fixed)) < len(fixed) or len({name for name, _ in job.ports}) < len(job.ports):
        raise InputError("a port is given twice", hint="each name and each number once", field="ports")
    named = [name for name, _ in job.licences]
    if len(set(named)) < len(named) or any(not 0 < number < AMOUNT_LIMIT for _, number in job.licences):
        raise InputError(
            "a licence is given twice, or fewer than one of it", hint="each name once, 1 or more", field="licences"
        )
    for limit in keys_of(job).limits:
        if limit.most < 0:
            raise InputError(f"at most {limit.most} tasks together", hint="0 (any number) or more", field=limit.key)


def check_licences(core: Books, job: Job) -> None:
    """Raise ``InputError`` for an unknown licence, unless the cluster has no licences at all."""
    known = core.relations.licences.counts
    for name, _ in job.licences:
        if known and name not in known:
            raise InputError(f"there is no licence {name!r}", hint=one_of(name, known), field="licences")


def _amounts(vector: ResourceVector, dimensions: Dimensions, field: str) -> None:
    if len(vector) != len(dimensions):
        raise InputError(f"{len(vector)} amounts", hint="one each of " + ", ".join(dimensions.names), field=field)
    if min(vector) < 0 or max(vector) >= AMOUNT_LIMIT:
        raise InputError(f"{vector} has an amount out of range", hint="0 to 2^50 - 1", field=field)


def check_groups(core: Books, event: GroupsApplied) -> None:
    """Raise ``InputError`` if this list of groups cannot be applied now."""
    for _ in checking_groups(core, event):
        pass


def checking_groups(core: Books, event: GroupsApplied) -> Iterator[None]:
    """Do ``check_groups``, and pause after every few groups: there may be thousands. Nothing changes."""
    names: set[str] = set()
    if event.zone:
        zone_of(event.zone)
    inner = inner_names(event.groups)
    for number, group in enumerate(event.groups, 1):
        _group(group, core, inner)
        if group.name in names:
            raise InputError(f"group {group.name!r} is given twice", hint="each name once", field="Name")
        names.add(group.name)
        if number % PAUSE == 0:
            yield
    kinds = measures_in(event.groups, core.dimensions)
    if len(kinds) > MOST_KINDS:
        raise InputError(
            f"quotas of {len(kinds)} kinds of nodes", hint=f"at most {MOST_KINDS} together", field="ResourceQuota"
        )
    yield
    for problem in problems(event.groups, accounting=core.options.accounting, dimensions=core.dimensions):
        raise InputError(
            f"group {problem.group}: {problem.keyword}: {problem.what}", hint=problem.hint, field=problem.keyword
        )
    for first in range(0, len(event.groups), PAUSE):
        yield
        core.groups.check(event.groups[first : first + PAUSE])
    yield
    kept = leaf_names(event.groups)
    for reservation in core.advance_reservations.by_name.values():
        if reservation.spec.group not in ("", *kept):
            raise InputError(
                f"group {reservation.spec.group} has the advance reservation {reservation.spec.name}",
                hint=f"remove that first: cress reservations remove {reservation.spec.name}",
            )
    moves = dict(event.moves)
    lost = sorted(set(moves.values()) - kept)
    if lost:
        raise InputError(
            f"jobs cannot move to {', '.join(lost)}", hint="groups that are in the list and have none below them"
        )
    homeless = sorted(
        group.name for group in core.groups if group.jobs and group.name not in kept and group.name not in moves
    )
    above = sorted(inner.intersection(homeless))
    if above:
        raise InputError(
            f"groups with live jobs would have groups below them: {', '.join(above)}", hint=_say_move(above)
        )
    if homeless:
        raise InputError(f"groups with live jobs would be removed: {', '.join(homeless)}", hint=_say_move(homeless))


def _say_move(groups: Sequence[str]) -> str:
    """Return the hint for groups whose jobs need another group."""
    moves = " ".join(f"--move {name}=GROUP" for name in groups[:MOST_MOVES]) + " …" * (len(groups) > MOST_MOVES)
    return f"say to which group their jobs move: cress groups apply FILE {moves}"


def _group(group: Group, core: Books, inner: frozenset[str]) -> None:
    if not _NAME.fullmatch(group.name) or len(group.name) > MAX_GROUP_NAME_LENGTH:
        raise InputError(
            f"{group.name!r} is not a name of a group",
            hint=f"letters, digits and _, at most {MAX_GROUP_NAME_LENGTH}",
            field="Name",
        )
    own = () if group.quota == NO_QUOTA and not group.windows and group.name in inner else (group.quota,)
    for quota in (*own, *(window.quota for window in group.windows)):
        _quota(quota, group.name, core)
    for bound in (group.max_quota, group.lendable):
        if bound is not None and not (bound is group.lendable and bound == NO_QUOTA):
            _quota(bound, group.name, core)
    if group.weight < 1 or any(weight < 1 for _, weight in group.user_weights):
        raise InputError("a weight below 1", hint="at least 1", field=group.name)


def _quota(quota: Quota, name: str, core: Books) -> None:
    if quota.amounts and core.options.accounting != "dominant":
        raise InputError("a quota of several dimensions", hint="one number with accounting=cpu", field=name)
    for dimension, amount in quota.amounts or (("", quota.scalar),):
        if dimension and split(dimension)[0] not in core.dimensions.index:
            raise InputError(f"unknown dimension {dimension!r}", hint=", ".join(core.dimensions.names), field=name)
        if not 0 < amount < 2**60:
            raise InputError(f"a quota of {amount}", hint="above 0, below 2^60", field=name)
