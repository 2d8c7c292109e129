"""Submits: their checks, their acceptance, and repeated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from cress.core.admission import check_job as check_amounts
from cress.core.admission import check_licences
from cress.core.answers.fewest import most_tasks_when_empty, most_that_ever_fits
from cress.core.diagnostics.amounts import say_amount, say_room, ways_out
from cress.core.diagnostics.sentences import too_few
from cress.core.diagnostics.short_parts import named, never_part
from cress.core.diagnostics.unresolved_names import missing_in, say
from cress.core.leaf_groups import check_takes_jobs
from cress.core.placing.constraints import Wants, names_itself, placement_of
from cress.core.placing.kinds import constraints_of, lasting_wants
from cress.core.placing.placement_clauses import relation_of
from cress.core.placing.submitted_constraints import key_for, needs_of
from cress.core.tables.dependencies import Relation
from cress.lifecycle.context import Context
from cress.lifecycle.families import families
from cress.lifecycle.inputs import Submit
from cress.lifecycle.jobs import group_limits, leases, task_by_task
from cress.lifecycle.jobs.deadlines import resolved, watch
from cress.lifecycle.jobs.jobs import cancel
from cress.lifecycle.jobs.waits import behind, release
from cress.lifecycle.slices import SLICE, Slices, parts
from cress.lifecycle.submits import deadlines, dependencies
from cress.lifecycle.tables.answers import Answer
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.devices import WHOLE
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Dag, Database, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job, JobType
from cress.model.jobfile.job import below
from cress.model.records import JobState
from cress.model.resources import DISK_DIMENSIONS, Measure
from cress.model.times import DAY
from cress.model.units import format_amount, one_of

# Time (µs) for which an answer is remembered; a client that has not asked again by then has it.
REMEMBERED = DAY
SEE_NODES = "`cress nodes --where EXPR` shows the nodes that satisfy a condition"
# Maximum number of users of a group that an error names.
MOST_TOLD = 20


def submit(context: Context, request: Submit) -> Slices[tuple[int, ...]]:
    """Accept jobs, together or not at all; return their ids. A repeated request gets the same ids.

    At a pause the scheduler knows all jobs that have been entered.
    """
    if request.key:
        known = _remembered(context, request)
        if known is not None:
            context.out.repeated.add(len(context.out.replies))
            return known.ids
    states = states_of(context, request.jobs, request.known)
    yield
    yield from check(context, request.jobs, states)
    yield
    timed: list[Job] = []
    complete = inherited(request.jobs)
    yield
    for some in parts(complete):
        timed += group_limits.with_limit(context, some)
        yield
    timed = resolved(timed, context.utc)
    yield
    if request.strict:
        yield from deadlines.check_met(context, timed)
    first = context.take_id(len(request.jobs))
    ids = tuple(range(first, first + len(request.jobs)))
    begun: list[LiveJob | Family] = []
    for part in parts(list(zip(ids, timed, strict=True))):
        entered = [_enter(context, msgspec.structs.replace(job, id=number), first, states) for number, job in part]
        fresh = [live for live in entered if isinstance(live, LiveJob)]
        context.observe(*(context.submitted(live.job, behind(live)) for live in fresh))
        begun += entered
        yield
    yield from _begin(context, begun)
    if request.key:
        context.answers[request.key] = Answer(request.digest, ids, context.now)
    return ids


def _begin(context: Context, begun: Sequence[LiveJob | Family]) -> Slices[None]:
    """Begin the entered families and jobs of a submit; cancel those that can never start."""
    for family in begun:
        if isinstance(family, Family):
            if family.reason:
                families.cancel(context, family, family.reason)
            elif not family.unmet:
                families.begin(context, family)
    lives = [live for live in begun if isinstance(live, LiveJob)]
    # First those that can never start: the others may wait for single tasks of theirs.
    for live in lives:
        if live.reason:
            cancel(context, live.job.id, live.reason)
    for place, live in enumerate(lives, 1):
        if not live.ending:
            yield from _settle(context, live)
        if place % SLICE == 0 and not context.unsettled.gone:
            yield


def _settle(context: Context, live: LiveJob) -> Slices[None]:
    """Decide whether an entered job that comes after nothing has to wait, and which of its tasks need not wait."""
    if live.unmet:
        yield from task_by_task.begin(context, live)
    if live.job.id not in context.jobs:
        # Each of its tasks waited for one that did not succeed.
        return
    if live.job.when and not live.unmet:
        context.unsettled.asked.append(live.job.id)
    elif live.awaits and not live.unmet_as_whole:
        release(context, live)


def _enter(context: Context, job: Job, first: int, states: Mapping[int, JobState]) -> LiveJob | Family:
    """Enter one accepted job; the first one of the submit has the id ``first``."""
    number = job.id
    after = tuple((job_id if job_id > 0 else first - job_id - 1, condition) for job_id, condition in job.after)
    family = first - job.family - 1 if job.family else 0
    job = msgspec.structs.replace(job, after=after, family=family)
    by = job.user if job.hold else ""
    if job.plan is not None:
        entered = Family(job=job, submitted=context.utc, template=number, held=job.hold, held_by=by)
        if isinstance(job.plan, Service | Database):
            entered.publish(context.utc, job.user)
        dependencies.enter(context, entered, states)
        families.enter(context, entered)
        watch(context, job)
        return entered
    live = LiveJob(job=job, submitted=context.utc, held=job.hold, held_by=by, awaits=job.wait_for)
    if family:
        live.index = len(context.families[family].members)
        context.families[family].members[live.index] = number
    dependencies.enter(context, live, states)
    context.enter(live)
    if not family:
        watch(context, job)
    leases.set_term(context, live)
    return live


def inherited(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of one submit; steps of a dag get the dag's dependencies and its hold."""
    found: list[Job] = []
    for job in jobs:
        if job.family < 0:
            dag = jobs[-job.family - 1]
            own = {number for number, _ in job.after}
            after = (*job.after, *(pair for pair in dag.after if pair[0] not in own))
            job = msgspec.structs.replace(job, after=after, hold=job.hold or dag.hold)
        found.append(job)
    return found


