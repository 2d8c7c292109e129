"""Dependencies from task to task: each task of a job starts when the task of the same number of another has succeeded.

The scheduler knows the tasks that are not released yet. One whose counterpart ended without success never starts: it
counts as cancelled. Once the other job is ending, its end decides about all that are left.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.context import Context
from cress.lifecycle.jobs.conditions import never
from cress.lifecycle.jobs.jobs import maybe_over
from cress.lifecycle.slices import SLICE, Slices
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.events import TasksReleased
from cress.model.job import Condition
from cress.model.records import JobState
from cress.model.times import NEVER

# Maximum number of tasks that one slice releases or drops: some milliseconds of work.
MOST_AT_ONCE = 1_000


def check_known(job: LiveJob) -> None:
    """Raise ``InputError`` if it is unknown which tasks of a job ended without success, before this release."""
    if job.failed + job.cancelled != len(job.not_succeeded) and not job.ending:
        raise InputError(
            f"it is not known which tasks of job {job.job.id} failed under an earlier release",
            hint=f"{Condition.ANY.value}, which waits until the job has ended",
        )


def begin(context: Context, job: LiveJob) -> Slices[None]:
    """Release the tasks of a new job whose counterparts have succeeded, and drop those whose counterparts have not."""
    number = next((number for number, condition in job.unmet if condition is Condition.TASKS), None)
    first = None if number is None else context.jobs.get(number)
    if first is None or first.ending:
        return
    entry = context.core.jobs[first.job.id]
    open_ = {attempt.task for attempt in first.attempts.values()}.union(entry.again, entry.later, entry.carried)
    open_.update(task for claim in entry.claims for task in claim.tasks)
    over = [task for task in range(min(entry.next_task, job.job.tasks)) if task not in open_]
    yield from _release(context, job, [task for task in over if task not in first.not_succeeded])
    yield from _drop(context, job, [task for task in over if task in first.not_succeeded], first.job.id)


def ended(context: Context, first: LiveJob, task: int, *, succeeded: bool) -> None:
    """Note that a task will not run again, for the jobs that wait for its success."""
    if not first.ending:
        context.unsettled.tasks.append((first.job.id, (task,), succeeded))


def settle(context: Context) -> Slices[None]:
    """Release or drop the tasks that wait for tasks that are over, including those that are dropped because of this."""
    told = 0
    while context.unsettled.tasks:
        first, tasks, succeeded = context.unsettled.tasks.popleft()
        for follower in tuple(context.behind_tasks.get(first, ())):
            told += 1
            if told % SLICE == 0 and not context.unsettled.gone:
                yield
            job = context.jobs.get(follower)
            if job is None or job.ending:
                continue
            if succeeded:
                yield from _release(context, job, tasks)
            else:
                yield from _drop(context, job, tasks, first)


def over(context: Context, job: LiveJob, number: int, state: JobState) -> Slices[None]:
    """Release the tasks that are left if the job ``number`` has succeeded as a whole; drop them otherwise."""
    left = list(context.core.jobs[job.job.id].later)
    if state is JobState.SUCCEEDED:
        yield from _release(context, job, left)
    else:
        yield from _drop(context, job, left, number, never(number, Condition.TASKS, state))


def _release(context: Context, job: LiveJob, tasks: Iterable[int]) -> Slices[None]:
    for some in _waiting(context, job, tasks):
        context.observe(TasksReleased(job.job.id, some))
        if len(some) > SLICE and not context.unsettled.gone:
            yield


def _drop(context: Context, job: LiveJob, tasks: Iterable[int], first: int, why: str = "") -> Slices[None]:
    """Drop tasks that wait for those of the job ``first``, and later those that wait for the dropped ones."""
    for some in _waiting(context, job, tasks):
        why = why or f"dependency failed: task {some[0]} of job {first} did not succeed"
        job.reason = job.reason or why
        job.cancelled += len(some)
        for task in some:
            job.not_succeeded[task] = True
        context.observe(TasksReleased(job.job.id, dropped=some))
        if job.job.id in context.behind_tasks:
            context.unsettled.tasks.append((job.job.id, some, False))
        maybe_over(context, job)
        # Few tasks need no pause, and there is none while a family does not know that a member has ended.
        if len(some) > SLICE and not context.unsettled.gone:
            yield


def _waiting(context: Context, job: LiveJob, tasks: Iterable[int]) -> Iterable[tuple[int, ...]]:
    """Return those of these tasks that are not released, as parts of one slice each.

    In one submit, a job may have dropped tasks of this one before it is looked at itself.
    """
    entry = context.core.jobs.get(job.job.id)
    later = {} if entry is None else entry.later
    left = tuple(task for task in tasks if later.get(task) == NEVER)
    return (left[first : first + MOST_AT_ONCE] for first in range(0, len(left), MOST_AT_ONCE))
