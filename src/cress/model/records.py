"""Records of finished jobs and attempts."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.events import Outcome


class JobState(Enum):
    """The state of a job."""

    WAITING = "waiting"  # nothing of it runs, something waits
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # every task did
    FAILED = "failed"  # at least one task did, and the failed ones not all as below
    TIMED_OUT = "timed out"  # the tasks that failed ran for longer than the time limit
    OUT_OF_MEMORY = "out of memory"  # the tasks that failed were killed because they used too much memory
    LOST = "lost"  # the tasks that failed were lost with their nodes, and are not to run again
    CANCELLED = "cancelled"


# The kinds of failure, and all ends.
FAILURES = frozenset({JobState.FAILED, JobState.TIMED_OUT, JobState.OUT_OF_MEMORY, JobState.LOST})
FINAL = FAILURES | {JobState.SUCCEEDED, JobState.CANCELLED}
# The same as words of the API.
FAILED_WORDS = frozenset(state.value for state in FAILURES)
OVER_WORDS = frozenset(state.value for state in FINAL)
# Other words for states, which filters accept.
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
    """Return the state that a word of a filter means; the word itself if it has no other."""
    return _ALIASES[word].value if word in _ALIASES else word


def states_meant(word: str) -> frozenset[str]:
    """Return the states that pass a filter; all kinds of failure pass ``failed``."""
    return FAILED_WORDS if word == JobState.FAILED.value else frozenset({word})


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished attempt. Times are wall clock, microseconds since the epoch; ``started`` is 0 if it never ran.

    ``final``: the task is not tried again. ``code`` is the exit code, -n after signal n, ``None`` if unknown.
    ``cpu`` in microseconds, ``memory`` (peak) in bytes. ``ports`` are the numbers that it had, in the job's order,
    ``devices`` those that it had, as ``kind:id`` or, of a part, ``kind:id:thousandths``.
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

    ``reason`` is why the job did not run to its end, where no attempt tells it. ``requirement``, ``rank`` and
    ``application`` are as they were submitted. ``family`` is the job that it was a member of, as number ``index``;
    ``template`` is the job whose run was its own too; 0: none.
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
    preempted: int = 0  # attempts, not tasks
    reason: str = ""
    requirement: str = ""
    rank: str = ""
    application: str = ""
    family: int = 0
    index: int = 0
    template: int = 0
