"""Records of finished jobs and attempts."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.events import Outcome


class JobState(Enum):
    """The state of a job."""

    WAITING = "waiting"  # no task runs, some wait
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # all tasks succeeded
    FAILED = "failed"  # some tasks failed, for different causes or another one than below
    TIMED_OUT = "timed out"  # the failed tasks exceeded the time limit
    OUT_OF_MEMORY = "out of memory"  # the failed tasks were killed for using too much memory
    LOST = "lost"  # the failed tasks were lost with their nodes and must not run again
    CANCELLED = "cancelled"


# The kinds of failure, and all final states.
FAILURES = frozenset({JobState.FAILED, JobState.TIMED_OUT, JobState.OUT_OF_MEMORY, JobState.LOST})
FINAL = FAILURES | {JobState.SUCCEEDED, JobState.CANCELLED}
# The words of the API for these states.
FAILED_WORDS = frozenset(state.value for state in FAILURES)
OVER_WORDS = frozenset(state.value for state in FINAL)
# Aliases of states in filters.
_ALIASES = {
    "pending": JobState.WAITING,
    "timeout": JobState.TIMED_OUT,
    "timed_out": JobState.TIMED_OUT,
    "timed-out": JobState.TIMED_OUT,
    "oom": JobState.OUT_OF_MEMORY,
    "out_of_memory": JobState.OUT_OF_MEMORY,
    "out-of-memory": JobState.OUT_OF_MEMORY,
}


def canonical_state(word: str) -> str:
    """Return the state that a word of a filter means; other words are returned as they are."""
    return _ALIASES[word].value if word in _ALIASES else word


def states_meant(word: str) -> frozenset[str]:
    """Return the states that pass a filter; ``failed`` includes all kinds of failure."""
    return FAILED_WORDS if word == JobState.FAILED.value else frozenset({word})


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished attempt. Times are wall clock, µs since the epoch; ``started`` is 0 if it never ran.

    ``final``: the task is not retried. ``code`` is the exit code, -n after signal n, ``None`` if unknown. ``cpu`` is in
    µs, ``memory`` (peak) in bytes. ``ports`` are its numbers, in the job's order; ``devices`` are its devices, as
    ``kind:id``, or ``kind:id:thousandths`` for a part.
    """

    attempt: int
    job: int
    task: int
    node: str
    outcome: Outcome
    final: bool
    placed: int
    started: int
    ended: int
    code: int | None = None
    error: str = ""
    cpu: int = 0
    memory: int = 0
    ports: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished job. Counts are of tasks; times as in ``AttemptRecord``; ``request`` in the cluster's dimensions.

    ``reason`` is why the job did not run to its end, unless an attempt shows it; for a successful one the values that
    it has handed on (``step_values``). ``requirement``, ``rank`` and ``application`` are as submitted. ``family`` is
    the job of which it was a member, with number ``index``; ``template`` is the job whose run it shared; 0: none.
    """

    id: int
    name: str
    group: str
    user: str
    type: str
    tasks: int
    gang: bool
    priority: int
    time_limit: int | None
    request: tuple[int, ...]
    state: JobState
    submitted: int
    started: int
    ended: int
    succeeded: int
    failed: int
    cancelled: int
    preempted: int = 0  # counts attempts, not tasks
    reason: str = ""
    requirement: str = ""
    rank: str = ""
    application: str = ""
    family: int = 0
    index: int = 0
    template: int = 0
