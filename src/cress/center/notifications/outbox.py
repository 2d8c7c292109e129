"""The open deliveries, and the processes that send them: one for URLs, one for mail."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from cress.center.notifications.delivery import Delivery, DeliveryResult, SenderSettings, decode_result, encode
from cress.center.process.line_process import converse

SENDER = "cress.center.notifications.sender"
# Open deliveries of one process, and those of one user or group; further ones are dropped.
MOST_OPEN, MOST_OF_OWNER = 10_000, 2_000
# Seconds before a process that ended is started again.
PAUSE = 5.0

_log = logging.getLogger("cress.center")


class Outbox:
    """Hands deliveries to a process, which starts with the first one; ``told`` is called with each result."""

    def __init__(
        self,
        settings: SenderSettings,
        told: Callable[[Delivery, DeliveryResult], None],
        most: int = MOST_OPEN,
        most_of_owner: int = MOST_OF_OWNER,
    ) -> None:
        self._settings = settings
        self._told = told
        self._most, self._most_of_owner = most, most_of_owner
        self.process: int | None = None  # the id of the process that sends
        self._open: dict[str, Delivery] = {}
        self._of_owner: Counter[str] = Counter()
        self._new = asyncio.Event()
        self._unsent: list[Delivery] = []

    @property
    def first_open(self) -> int | None:
        """The number of the oldest event with an open delivery; None if there is none."""
        return min((delivery.event for delivery in self._open.values() if delivery.event), default=None)

    def put(self, delivery: Delivery) -> bool:
        """Add a delivery. Return whether there was room."""
        # A delivery to the same address again takes the place of the first.
        is_new = delivery.id not in self._open
        if is_new and (len(self._open) >= self._most or self._of_owner[delivery.owner] >= self._most_of_owner):
            return False
        self._open[delivery.id] = delivery
        self._of_owner[delivery.owner] += is_new
        self._unsent.append(delivery)
        self._new.set()
        return True

    async def run(self) -> None:
        """Send until cancelled."""
        await self._new.wait()
        while True:
            try:
                await converse(SENDER, encode(self._settings), self._write, self._take_result, self._begun)
            except (OSError, ValueError) as error:
                _log.warning("notifications wait, since their process cannot be used: %s", error)
            finally:
                self.process = None
            await asyncio.sleep(PAUSE)
            # What the process had not finished begins again.
            self._unsent = list(self._open.values())
            self._new.set()

    def _begun(self, process: int) -> None:
        self.process = process

    async def _take_result(self, line: bytes) -> None:
        result = decode_result(line)
        delivery = self._open.pop(result.id, None)
        if delivery is not None:
            self._of_owner[delivery.owner] -= 1
            if not self._of_owner[delivery.owner]:
                del self._of_owner[delivery.owner]
            self._told(delivery, result)

    async def _write(self, pipe: asyncio.StreamWriter) -> None:
        while True:
            await self._new.wait()
            self._new.clear()
            for delivery in self._take():
                pipe.write(encode(delivery) + b"\n")
                await pipe.drain()

    def _take(self) -> list[Delivery]:
        taken, self._unsent = self._unsent, []
        return taken
