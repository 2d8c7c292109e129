"""Commands that people run in tasks: between a person's WebSocket and the executor."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from cress.protocol.execution import ExecStart
from cress.protocol.messages import EXEC_INPUT, EXEC_OUTPUT, Exec, ExecData, ExecInput, ExecOver, ExecSize, FromCenter

# Bytes of input under way that a client may have, who did not keep to the window at first.
MOST_INPUT = 1 << 20


class Overrun(Exception):
    """Somebody sends more than was agreed; the sentence says who."""


class Command:
    """One command. What comes from the executor waits here; it is bounded by the window of output.

    ``send`` sends a message to the executor, ``forget`` is called when the command is closed.
    """

    def __init__(
        self,
        number: int,
        attempt: int,
        start: ExecStart,
        *,
        send: Callable[[FromCenter], None],
        forget: Callable[[int], None],
    ) -> None:
        self._send = send
        self._forget = forget
        self._number = number
        self._arrived: deque[ExecData | ExecOver] = deque()
        self._ready = asyncio.Event()
        self._unread = 0  # bytes of output that nobody has taken
        self._unfed = 0  # bytes of input that the command has not read
        self._held = bytearray()  # input that the executor has no room for yet
        self._room = EXEC_INPUT
        self._at_end = False
        self._over = False  # by the executor's word
        send(
            Exec(
                id=number,
                attempt=attempt,
                command=start.command,
                environment=tuple(start.environment.items()),
                terminal=start.terminal,
            )
        )

    # --- from the executor ---------------------------------------------------------------------------------------------

    def told(self, message: ExecData | ExecOver) -> None:
        """The executor says something about it."""
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
        """Nothing more will be heard of it."""
        self._arrived.append(ExecOver(id=self._number, why=why))
        self._ready.set()

    async def news(self) -> ExecData | ExecOver:
        """What comes next."""
        while not self._arrived:
            self._ready.clear()
            await self._ready.wait()
        return self._arrived.popleft()

    # --- from the person -----------------------------------------------------------------------------------------------

    def taken(self, count: int) -> None:
        """So many bytes of output were read."""
        count = max(0, min(count, self._unread))
        if count:
            self._unread -= count
            self._send(ExecInput(id=self._number, taken=count))

    def feed(self, data: bytes) -> None:
        """More input. Raises Overrun."""
        self._unfed += len(data)
        if self._unfed > MOST_INPUT:
            raise Overrun(f"more than {MOST_INPUT} bytes of input were sent that the command has not read yet")
        self._held += data
        self._pass_on()

    def end(self) -> None:
        """The input is at its end."""
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
        """The terminal has another size."""
        self._send(ExecSize(id=self._number, rows=rows, columns=columns))

    def close(self) -> None:
        """Nobody wants it any more."""
        self._forget(self._number)
        if not self._over:
            self._send(ExecOver(id=self._number))
