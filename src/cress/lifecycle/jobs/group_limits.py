"""Limits of groups on submits (design note 0031): closed groups, numbers of jobs, size and time limit of a job.

They are checked when jobs come; lowering a limit later ends no job. A run of a cron job comes when it is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from operator import itemgetter

import msgspec

from cress.core.charges import dominant_share
from cress.core.jobs import GroupState
from cress.core.tree.amounts import Amounts
from cress.lifecycle.context import Context
from cress.lifecycle.jobs.deadlines import shown
from cress.lifecycle.tables.group_load import counts
from cress.model.errors import NotAccepted
from cress.model.family import Dag, Service
from cress.model.group import DEFAULT_GROUP, Group
from cress.model.groups.limits import given_time_limit
from cress.model.groups.quota_text import SCALE, UNIT
from cress.model.groups.tree import leaves_below
from cress.model.job import KEPT_RUNNING, Job
from cress.model.jobfile.job import below
from cress.model.resources import ResourceVector
from cress.model.units import describe_named, format_duration, format_share

# Maximum number of administrators of a group that an error names.
_MOST_TOLD = 5


def with_limit(context: Context, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of a submit with the time limits of their groups where they have none
    (``model.groups.limits.given_time_limit``).
    """
    given: dict[str, int | None] = {}
    return [_with_limit(context, job, given) for job in jobs]


def _with_limit(context: Context, job: Job, given: dict[str, int | None]) -> Job:
    """Return a job with the time limit of its group; ``given`` are those of groups that were looked up before."""
    name = job.group or DEFAULT_GROUP
    if job.time_limit is not None or job.type in KEPT_RUNNING or isinstance(job.plan, Dag):
        return job
    if name not in given:
        group = context.core.groups.by_name.get(name)
        given[name] = None if group is None else given_time_limit(level.spec.limits for level in _path(group))
    return job if given[name] is None else msgspec.structs.replace(job, time_limit=given[name])


def check_job(context: Context, job: Job) -> None:
    """Raise ``NotAccepted`` for a job that is always larger or longer than its group allows."""
    group = context.core.groups.by_name.get(job.group or DEFAULT_GROUP)
    if group is None or isinstance(job.plan, Dag):
        return
    for level in _path(group):
        limits = level.spec.limits
        if limits.time_limit is not None and (job.time_limit or 0) > limits.time_limit and job.type not in KEPT_RUNNING:
            raise NotAccepted(
                f"a time limit of {format_duration(job.time_limit or 0)} is more than the "
                f"{format_duration(limits.time_limit)} that group {level.name} allows",
                hint=_remedy(level.spec, "MaxTimeLimit", f"at most {format_duration(limits.time_limit)}"),
                field="time_limit",
            )
        tasks = most_tasks(job)
        if limits.tasks is not None and tasks > limits.tasks:
            raise NotAccepted(
                f"{tasks:,} tasks are more than the {limits.tasks:,} that a job of group {level.name} may have",
                hint=_remedy(level.spec, "MaxTasks", "fewer tasks, or several jobs"),
                field="tasks",
            )
        _check_size(context, job, min(tasks, job.max_running) if job.max_running else tasks, level)


def most_tasks(job: Job) -> int:
    """Return the maximum number of tasks of a job, over its timetable."""
    timetable = job.plan.timetable if isinstance(job.plan, Service) else ()
    return max(job.tasks, *(tasks for _, tasks in timetable)) if timetable else job.tasks


def _check_size(context: Context, job: Job, tasks: int, group: Amounts) -> None:
    """Raise ``NotAccepted`` if this number of tasks at once is larger than a job of the group may be."""
    limits, core = group.spec.limits, context.core
    dimensions, accounting = core.dimensions, core.options.accounting
    for name, most in limits.amounts:
        asked = _at_once(job, tasks, itemgetter(dimensions.index[name]))
        if asked > most:
            _too_large(group.spec, f"{_said(context, name, asked)} at once", _said(context, name, most), tasks)
    if limits.size is None:
        return
    if accounting == "cpu":
        asked = _at_once(job, tasks, itemgetter(0))
    elif core.cluster.node_count:
        # Counted as on the nodes where it costs least.
        asked = _at_once(job, tasks, lambda request: dominant_share(request, core.cluster.largest_capacity()))
    else:
        return
    if asked > limits.size:
        unit = UNIT[accounting]
        scale = SCALE[accounting]
        _too_large(
            group.spec,
            f"{format_share(Decimal(asked) / scale)} {unit} at once",
            f"{limits.size // scale} {unit}",
            tasks,
        )


def _at_once(job: Job, tasks: int, amount: Callable[[ResourceVector], int]) -> int:
    """Return the sum of an amount over this number of tasks; for a gang with parts, over all of them."""
    if not job.parts:
        return amount(job.request) * tasks
    return sum(amount(request) * number for request, number in job.requests)


def _said(context: Context, name: str, amount: int) -> str:
    return describe_named(amount, name, context.core.dimensions)


