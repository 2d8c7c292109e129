"""Records of finished jobs and attempts."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.events import Outcome


class JobState(Enum):
    """The state of a job."""

    PENDING = "pending"  # nothing of it runs, something waits
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # every task did
    FAILED = "failed"  # at least one task did not
    CANCELLED = "cancelled"


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished attempt. Times are wall clock, microseconds since the epoch; ``started`` is 0 if it never ran.

    ``final``: the task is not tried again. ``code`` is the exit code, -n after signal n, ``None`` if unknown.
    ``cpu`` in microseconds, ``memory`` (peak) in bytes. ``ports`` are the numbers that it had, in the job's order, ``devices`` those that
    it had, as ``kind:id`` or, of a part, ``kind:id:thousandths``.
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
