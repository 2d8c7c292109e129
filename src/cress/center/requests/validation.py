"""Validation of submitted jobs: keys, constraint language, wall-clock times."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, tzinfo
from itertools import chain

import msgspec

from cress.core.placing.submitted_constraints import constrained
from cress.lifecycle.families import moments
from cress.model.errors import MAX_ERRORS, InputError, InputErrors
from cress.model.family import Cron, Service
from cress.model.job import Job
from cress.model.jobfile.dag import alike_steps
from cress.model.jobfile.deadlines import moment_of
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.reader import below
from cress.model.jobfile.submit import read_jobs as read_specs
from cress.model.jobfile.values import raise_all
from cress.model.resources import Dimensions

# The user who may run tasks as any account, as on the nodes themselves.
ROOT = "root"
MOST_SHOWN = 10

_PLACE = re.compile(r"jobs\[(\d+)\]\.?")


def read_jobs(
    entries: Sequence[object],
    *,
    dimensions: Dimensions,
    user: str,
    accounts: Collection[str] | None = None,
    zone: tzinfo = UTC,
    of_cluster: bool = True,
) -> tuple[list[JobSpec], tuple[Job, ...]]:
    """Return the specs and the jobs of a submit to a cluster in this time zone.

    Without ``of_cluster`` the cluster may have more dimensions than these, so any ``Job.X`` may be an amount. Raises
    InputError, or InputErrors with all mistakes.
    """
    specs, errors = read_specs(entries, dimensions=dimensions, user=user)
    errors += alike_steps(specs)
    jobs: tuple[Job, ...] = ()
    try:
        jobs = jobs_of(specs, accounts, zone, dimensions if of_cluster else None)
    except InputError as error:
        errors += error.errors if isinstance(error, InputErrors) else [error]
    raise_all(errors)
    return [_with_clauses(spec, job) for spec, job in zip(specs, jobs, strict=True)], jobs


def _with_clauses(spec: JobSpec, job: Job) -> JobSpec:
    """Return the spec with the parts' requirements and ranks in its run, which the history keeps."""
    if spec.steps:
        steps = tuple(_with_clauses(step, made) for step, made in zip(spec.steps, job.steps, strict=True))
        run = msgspec.structs.replace(spec.run, steps=tuple(step.run for step in steps))
        return msgspec.structs.replace(spec, run=run, steps=steps)
    if not job.parts:
        return spec
    parts = tuple(
        msgspec.structs.replace(run, requirement=part.requirement, rank=part.rank)
        for run, part in zip(spec.run.parts, job.parts, strict=True)
    )
    return msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, parts=parts))


def jobs_of(
    specs: Sequence[JobSpec],
    accounts: Collection[str] | None = None,
    zone: tzinfo = UTC,
    dimensions: Dimensions | None = None,
) -> tuple[Job, ...]:
    """Return the jobs of the specs. Raises InputError, or InputErrors with all mistakes, placed in the submit.

    Every user may run tasks under ``accounts``; None skips this check. ``zone`` is the cluster's time zone, for
    deadlines. ``dimensions`` are those of the cluster; None skips the check of ``Job.X``.
    """
    errors: list[InputError] = [] if accounts is None else _strange_accounts(specs, accounts)
    told = set(map(str, errors))
    for spec in specs:
        if len(errors) > MAX_ERRORS:
            break
        for field, expression, clock in _moments(spec.job):
            try:
                moments.check(expression, clock)
            except InputError as error:
                placed = below(InputError(error.what, hint=error.hint, field=error.field or field), spec.place)
                if str(placed) not in told:  # a wrong zone of a timetable is one mistake
                    told.add(str(placed))
                    errors.append(placed)
    jobs: list[Job] = []
    try:
        jobs = [
            _with_steps(job, spec, dimensions) for job, spec in zip(constrained(specs, dimensions), specs, strict=True)
        ]
    except InputError as error:
        errors += error.errors if isinstance(error, InputErrors) else [error]
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return tuple(_with_deadline(job, spec, zone) for job, spec in zip(jobs, specs, strict=True))


def _with_steps(job: Job, spec: JobSpec, dimensions: Dimensions | None) -> Job:
    """Return a cron job whose runs are dags with the jobs of its steps; any other job unchanged."""
    if not spec.steps:
        return job
    _, *steps = constrained([spec, *spec.steps], dimensions)
    return msgspec.structs.replace(job, steps=tuple(steps))


def _with_deadline(job: Job, spec: JobSpec, zone: tzinfo) -> Job:
    """Return the job with its deadline as a moment, if it was given without a zone."""
    return msgspec.structs.replace(job, deadline=moment_of(spec.clocks, zone)) if spec.clocks else job


def _strange_accounts(specs: Sequence[JobSpec], accounts: Collection[str]) -> list[InputError]:
    """Return errors for wrong accounts: tasks run as their user or as an account open to all; only root may choose."""
    errors = []
    for spec in chain.from_iterable((whole, *whole.steps) for whole in specs):
        name, user = spec.run.run_as, spec.run.user
        if name and user not in (name, ROOT) and name not in accounts:
            open_ones = ", ".join(sorted(accounts)[:MOST_SHOWN])
            hint = f"{user}, which is what it is without this key" + (f"; or {open_ones}" if open_ones else "")
            what = f"tasks of {user} do not run as {name}"
            errors.append(below(InputError(what, hint=hint, field="run_as"), spec.place))
    return errors


def _moments(job: Job) -> list[tuple[str, str, str]]:
    """Return the field, the expression and the zone of each cron expression."""
    if isinstance(job.plan, Cron):
        return [("when", job.plan.when, job.plan.zone)] if job.plan.when else []
    if isinstance(job.plan, Service):
        zone = job.plan.zone
        return [(f"timetable[{place}].at", moment, zone) for place, (moment, _) in enumerate(job.plan.timetable)]
    return []


def placed(error: InputError, specs: Sequence[JobSpec]) -> InputError:
    """Return a mistake found by the machine, which counts steps of dags as jobs, with its place in the submit."""
    if isinstance(error, InputErrors):
        return InputErrors([placed(mistake, specs) for mistake in error.errors])
    found = _PLACE.match(error.field)
    if found is None or int(found[1]) >= len(specs):
        return error
    inner = error.field[found.end() :]
    moved = type(error)(error.what, hint=error.hint, file=error.file, line=error.line, field=inner)
    return below(moved, specs[int(found[1])].place)
