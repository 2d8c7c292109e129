"""Attempts with files or outputs: a stage fetches the files, runs the program and saves the outputs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

import msgspec

from cress.executor import stage_failure
from cress.executor.inherited import for_processes
from cress.executor.runtimes.base import NO_SECRETS, Rest, Spawn
from cress.executor.runtimes.launcher import Launcher
from cress.executor.runtimes.process import ProcessRuntime
from cress.executor.runtimes.task_cgroups import TaskCgroups
from cress.model.allowed_sources import AllowedSources
from cress.model.reports import Cause
from cress.model.run import Run
from cress.shell.executor.starting import StartError

# In the attempt's folder for a moment; readable only by its owner, since a job's environment may contain secrets.
FILE = b"orders"
# The stage's word for a program that runs.
RUNS = b"runs"
# The descriptor on which a stage gets the secrets of its program.
HANDED = 4

_STAGE = Run(job=0, command=(sys.executable, "-I", "-m", "cress.executor.stage"), directory="/")


class StageOrders(msgspec.Struct, frozen=True):
    """Orders of a stage: start ``what`` by a runtime of this ``node``, with the supervisor's ``environment``.

    ``engine`` makes its container (empty: none) in the executor's directory ``home``, with the folders ``writable``.
    ``sources`` may be used in addresses. ``hands``: the environment variables of its secrets must be read from
    descriptor 4.
    """

    node: str
    environment: dict[str, str]
    what: Spawn
    engine: str = ""
    home: str = ""
    writable: tuple[str, ...] = ()
    sources: AllowedSources = AllowedSources()
    hands: bool = False


class StagedRuntime:
    """Runtime that starts stages. A stage leads the session and group of its program, so signals reach both."""

    def __init__(
        self,
        node: str,
        environment: Mapping[str, str],
        sources: AllowedSources,
        engine: str = "",
        home: str = "",
        writable: tuple[str, ...] = (),
        launcher: Launcher | None = None,
    ) -> None:
        self._node = node
        self._place = (engine, home, writable, sources)
        self._environment = for_processes(environment)
        # The stage may run as root, so it does not get the job's environment.
        self._starter = ProcessRuntime(node, environment, launcher)

    def group_by(self, groups: TaskCgroups | None) -> None:
        """Start each stage in a control group of its attempt, which its program inherits."""
        self._starter.groups = groups

    def spawn(self, what: Spawn, secret: Mapping[str, bytes] = NO_SECRETS) -> tuple[int, int]:
        """Start a stage; see ``Runtime``."""
        orders = StageOrders(self._node, self._environment, what, *self._place, hands=bool(secret))
        path = what.folder + b"/" + FILE
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(what.folder, 0o750)  # noqa: PTH102
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.msgpack.encode(orders))
        except OSError as error:
            raise StartError(f"{os.fsdecode(path)} could not be written: {error.strerror}", node=True) from None
        hands = -1
        try:
            if secret:
                hands = _in_memory(secret)
            return self._starter.spawn(Spawn(what.attempt, what.task, _STAGE, what.folder, tells=True, hands=hands))
        except OSError as error:
            raise StartError(f"its secrets could not be handed over: {error.strerror}", node=True) from None
        finally:
            if hands >= 0:
                os.close(hands)

    def problem(self, what: Run, told: bytes) -> StartError | None:
        """Return the reason why the program did not start; see ``Runtime``."""
        if told == RUNS:
            return None
        said = stage_failure.decode(told)
        if said is not None:
            return StartError(said.error, files=True, node=said.cause is Cause.NODE)
        if told and not told.startswith(b"{"):
            return self._starter.problem(_STAGE, told)
        return StartError("it was killed while its files were fetched", files=True)

    def signal(self, attempt: int, pid: int, number: int) -> bool:
        """Send a signal to stage and program; see ``Runtime``."""
        return self._starter.signal(attempt, pid, number)

    def clear(self, attempt: int) -> Rest | None:
        """Return no usage, since nothing is made besides stage and program; see ``Runtime``."""
        return self._starter.clear(attempt)


def _in_memory(secret: Mapping[str, bytes]) -> int:
    """Return a descriptor from which these variables can be read; they are in memory only."""
    handed = os.memfd_create("cress")
    with os.fdopen(handed, "wb", closefd=False) as file:
        file.write(msgspec.msgpack.encode(dict(secret)))
    os.lseek(handed, 0, os.SEEK_SET)
    return handed


def take_secrets() -> dict[str, bytes]:
    """Read the environment variables that a stage gets on descriptor 4, and close it."""
    with os.fdopen(HANDED, "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=dict[str, bytes])


def take(folder: bytes) -> StageOrders:
    """Read the orders in the folder of an attempt, and remove them."""
    path = folder + b"/" + FILE
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        orders = msgspec.msgpack.decode(file.read(), type=StageOrders)
    os.unlink(path)  # noqa: PTH108
    return orders
