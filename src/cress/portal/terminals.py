"""Terminals in tasks: what a browser types goes to a command in a task, and its output comes back.

The connection to the center blocks, so a terminal has two threads: one passes on the output, one the input. The browser
confirms what it has drawn. A command that writes faster than that waits, so no memory fills up.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from cress.client.errors import ClientError
from cress.client.execution import Command

# Bytes of output that a browser has not drawn yet, and bytes of input that the command has not read yet.
WINDOW, MOST_WAITING = 2**18, 2**20
# Most terminals of one portal, and of one user in it.
MOST, MOST_OF_USER = 50, 10


class TerminalWord(msgspec.Struct, frozen=True):
    """A message of the browser that is no input: the new size (rows, columns), or bytes that it has drawn."""

    size: tuple[int, int] | None = None
    drawn: int = 0


class TerminalBridge:
    """Joins a running command with a browser. ``send`` sends bytes to the browser; ``tell`` sends an object.

    Run it with ``run``. Give it what the browser sends with ``typed`` and ``word``; ``close`` ends the command.
    """

    def __init__(
        self,
        command: Command,
        send: Callable[[bytes], Awaitable[None]],
        tell: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        self._command = command
        self._send, self._tell = send, tell
        self._loop = asyncio.get_running_loop()
        self._input: queue.SimpleQueue[bytes | tuple[int, int] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._undrawn = 0
        self._drawn = threading.Condition()
        self._closed = False
        self._over: asyncio.Future[dict[str, Any]] = self._loop.create_future()

    async def run(self) -> None:
        """Pass everything on until the command has ended, and tell the browser how."""
        threads = [
            threading.Thread(target=work, name=f"terminal-{what}", daemon=True)
            for what, work in (("output", self._pass_output), ("input", self._pass_input))
        ]
        for thread in threads:
            thread.start()
        try:
            await self._tell(await self._over)
        finally:
            self.close()

    def typed(self, data: bytes) -> None:
        """Pass on what was typed; a command that reads nothing for a megabyte is ended."""
        self._waiting += len(data)
        if self._waiting > MOST_WAITING:
            self._end({"over": True, "why": "the command has not read what was typed for 1 MB, and was ended"})
            self.close()
            return
        self._input.put(data)

    def word(self, word: TerminalWord) -> None:
        """Pass on a new size, or note what the browser has drawn."""
        if word.size is not None:
            self._input.put(word.size)
        with self._drawn:
            self._undrawn = max(0, self._undrawn - max(0, word.drawn))
            self._drawn.notify_all()

    def close(self) -> None:
        """End the command if it still runs; more calls have no effect."""
        if self._closed:
            return
        self._closed = True
        self._input.put(None)
        with self._drawn:
            self._drawn.notify_all()
        # Closing waits for the other side for up to a second.
        threading.Thread(target=self._command.close, name="terminal-close", daemon=True).start()

    def _pass_output(self) -> None:
        """In a thread: send output to the browser while it keeps up."""
        ended: dict[str, Any]
        try:
            for _, data in self._command:
                with self._drawn:
                    self._undrawn += len(data)
                asyncio.run_coroutine_threadsafe(self._sent(data), self._loop).result()
                with self._drawn:
                    self._drawn.wait_for(lambda: self._undrawn < WINDOW or self._closed)
                if self._closed:
                    break
            ended = {"over": True, "code": self._command.code, "why": self._command.why}
        except ClientError as error:
            ended = {"over": True, "code": None, "why": str(error)}
        except Exception:  # noqa: BLE001 – whatever the server raises when the browser is gone
            ended = {"over": True, "code": None, "why": "the connection to the browser broke"}
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end, ended)

    def _pass_input(self) -> None:
        """In a thread: give the command what was typed, one piece after the other."""
        while (piece := self._input.get()) is not None:
            if isinstance(piece, tuple):
                self._command.resize(*piece)
                continue
            if not self._command.send(piece):
                return
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._note_read, len(piece))

    async def _sent(self, data: bytes) -> None:
        await self._send(data)

    def _note_read(self, length: int) -> None:
        self._waiting -= length

    def _end(self, how: dict[str, Any]) -> None:
        if not self._over.done():
            self._over.set_result(how)
