"""Look-up of live and finished work: in the machine, the batch that is being committed, the store, the history.


Work moves in that order, and is copied before it is removed. Functions search in the same order, each place once. Work
that has left a place is therefore found in a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.turns import chunks, in_turns
from cress.lifecycle.families.family_ends import runs_of
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.family import Dag
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job, JobType
from cress.model.records import OVER_WORDS, AttemptRecord, JobRecord, JobState, states_meant
from cress.store.base import JobFilter, StoreError

# Most tasks that one call examines when it filters by state; ``next`` of a short page says that there is more.
MOST_SCANNED = 20_000
CHUNK = 2_000
# Live jobs examined before other requests have their turn.
SCANNED = 200
# A live job, a live family, or the record of either.
AnyJob: TypeAlias = LiveJob | Family | JobRecord
_KEPT = (JobType.SERVICE.value, JobType.DATABASE.value)


async def find_job(committer: Committer, number: int) -> AnyJob | None:
    """Return the job, live or finished, or None; its record comes from the history if its run has moved there."""
    found = recent_job(committer, number)
    if found is None or (isinstance(found, JobRecord) and committer.run(number) is None):
        return await committer.history.job(number) or found
    return found


async def find_all(committer: Committer, numbers: Sequence[int]) -> dict[int, AnyJob]:
    """Return the existing ones of these jobs, live or finished, by id."""
    machine = committer.machine
    found: dict[int, AnyJob] = {}
    async for number in in_turns(numbers):
        job = machine.jobs.get(number) or machine.families.get(number) or committer.uncommitted.jobs.get(number)
        if job is not None:
            found[number] = job
    for place in (committer.finished.some, committer.history.some):
        found |= {job.id: job for job in await place([number for number in numbers if number not in found])}
    return found


def recent_job(committer: Committer, number: int) -> AnyJob | None:
    """Return the job, unless it has moved to the history."""
    machine = committer.machine
    alive = machine.jobs.get(number) or machine.families.get(number)
    return alive or committer.uncommitted.jobs.get(number) or committer.store.job(number)


def members_of(committer: Committer, family: Family) -> list[LiveJob]:
    """Return the live members of a family, by index."""
    jobs = committer.machine.jobs
    return [jobs[number] for _, number in sorted(family.members.items()) if number in jobs]


def state_of(committer: Committer, job: AnyJob) -> JobState:
    """Return the state of a job; a family runs as long as a member does, and a dag until it has ended."""
    if isinstance(job, JobRecord):
        return job.state
    if isinstance(job, Family):
        begun = isinstance(job.job.plan, Dag) and job.succeeded + job.failed > 0
        running = begun or any(member.running for member in members_of(committer, job))
        running = running or any(
            state_of(committer, run) is JobState.RUNNING for run in runs_of(committer.machine, job)
        )
    else:
        running = job.running > 0
    return JobState.RUNNING if running else JobState.WAITING


class FoundJobs(msgspec.Struct):
    """The jobs found; ``problem`` says why some may be missing."""

    jobs: list[AnyJob]
    problem: str = ""


async def find_jobs(committer: Committer, filters: JobFilter, *, limit: int, before: int | None) -> FoundJobs:
    """Return the jobs that pass the filters, newest first, at most ``limit``."""
    live: list[AnyJob] = []
    for kind in _candidates(committer, filters.state):
        most = len(live) + limit
        async for part in in_turns(chunks(kind, SCANNED)):
            live += (job for job in part if _passes(committer, job, filters, before))
            if len(live) >= most:
                break
        del live[most:]
    live += (job for job in committer.uncommitted.jobs.values() if _passes(committer, job, filters, before))
    live += await committer.finished.jobs(filters, limit=limit, before=before)
    problem = ""
    # Ids grow with time, but an old job can outlive many younger ones, so the history may have any id.
    try:
        live += await committer.history.jobs(filters, limit=limit, before=before)
    except StoreError as error:
        problem = str(error)
    # A job may be found twice while it moves: the first one counts.
    found = {id_of(job): job for job in reversed(live)}
    page = [found[number] for number in sorted(found, reverse=True)[:limit]]
    return FoundJobs([await _still(committer, job) for job in page], problem)


def _candidates(committer: Committer, state: str) -> tuple[list[AnyJob], ...]:
    """Return jobs and families that may be in a state (empty: in any), newest first; all others are not.

    They are copies, since other requests have their turn meanwhile. Most jobs of a large cluster wait, so the few that
    run are found by their attempts.
    """
    machine = committer.machine
    if state and states_meant(state) <= OVER_WORDS:
        return ()
    if state == JobState.RUNNING.value:
        running = sorted({attempt.job for attempt in machine.attempts.values()}, reverse=True)
        jobs: list[AnyJob] = [machine.jobs[number] for number in running if number in machine.jobs]
    else:
        jobs = list(reversed(machine.jobs.values()))
    return jobs, list(reversed(machine.families.values()))


async def _still(committer: Committer, job: AnyJob) -> AnyJob:
    """Return the present form of a job, which may have ended since the search began."""
    number = id_of(job)
    if isinstance(job, JobRecord) or number in committer.machine.jobs or number in committer.machine.families:
        return job
    return await find_job(committer, number) or job


def still_there(committer: Committer, job: AnyJob) -> AnyJob:
    """Return the job, or its record if it has ended since it was found."""
    number = id_of(job)
    if isinstance(job, JobRecord) or number in committer.machine.jobs or number in committer.machine.families:
        return job
    return recent_job(committer, number) or job


def _passes(committer: Committer, job: AnyJob, filters: JobFilter, before: int | None) -> bool:
    spec = spec_of(job)
    type_ = spec.type if isinstance(spec, JobRecord) else spec.kind
    return (
        (before is None or spec.id < before)
        and (not filters.group or group_of(job) == filters.group)
        and (not filters.user or spec.user == filters.user)
        and (not filters.name or spec.name == filters.name)
        and (not filters.type or type_ == filters.type)
        and (spec.family == filters.family if filters.family else not (spec.family and type_ in _KEPT))
        and (not filters.state or state_of(committer, job).value in states_meant(filters.state))
        and (filters.since is None or job.submitted >= filters.since)
        and (filters.until is None or job.submitted < filters.until)
        and (filters.seen is None or spec.user == filters.seen[0] or group_of(job) in filters.seen[1])
    )


def spec_of(job: AnyJob) -> Job | JobRecord:
    """Return the job as it was submitted."""
    return job if isinstance(job, JobRecord) else job.job


def group_of(job: AnyJob) -> str:
    """Return the group of a job."""
    return spec_of(job).group or DEFAULT_GROUP


def id_of(job: AnyJob) -> int:
    """Return the id of a job."""
    return spec_of(job).id


def tasks_of(job: AnyJob) -> int:
    """Return the number of tasks of a job."""
    return spec_of(job).tasks


class FoundTask:
    """One task with its finished attempts and the live one."""

    __slots__ = ("finished", "index", "live", "state")

    def __init__(self, index: int, finished: list[AttemptRecord], live: LiveAttempt | None, *, dropped: bool) -> None:
        self.index = index
        self.finished = finished
        self.live = live
        if live is not None:
            self.state = "running" if live.started else "starting"
        elif finished and finished[-1].final:
            self.state = finished[-1].outcome.value
        else:
            self.state = "cancelled" if dropped else "waiting"


async def find_tasks(committer: Committer, number: int, first: int, last: int) -> list[FoundTask]:
    """Return the tasks from ``first`` to ``last``, both included, of an existing job."""
    job = await find_job(committer, number)
    live: dict[int, LiveAttempt] = {}
    dropped = True
    if isinstance(job, LiveJob):
        live = {attempt.task: attempt for attempt in job.attempts.values()}
        dropped = job.ending
    moving = list(committer.uncommitted.attempts.get(number, ()))
    moving += await committer.finished.attempts(number, first, last)
    moving += await committer.history.attempts(number, first, last)
    finished: dict[int, dict[int, AttemptRecord]] = {}
    async for record in in_turns(moving):
        if first <= record.task <= last:
            finished.setdefault(record.task, {})[record.attempt] = record
    tasks = []
    async for index in in_turns(range(first, last + 1)):
        attempts = finished.get(index, {})
        running = live.get(index)
        if running is not None and running.id in attempts:
            running = None  # the attempt has ended since
        tasks.append(FoundTask(index, [attempts[id] for id in sorted(attempts)], running, dropped=dropped))
    return tasks


async def page_of_tasks(
    committer: Committer, number: int, tasks: int, *, limit: int, after: int, state: str
) -> tuple[list[FoundTask], int | None]:
    """Return at most ``limit`` tasks after ``after`` in that state (empty: any), and the next ``after``."""
    if not state:
        last = min(tasks - 1, after + limit)
        return await find_tasks(committer, number, after + 1, last), last if last < tasks - 1 else None
    found = []
    end = min(tasks - 1, after + MOST_SCANNED)
    for first in range(after + 1, end + 1, CHUNK):
        for task in await find_tasks(committer, number, first, min(end, first + CHUNK - 1)):
            if task.state in states_meant(state):
                found.append(task)
                if len(found) == limit:
                    return found, task.index if task.index < tasks - 1 else None
    return found, end if end < tasks - 1 else None
