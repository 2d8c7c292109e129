"""The interface of a runtime, as the supervisor uses it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec

from cress.executor.runtimes.accounts import NodeAccount
from cress.model.reports import Usage
from cress.model.run import Run
from cress.shell.executor.starting import LaunchContext, StartError

# The words written to the pipe for the steps before a program runs; see ``announced``.
PID = b"pid"
NO_SECRETS: Mapping[str, bytes] = MappingProxyType({})


class Spawn(msgspec.Struct, frozen=True):
    """The order to start an attempt of a task, whose output goes into files in ``folder`` (a path).

    ``data`` is the existing directory that outlives the attempt (``CRESS_STATE``; empty: none). ``leads``: the program
    leads a new session; otherwise it stays in that of the caller, which is the stage. ``tells``: the program is a
    stage, and reports its progress on descriptor 3. ``hands``: the descriptor that the stage gets as descriptor 4 (-1:
    none). ``account`` is that of the task; ``None``: that of the executor. ``secrets`` is the folder with the files of
    its secrets (empty: none). The order has no value of a secret, since orders for a stage are written to files.
    ``kept`` is a folder that becomes its working directory (``WorkFolders``; empty: one is made).
    """

    attempt: int
    task: int
    run: Run
    folder: bytes
    # The field's name in the orders of a stage, which may be of a newer release than its supervisor.
    context: LaunchContext = msgspec.field(default=LaunchContext(), name="given")
    data: bytes = b""
    leads: bool = True
    tells: bool = False
    account: NodeAccount | None = None
    secrets: bytes = b""
    hands: int = -1
    kept: bytes = b""


class Rest(msgspec.Struct, frozen=True):
    """The final state of an attempt.

    Its usage, if it was counted. ``killed`` is a sentence about processes killed because memory ran out; empty: none.
    """

    usage: Usage | None = None
    killed: str = ""


class Runtime(Protocol):
    """Starts programs, and ends their remaining processes. Only for a process without threads.

    A program is identified by the pid of its first process, a child of the caller that leads a session. Even in a
    container this pid is that of the node; ``/proc/PID/ns``, ``root`` and ``cgroup`` lead to the program's surroundings
    (``confinement.program`` finds it if a stage works in its place). A stage that spawns in a container must be a
    subreaper.
    """

    def spawn(self, what: Spawn, secret: Mapping[str, bytes] = NO_SECRETS) -> tuple[int, int]:
        """Start a program; return its pid, and a descriptor whose text ``announced`` and ``problem`` explain.

        The pid is 0 if the runtime has a launcher, which was asked for the process: ``Launcher.answers`` returns it.
        ``secret`` are environment variables for the program alone. The descriptor reaches its end when the program
        runs, or has failed to start. Raise StartError.
        """

    def problem(self, what: Run, told: bytes) -> StartError | None:
        """Return the reason why the program did not start, from the text of the descriptor; ``None`` if it started."""

    def signal(self, attempt: int, pid: int, number: int) -> bool:
        """Send a signal to all processes of the program that can be found; return whether there are any."""

    def clear(self, attempt: int) -> Rest | None:
        """Remove everything that was made for an attempt besides its program; return ``None`` if some of it is left."""


def announced(told: bytes) -> tuple[int, bytes]:
    """Split the text of a spawn: the pid of the program if another process has become it (else 0), and the rest."""
    if not told.startswith(PID) or b"\n" not in told:
        return 0, told
    line, _, rest = told.partition(b"\n")
    return int(line.split()[1]), rest
