"""Runs of jobs. Members of a family share the run of their template."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from cress.lifecycle.effects import StepResult
from cress.lifecycle.families.step_values import values_of
from cress.lifecycle.inputs import ChangeJobs, Input, Submit, Update
from cress.lifecycle.slices import Slices, parts
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.family import Dag, Database, Service
from cress.model.job import JobType
from cress.model.records import JobRecord
from cress.model.run import Run
from cress.model.step_values import variable
from cress.model.times import SECOND

encode_run = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(Run).decode

# The variables with the moment of a run of a cron job, and the one before it.
TIMES = ("CRESS_SCHEDULED", "CRESS_SCHEDULED_BEFORE")
# Maximum number of runs in memory; others are read from the store.
MOST_KEPT = 2_048


def template_of(job: LiveJob | JobRecord | Family) -> int:
    """Return the id under which the run of a job is stored."""
    if isinstance(job, JobRecord):
        return job.template or job.id
    return job.template or job.job.id


def run_of(job: LiveJob | JobRecord | Family, run: Run, tasks: int | None = None) -> Run:
    """Return the run of a job, made from that of its template; ``tasks`` is the task count of its family."""
    spec = job if isinstance(job, JobRecord) else job.job
    run = _part_of(job, run) if run.steps else run
    if isinstance(job, Family):
        tasks = job.job.tasks
    elif isinstance(job, JobRecord) and job.template and not job.family:
        tasks = job.tasks
    count = run.tasks if tasks is None else tasks
    family = 0 if isinstance(job, Family) else spec.family
    # An unfinished job knows its limit, which may have changed; else the default of its group, if it has no own one.
    limit = spec.time_limit if run.time_limit is None or isinstance(job, LiveJob) else run.time_limit
    if isinstance(job, LiveJob) and job.scheduled[1]:
        run = msgspec.structs.replace(run, environment=(*run.environment, *times_of_run(*job.scheduled)))
    if (run.job, run.family, run.tasks, run.time_limit) == (spec.id, family, count, limit):
        return run
    return msgspec.structs.replace(run, job=spec.id, family=family, tasks=count, time_limit=limit)


def _part_of(job: LiveJob | JobRecord | Family, run: Run) -> Run:
    """Return the part of the run of a cron job for one of its dags, or for a step of one; all of it for itself."""
    if isinstance(job, Family) or (isinstance(job, JobRecord) and job.type != JobType.BATCH.value):
        type_ = job.job.type if isinstance(job, Family) else JobType(job.type)
        return run if type_ is not JobType.DAG else msgspec.structs.replace(run, type=type_, steps=())
    return run.steps[job.index]


def times_of_run(before: int, moment: int) -> Iterator[tuple[str, str]]:
    """Yield the variables of a run of a cron job: its moment, and the one before it."""
    for name, at in zip(TIMES, (moment, before), strict=True):
        if at:
            yield name, f"{datetime.fromtimestamp(at / SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def handed_to(dag: Family) -> tuple[tuple[str, str], ...]:
    """Return the variables with the values that the ended steps of a dag hand on to the others."""
    return tuple((variable(step, key), text) for step, values in values_of(dag) for key, text in values)


def new_runs(
    calls: Sequence[tuple[Input, Sequence[Run]]], step: StepResult
) -> Slices[tuple[list[Run], dict[int, int]]]:
    """Return the accepted runs of a step's inputs with their ids, and the families of new templates by
    id; in slices.
    """
    runs: list[Run] = []
    templates: dict[int, int] = {}
    for place, ((what, message), reply) in enumerate(zip(calls, step.replies, strict=True)):
        if not message or reply is None or isinstance(reply, InputError) or place in step.repeated:
            continue
        if isinstance(what, Update):
            templates[reply[0]] = what.job
            runs.append(msgspec.structs.replace(message[0], job=reply[0]))
        elif isinstance(what, ChangeJobs):
            templates |= dict(zip(reply, what.jobs, strict=True))
            runs += (msgspec.structs.replace(run, job=new) for new, run in zip(reply, message, strict=True))
        elif isinstance(what, Submit):
            for part in parts(list(zip(reply, message, what.jobs, strict=True))):
                for number, run, job in part:
                    family = reply[-job.family - 1] if job.family else 0
                    runs.append(msgspec.structs.replace(run, job=number, family=family))
                yield
    return runs, templates


def same_run(one: Run, other: Run) -> bool:
    """Return whether two runs are equal apart from their jobs and users."""
    fixed = {"job": 0, "family": 0, "tasks": 1, "source": "", "user": "", "labels": ()}
    return msgspec.structs.replace(one, **fixed) == msgspec.structs.replace(other, **fixed)


class Runs:
    """The stored runs; the most recently used ones are in memory.

    ``read`` returns a run as stored, None if it is missing. ``uncommitted`` are those of the batch that is being
    committed, by job.
    """

    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read
        self._kept: OrderedDict[int, Run] = OrderedDict()
        self.uncommitted: dict[int, Run] = {}

    def template(self, job: int) -> Run | None:
        """Return the run stored under this id."""
        run = self._kept.get(job)
        if run is not None:
            self._kept.move_to_end(job)
            return run
        run = self.uncommitted.get(job)
        if run is None:
            data = self._read(job)
            run = None if data is None else decode_run(data)
        if run is not None:
            self.keep(run)
        return run

    def of(self, job: LiveJob | JobRecord | Family, owner: Family | None) -> Run | None:
        """Return the run of a job; ``owner`` is its family, if unfinished."""
        run = self.template(template_of(job))
        if run is None:
            return None
        counted = owner is not None and isinstance(owner.job.plan, Service | Database)
        found = run_of(job, run, owner.job.tasks if owner is not None and counted else None)
        if owner is not None and isinstance(owner.job.plan, Dag) and (handed := handed_to(owner)):
            return msgspec.structs.replace(found, environment=(*found.environment, *handed))
        return found

    def keep(self, run: Run) -> None:
        """Keep a run in memory, in place of the least recently used one."""
        self._kept[run.job] = run
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def forget(self, job: int) -> None:
        """Forget the run of an ended job."""
        self._kept.pop(job, None)

    def clear(self) -> None:
        """Forget all runs, since some may not be stored."""
        self._kept.clear()
        self.uncommitted = {}
