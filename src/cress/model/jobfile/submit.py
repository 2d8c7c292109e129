"""The jobs of one submit, read together: several job files, dags with their steps, dependencies by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from cress.model.errors import MAX_ERRORS, InputError, MoreErrors
from cress.model.job import Condition
from cress.model.jobfile.dag import parse_dag
from cress.model.jobfile.job import JobSpec, has_steps, read_job
from cress.model.jobfile.reader import below
from cress.model.jobfile.values import raise_all, shown
from cress.model.resources import Dimensions
from cress.model.task_dependencies import check_follower, check_indices, check_number, check_pair, needs_tasks
from cress.model.units import one_of

# Maximum number of jobs in one submit, including the steps of dags, and of all their dependencies.
MAX_JOBS = 10_000
MAX_DEPENDENCIES = 20_000
TASKS = Condition.TASKS


def parse_jobs(entries: object, *, dimensions: Dimensions, user: str) -> list[JobSpec]:
    """Read the jobs of one submit, all or none; the steps of a dag follow it.

    Raises InputError, or InputErrors with every mistake; ``field`` begins with the place of its job: ``jobs[2].tasks``.
    """
    specs, errors = read_jobs(entries, dimensions=dimensions, user=user)
    raise_all(errors)
    return specs


def read_jobs(entries: object, *, dimensions: Dimensions, user: str) -> tuple[list[JobSpec], list[InputError]]:
    """Read the jobs of one submit and return them with all mistakes; a wrong value counts as missing."""
    hint = "a list of mappings, one for each job"
    if not isinstance(entries, (list, tuple)):
        return [], [InputError(f"{shown(entries)} is not a list", hint=hint, field="jobs")]
    if not entries:
        return [], [InputError("it contains no job", hint=hint, field="jobs")]
    if len(entries) > MAX_JOBS:
        return [], [_too_many(len(entries))]
    specs: list[JobSpec] = []
    errors: list[InputError] = []
    for position, entry in enumerate(entries):
        place = f"jobs[{position}]"
        if len(errors) > MAX_ERRORS:
            errors.append(MoreErrors(0, rest=f"the text from {place} on"))
            break
        try:
            mapping = _mapping(entry)
        except InputError as error:
            errors.append(error.at(field=place))
            continue
        if has_steps(mapping):
            made, wrong = parse_dag(mapping, dimensions=dimensions, user=user, base=len(specs))
        else:
            one, wrong = read_job(mapping, dimensions=dimensions, user=user)
            made = [one]
        specs += (_placed(spec, place) for spec in made)
        errors += [below(error, place) for error in wrong]
    if not errors and len(specs) > MAX_JOBS:
        errors = [_too_many(len(specs))]
    if not errors and (number := _dependencies(specs)) > MAX_DEPENDENCIES:
        what = f"the jobs come after {number:,} jobs, counted for each job"
        hint = f"at most {MAX_DEPENDENCIES:,}; one job without work, which they all come after, saves many"
        errors = [InputError(what, hint=hint, field="jobs")]
    if not errors:
        specs, errors = _resolved(specs)
    return specs, errors


def _placed(spec: JobSpec, place: str) -> JobSpec:
    """Return the spec with its place in the submit."""
    steps = tuple(_placed(step, place) for step in spec.steps)
    return msgspec.structs.replace(spec, place=place + spec.place, steps=steps)


def _dependencies(specs: list[JobSpec]) -> int:
    """Return the number of dependencies of these jobs; a step also has those of its dag."""
    number = 0
    for spec in specs:
        dag = specs[-spec.job.family - 1] if spec.job.family else None
        number += len(spec.job.after) + len(spec.behind)
        number += len(dag.job.after) + len(dag.behind) if dag is not None else 0
    return number


def _too_many(number: int) -> InputError:
    what = f"{number} jobs at once are too many"
    return InputError(what, hint=f"at most {MAX_JOBS}; many alike: tasks", field="jobs")


def _resolved(specs: list[JobSpec]) -> tuple[list[JobSpec], list[InputError]]:
    """Replace names of jobs of this submit with their places, as in ``Job.after``: ``-1`` is the first job."""
    places: dict[str, list[int]] = {}
    for position, spec in enumerate(specs):
        places.setdefault(spec.job.name, []).append(position)
    resolved: list[JobSpec] = []
    errors: list[InputError] = []
    for spec in specs:
        if len(errors) > MAX_ERRORS:
            break
        after = list(spec.job.after)
        for name, condition in spec.behind:
            found = places.get(name, [])
            if len(found) == 1:
                after.append((-found[0] - 1, condition))
                continue
            if found:
                what, hint = (
                    f"{len(found)} jobs of this submit are called {name}",
                    "names within one submit must be unique",
                )
            else:
                what = f"no job of this submit is called {name}"
                others = [other for other in places if other != spec.job.name]
                here = f"; {one_of(name, others)}" if others else ""
                hint = f"the id of a job that was submitted before{here}"
            errors.append(InputError(what, hint=hint, field=f"{spec.place}.after"))
        job = msgspec.structs.replace(spec.job, after=tuple(after))
        resolved.append(msgspec.structs.replace(spec, job=job, behind=()))
    if not errors:
        errors = list(islice(_without_counterparts(resolved), MAX_ERRORS))
    return resolved, errors


def _without_counterparts(specs: Sequence[JobSpec]) -> Iterator[InputError]:
    """Yield the errors of jobs whose tasks cannot wait for single tasks, or not for those of the job that they name."""
    waiting = 0
    for spec in specs:
        # The steps of a cron job count it as the first job.
        yield from _without_counterparts((msgspec.structs.replace(spec, steps=()), *spec.steps)) if spec.steps else ()
        if not needs_tasks(spec.job):
            continue
        waiting += spec.job.tasks
        try:
            check_follower(spec.job)
            check_number(waiting)
            for first in (
                specs[-number - 1] for number, condition in spec.job.after if number < 0 and condition is TASKS
            ):
                name = f"the job {first.job.name}"
                check_pair(first.job, spec.job, name)
                check_indices(first.job, first.run.indices, spec.job, spec.run.indices, name)
        except InputError as error:
            yield error.at(field=f"{spec.place}.after")


def _mapping(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{shown(entry)} is not a mapping", hint='{"command": ["echo", "hello"]}')
    return entry
