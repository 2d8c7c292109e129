"""Live and finished work as one: what the machine has, what is on its way into the store, what the store has."""

from __future__ import annotations

from collections.abc import Iterator

from cress.center.engine import Engine
from cress.lifecycle.live import LiveAttempt, LiveJob
from cress.model.records import AttemptRecord, JobRecord, JobState

# Tasks that one call looks at when it filters by state: a page may be short, ``next`` says that there is more.
MOST_SCANNED = 20_000
CHUNK = 2_000


def find_job(engine: Engine, number: int) -> LiveJob | JobRecord | None:
    """The job, alive or over."""
    return engine.machine.jobs.get(number) or engine.flight.jobs.get(number) or engine.store.job(number)


def state_of(job: LiveJob | JobRecord) -> JobState:
    """What a person asks first."""
    if isinstance(job, JobRecord):
        return job.state
    return JobState.RUNNING if job.running else JobState.PENDING


def find_jobs(
    engine: Engine, *, limit: int, before: int | None, group: str, user: str, state: str, name: str
) -> list[LiveJob | JobRecord]:
    """Jobs that pass the filters, newest first, at most ``limit``; an empty filter lets all pass."""

    def passes(job: LiveJob | JobRecord) -> bool:
        spec = job.job if isinstance(job, LiveJob) else job
        return (
            (before is None or spec.id < before)
            and (not group or group_of(engine, job) == group)
            and (not user or spec.user == user)
            and (not name or spec.name == name)
            and (not state or state_of(job).value == state)
        )

    live: list[LiveJob | JobRecord] = []
    for job in reversed(engine.machine.jobs.values()):
        if passes(job):
            live.append(job)
            if len(live) == limit:
                break
    live += filter(passes, engine.flight.jobs.values())
    live += engine.store.jobs(limit=limit, before=before, group=group, user=user, state=state, name=name)
    # A job that is on its way into the store may be there already.
    found = {id_of(job): job for job in reversed(live)}
    return [found[number] for number in sorted(found, reverse=True)[:limit]]


def group_of(engine: Engine, job: LiveJob | JobRecord) -> str:
    """The group of a job; a live one may have moved since it was submitted."""
    if isinstance(job, JobRecord):
        return job.group
    state = engine.machine.core.jobs.get(job.job.id)
    return job.job.group if state is None else state.group.name


def id_of(job: LiveJob | JobRecord) -> int:
    """The id of a job."""
    return job.job.id if isinstance(job, LiveJob) else job.id


def tasks_of(job: LiveJob | JobRecord) -> int:
    """How many tasks a job has."""
    return job.job.tasks if isinstance(job, LiveJob) else job.tasks


class Task:
    """One task: its finished attempts, and the live one."""

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


def find_tasks(engine: Engine, number: int, first: int, last: int) -> Iterator[Task]:
    """The tasks ``first`` … ``last`` (included) of a job that exists."""
    job = find_job(engine, number)
    live: dict[int, LiveAttempt] = {}
    dropped = True
    if isinstance(job, LiveJob):
        live = {attempt.task: attempt for attempt in job.attempts.values()}
        dropped = job.cancelling
    finished: dict[int, dict[int, AttemptRecord]] = {}
    for record in engine.store.attempts(number, first, last):
        finished.setdefault(record.task, {})[record.attempt] = record
    for record in engine.flight.attempts.get(number, ()):
        finished.setdefault(record.task, {})[record.attempt] = record
    for index in range(first, last + 1):
        attempts = finished.get(index, {})
        yield Task(index, [attempts[id] for id in sorted(attempts)], live.get(index), dropped=dropped)


def page_of_tasks(
    engine: Engine, number: int, tasks: int, *, limit: int, after: int, state: str
) -> tuple[list[Task], int | None]:
    """Tasks behind ``after`` in that state (empty: any), at most ``limit``; and what to pass on as ``after``."""
    if not state:
        last = min(tasks - 1, after + limit)
        found = list(find_tasks(engine, number, after + 1, last))
        return found, last if last < tasks - 1 else None
    found = []
    end = min(tasks - 1, after + MOST_SCANNED)
    for first in range(after + 1, end + 1, CHUNK):
        for task in find_tasks(engine, number, first, min(end, first + CHUNK - 1)):
            if task.state == state:
                found.append(task)
                if len(found) == limit:
                    return found, task.index if task.index < tasks - 1 else None
    return found, end if end < tasks - 1 else None
