"""Reports: messages of an executor about attempts, repeated until the center confirms that they are durable."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from cress.model.bounds import Amount, Count, ExitCode, Port, Small, Text
from cress.model.step_values import ReportedValues


class Cause(Enum):
    """The cause of the end of an attempt."""

    EXITED = "exited"  # by itself: with a code, or by a signal from elsewhere
    STOPPED = "stopped"  # by order of the center
    TIME_LIMIT = "time_limit"  # it exceeded the time limit of its job
    TERM = "term"  # its node was cut off from the center for a term
    SHUTDOWN = "shutdown"  # the executor was stopped, with all its tasks
    NOT_STARTED = "not_started"  # the program could not be started; ``error`` says why
    PORT = "port"  # another program on its node has one of its ports; neither the job nor the node is at fault
    NODE = "node"  # the node lacked disk space or a process for it; the job is not at fault
    MEMORY = "memory"  # it was killed for using more memory than allowed
    FILES = "files"  # its files could not be fetched; the program was not started
    OUTPUTS = "outputs"  # its program succeeded, but its outputs could not be saved
    UNKNOWN = "unknown"  # its end was not observed: never counted as a success


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """The resources used by an attempt: ``cpu`` time in microseconds, peak ``memory`` in bytes."""

    cpu: Count = 0
    memory: Amount = 0


class Started(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The attempt's program runs as process ``pid`` since ``at`` (wall clock, µs since the epoch)."""

    attempt: Count
    at: Count
    pid: Small


class Ended(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The attempt has ended, and all its processes are gone.

    ``code`` is the exit code, or -n after signal n; ``None`` if unknown. ``started`` is 0 if it never ran. Times are
    the executor's wall clock, in µs since the epoch. ``port`` is the port that was taken. ``values`` are those that a
    successful attempt hands on.
    """

    attempt: Count
    cause: Cause
    code: ExitCode | None
    started: Count
    at: Count
    error: Text = ""
    usage: Usage = Usage()
    port: Port = 0
    values: ReportedValues | UnsetType = UNSET  # older releases do not know it


class Checked(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The result of the checks of an attempt; sent when it changes, and for every checked attempt when its node joins.

    ``why`` is the result of the last failed check.
    """

    attempt: Count
    at: Count
    ready: bool
    alive: bool = True
    why: Text = ""


Report: TypeAlias = Started | Ended | Checked
