"""Conditions of dependencies: the test of the end of a job, and the reason of a condition that can never hold."""

from __future__ import annotations

from cress.model.job import Condition
from cress.model.records import FAILURES, JobState


def holds(condition: Condition, state: JobState) -> bool:
    """Return whether a job that ended in ``state`` meets the condition, for single tasks: for all of them."""
    if condition is Condition.ANY:
        return True
    return state in FAILURES if condition is Condition.FAILED else state is JobState.SUCCEEDED


def never(number: int, condition: Condition, state: JobState) -> str:
    """Return the sentence for a condition that can no longer be met."""
    if state is JobState.CANCELLED:
        return f"dependency failed: job {number} was cancelled"
    if condition is Condition.FAILED:
        return f"dependency failed: job {number} did not fail"
    how = {JobState.FAILED: "did not succeed", JobState.LOST: "was lost", JobState.OUT_OF_MEMORY: "ran out of memory"}
    return f"dependency failed: job {number} {how.get(state, state.value)}"
