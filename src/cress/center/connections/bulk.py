"""The second connection of an executor, for logs and commands, so that orders, reports and beats never wait for them.

It is opened on demand: the center requests it over the first connection, with a ticket that names the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from websockets.exceptions import ConnectionClosed

from cress.center.connections.executor_wire import Wire
from cress.model.errors import InputError
from cress.protocol import messages
from cress.protocol.messages import ExecData, ExecOver, FileList, FromAgent, FromCenter, LogData
from cress.protocol.proof import ProofError

# Seconds within which an executor must open it, between two requests if it does not, and after which an idle one is
# closed.
PATIENCE, PAUSE, IDLE = 5.0, 60.0, 60.0
# Bytes of logs that the center passes on in a second, and in one burst: reading them must not delay starts.
RATE, BURST = 24e6, 2e6
# Bytes read at once: at first, at least, at most. Seconds after which an answer counts as slow, and as fast.
FIRST_CHUNK, LEAST_CHUNK, MOST_CHUNK = 32_768, 8_192, 262_144
SLOW, FAST = 1.0, 0.2
_DONE = 1000


class Pace:
    """The rate limit of logs for all readers together."""

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self._rate, self._burst = rate, burst
        self._paid_until = 0.0

    async def passed(self, size: int) -> None:
        """Wait until ``size`` bytes may follow the earlier ones."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now - self._burst / self._rate) + size / self._rate
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)


class ChunkSize:
    """The bytes to request at once: few over a slow link, so that an answer comes in time."""

    def __init__(self) -> None:
        self.now = FIRST_CHUNK

    def answered(self, size: int, seconds: float) -> None:
        """Note the size of an answer in bytes and its duration in seconds; size 0 means that none came."""
        if not size or (seconds > SLOW and size > self.now // 2):
            self.now = max(LEAST_CHUNK, self.now // 2)
        elif seconds < FAST and size >= self.now:
            self.now = min(MOST_CHUNK, 2 * self.now)


class BulkOwner(Protocol):
    """The first connection of an executor, for which the second one works."""

    @property
    def is_quiet(self) -> bool:
        """Return whether no request and no command is open."""

    def heard(self, message: LogData | FileList | ExecData | ExecOver) -> None:
        """Receive an answer of the executor."""

    def closed(self, bulk: BulkWire, why: str) -> None:
        """Stop using the second connection; ``why`` is empty if it was no longer needed."""


class BulkWire:
    """An open second connection, for its ``owner``."""

    def __init__(self, wire: Wire, decode: Callable[[str | bytes], FromAgent | None], owner: BulkOwner) -> None:
        self._wire = wire
        self._decode = decode
        self._owner = owner
        self._messages: list[bytes] = []
        self._ready = asyncio.Event()
        self._last_used = asyncio.get_running_loop().time()
        self._given_up = False

    def put(self, message: FromCenter) -> None:
        """Queue a message after the earlier ones."""
        self._messages.append(messages.encode(message))
        self._last_used = asyncio.get_running_loop().time()
        self._ready.set()

    async def serve(self) -> str:
        """Pass messages on until the connection ends; return the reason, empty if it was no longer needed."""
        others = [asyncio.create_task(self._write()), asyncio.create_task(self._close_idle())]
        try:
            while True:
                message = self._decode(await self._wire.receive())
                if isinstance(message, (LogData, FileList, ExecData, ExecOver)):
                    self._owner.heard(message)
        except (InputError, ProofError) as error:
            return str(error)
        except ConnectionClosed:
            # A request that has come since it was given up is for the next one.
            return "" if self._given_up or self._owner.is_quiet else "the connection for bulk data is gone"
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._wire.close(_DONE, "")

    def abort(self) -> None:
        """End the connection at once, since the first one is gone."""
        self._wire.abort()

    async def _write(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            waiting, self._messages = self._messages, []
            for message in waiting:
                await self._wire.send(message)

    async def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(IDLE / 2)
            if loop.time() >= self._last_used + IDLE and self._owner.is_quiet:
                break
        # First of all nobody may use it any more: a request that comes while it is being closed opens another one.
        self._given_up = True
        self._owner.closed(self, "")
        await self._wire.close(_DONE, "idle")
