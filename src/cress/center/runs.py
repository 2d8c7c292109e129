"""Runs: how a job is run, made from what is stored. Members of families share that of their template."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.lifecycle.effects import Step
from cress.lifecycle.family import Family
from cress.lifecycle.inputs import Input, Submit, Update
from cress.lifecycle.live import LiveJob
from cress.model.errors import InputError
from cress.model.records import JobRecord
from cress.model.run import Run

encode_run = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(Run).decode


def template_of(job: LiveJob | JobRecord | Family) -> int:
    """The id under which its run is stored."""
    if isinstance(job, JobRecord):
        return job.template or job.id
    return job.template or job.job.id


def run_of(job: LiveJob | JobRecord | Family, run: Run, tasks: int | None = None) -> Run:
    """The run of a job, from that of its template; ``tasks``: how many its family has."""
    spec = job if isinstance(job, JobRecord) else job.job
    if isinstance(job, Family):
        tasks = job.job.tasks
    elif isinstance(job, JobRecord) and job.template and not job.family:
        tasks = job.tasks
    count = run.tasks if tasks is None else tasks
    family = 0 if isinstance(job, Family) else spec.family
    if (run.job, run.family, run.tasks) == (spec.id, family, count):
        return run
    return msgspec.structs.replace(run, job=spec.id, family=family, tasks=count)


def new_runs(calls: Sequence[tuple[Input, Sequence[Run]]], step: Step) -> tuple[list[Run], dict[int, int]]:
    """The runs that came with the inputs of a step and were accepted, with their ids; and, by id, whose new ones some are."""
    runs: list[Run] = []
    templates: dict[int, int] = {}
    for place, ((what, each), reply) in enumerate(zip(calls, step.replies, strict=True)):
        if not each or reply is None or isinstance(reply, InputError) or place in step.repeated:
            continue
        if isinstance(what, Update):
            templates[reply[0]] = what.job
            runs.append(msgspec.structs.replace(each[0], job=reply[0]))
        elif isinstance(what, Submit):
            for number, run, job in zip(reply, each, what.jobs, strict=True):
                family = reply[-job.family - 1] if job.family else 0
                runs.append(msgspec.structs.replace(run, job=number, family=family))
    return runs, templates


def same_run(one: Run, other: Run) -> bool:
    """Whether tasks would run alike by these two, whatever jobs and users they belong to."""
    fixed = {"job": 0, "family": 0, "tasks": 1, "source": "", "user": ""}
    return msgspec.structs.replace(one, **fixed) == msgspec.structs.replace(other, **fixed)
