"""What the supervisor asks of a runtime."""

from __future__ import annotations

from typing import Protocol

import msgspec

from cress.model.reports import Usage
from cress.model.run import Run
from cress.shell.executor.starting import LaunchContext, StartError

# What a runtime may do before a program runs, in the words that are told through the pipe; see ``announced``.
PID = b"pid"


class Spawn(msgspec.Struct, frozen=True):
    """What is to be started: a task of a job as an attempt, its output into files in ``folder`` (a path).

    ``data`` is the directory that outlives the attempt (``CRESS_STATE``; empty: none); it is there. ``leads``: the program
    leads a session of its own; else it stays in that of the caller, which is the stage. ``tells``: the program is a stage,
    and has the descriptor that tells how it stands as its descriptor 3.
    """

    attempt: int
    task: int
    run: Run
    folder: bytes
    # The name on the way to the stage, which may be of a newer release than the supervisor that starts it.
    context: LaunchContext = msgspec.field(default=LaunchContext(), name="given")
    data: bytes = b""
    leads: bool = True
    tells: bool = False


class Rest(msgspec.Struct, frozen=True):
    """What is known of an attempt when nothing of it is left: its usage, if somebody counted it; ``killed`` is the
    sentence about processes that were killed for want of memory, empty: there were none.
    """

    usage: Usage | None = None
    killed: str = ""


class Runtime(Protocol):
    """Starts programs, and ends what is left of them. Only for a process without threads.

    A program is known by the pid of its first process, a child of the caller that leads a session of its own. In a
    container it is inside, and its pid is that of the node: ``/proc/PID/ns``, ``root`` and ``cgroup`` lead to where it is
    (``inside.program`` finds it where a stage works in its place). A stage that spawns in a container must be a subreaper.
    """

    def spawn(self, what: Spawn) -> tuple[int, int]:
        """The pid of the new process, and a descriptor that is read for what ``announced`` and ``problem`` explain.

        The descriptor reaches its end when the program runs, or will not. Raises StartError.
        """

    def problem(self, what: Run, told: bytes) -> StartError | None:
        """Why the program did not start, from what was read; ``None``: it did."""

    def signal(self, attempt: int, pid: int, number: int) -> bool:
        """Send a signal to all processes of the program, as far as they can be found; False: there are none."""

    def clear(self, attempt: int) -> Rest | None:
        """Take away what was made for an attempt beside its program; ``None``: something of it is still there."""


def announced(told: bytes) -> tuple[int, bytes]:
    """From what a spawn told: the pid of the program where another process has become it (0: none has), and the rest."""
    if not told.startswith(PID) or b"\n" not in told:
        return 0, told
    line, _, rest = told.partition(b"\n")
    return int(line.split()[1]), rest
