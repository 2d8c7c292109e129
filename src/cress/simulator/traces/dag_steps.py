"""Dags of a job file as their steps: a simulation submits the steps as jobs, with the dependencies of their dag."""

from __future__ import annotations

from collections.abc import Sequence

from cress.model.errors import InputError
from cress.model.family import Dag
from cress.model.job import Condition
from cress.model.jobfile.job import JobSpec
from cress.simulator.workload import After

Dependencies = tuple[tuple[int, Condition], ...]


def dag_of(specs: Sequence[JobSpec], position: int) -> int | None:
    """Return the position of the dag of which this job is a step."""
    family = specs[position].job.family
    return -family - 1 if family else None


def predecessors(specs: Sequence[JobSpec]) -> tuple[After, list[InputError]]:
    """Return the jobs after which each job starts, by position, and the dependencies that cannot be simulated.

    Dags are never among the predecessors: their steps take their place, and start after the dag's own predecessors.
    """
    errors: list[InputError] = []
    made = [_resolved(specs, position, errors) for position in range(len(specs))]
    found = []
    for position, own in enumerate(made):
        dag = dag_of(specs, position)
        found.append(own if dag is None else own + made[dag])
    return tuple(found), errors


def _resolved(specs: Sequence[JobSpec], position: int, errors: list[InputError]) -> Dependencies:
    """Return the dependencies that the ``after`` of this entry names."""
    spec = specs[position]
    found: dict[int, Condition] = {}
    for number, condition in spec.job.after:
        before = -number - 1
        if number > 0:
            hint = "the name of a job of this file"
            errors.append(InputError(f"job {number} is not in this file", hint=hint, field=f"{spec.place}.after"))
            continue
        dag = specs[before].job
        if not isinstance(dag.plan, Dag):
            steps: Dependencies = ((before, condition),)
        elif condition is Condition.FAILED:
            what = f"a job after the failure of a whole dag ({dag.name}) cannot be simulated"
            hint = f"the failure of a step, such as {{{dag.name}.{dag.plan.steps[0]}: failed}}"
            errors.append(InputError(what, hint=hint, field=f"{spec.place}.after"))
            continue
        else:
            steps = _steps(specs, before, len(dag.plan.steps), condition)
        twice = next((specs[step].job.name for step, _ in steps if step in found), None)
        if twice is not None:
            what = f"{twice} is named both as a job and with its dag"
            errors.append(InputError(what, hint="only one of them", field=f"{spec.place}.after"))
        found.update(steps)
    return tuple(found.items())


def _steps(specs: Sequence[JobSpec], dag: int, count: int, condition: Condition) -> Dependencies:
    """Return the steps of a dag, with the end that each needs for the dag to meet the condition.

    The condition is ``any`` or ``ok``. A dag succeeds without the steps that start only when another fails: any end of
    these will do.
    """
    steps = range(dag + 1, dag + 1 + count)
    needless: set[int] = set()
    changed = condition is Condition.OK
    while changed:
        more = {
            step
            for step in steps
            for number, before in specs[step].job.after
            if before is Condition.FAILED or (before is not Condition.ANY and -number - 1 in needless)
        }
        changed = more != needless
        needless = more
    return tuple((step, Condition.ANY if step in needless else condition) for step in steps)
