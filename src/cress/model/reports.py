"""Reports: what an executor says about attempts. They are repeated until the center says that they are durable."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from cress.model.bounds import Amount, Count, ExitCode, Port, Small


class Cause(Enum):
    """The cause of the end of an attempt."""

    EXITED = "exited"  # by itself: with a code, or by a signal that we did not send
    STOPPED = "stopped"  # the center asked for it
    TIME_LIMIT = "time_limit"  # it ran for longer than its job allows
    TERM = "term"  # its node had not heard from the center for too long
    SHUTDOWN = "shutdown"  # the executor was stopped, and its tasks with it
    NOT_STARTED = "not_started"  # the program could not be started; ``error`` says why
    PORT = "port"  # somebody on its node has one of its ports; nothing is wrong with the job, nor with the node
    NODE = "node"  # the node had no room for it, on its disk or for a process; nothing is wrong with the job
    MEMORY = "memory"  # it was killed because it used more memory than it may
    FILES = "files"  # its files could not be fetched; the program was not started
    OUTPUTS = "outputs"  # its program succeeded, but what it left could not be saved
    UNKNOWN = "unknown"  # it is gone and nobody saw how: never taken for a success


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """The resources used by an attempt: ``cpu`` time in microseconds, peak ``memory`` in bytes."""

    cpu: Count = 0
    memory: Amount = 0


class Started(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The attempt's program runs as process ``pid`` since ``at`` (wall clock, microseconds since the epoch)."""

    attempt: Count
    at: Count
    pid: Small


class Ended(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The attempt is over, and every process of it is gone.

    ``code`` is the exit code, or -n after signal n; ``None`` if nobody knows it. ``started`` is 0 if it never ran.
    Times are the executor's wall clock, in microseconds since the epoch. ``port`` is the one that was taken.
    """

    attempt: Count
    cause: Cause
    code: ExitCode | None
    started: Count
    at: Count
    error: str = ""
    usage: Usage = Usage()
    port: Port = 0


class Checked(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The result of the checks of an attempt; sent when it changes, and for every checked attempt when its node joins.

    ``why`` says what the last failed check came to.
    """

    attempt: Count
    at: Count
    ready: bool
    alive: bool = True
    why: str = ""


Report: TypeAlias = Started | Ended | Checked