def _remembered(context: Context, request: Submit) -> Answer | None:
    """Return the answer to an earlier submit with the same key."""
    answers = context.answers
    for key in list(answers):
        if answers[key].at + REMEMBERED > context.now:
            break
        del answers[key]
    known = answers.get(request.key)
    if known is not None and known.digest != request.digest:
        raise NotAccepted("the key was used for another submit", hint="every submit needs a new key", field="key")
    return known


def states_of(context: Context, jobs: Iterable[Job], known: Iterable[tuple[int, JobState]]) -> dict[int, JobState]:
    """Return the states of ended jobs on which these depend: those from the shell, and those that ended
    a moment ago.
    """
    states = dict(known)
    for job in jobs:
        for number, _ in job.after:
            if number in context.ended:
                states[number], _ = context.ended[number]
    return states


def check(context: Context, jobs: Sequence[Job], known: Mapping[int, JobState]) -> Slices[None]:
    """Raise ``InputError`` if one of these jobs is invalid, ``NotAccepted`` if it is forbidden or can never run."""
    names: set[tuple[str, str]] = set()
    steps = Counter(job.family for job in jobs)
    hopeless = Hopeless(context)
    yield
    for part in parts(list(enumerate(jobs))):
        for number, job in part:
            try:
                check_job(context, job, hopeless)
                _check_family(jobs, number, names, steps[-number - 1])
            except InputError as error:
                raise below(error, f"jobs[{number}]") if len(jobs) > 1 else error from None
        yield
    group_limits.check_new(context, [job for job in jobs if job.id not in context.families])
    yield
    yield from dependencies.check(context, inherited(jobs), known)
    relations: list[Relation] = []
    for some in parts(jobs):
        plain = (job for job in some if not isinstance(job.plan, Dag))
        relations += (
            relation_of(job, constraints_of(job, context.core.dimensions), job.group or DEFAULT_GROUP) for job in plain
        )
        yield
    context.core.relations.dependencies.check(relations)


