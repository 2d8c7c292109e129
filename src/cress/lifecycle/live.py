"""Jobs, attempts and nodes as the machine keeps them while they are alive."""

from __future__ import annotations

import msgspec

from cress.model.job import Job
from cress.model.node import Local, Node


class LiveAttempt(msgspec.Struct, kw_only=True):
    """An attempt that was decided and has not ended. Times are wall clock in µs; ``started`` is 0 until it runs.

    ``halted`` says why it was told to stop: ``cancelled``, ``preempted`` or ``gang``; empty if it was not.
    ``grace`` goes with it, in µs; ``None``: what the job says.
    """

    id: int
    job: int
    task: int
    node: str
    placed: int
    started: int = 0
    pid: int = 0
    halted: str = ""
    grace: int | None = None


class LiveJob(msgspec.Struct, kw_only=True):
    """A job with tasks that wait or run. Counts are of tasks, ``preempted`` of attempts; times as in ``LiveAttempt``."""

    job: Job
    submitted: int
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    preempted: int = 0
    cancelling: bool = False
    attempts: dict[int, LiveAttempt] = msgspec.field(default_factory=dict)

    @property
    def over(self) -> int:
        """How many tasks will not run any more."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def running(self) -> int:
        """How many tasks have an attempt."""
        return len(self.attempts)

    @property
    def waiting(self) -> int:
        """How many tasks wait for a node."""
        return self.job.tasks - self.over - len(self.attempts)


class LiveNode(msgspec.Struct, kw_only=True):
    """A node that registered at some time. ``cordoned`` is an operator's word, with ``reason``.

    ``terms`` and ``local`` as in ``NodeJoined``.
    """

    node: Node
    boot: str
    terms: bool = False
    local: Local | None = None
    connected: bool = True
    cordoned: bool = False
    reason: str = ""
