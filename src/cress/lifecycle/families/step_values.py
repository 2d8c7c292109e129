"""Values that steps of a dag hand on to later ones, and the conditions of steps (design note 0078)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.jobs import jobs, members, waits
from cress.lifecycle.tables.family_rows import DagState, Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.family import Dag
from cress.model.reports import Cause, Ended
from cress.model.step_condition import STATE, holds, parse_condition
from cress.model.step_values import MOST_OF_DAG, Values, size_of


def values_of(family: Family) -> Iterator[tuple[str, Values]]:
    """Yield the ended steps of a dag that have handed on values, with these; those of the resumed dag first."""
    plan, state = family.job.plan, family.state
    if not isinstance(plan, Dag):
        return
    yield from ((step.name, step.values) for step in plan.before if step.values)
    if isinstance(state, DagState):
        yield from ((plan.steps[index], values) for index, values in state.values.items())


def bounded(context: Context, job: LiveJob, attempt: LiveAttempt, report: Ended) -> Ended:
    """Return the report of an attempt; as a failure if its values would be more than all of a dag may have."""
    handed = report.values or ()
    family = members.family_of(context, job) if handed else None
    if family is None or attempt.task or not isinstance(family.job.plan, Dag):
        return report
    total = size_of(handed) + sum(size_of(values) for _, values in values_of(family))
    if total <= MOST_OF_DAG:
        return report
    what = f"the steps of a dag hand on at most {MOST_OF_DAG:,} bytes of values, with this one it would be {total:,}"
    return msgspec.structs.replace(report, cause=Cause.OUTPUTS, error=what, values=msgspec.UNSET)


def decide(context: Context) -> None:
    """Decide on the conditions of the steps whose dependencies are met: the step is free to start, or left out."""
    asked = context.unsettled.asked
    while asked:
        job = context.jobs.get(asked.popleft())
        if job is None or job.ending:
            continue
        family = members.family_of(context, job)
        if family is None or _holds(family, job.job.when):
            waits.release(context, job)
        else:
            job.left_out = True
            jobs.cancel(context, job.job.id, f"left out: {job.job.when} does not hold")


def _holds(family: Family, condition: str) -> bool:
    """Return whether the condition of a step holds now."""
    plan, state = family.job.plan, family.state
    assert isinstance(plan, Dag)
    states = {step.name: step.state for step in plan.before}
    if isinstance(state, DagState):
        states |= {plan.steps[index]: ended.value for index, ended in state.ended.items()}
    values = {step: dict(handed) for step, handed in values_of(family)}

    def value(step: str, key: str) -> str:
        return states.get(step, "") if key == STATE else values.get(step, {}).get(key, "")

    return holds(parse_condition(condition), value)
