"""Commands that people run in tasks: they connect a person's WebSocket with the executor."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from cress.protocol.execution import ExecStart
from cress.protocol.messages import EXEC_INPUT, EXEC_OUTPUT, Exec, ExecData, ExecInput, ExecOver, ExecSize, FromCenter

# Most bytes of unread input from a client; the first clients did not respect the window.
MOST_INPUT = 1 << 20


class Overrun(Exception):
    """One side sent more than its window allows; the message says which."""


class RunningCommand:
    """One command, with the output that waits for the client; the output window bounds it.

    ``user`` runs it; ``send`` sends a message to the executor; ``forget`` is called when the command is closed.
    """

    def __init__(
        self,
        number: int,
        attempt: int,
        start: ExecStart,
        *,
        user: str,
        send: Callable[[FromCenter], None],
        forget: Callable[[int], None],
    ) -> None:
        self.user = user
        self._send = send
        self._forget = forget
        self._number = number
        self._arrived: deque[ExecData | ExecOver] = deque()
        self._ready = asyncio.Event()
        self._unread = 0  # bytes of output that the client has not read
        self._unfed = 0  # bytes of input that the command has not read
        self._held = bytearray()  # input for which the executor has no room yet
        self._room = EXEC_INPUT
        self._at_end = False
        self._over = False  # reported by the executor
        self.broken = False  # True after a connection was lost
        send(
            Exec(
                id=number,
                attempt=attempt,
                command=start.command,
                environment=tuple(start.environment.items()),
                terminal=start.terminal,
            )
        )

    # --- from the executor --------------------------------------------------------------------------------------------

    def told(self, message: ExecData | ExecOver) -> None:
        """Receive a message of the executor about the command."""
        if isinstance(message, ExecData):
            self._unread += len(message.data)
            self._unfed -= message.taken
            self._room += message.taken
            if message.taken:
                self._pass_on()
            if self._unread > 2 * EXEC_OUTPUT:
                self.lost("the executor sends more than it was asked for")
                return
        else:
            self._over = True
        self._arrived.append(message)
        self._ready.set()

    def lost(self, why: str) -> None:
        """End the command because its connection is lost."""
        self.broken = not self._over
        self._arrived.append(ExecOver(id=self._number, why=why))
        self._ready.set()

    async def news(self) -> ExecData | ExecOver:
        """Return the next message as soon as there is one."""
        while not self._arrived:
            self._ready.clear()
            await self._ready.wait()
        return self._arrived.popleft()

    # --- from the person ----------------------------------------------------------------------------------------------

    def taken(self, count: int) -> None:
        """Note that the client has read ``count`` bytes of output."""
        count = max(0, min(count, self._unread))
        if count:
            self._unread -= count
            self._send(ExecInput(id=self._number, taken=count))

    def feed(self, data: bytes) -> None:
        """Pass on more input. Raises Overrun."""
        self._unfed += len(data)
        if self._unfed > MOST_INPUT:
            raise Overrun(f"more than {MOST_INPUT} bytes of input were sent that the command has not read yet")
        self._held += data
        self._pass_on()

    def end(self) -> None:
        """Pass on the end of the input."""
        self._at_end = True
        self._pass_on()

    def _pass_on(self) -> None:
        data = bytes(self._held[: self._room])
        del self._held[: self._room]
        self._room -= len(data)
        over = self._at_end and not self._held
        if data or over:
            self._at_end = self._at_end and not over
            self._send(ExecInput(id=self._number, data=data, over=over))

    def resize(self, rows: int, columns: int) -> None:
        """Pass on the new size of the terminal."""
        self._send(ExecSize(id=self._number, rows=rows, columns=columns))

    def close(self) -> None:
        """Close the command, since its reader is gone."""
        self._forget(self._number)
        if not self._over:
            self._send(ExecOver(id=self._number))
