"""Single changes that could let a waiting unit start now, smallest first; a trial on a copy shows which of them do.

A change to the job itself is one that ``cress update`` makes, which keeps its place. Where that is not possible, the
waiting job is cancelled, or held if some of its tasks run, and submitted anew with the change. The members of a service
that start together change together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from cress.core.answers.fewest import most_that_fits
from cress.core.answers.nearest import clause_effects
from cress.core.answers.prospects import Prospects
from cress.core.books import Books
from cress.core.diagnostics.amounts import say_amount
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.jobs import Attempt, JobEntry
from cress.core.kernels.holding import END, NODE, NONE, USABLE
from cress.core.placing.submitted_constraints import replaced
from cress.core.scheduler import Scheduler
from cress.core.tables.cluster import by_capacity
from cress.language.clauses import brief
from cress.language.parser import parse_requirement
from cress.model.changeable import CHANGEABLE, When
from cress.model.decisions import Start
from cress.model.events import (
    Event,
    GroupsApplied,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    LicencesSet,
    NodeAdded,
    NodeCordoned,
    TaskEnded,
)
from cress.model.group import DEFAULT_GROUP, Quota
from cress.model.job import KEPT_RUNNING, Condition, Job
from cress.model.resources import Measure
from cress.model.times import MINUTE, NEVER, SECOND
from cress.model.units import format_amount, format_duration, parse_duration, rounded_duration

# The number of running jobs, and of closed nodes, of which each is tried.
MOST_JOBS, MOST_NODES = 5, 3
# The running jobs, by their expected ends, and the waiting jobs of a group, that are looked at.
MOST_LOOKED = 100
# The leases, by their ends, among which the tasks of these are looked for.
MOST_LEASES = 1_000
_MEBI = 2**20
NOBODY: Mapping[str, bool] = {}
# Kinds of which the first change that helps makes the others needless.
_SMALLEST_ONLY = frozenset({"time_limit", "node", "end"})


class Counterfactual(msgspec.Struct, frozen=True):
    """A change as the end of the sentence "it would start now …", its ``kind``, and the events that make it.

    ``job`` is the id of the job that starts then: the waiting one, or the one submitted in its place. ``keys`` are the
    changed keys of the job with their new values, as in ``Remedy``.
    """

    kind: str
    text: str
    events: tuple[Event, ...]
    job: int
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def most(self) -> int:
        """The number of changes of this kind that people are told."""
        return 1 if self.kind in _SMALLEST_ONLY else 2


def changes_for(core: Books, job: JobEntry, absent: Mapping[str, bool] = NOBODY) -> Iterator[Counterfactual]:
    """Yield the changes worth a trial for the next unit of a waiting job, by kind.

    ``absent`` are the nodes whose executors are not connected: whether they would take tasks if they were.
    """
    if not job.waiting and not job.has_claimed and NEVER in job.later.values():
        # Its tasks lack the results of others, wherever they would run.
        yield from _of_single_tasks(core, job)
        return
    prospects = Prospects(core, job)
    yield from _of_the_order(core, job)
    if job.job.gang and job.attempts and not job.starts_in_part:
        # It starts again as a whole when its running tasks have ended; nothing else starts a part of it.
        return
    if job.full:
        # Its user wants no more at once, wherever there is room.
        most = job.most + job.shape.size
        yield _with(core, job, "max_running", f"with max_running = {most}", max_running=most)
        return
    if prospects.may_change:
        yield from _of_amounts(core, job)
        yield from _of_clauses(core, job)
        if prospects.has_room:
            yield from _of_the_limit(core, job)
    if prospects.may_move:
        yield from _of_groups(core, job)
    yield from _of_nodes(core, job, prospects, absent)
    yield from _of_ends(core, job, prospects)


def holds(core: Scheduler, change: Counterfactual) -> bool:
    """Return True if the unit starts at once after the change. It consumes ``core``, a copy."""
    core.observe(core.now, change.events)
    more = True
    while more:
        # Pass by pass: when the unit has started, the rest of the queue does not matter.
        decided = core.decide(core.now, 1)
        more = decided.more
        if any(isinstance(item, Start) and item.job == change.job for item in decided.items):
            return True
    return False


# --- changes of the job --------------------------------------------------------------------------------------------


def _of_the_order(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    number = job.job.id
    if job.held:
        # A service or database is held and released as a whole.
        whole = job.job.counted_as
        yield Counterfactual(
            "release", f"if it were released (cress release {whole})", (JobHeld(number, held=False),), number
        )
    if job.behind is not None:
        whom = f"job {job.behind}" if len(job.job.after) < 2 else "other jobs"
        yield _anew(core, job, "after", f"if it did not wait for {whom}", after=())
    ahead = islice(job.group.policy, MOST_LOOKED)
    first = max((other.job.priority for other in ahead), default=job.job.priority)
    if first > job.job.priority:
        yield _with(core, job, "priority", f"with priority {first + 1}", priority=first + 1)


def _of_single_tasks(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    """Yield the changes for a job each of whose waiting tasks starts after the same task of another job."""
    first = next(number for number, condition in job.job.after if condition is Condition.TASKS)
    yield _anew(core, job, "after", f"if it did not wait for job {first}", after=())
    if (other := core.jobs.get(first)) is not None:
        yield _ended(job, other)


def _of_amounts(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    """Yield less of one dimension, and fewer tasks of a gang."""
    if job.job.parts or job.shares_node:
        return
    request, dimensions = job.job.request, core.dimensions
    for i, name in enumerate(dimensions.names):
        most = most_that_fits(core, job, i)
        if most is None:
            continue
        if dimensions.measure(name) is Measure.BYTES and most >= _MEBI:
            # As people write it.
            most = most // _MEBI * _MEBI
        changed = (*request[:i], most, *request[i + 1 :])
        text = format_amount(most, dimensions.measure(name))
        yield _with(core, job, "amount", f"with {name} of at most {text}", keys=((name, text),), request=changed)
    room = core.fit.copies_free(job.shape)
    if job.job.gang and 0 < room < job.shape.size:
        yield _anew(
            core, job, "tasks", f"with {room} task{'s' if room > 1 else ''} instead of {job.shape.size}", tasks=room
        )


def _of_clauses(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    if job.job.parts or not job.job.requirement:
        return
    clauses = parse_requirement(job.job.requirement, stored=True).clauses
    alone = {effect.clause: effect.alone for effect in clause_effects(core, job)}
    # Only some are tried: first those without which most nodes would be left.
    for i, clause in sorted(enumerate(clauses), key=lambda one: -alone.get(brief(one[1]), 0)):
        rest = " && ".join(str(other) for n, other in enumerate(clauses) if n != i)
        yield _with(core, job, "clause", f"without {brief(clause)}", requirement=rest)


def _of_the_limit(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    """Yield time limits with which the unit would end before what is planned."""
    begins = {reservation.start for reservation in core.reservations.kept if reservation.start < NEVER}
    begins |= {times[0] for kept in core.advance_reservations.by_name.values() for times in kept.times[:1]}
    for begin in sorted(begins, reverse=True):
        left = begin - core.now
        limit = left // MINUTE * MINUTE if left >= 10 * MINUTE else left // SECOND * SECOND
        if 0 < limit < job.limit:
            told = rounded_duration(limit)
            keys = (("time_limit", told),)
            yield _with(
                core, job, "time_limit", f"with a time limit of at most {told}", keys, time_limit=parse_duration(told)
            )


def _with(
    core: Books, job: JobEntry, kind: str, text: str, keys: tuple[tuple[str, str], ...] = (), **changed: Any
) -> Counterfactual:
    """Return the change that gives a job other values; ``keys`` are those of ``changed`` by default."""
    members = [job, *(other for other, _ in job.unit())] if job.waits_whole else [job]
    runs = any(member.attempts for member in members)
    rows = [row for row in CHANGEABLE.values() if row.field in changed]
    if job.job.is_lease or len(rows) < len(changed) or (runs and any(row.when is When.WAITING for row in rows)):
        return _anew(core, job, kind, text, keys, **changed)
    new = [msgspec.structs.replace(_now(member), **changed) for member in members]
    if "requirement" in changed:
        # As an update does it: the clauses of other keys stay.
        asked = replaced(job.job.requirement, changed["requirement"])
        new = [msgspec.structs.replace(one, requirement=asked) for one in new]
    return Counterfactual(kind, text, tuple(map(JobChanged, new)), job.job.id, keys or _as_told(changed))


def _now(job: JobEntry) -> Job:
    """Return the description of a job, in the group in which it is now: its own may have been removed."""
    if (job.job.group or DEFAULT_GROUP) == job.group.name:
        return job.job
    return msgspec.structs.replace(job.job, group=job.group.name)


def _as_told(changed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, format_duration(value) if key == "time_limit" else str(value)) for key, value in changed.items())


def _anew(
    core: Books, job: JobEntry, kind: str, text: str, keys: tuple[tuple[str, str], ...] = (), **changed: Any
) -> Counterfactual:
    """Return the change that submits the waiting part of a job anew; ``keys`` as in ``_with``."""
    keys = keys or _as_told(changed)
    old, number = _now(job), max(core.jobs, default=0) + 1
    whole = not job.attempts and not job.claims
    # Those that wait for a time, or for tasks of another job, are meant if no other waits.
    tasks = old.tasks if whole else job.waiting or len(job.later) or 1
    behind = None if "after" in changed else job.behind
    after = () if behind is None else old.after
    new: Job = msgspec.structs.replace(old, **{"id": number, "tasks": tasks, "after": after, **changed})
    leave: Event = JobCancelled(old.id) if whole else JobHeld(old.id, held=True)
    text = text if whole else f"{text}, if its waiting tasks were a job of their own"
    return Counterfactual(kind, text, (leave, JobSubmitted(new, behind, job.estimate)), number, keys)


# --- changes of the cluster ----------------------------------------------------------------------------------------


def _of_groups(core: Books, job: JobEntry) -> Iterator[Counterfactual]:
    """Yield other groups that the user may use, and more quota for its own."""
    own, user = job.group, job.job.user
    charge = charge_of_tasks(job, job.shape.size, core.cluster)[0]
    others = [group for group in core.groups if group is not own and not group.spec.closed and group.spec.admits(user)]
    # Only some are tried. A group whose quota has room for the unit is the likeliest to help.
    for group in sorted(others, key=lambda group: group.used[0] + charge > group.quota[0]):
        yield _with(core, job, "group", f"in group {group.name}", group=group.name)
    spec = next((spec for spec in core.groups.configured if spec.name == own.name), None)
    if spec is None or spec.quota.amounts or spec.windows:
        return
    lacks = own.used[0] + charge - own.quota[0]
    if lacks > 0:
        quota = spec.quota.scalar + lacks
        groups = tuple(
            msgspec.structs.replace(spec, quota=Quota(scalar=quota)) if other is spec else other
            for other in core.groups.configured
        )
        text = (
            f"if the quota of group {own.name} were {say_amount(core, '', quota)}, {say_amount(core, '', lacks)} more"
        )
        keys = ("group", own.name), ("ResourceQuota", say_amount(core, "", quota).partition(" ")[0])
        yield Counterfactual("quota", text, (GroupsApplied(groups),), job.job.id, keys)


def _of_nodes(core: Books, job: JobEntry, prospects: Prospects, absent: Mapping[str, bool]) -> Iterator[Counterfactual]:
    cluster, number = core.cluster, job.job.id
    if job.job.licences:
        counts = dict(core.relations.licences.counts)
        for name, asked in job.job.licences:
            more = {**counts, name: counts.get(name, 0) + asked}
            text = f"with {asked} more of licence {name}"
            yield Counterfactual("licences", text, (LicencesSet(tuple(more.items())),), number)
    n = cluster.node_count
    closed = [f for f in np.flatnonzero(cluster.nodes[:n, USABLE] == 0).tolist() if not cluster.lost[f]]
    # A node that is away and closed by order as well would need two changes.
    for name in [name for f in closed if absent.get(name := cluster.names[f], True)][:MOST_NODES]:
        if name in absent:
            kind, text = "back", f"if the executor of node {name} were connected"
        else:
            kind, text = "uncordon", f"if node {name} took new tasks again (cress nodes uncordon {name})"
        event = NodeCordoned(name, cordoned=False)
        yield Counterfactual(kind, text, (event,), number, (("node", name),))
    for f, _ in by_capacity(cluster, cluster.present())[:MOST_NODES]:
        if not prospects.with_node(cluster.capacity_of(f)):
            continue
        name = cluster.names[f]
        another = msgspec.structs.replace(cluster.specs[f], name=f"another-{name}")
        yield Counterfactual("node", f"with one more node like {name}", (NodeAdded(another),), number)


def _of_ends(core: Books, job: JobEntry, prospects: Prospects) -> Iterator[Counterfactual]:
    """Yield the end of one running job, the next ones to end first."""
    tried = 0
    for other in islice(_next_to_end(core, job), MOST_LOOKED):
        if tried == MOST_JOBS:
            break
        if other.job.type in KEPT_RUNNING:
            # Its tasks run again when they end.
            continue
        if not prospects.with_end(other.attempts.values()):
            continue
        tried += 1
        yield _ended(job, other)


def _ended(job: JobEntry, other: JobEntry) -> Counterfactual:
    """Return the end of the running tasks of another job; those that wait do not start in their place."""
    number = other.job.id
    events: list[Event] = [*map(TaskEnded, other.attempts)]
    if other.waiting:
        events = [JobHeld(number, held=True), *events]
    return Counterfactual("end", f"when job {number} ends", tuple(events), job.job.id)


def _next_to_end(core: Books, job: JobEntry) -> Iterator[JobEntry]:
    """Yield running jobs other than this one by their expected ends, among those with a task that ends soon.

    Objects are looked at only as far as they are asked for: in a fork each of them costs a copied page.
    """
    leases = core.cluster.leases
    taken = np.flatnonzero(leases[:, NODE] != NONE)
    if len(taken) > MOST_LEASES:
        # There may be a hundred thousand.
        taken = taken[np.argpartition(leases[taken, END], MOST_LEASES)[:MOST_LEASES]]
    taken = taken[np.argsort(leases[taken, END], kind="stable")]
    ends: list[tuple[int, int]] = []
    seen = {job.job.id}
    for slot, end in zip(taken.tolist(), leases[taken, END].tolist(), strict=True):
        while ends and ends[0][0] < end:
            yield core.jobs[heappop(ends)[1]]
        holder = core.holders[slot]
        if not isinstance(holder, Attempt) or holder.job.job.id in seen:
            continue
        # A job ends with the last of its tasks.
        seen.add(holder.job.job.id)
        heappush(ends, (max(attempt.expected for attempt in holder.job.attempts.values()), holder.job.job.id))
    while ends:
        yield core.jobs[heappop(ends)[1]]
