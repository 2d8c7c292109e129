"""The agent's end of the exec helper: starts the helper, sends commands to it, receives their exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from cress.executor import processes
from cress.executor.exec.packets import (
    MOST_PACKET,
    Enter,
    Kill,
    Left,
    ToHelper,
    Trouble,
    decode_left,
    decode_trouble,
    encode,
)
from cress.executor.inherited import for_processes
from cress.executor.marks import exec_marks

# Seconds between attempts to write to a full socket.
AGAIN = 0.01
# Seconds for the helper to kill its commands before the agent goes on without it.
LAST = 1.0
# Seconds for a command to start.
PATIENCE = 20.0


class ExecError(Exception):
    """Error: a command could not be run in the task. The message says why; ``code`` is the exit code of a shell."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


class ExecSession:
    """A command that runs in a task. ``over`` becomes its exit code, or ExecError if the code is lost."""

    def __init__(self, number: int, over: asyncio.Future[int]) -> None:
        self.number = number
        self.over = over
        self.terminal = -1  # the descriptor of our end


class HelperProcess:
    """The exec helper of an agent, started on first use. ``folder`` is that of the attempts, or empty."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: dict[int, ExecSession] = {}
        self._next = 1

    async def enter(
        self,
        first: int,
        attempt: int,
        command: Sequence[str],
        *,
        environment: Sequence[tuple[str, str]] = (),
        terminal: tuple[int, int] | None = None,
        streams: Sequence[int] = (),
    ) -> ExecSession:
        """Run a command in the attempt whose first process is ``first``; return when it runs. Raise ExecError.

        ``streams`` are descriptors of its standard input, output and error. With a ``terminal`` (rows, columns) there
        are none, and the session has the descriptor of the terminal's other end, which belongs to the caller.
        """
        link = self._link()
        number, self._next = self._next, self._next + 1
        order = Enter(number, first, attempt, tuple(command), tuple(environment), terminal)
        if len(encode(order)) > MOST_PACKET:
            raise ExecError(f"the command is longer than {MOST_PACKET} bytes", 126)
        loop = asyncio.get_running_loop()
        over: asyncio.Future[int] = loop.create_future()
        over.add_done_callback(lambda future: future.cancelled() or future.exception())
        session = self._sessions[number] = ExecSession(number, over)
        ours, theirs = socket.socketpair()
        try:
            with ours:
                ours.setblocking(False)
                try:
                    await self._send(link, order, [theirs.fileno(), *streams])
                finally:
                    theirs.close()
                async with asyncio.timeout(PATIENCE):
                    await self._begun(ours, session)
        except BaseException as error:
            self.kill(session)
            if session.terminal >= 0:
                os.close(session.terminal)
            if isinstance(error, TimeoutError):
                raise ExecError("the command did not start in time", 125) from None
            if isinstance(error, OSError):
                raise ExecError("the executor cannot enter tasks at the moment", 125) from None
            raise
        return session

    def kill(self, session: ExecSession) -> None:
        """Kill the processes of a session, if any are left."""
        if session.number in self._sessions and self._socket is not None:
            job = asyncio.ensure_future(self._send(self._socket, Kill(session.number)))
            job.add_done_callback(lambda future: future.cancelled() or future.exception())

    def close(self) -> None:
        """End the helper and all its commands."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._lost()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST)

    async def _begun(self, back: socket.socket, session: ExecSession) -> None:
        """Read the child's messages until it has become the command."""
        while True:
            await readable(back.fileno())
            data, fds, _, _ = socket.recv_fds(back, MOST_PACKET, 1)
            if fds:
                session.terminal = fds[0]
                os.set_inheritable(fds[0], False)
                os.set_blocking(fds[0], False)
            if not data:
                return
            text = data.lstrip(b"\0")
            if text:
                trouble = Trouble("the command could not be started in the task", 125)
                with contextlib.suppress(msgspec.DecodeError):
                    trouble = decode_trouble(text)
                raise ExecError(trouble.why, trouble.code)

    def _link(self) -> socket.socket:
        if self._socket is None:
            if self._process is not None:
                self._process.poll()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "cress.executor.exec.helper", str(theirs.fileno()), self._folder],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=for_processes(os.environ),
                    cwd="/",
                    start_new_session=True,
                )
            ours.setblocking(False)
            self._socket = ours
            asyncio.get_running_loop().add_reader(ours, self._heard)
        return self._socket

    def _heard(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._clear_up()
            return
        left: Left = decode_left(data)
        session = self._sessions.pop(left.session, None)
        if session is not None and not session.over.done():
            session.over.set_result(left.code)

    def _clear_up(self) -> None:
        """Kill the commands of a helper that was killed: the kernel has killed its children, but not their children."""
        if self._process is None or self._process.poll() is None:
            return
        for _, pid in processes.find_marked(exec_marks(self._process.pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _lost(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            if not session.over.done():
                session.over.set_exception(
                    ExecError("the executor's exec helper is gone, and the command with it", 125)
                )

    @staticmethod
    async def _send(link: socket.socket, order: ToHelper, fds: Sequence[int] = ()) -> None:
        while True:
            try:
                socket.send_fds(link, [encode(order)], fds)
            except BlockingIOError:
                await asyncio.sleep(AGAIN)
            else:
                return


async def readable(fd: int) -> None:
    """Wait until the descriptor has data or is at its end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, set_once, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def set_once(ready: asyncio.Future[None]) -> None:
    """Complete the future once; the event may come twice before the waiter runs."""
    if not ready.done():
        ready.set_result(None)
