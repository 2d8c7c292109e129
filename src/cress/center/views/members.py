"""Tasks of services and databases: each is a member job, shown as a task of its family."""

from __future__ import annotations

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import (
    AnyJob,
    FoundTask,
    find_jobs,
    find_tasks,
    id_of,
    members_of,
    page_of_tasks,
    tasks_of,
)
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.job import JobType
from cress.model.records import JobRecord, states_meant
from cress.store.base import JobFilter

_KEPT = {JobType.SERVICE.value, JobType.DATABASE.value}
# Members of a family that are searched for the last one of an index.
MOST_LOOKED = 1_000


def is_kept(job: AnyJob) -> bool:
    """Return whether a job is a service or database, whose tasks are its members."""
    if isinstance(job, JobRecord):
        return job.type in _KEPT and not job.family
    return isinstance(job, Family) and job.job.type.value in _KEPT


def count_of(job: AnyJob) -> int:
    """Return the number of tasks; for a service, the wanted number, or more while surplus members live."""
    if isinstance(job, Family) and is_kept(job):
        return max(job.job.tasks, max(job.members, default=-1) + 1)
    return tasks_of(job)


async def member_of(committer: Committer, job: AnyJob, index: int) -> LiveJob | JobRecord | None:
    """Return the member that is the task ``index``, the last one that ran; None if none has run.

    While its next member waits for a node, a task is still its last member.
    """
    live = committer.machine.jobs.get(job.members.get(index, 0)) if isinstance(job, Family) else None
    if live is not None and (live.attempts or live.started):
        return live
    records = (record for record in await _records(committer, job) if record.index == index)
    first = next(records, None)
    return next((record for record in (first, *records) if record is not None and _ran(record)), live or first)


def _ran(record: JobRecord) -> bool:
    """Return whether a member had an attempt worth showing."""
    return bool(record.started or record.failed)


async def _records(committer: Committer, job: AnyJob) -> list[JobRecord]:
    """Return the finished members, the last one first."""
    found = await find_jobs(committer, JobFilter(family=id_of(job)), limit=MOST_LOOKED, before=None)
    return [member for member in found.jobs if isinstance(member, JobRecord)]


async def place_of(committer: Committer, job: AnyJob, index: int) -> tuple[int, int]:
    """Return the job and its task number for the task ``index`` of ``job``."""
    if not is_kept(job):
        return id_of(job), index
    member = await member_of(committer, job, index)
    return (id_of(job), index) if member is None else (id_of(member), 0)


async def tasks_page(
    committer: Committer, job: AnyJob, *, limit: int, after: int, state: str
) -> tuple[list[tuple[FoundTask, int | None]], int | None]:
    """Return at most ``limit`` tasks after ``after`` in that state (empty: any), with their members, and the next."""
    if not is_kept(job):
        tasks, more = await page_of_tasks(committer, id_of(job), count_of(job), limit=limit, after=after, state=state)
        return [(task, None) for task in tasks], more
    count = count_of(job)
    # A running member needs no earlier one.
    latest = await _latest(committer, job) if len(attempts_of(committer, job, None)) < count else {}
    found: list[tuple[FoundTask, int | None]] = []
    for index in range(after + 1, count):
        task = await task_of(committer, job, index, latest)
        if not state or task[0].state in states_meant(state):
            found.append(task)
            if len(found) == limit:
                return found, index if index < count - 1 else None
    return found, None


async def task_of(
    committer: Committer, job: AnyJob, index: int, latest: dict[int, JobRecord] | None = None
) -> tuple[FoundTask, int | None]:
    """Return a task and its member; while the next member waits, the task has the attempts of the last one."""
    if not is_kept(job):
        return (await find_tasks(committer, id_of(job), index, index))[0], None
    live = committer.machine.jobs.get(job.members.get(index, 0)) if isinstance(job, Family) else None
    task = FoundTask(index, [], None, dropped=isinstance(job, JobRecord))
    number = None
    if live is not None:
        number, (task,) = id_of(live), await find_tasks(committer, id_of(live), 0, 0)
    if not (task.live or task.finished):
        before = (await _latest(committer, job) if latest is None else latest).get(index)
        if before is not None:
            (last,) = await find_tasks(committer, before.id, 0, 0)
            number = before.id if number is None else number
            if isinstance(job, JobRecord):
                task = last
            task.finished = last.finished
    task.index = index
    return task, number


async def _latest(committer: Committer, job: AnyJob) -> dict[int, JobRecord]:
    """Return the last finished member of each index; for a live family, among those that ran."""
    records = await _records(committer, job)
    return {record.index: record for record in reversed(records) if isinstance(job, JobRecord) or _ran(record)}


def attempts_of(committer: Committer, job: AnyJob, task: int | None) -> list[LiveAttempt]:
    """Return the running attempts of a job, or of one of its tasks."""
    if isinstance(job, JobRecord):
        return []
    if isinstance(job, LiveJob):
        return [attempt for attempt in job.attempts.values() if task is None or attempt.task == task]
    members = members_of(committer, job)
    if task is not None:
        members = [member for member in members if member.index == task] if is_kept(job) else []
    return [attempt for member in members for attempt in member.attempts.values()]