def _check_family(jobs: Sequence[Job], place: int, names: set[tuple[str, str]], steps: int) -> None:
    """Raise ``InputError`` if a job is a step without a dag before it, or two jobs would have the same name.

    ``steps`` is the number of jobs that are its steps.
    """
    job = jobs[place]
    if job.family and not (0 < -job.family <= place and isinstance(jobs[-job.family - 1].plan, Dag)):
        raise InputError(f"it is a step of {job.family}", hint="the place of a dag before it", field="family")
    if job.family and job.plan is not None:
        raise InputError(f"a step cannot be a {job.type.value}", hint="a batch job", field="type")
    if isinstance(job.plan, Dag) and steps != len(job.plan.steps):
        raise InputError(f"{steps} jobs for {len(job.plan.steps)} steps", hint="a job for each step", field="steps")
    if job.plan is not None and not isinstance(job.plan, Dag) and job.name:
        key = (job.group or DEFAULT_GROUP, job.name)
        if key in names:
            raise InputError(f"two jobs have the name {job.name}", hint="job names must be unique", field="name")
        names.add(key)


class Hopeless:
    """Jobs that no node could ever run, looked up once for all similar jobs of a submit."""

    def __init__(self, context: Context) -> None:
        self._core = context.core
        self._known: dict[tuple[object, ...], bool] = {}

    def __contains__(self, job: Job) -> bool:
        # All values on which its constraints depend.
        key: tuple[object, ...] = (*placement_of(job), job.request, job.type)
        key = (*key, job.application, job.tasks if job.gang else 0)
        if self._core.books.asking.is_asked or names_itself(job):
            # Attributes of the job itself matter as well.
            key = (
                *key,
                job.user,
                job.group,
                job.name,
                job.priority,
                job.tasks,
                job.time_limit,
                job.workload,
                job.tolerates,
                job.labels,
            )
        if key not in self._known:
            self._known[key] = self._core.never_fits(job)
        return self._known[key]


def check_job(context: Context, job: Job, hopeless: Hopeless | None = None) -> None:
    """Raise ``InputError`` if a job is invalid, ``NotAccepted`` if it is forbidden or can never run."""
    core = context.core
    check_amounts(job, core.dimensions)
    check_licences(core.books, job)
    name = job.group or DEFAULT_GROUP
    groups = core.groups.by_name
    if name not in groups:
        check_takes_jobs(core.books, name)
        raise InputError(f"there is no group {name!r}", hint=one_of(name, groups), field="group")
    if not groups[name].spec.admits(job.user):
        users = groups[name].spec.users
        allowed = ", ".join(users[:MOST_TOLD]) + (f" and {len(users) - MOST_TOLD:,} more" * (len(users) > MOST_TOLD))
        raise NotAccepted(f"{job.user} may not submit to group {name}", hint=f"its users: {allowed}", field="group")
    if core.groups.bounded or (core.groups.tree.keeps and context.nodes):
        _check_bounds(context, job)
    group_limits.check_job(context, job)
    families.check(context, job)
    deadlines.check(context, job)
    leases.check_inside(context, job)
    for name, step in steps_of(job):
        try:
            check_job(context, step, hopeless)
        except InputError as error:
            raise below(error, f"steps.{name}") from None
    if context.nodes and not (isinstance(job.plan, Dag) or job.steps) and job in (hopeless or Hopeless(context)):
        raise _never(context, job)


def steps_of(job: Job) -> Iterable[tuple[str, Job]]:
    """Yield the steps of a cron job whose runs are dags, with their names."""
    for step in job.steps:
        yield step.name.removeprefix(f"{job.name}."), step


def _check_bounds(context: Context, job: Job) -> None:
    """Raise ``NotAccepted`` for a job whose task or gang alone exceeds a MaxQuota, or all that others would lend."""
    bound = context.core.never_within_bounds(job)
    if bound is not None:
        books = context.core.books
        what = f"all tasks of the {_whole(job)} ask" if job.gang else "one task asks"
        told = say_room(books, job.group or DEFAULT_GROUP, bound)
        raise NotAccepted(
            f"{what} for {say_amount(books, bound.measure, bound.asks)}, and {told}",
            hint=", ".join((*ways_out(books, bound), "or choose another group")),
            field="resource",
        )


def _whole(job: Job) -> str:
    """Return the word for what starts as a whole."""
    return job.type.value if job.type is JobType.SERVICE else "gang"


