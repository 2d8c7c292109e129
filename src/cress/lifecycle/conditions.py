"""How a job must have ended before another one may start: when that is so, and the sentence for when it never will be."""

from __future__ import annotations

from cress.model.job import Condition
from cress.model.records import JobState

_ENDS = {
    Condition.OK: "after the success of",
    Condition.ANY: "after the end of",
    Condition.FAILED: "after a failure of",
}
_STATES = {JobState.SUCCEEDED: "has succeeded", JobState.FAILED: "has failed", JobState.CANCELLED: "was cancelled"}


def holds(condition: Condition, state: JobState) -> bool:
    """Whether a job that ended in ``state`` meets the condition."""
    if condition is Condition.ANY:
        return True
    return state is (JobState.SUCCEEDED if condition is Condition.OK else JobState.FAILED)


def never(number: int, condition: Condition, state: JobState) -> str:
    """The sentence for a condition that cannot come true any more."""
    return f"it was to start {_ENDS[condition]} job {number}, which {_STATES[state]}"