def _too_large(group: Group, asked: str, most: str, tasks: int) -> None:
    raise NotAccepted(
        f"the job asks for {asked}, more than the {most} that a job of group {group.name} may use",
        hint=_remedy(group, "MaxJobSize", "fewer tasks, or max_running" if tasks > 1 else "less"),
        field="tasks" if tasks > 1 else "resource",
    )


def check_new(context: Context, jobs: Sequence[Job], leaving: int = 0) -> None:
    """Raise ``NotAccepted`` if the group of a new job is closed, or the new jobs exceed its limits.

    ``leaving`` is the number of jobs that they replace.
    """
    first: dict[str, int] = {}
    for place, job in enumerate(jobs):
        first.setdefault(job.group or DEFAULT_GROUP, place)
    for name, place in first.items():
        group = context.core.groups.by_name.get(name)
        closed = next((level for level in _path(group) if level.spec.closed), None) if group is not None else None
        if closed is not None:
            error = NotAccepted(_closed(context, closed.spec), hint=_reopen(closed.spec), field="group")
            raise below(error, f"jobs[{place}]") if len(jobs) > 1 else error
    many = _too_many(context, [job for job in jobs if counts(job)], leaving)
    if many is not None:
        raise many


def problem(context: Context, run: Sequence[Job], leaving: int = 0) -> str:
    """Return why limits of its group forbid the jobs of a run of a cron job; empty if they allow it.

    ``leaving`` is the number of jobs that it replaces.
    """
    try:
        check_new(context, run, leaving)
        for job in run:
            check_job(context, job)
    except NotAccepted as error:
        return error.what
    return ""


def _too_many(context: Context, new: Sequence[Job], leaving: int) -> NotAccepted | None:
    """Return the error of the first limit that these jobs together exceed."""
    users: dict[str, Counter[str]] = {}
    for (name, user), number in Counter((job.group or DEFAULT_GROUP, job.user) for job in new).items():
        state = context.core.groups.by_name.get(name)
        for level in _path(state) if state is not None else ():
            users.setdefault(level.name, Counter())[user] += number
    for name, theirs in users.items():
        spec = context.core.groups.any_of(name).spec
        error = _exceeded(context, spec, None, theirs.total(), leaving)
        for user, number in theirs.items() if error is None else ():
            error = error or _exceeded(context, spec, user, number, leaving)
        if error is not None:
            return error
    return None


def _exceeded(context: Context, group: Group, user: str | None, more: int, leaving: int) -> NotAccepted | None:
    """Return the error if a group, or a user in it, may not have ``more`` jobs in addition."""
    limits = group.limits
    alive = sum(context.group_load.of(leaf, user) for leaf in _leaves(context, group.name)) - leaving
    most = limits.jobs if user is None else limits.jobs_per_user
    per_user = "PerUser" * (user is not None)
    if most is not None and alive + more > most:
        return _full(group, user, f"{alive:,} of at most {most:,} jobs that wait or run", more, f"MaxJobs{per_user}")
    most = limits.waiting if user is None else limits.waiting_per_user
    if most is None:
        return None
    waiting = alive - _running(context, group.name, user)
    if waiting + more > most:
        return _full(group, user, f"{waiting:,} of at most {most:,} waiting jobs", more, f"MaxWaitingJobs{per_user}")
    return None


def _running(context: Context, group: str, user: str | None) -> int:
    """Return the number of jobs of a group, or of a user in it, with running tasks."""
    groups = [context.core.groups.get(leaf) for leaf in _leaves(context, group)]
    attempts = [attempt for leaf in groups for attempt in leaf.attempts.values()]
    return len({attempt.job.job.counted_as for attempt in attempts if user is None or attempt.job.job.user == user})


def _leaves(context: Context, group: str) -> list[str]:
    """Return the leaves below an inner group, or the group itself."""
    groups = context.core.groups
    return leaves_below(groups.configured, group) if group in groups.tree.inner else [group]


def _full(group: Group, user: str | None, has: str, more: int, keyword: str) -> NotAccepted:
    who = f"group {group.name} has" if user is None else f"{user} has in group {group.name}"
    new = f", and {more:,} more were submitted" if more > 1 else ""
    return NotAccepted(f"{who} {has}{new}", hint=_remedy(group, keyword, "wait for some to end"), field="group")


def _closed(context: Context, group: Group) -> str:
    since = f" since {shown(context, group.closed_at)}" if group.closed_at else ""
    return f"group {group.name} is closed{since} and takes no new jobs"


def _reopen(group: Group) -> str:
    return f"another group, or {_who(group)} opens it: `cress groups set {group.name} Submit=open`"


def _remedy(group: Group, keyword: str, first: str) -> str:
    return f"{first}, or ask {_who(group)}: {keyword} of group {group.name}"


def _who(group: Group) -> str:
    """Return the people who can change the limits of a group."""
    admins = ", ".join(group.admins[:_MOST_TOLD])
    return f"an administrator of the group ({admins})" if admins else "an admin"


def _path(group: GroupState) -> Iterable[Amounts]:
    """Return the groups whose limits apply to jobs of a group: all on the way to the root."""
    return group.path()
