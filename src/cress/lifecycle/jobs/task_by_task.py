"""Dependencies from task to task: each task of a job starts when the task of the same number of another has succeeded.

The scheduler knows the tasks that are not released yet. One whose counterpart ended without success never starts: it
counts as cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cress.lifecycle.context import Context
from cress.lifecycle.jobs.conditions import never
from cress.lifecycle.jobs.jobs import maybe_over
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.events import TasksReleased
from cress.model.job import Condition
from cress.model.records import JobState
from cress.model.times import NEVER


def check_known(job: LiveJob) -> None:
    """Raise ``InputError`` if it is unknown which tasks of a job ended without success, before this release."""
    if job.failed + job.cancelled != len(job.not_succeeded) and not job.ending:
        raise InputError(
            f"it is not known which tasks of job {job.job.id} failed under an earlier release",
            hint=f"{Condition.ANY.value}, which waits until the job has ended",
        )


def begin(context: Context, job: LiveJob) -> None:
    """Release the tasks of a new job whose counterparts have succeeded, and drop those whose counterparts have not."""
    number = next((number for number, condition in job.unmet if condition is Condition.TASKS), None)
    first = None if number is None else context.jobs.get(number)
    if first is None or first.ending:
        # If the other job has ended, or ends, its end settles the rest.
        return
    entry = context.core.jobs[first.job.id]
    open_ = {attempt.task for attempt in first.attempts.values()}.union(entry.again, entry.later, entry.carried)
    open_.update(task for claim in entry.claims for task in claim.tasks)
    over = [task for task in range(min(entry.next_task, job.job.tasks)) if task not in open_]
    done = tuple(task for task in over if task not in first.not_succeeded)
    if done:
        context.observe(TasksReleased(job.job.id, done))
    _drop(context, job, first.job.id, [task for task in over if task in first.not_succeeded])


def ended(context: Context, first: LiveJob, task: int, *, succeeded: bool) -> None:
    """Release or drop the task of each job that waits for this task, which will not run again."""
    for follower in tuple(context.behind_tasks[first.job.id]):
        job = context.jobs.get(follower)
        if job is None or job.ending or task >= job.job.tasks:
            continue
        if succeeded:
            context.observe(TasksReleased(follower, (task,)))
        elif not first.ending:
            # The end of a job that is ending settles the rest, with its reason.
            _drop(context, job, first.job.id, [task])


def over(context: Context, job: LiveJob, number: int, state: JobState) -> None:
    """Drop the tasks whose counterparts in the ended job ``number`` never ran."""
    left = context.core.jobs[job.job.id].later
    _drop(context, job, number, [task for task, time in left.items() if time == NEVER], state)


def _drop(context: Context, job: LiveJob, number: int, tasks: Sequence[int], state: JobState = JobState.FAILED) -> None:
    """Drop tasks that waited for those of the job ``number``, and then the tasks that wait for the dropped ones."""
    dropped = deque([(job, number, tasks)] if tasks else [])
    while dropped:
        job, number, tasks = dropped.popleft()
        which = f"task {tasks[0]} of job {number} did not succeed"
        why = f"dependency failed: {which}" if state is JobState.FAILED else never(number, Condition.TASKS, state)
        job.reason = job.reason or why
        job.cancelled += len(tasks)
        for task in tasks:
            job.not_succeeded[task] = True
        context.observe(TasksReleased(job.job.id, dropped=tuple(tasks)))
        for follower in context.behind_tasks.get(job.job.id, ()):
            then = context.jobs.get(follower)
            if then is not None and not then.ending:
                behind = [task for task in tasks if task < then.job.tasks]
                dropped += [(then, job.job.id, behind)] if behind else []
        maybe_over(context, job)
