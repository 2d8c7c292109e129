"""Dags: their steps came in the same submit and wait for each other; this module derives the result of the dag.

A step that can never start because the step before it did *not* fail (a clean-up after failures) was not needed, and
neither were steps that only it leads to: such a dag still succeeds.
"""

from __future__ import annotations

from collections import Counter

from cress.lifecycle.context import Context
from cress.lifecycle.tables.family_rows import DagState, Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Dag
from cress.model.job import Condition, Job
from cress.model.records import FAILURES, JobRecord, JobState

_WORDS = {JobState.OUT_OF_MEMORY: "ran out of memory", JobState.LOST: "was lost", JobState.CANCELLED: "was cancelled"}


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` if the plan is invalid."""
    plan = job.plan
    assert isinstance(plan, Dag)
    if not plan.steps:
        raise InputError("a dag without steps", hint="at least one", field="steps")
    twice = next((name for name, count in Counter(plan.steps).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"two steps have the name {twice!r}", hint="step names must be unique", field="steps")
    if plan.resumed:
        _check_resumed(context, plan.resumed)


def _check_resumed(context: Context, number: int) -> None:
    """Raise an error unless the resumed dag has ended and no other dag resumes it."""
    if not 0 < number < context.next_job:
        raise InputError(f"there is no job {number}", hint="see `cress jobs`")
    if number in context.families or number in context.jobs:
        raise NotAccepted(f"job {number} has not ended", hint="a dag can be resumed when all its steps have ended")
    for family in context.families.values():
        if isinstance(family.job.plan, Dag) and family.job.plan.resumed == number:
            raise NotAccepted(f"job {number} is being resumed", hint=f"as job {family.job.id}")


def begin(context: Context, family: Family) -> None:
    """Begin: the family is accepted and has no open dependency."""
    _progress(family)


def _progress(family: Family) -> DagState:
    # Steps can end before their dag begins, if they were cancelled.
    if not isinstance(family.state, DagState):
        family.state = DagState()
    return family.state


def member_over(context: Context, family: Family, member: LiveJob | Family, record: JobRecord) -> None:
    """Note the end of a step."""
    assert isinstance(member, LiveJob), "steps are batch jobs"
    progress = _progress(family)
    progress.ended[member.index] = record.state
    if member.values:
        progress.values[member.index] = member.values
    if record.state is JobState.CANCELLED and not member.started and _needless(family, member, progress):
        progress.needless = (*progress.needless, member.index)
    elif record.state is not JobState.SUCCEEDED and not family.reason:
        # The steps behind it are cancelled after it, so this step is the cause.
        why = f": {record.reason}" if record.state in FAILURES and record.reason else ""
        word = _WORDS.get(record.state, record.state.value)
        family.reason = f"step {_step(family, member.index)} {word}{why}"


def _step(family: Family, index: int) -> str:
    assert isinstance(family.job.plan, Dag)
    return family.job.plan.steps[index]


def _needless(family: Family, member: LiveJob, progress: DagState) -> bool:
    """Return whether a step was not needed: the failure that it waited for did not happen, or it follows
    such a step, or its condition did not hold.
    """
    if member.left_out:
        return True
    for number, condition in member.job.after:
        index = number - family.job.id - 1  # steps follow their dag
        if condition is Condition.FAILED and progress.ended.get(index) is JobState.SUCCEEDED:
            return True
        if condition is not Condition.ANY and index in progress.needless:
            return True
    return False


def tend(context: Context, family: Family) -> None:
    """Do nothing: the dependencies of the steps drive a dag."""


def due(context: Context, family: Family, kind: str, index: int) -> None:
    """Do nothing: a dag has no timers."""


def updated(context: Context, family: Family, before: Job) -> None:
    """Do nothing: a dag is never changed."""


def wall_stepped(context: Context, family: Family) -> None:
    """Do nothing: a dag has no moments."""


def why(context: Context, family: Family, now: int) -> str:
    """Return an empty text: each step shows its own reason."""
    return ""


def result(family: Family) -> tuple[JobState, tuple[int, int, int]]:
    """Return the state of an ended dag, with the numbers of steps that succeeded, failed and were cancelled (or not
    needed).
    """
    counts = family.succeeded, family.failed, family.cancelled
    needless = len(family.state.needless) if isinstance(family.state, DagState) else 0
    if family.cancelling:
        return JobState.CANCELLED, counts
    if family.failed:
        return JobState.FAILED, counts
    return (JobState.CANCELLED if family.cancelled > needless else JobState.SUCCEEDED), counts
