"""The agent's end of the socket to the supervisor, and the start of supervisors."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from cress.executor.ends import ReapedProcess
from cress.executor.folder import socket_path
from cress.executor.frames import FrameError, Frames, frame
from cress.executor.inherited import for_processes
from cress.executor.settings import LOG_SIZE
from cress.model.allowed_sources import AllowedSources
from cress.protocol.messages import FromSupervisor, Inventory, ToSupervisor, decode_from_supervisor, encode

# Seconds for a new supervisor to read its journal and listen.
START_TIMEOUT = 20.0
# Exit code of a supervisor that would fail again after a restart.
HOPELESS = 3


class SupervisorError(Exception):
    """Error: no supervisor to connect to; the message says why. ``permanent``: another try does not help."""

    def __init__(self, what: str, *, permanent: bool = False) -> None:
        super().__init__(what)
        self.permanent = permanent


class Link:
    """A connection to the supervisor.

    The ``inventory`` and the messages after it are the complete state of the supervisor.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = Frames()
        self._arrived: list[bytes] = []
        self.inventory = Inventory(boot="", pid=0)

    async def receive(self) -> bytes | None:
        """Return the next message, encoded; None if the supervisor is gone."""
        while not self._arrived:
            try:
                data = await self._reader.read(1 << 18)
            except OSError:
                return None
            if not data:
                return None
            self._arrived = self._frames.feed(data)
        return self._arrived.pop(0)

    async def forward(self, message: bytes) -> None:
        """Send a message that is already encoded."""
        self._writer.write(frame(message))
        await self._writer.drain()

    async def send(self, message: ToSupervisor) -> None:
        """Send a message."""
        await self.forward(encode(message))

    def close(self) -> None:
        """Close the connection; the supervisor stays."""
        self._writer.close()


class Supervisors:
    """Starts the supervisor of a directory when none runs, and connects to it."""

    def __init__(
        self,
        directory: Path,
        name: str,
        runtime: str = "process",
        writable: tuple[str, ...] = (),
        log_size: int = LOG_SIZE,
        egress: str = "",
        task_env: tuple[str, ...] = (),
        hide: tuple[str, ...] = (),
        sources: AllowedSources = AllowedSources(),  # noqa: B008 - frozen
    ) -> None:
        self._directory = directory
        self._options = ["--name", name, "--runtime", runtime, "--log-size", str(log_size), "--egress", egress]
        for folder in writable:
            self._options += ["--writable", folder]
        for folder in hide:
            self._options += ["--hide", folder]
        for scheme in sources.schemes:
            self._options += ["--allow-scheme", scheme]
        for host in sources.hosts:
            self._options += ["--allow-host", host]
        self._options += ["--center-host", sources.center]
        self._task_env = task_env
        self._socket = directory / "supervisor.sock"
        self._log = directory / "supervisor.log"
        self._process: ReapedProcess | None = None

    async def connect(self, *, start: bool = True) -> Link:
        """Return a new connection, with its inventory. Raise SupervisorError."""
        link = await self._try()
        if link is None and start:
            link = await self._start()
        if link is None:
            raise SupervisorError("no supervisor is running")
        try:
            message = await link.receive()
            inventory: FromSupervisor | None = decode_from_supervisor(message) if message is not None else None
        except (FrameError, msgspec.MsgspecError) as error:
            link.close()
            raise SupervisorError(f"the supervisor sent a message that cannot be read ({error})") from None
        if not isinstance(inventory, Inventory):
            link.close()
            raise SupervisorError("the supervisor closed the connection")
        link.inventory = inventory
        return link

    async def _try(self) -> Link | None:
        try:
            with socket_path(self._socket) as path:
                return Link(*await asyncio.open_unix_connection(path))
        except OSError:
            return None

    async def _start(self) -> Link | None:
        begin = self._log.stat().st_size if self._log.exists() else 0
        if self._process is None or self._process.poll() is not None:
            self._process = self._spawn()
        end = asyncio.get_running_loop().time() + START_TIMEOUT
        while asyncio.get_running_loop().time() < end:
            link = await self._try()
            if link is not None:
                return link
            code = self._process.poll()
            if code is not None:
                said = self._log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()
                why = said[-1] if said else f"exit code {code}"
                raise SupervisorError(f"the supervisor did not start: {why}", permanent=code == HOPELESS)
            await asyncio.sleep(0.005)
        raise SupervisorError(f"the supervisor does not answer (see {self._log})")

    def _spawn(self) -> ReapedProcess:
        with open(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:  # noqa: PTH123
            os.fchmod(log.fileno(), 0o600)
            command = [sys.executable, "-P", "-m", "cress.executor.supervisor", str(self._directory), *self._options]
            return ReapedProcess(self._directory, command, for_processes(os.environ, self._task_env), log)
