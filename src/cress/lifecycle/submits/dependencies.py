"""Dependencies of jobs: the open conditions, and the consequences when one is decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cress.lifecycle.context import Context
from cress.lifecycle.families import families
from cress.lifecycle.jobs import task_by_task
from cress.lifecycle.jobs.conditions import holds, never
from cress.lifecycle.jobs.jobs import cancel
from cress.lifecycle.jobs.waits import release
from cress.lifecycle.slices import SLICE, Slices
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.job import Condition, Job
from cress.model.records import JobState
from cress.model.task_dependencies import check_follower, check_number, check_pair, needs_tasks

# Maximum number of jobs of a cycle in an error.
MOST_SHOWN = 20


def check(context: Context, jobs: Sequence[Job], known: Mapping[int, JobState]) -> Slices[None]:
    """Raise ``InputError`` if jobs of a submit depend on unknown jobs, or on themselves."""
    waiting = 0
    for i, job in enumerate(jobs):
        if i % SLICE == 0:
            yield
        if not job.after:
            continue
        counts = Counter(number for number, _ in job.after)
        for number, count in counts.items():
            if count > 1:
                what = f"job {number}" if number > 0 else f"the job {jobs[-number - 1].name or -number}"
                raise _error(jobs, i, f"{what} is named twice", "one condition for each job")
            if number in context.jobs or number in context.families or number in known or 0 < -number <= len(jobs):
                continue
            raise _error(jobs, i, f"there is no job {number}", "an id that `cress jobs` shows")
        if needs_tasks(job):
            waiting += job.tasks
            _check_tasks(context, jobs, i, waiting)
    loop = _loop(jobs) if any(job.after for job in jobs) else []
    if loop:
        shown = loop if len(loop) <= MOST_SHOWN else [*loop[:MOST_SHOWN], loop[-1]]
        names = " → ".join(jobs[i].name or f"job {i + 1}" for i in shown)
        what = "the job depends on itself" if len(loop) == 2 else f"these jobs depend on each other: {names}"
        raise _error(jobs, loop[0], what, "an order in which they can run")


def _check_tasks(context: Context, jobs: Sequence[Job], i: int, waiting: int) -> None:
    """Raise ``InputError`` if tasks of a job cannot wait for those of another one, being with those of the jobs before
    it so many that are ``waiting``.
    """
    job = jobs[i]
    try:
        check_follower(job)
        check_number(waiting)
        number = next(number for number, condition in job.after if condition is Condition.TASKS)
        if number < 0:
            first = jobs[-number - 1]
            check_pair(first, job, f"the job {first.name or -number}")
            return
        live = context.jobs.get(number) or context.families.get(number)
        if live is not None:
            check_pair(live.job, job, f"job {number}")
        if isinstance(live, LiveJob):
            task_by_task.check_known(live)
    except InputError as error:
        raise _error(jobs, i, error.what, error.hint) from None


def _error(jobs: Sequence[Job], i: int, what: str, hint: str) -> InputError:
    return InputError(what, hint=hint, field="after" if len(jobs) == 1 else f"jobs[{i}].after")


def _loop(jobs: Sequence[Job]) -> list[int]:
    """Return the places of jobs of one submit that depend on each other in a cycle, the first one again at the end."""
    before = [[-number - 1 for number, _ in job.after if number < 0] for job in jobs]
    left = [len(conditions) for conditions in before]
    behind: list[list[int]] = [[] for _ in jobs]
    for i, conditions in enumerate(before):
        for first in conditions:
            behind[first].append(i)
    free = [i for i, count in enumerate(left) if not count]
    while free:
        for i in behind[free.pop()]:
            left[i] -= 1
            if not left[i]:
                free.append(i)
    stuck = next((i for i, count in enumerate(left) if count), None)
    if stuck is None:
        return []
    # Every remaining job depends on a remaining one: following the dependencies leads into a cycle.
    seen: dict[int, None] = {}
    while stuck not in seen:
        seen[stuck] = None
        stuck = next(first for first in before[stuck] if left[first])
    path = list(seen)
    return [*path[path.index(stuck) :], stuck]


def enter(context: Context, job: LiveJob | Family, known: Mapping[int, JobState]) -> None:
    """Note the open conditions of a job that is being accepted, and the reason if one can no longer be met."""
    unmet: list[tuple[int, Condition]] = []
    for number, condition in job.job.after:
        state = None if number in context.jobs or number in context.families else known.get(number)
        if state is None:
            unmet.append((number, condition))
            context.stay_behind(job.job.id, (number, condition))
        elif not holds(condition, state):
            job.reason = job.reason or never(number, condition, state)
    if unmet:
        job.unmet = (*job.unmet, *unmet)


def settle(context: Context) -> Slices[None]:
    """Settle the dependencies on ended jobs, including those that end because of this.

    Thousands of jobs may wait for one. There is no pause while a family does not know that a member has ended.
    """
    while context.unsettled.over or context.unsettled.tasks:
        # The end of a single task is a more precise reason than that of its job.
        yield from task_by_task.settle(context)
        if not context.unsettled.over:
            return
        number, state = context.unsettled.over.popleft()
        context.behind_tasks.pop(number, None)
        for settled, follower in enumerate(context.behind.pop(number, ()), 1):
            if settled % SLICE == 0 and not context.unsettled.gone:
                yield
            if follower in context.families:
                _settle_family(context, context.families[follower], number, state)
                continue
            job = context.jobs.get(follower)
            if job is None or job.ending:
                continue
            condition = dict(job.unmet)[number]
            if condition is Condition.TASKS:
                job.unmet = tuple(pair for pair in job.unmet if pair[0] != number)
                yield from task_by_task.over(context, job, number, state)
            elif holds(condition, state):
                job.unmet = tuple(pair for pair in job.unmet if pair[0] != number)
                if job.job.when and not job.unmet:
                    context.unsettled.asked.append(follower)
                else:
                    release(context, job)
            else:
                cancel(context, follower, never(number, condition, state))


def _settle_family(context: Context, family: Family, number: int, state: JobState) -> None:
    if family.cancelling:
        return
    condition = dict(family.unmet)[number]
    if not holds(condition, state):
        families.cancel(context, family, never(number, condition, state))
        return
    family.unmet = tuple(pair for pair in family.unmet if pair[0] != number)
    if not family.unmet:
        families.begin(context, family)