def _by_devices(context: Context, job: Job) -> tuple[str, str] | None:
    """Return the error of a task whose amounts fit a node, but not the node's devices."""
    dimensions = context.core.dimensions
    large = [
        node.node
        for node in context.nodes.values()
        if all(amount <= there for amount, there in zip(job.request, node.node.capacity, strict=True))
    ]
    if not large:
        return None
    for name in dimensions.custom:
        amount = job.request[dimensions.index[name]]
        if amount > WHOLE and amount % WHOLE:
            text = format_amount(amount, Measure.MILLI)
            hint = f"less than one, or whole ones: {name}={amount // WHOLE}, {name}={amount // WHOLE + 1}"
            return (
                f"{name}={text} is neither a whole number nor less than one, and each {name} is a device of its own",
                hint,
            )
    if any(job.request[dimensions.index[name]] for name in DISK_DIMENSIONS):
        return "a task has one disk, and no disk of a node that is large enough is that fast", "see `cress nodes NAME`"
    return None


def _never(context: Context, job: Job) -> NotAccepted:
    """Return the error of a job whose task fits no registered node, or whose gang does not fit all nodes together."""
    core = context.core
    wants = core.books.asking.as_asked((job,), lasting_wants(job, core.dimensions))
    if wants.kinds:
        return _never_in_parts(context, job)
    return _never_alike(context, job, wants)


def _never_in_parts(context: Context, job: Job) -> NotAccepted:
    """Return the error of a gang with a part that can never run, or whose parts do not fit together."""
    core = context.core
    found = never_part(core.books, job)
    if found is not None:
        kind, wants = found
        error = _never_alike(context, kind.job, wants)
        name = named(job, kind).split()[1]
        what = error.what.replace("for the gang", "for its tasks")
        return NotAccepted(f"part {name}: {what}", hint=error.hint, field=f"parts.{name}.{error.field}")
    what = "all nodes together are too small for all parts at once"
    return NotAccepted(what, hint="see `cress nodes` for what the nodes offer", field="parts")


def _never_alike(context: Context, job: Job, wants: Wants) -> NotAccepted:
    core = context.core
    hint, field = "see `cress nodes` for what the nodes offer", "resource"
    if not core.books.fit.ever_fits(job.request):
        what = "one task is larger than every node"
        if less := most_that_ever_fits(core.books, job.request, wants):
            amounts = " or ".join(
                f"{name} of at most {format_amount(most, core.dimensions.measure(name))}" for name, most in less
            )
            hint = f"with {amounts} it fits; {hint}"
        if by_devices := _by_devices(context, job):
            what, hint = by_devices
    elif few := context.core.relations.licences.never(wants.licences):
        what, field = too_few(few, never=True), "licences"
        hint = "see `cress licences` for how many there are"
    else:
        there = [f for f in range(core.cluster.node_count) if not core.cluster.lost[f]]
        texts = [text for text, _ in core.books.matching.never(wants, np.array(there, np.int64))]
        what = f"no node that is large enough could ever satisfy {' and '.join(texts)}"
        if core.books.fit.ever_fits(job.request, wants):
            whole = _whole(job)
            bound = core.books.matching.binding(wants)
            with_ = f" with {' and '.join(bound)}" if bound else ""
            constraints = constraints_of(job, core.dimensions)
            least = (constraints.least if constraints is not None else 0) or job.tasks
            if not texts or not core.books.fit.holds_when_empty(job.request, min(job.tasks, least)):
                most = most_tasks_when_empty(core.books, job.request, job.tasks, wants)
                hint = f"with at most {most:,} tasks it fits; {hint}" if most else hint
                return NotAccepted(f"all nodes together are too small for the {whole}{with_}", hint=hint, field=field)
            what = f"the nodes that satisfy {' and '.join(texts)} are together too small for the {whole}{with_}"
        clauses = [clause for clause in wants.hard if str(clause) in texts]
        missing = missing_in(context.core.books, clauses, job.group or DEFAULT_GROUP)
        hint = "; ".join(map(say, missing)) or needs_of(clauses) or SEE_NODES
        field = key_for(clauses) if len(clauses) == len(texts) else "requirement"
    return NotAccepted(what, hint=hint, field=field)
