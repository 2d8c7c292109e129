"""Commands that users run in tasks (``cress exec``): data flows between the center and a command's descriptors.

Each direction has a window of bytes (``EXEC_OUTPUT``, ``EXEC_INPUT``). A slow reader makes the command wait, as a
terminal would, and needs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cress.executor.exec.helper_process import ExecError, ExecSession, HelperProcess, readable, set_once
from cress.executor.processes import is_alive
from cress.protocol.messages import EXEC_INPUT, EXEC_OUTPUT, Exec, ExecData, ExecInput, ExecOver, ExecSize, FromAgent

# Most simultaneous commands, not counting checks.
MOST = 100
PART = 65_536
# Seconds to wait for the rest of the output after a command has ended, since a process left behind may hold the pipe.
LINGER = 1.0
END_OF_INPUT = b"\x04"
# Exit codes of a command that was stopped together with its task: then the reason is worth more than the code.
STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)

Send = Callable[[FromAgent], Awaitable[None]]


class Execs:
    """The commands of one connection to the center. ``first_of``: the first process of a running attempt; 0: none."""

    def __init__(self, helper: HelperProcess, first_of: Callable[[int], int], send: Send) -> None:
        self._helper = helper
        self._first_of = first_of
        self._send = send
        self._commands: dict[int, _Command] = {}

    def obey(self, order: Exec | ExecInput | ExecSize | ExecOver) -> None:
        """Carry out an order of the center; ignore orders about a command that has ended."""
        if isinstance(order, Exec):
            command = self._commands[order.id] = _Command(order, self._helper, self._send)
            full = len(self._commands) > MOST
            command.begin(self._first_of(order.attempt), full=full, gone=self._commands.pop)
            return
        known = self._commands.get(order.id)
        if known is None:
            return
        if isinstance(order, ExecInput):
            known.hear(order)
        elif isinstance(order, ExecSize):
            known.resize(order.rows, order.columns)
        else:
            known.cancel()

    async def ended(self, attempt: int) -> None:
        """End the commands of an attempt that has ended."""
        await self._cancel([command for command in self._commands.values() if command.order.attempt == attempt])

    async def close(self) -> None:
        """End all commands, since the connection to the center is lost."""
        await self._cancel(list(self._commands.values()))

    @staticmethod
    async def _cancel(commands: list[_Command]) -> None:
        for command in commands:
            command.cancel()
        await asyncio.gather(*(command.gone() for command in commands))


class _Command:
    def __init__(self, order: Exec, helper: HelperProcess, send: Send) -> None:
        self.order = order
        self._helper = helper
        self._send = send
        self._room = EXEC_OUTPUT
        self._more_room = asyncio.Event()
        self._input: list[bytes] = []
        self._waiting = 0
        self._input_over = False
        self._more_input = asyncio.Event()
        self._stdin = -1  # our end of the pipe
        self._session: ExecSession | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, first: int, *, full: bool, gone: Callable[[int, None], object]) -> None:
        """Run the command; ``gone`` is called with its number at its end."""
        self._task = asyncio.create_task(self._run(first, full=full))
        self._task.add_done_callback(lambda _: gone(self.order.id, None))

    def cancel(self) -> None:
        """Kill the command's processes."""
        if self._task is not None:
            self._task.cancel()

    async def gone(self) -> None:
        """Wait until the command has ended."""
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task

    def hear(self, order: ExecInput) -> None:
        """Take input for the command, or enlarge the window for its output."""
        if order.taken:
            self._room += order.taken
            self._more_room.set()
        if order.data:
            self._input.append(order.data)
            self._waiting += len(order.data)
            if self._waiting > 2 * EXEC_INPUT:
                self.cancel()  # the sender exceeds the window
        if order.over:
            self._input_over = True
        self._more_input.set()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal, which sends a signal to the command."""
        if self._session is not None and self._session.terminal >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._session.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def _run(self, first: int, *, full: bool) -> None:
        over = ExecOver(id=self.order.id, why="the command was ended: its task is over, or the reader disconnected")
        try:
            _check(first, full=full)
            await (self._with_terminal(first) if self.order.terminal is not None else self._with_pipes(first))
            assert self._session is not None
            code = await self._session.over
            if code not in STOPPED or not await _ends(first):
                over = ExecOver(id=self.order.id, code=code)
        except ExecError as error:
            over = ExecOver(id=self.order.id, code=error.code, why=str(error))
        except OSError as error:
            over = ExecOver(id=self.order.id, code=125, why=f"the command could not be run: {error.strerror}")
        finally:
            self._close_input()
            if self._session is not None and not self._session.over.done():
                self._helper.kill(self._session)
                # The end is reported when the processes are gone, like that of a task.
                await asyncio.wait({self._session.over}, timeout=LINGER)
            # A lost connection is noticed elsewhere.
            with contextlib.suppress(Exception):
                await self._send(over)

    async def _with_terminal(self, first: int) -> None:
        order = self.order
        self._session = await self._helper.enter(
            first, order.attempt, order.command, environment=order.environment, terminal=order.terminal
        )
        fd = self._session.terminal
        try:
            await self._until_over([self._output(fd, error=False)], self._feed(fd, terminal=True))
        finally:
            self._session.terminal = -1
            os.close(fd)

    async def _with_pipes(self, first: int) -> None:
        order = self.order
        with contextlib.ExitStack() as files:
            theirs, ours = [], []
            for reads in (True, False, False):
                reading, writing = os.pipe()
                theirs.append(reading if reads else writing)
                ours.append(writing if reads else reading)
            for fd in ours[1:]:
                files.callback(os.close, fd)
                os.set_blocking(fd, False)
            os.set_blocking(ours[0], False)
            self._stdin = ours[0]
            try:
                self._session = await self._helper.enter(
                    first, order.attempt, order.command, environment=order.environment, streams=theirs
                )
            finally:
                for fd in theirs:
                    os.close(fd)
            outputs = [self._output(ours[1], error=False), self._output(ours[2], error=True)]
            await self._until_over(outputs, self._feed(ours[0], terminal=False))

    async def _until_over(self, outputs: list[Coroutine[Any, Any, None]], feed: Coroutine[Any, Any, None]) -> None:
        """Wait until all output is sent; then stop feeding input."""
        feeding = asyncio.create_task(feed)
        writing = [asyncio.create_task(output) for output in outputs]
        try:
            for stream in writing:
                await stream
            assert self._session is not None
            await asyncio.wait({self._session.over})
        finally:
            for stream in (feeding, *writing):
                stream.cancel()
            await asyncio.gather(feeding, *writing, return_exceptions=True)

    async def _output(self, fd: int, *, error: bool) -> None:
        """Send the command's output, as far as the window allows."""
        assert self._session is not None
        while True:
            while self._room <= 0:
                self._more_room.clear()
                await self._more_room.wait()
            try:
                data = os.read(fd, min(PART, self._room))
            except BlockingIOError:
                if not await self._more_output(fd):
                    return
                continue
            except OSError:
                return  # the last process has closed the terminal
            if not data:
                return
            self._room -= len(data)
            await self._send(ExecData(id=self.order.id, data=data, error=error))

    async def _more_output(self, fd: int) -> bool:
        """Wait for more output; return False if the command has ended and no more can come."""
        assert self._session is not None
        ready = asyncio.ensure_future(readable(fd))
        either: set[asyncio.Future[Any]] = {ready, self._session.over}
        try:
            if not self._session.over.done():
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                await asyncio.wait({ready}, timeout=LINGER)
            return ready.done()
        finally:
            ready.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ready

    async def _feed(self, fd: int, *, terminal: bool) -> None:
        """Write the input to the command. Close the pipe at the end of the input, or when the command stops reading."""
        try:
            while True:
                while self._input:
                    data = self._input.pop(0)
                    with contextlib.suppress(BrokenPipeError):
                        await _write(fd, data)
                    self._waiting -= len(data)
                    await self._send(ExecData(id=self.order.id, taken=len(data)))
                if self._input_over:
                    if terminal:
                        await _write(fd, END_OF_INPUT)
                    return
                self._more_input.clear()
                await self._more_input.wait()
        except OSError:
            return
        finally:
            self._close_input()

    def _close_input(self) -> None:
        fd, self._stdin = self._stdin, -1
        if fd >= 0:
            os.close(fd)


async def _ends(first: int) -> bool:
    """Return whether the first process of a task ends within ``LINGER``."""
    for _ in range(10):
        if not is_alive(first):
            return True
        await asyncio.sleep(LINGER / 10)
    return False


def _check(first: int, *, full: bool) -> None:
    if not first:
        raise ExecError("the task is not running on its node", 125)
    if full:
        raise ExecError(f"{MOST} commands are running in tasks of this node, which is the limit", 125)


async def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await _writable(fd)


async def _writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, set_once, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)
