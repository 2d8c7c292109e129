"""Election of the leader: of the centers that share a store one leads, the others stand by (design note 0017)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from cress.store.base import StoreError
from cress.store.lead import Lead, boottime

# Claims of the lead in the time in which it would be lost.
CLAIMS = 6
# Seconds between two looks for the center to which this one has given the lead, and for the answer of the servers to a
# claim.
AGAIN = 0.01
CONFIRMED = 0.03


class Lapses:
    """Finds out whether another center may have had a lead for a time that was claimed again since.

    Who claims it calls ``claimed``; who works with it calls ``noticed`` now and then, maybe long after.
    """

    def __init__(self) -> None:
        self._count = self._known = 0
        self._valid = True

    def claimed(self, now: int, until: int) -> None:
        """Note that the lead is claimed again ``now``; it was relied on to ``until``."""
        self._count += now >= until

    def noticed(self, *, valid: bool) -> bool:
        """Return True once for each lapse; ``valid``: no other center can have the lead at this moment."""
        lapsed = self._valid and (not valid or self._count != self._known)
        self._known, self._valid = self._count, valid
        return lapsed


class LeaderElection:
    """Claims and keeps the lead of a store. Without one the store is the center's own, and it always leads.

    ``leader`` is the address of the center that leads, as far as it is known, ``problem`` the reason why it is not.
    They belong to the event loop of ``start``.
    """

    def __init__(self, lead: Lead | None, address: str = "") -> None:
        self._lead = lead
        self._address = address
        self._interval = 0.0 if lead is None else lead.session / CLAIMS
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._wanted = True
        self.is_mine = lead is None
        self.leader = address if lead is None else ""
        self.problem = ""
        self._lapses = Lapses()
        self._news = asyncio.Event()
        # Not the event loop: what keeps that for a time must not cost the lead.
        self._thread = threading.Thread(target=self._run, name="lead", daemon=True)

    def is_confirmed(self) -> bool:
        """Return whether no other center can lead at this moment."""
        return self._lead is None or boottime() < self._lead.until

    @property
    def unconfirmed(self) -> float:
        """Seconds for which another center may have led, at most; 0 if none can lead."""
        if self._lead is None or self.is_confirmed():
            return 0.0
        return (boottime() - self._lead.until) / 1e6 + self._lead.session

    async def confirmed(self, seconds: float) -> bool:
        """Wait until no other center can lead, at most so long; False if one may be."""
        end = asyncio.get_running_loop().time() + seconds
        while self.is_mine and not self.is_confirmed():
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self.news(min(left, CONFIRMED))
        return self.is_mine

    def start(self) -> None:
        """Begin to claim the lead, if that has not begun."""
        if self._lead is not None and self._thread.ident is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()

    async def news(self, seconds: float) -> None:
        """Wait until the lead changes hands, or somebody calls ``stir``, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def stir(self) -> None:
        """Wake those who wait for news."""
        self._news.set()
        self._news = asyncio.Event()

    def _run(self) -> None:
        lead = self._lead
        assert lead is not None
        mine = False
        while not self._ended.is_set():
            try:
                if mine and not self._wanted:
                    mine = False
                    lead.release()
                until = lead.until
                if self._wanted and lead.claim():
                    if mine:
                        self._lapses.claimed(boottime(), until)
                    mine = True
                    self._tell(self._address, mine=True)
                else:
                    mine = False
                    lead.stand_by()
                    self._tell(lead.leader(), mine=False)
            except StoreError as error:
                # Whether another center leads now will be known when the servers answer.
                self._tell(self._address if mine else "", mine=mine, problem=str(error))
            if mine or not self._wanted:
                self._wake.wait(self._interval if mine else AGAIN)
                self._wake.clear()
            else:
                lead.wait(self._interval)
        lead.release()
        lead.close()

    def _tell(self, leader: str, *, mine: bool, problem: str = "") -> None:
        self._loop.call_soon_threadsafe(self._told, mine, leader, problem)

    def _told(self, *told: Any) -> None:
        if told != (self.is_mine, self.leader, self.problem):
            self.is_mine, self.leader, self.problem = told
            self.stir()

    async def watch(self, lapsed: Callable[[], None], is_replaced: Callable[[], bool]) -> str:
        """Return why when another center has the lead, or has had it and begun an epoch (``is_replaced``).

        ``lapsed`` is called when another center might have had it for a time: the state must be loaded again.
        """
        self._lapses.noticed(valid=self.is_confirmed())
        while self.is_mine and not is_replaced():
            await self.news(self._interval or 3600)
            if self._lapses.noticed(valid=self.is_confirmed()):
                lapsed()
        if self.is_mine:
            return "another center led meanwhile"
        return f"another center leads now{self.leader and f', at {self.leader}'}"

    async def others(self) -> list[str]:
        """Return the addresses of the centers that stand by. Raises StoreError."""
        found = [] if self._lead is None else await asyncio.to_thread(self._lead.others)
        return [address for address in found if address != self.leader]

    async def give_away(self, seconds: float) -> bool:
        """Let another center lead; False if none has taken the lead within so many seconds, and this one claims it
        again.
        """
        self._wanted = False
        self._wake.set()
        try:
            return await self.wait_for_leader(seconds)
        finally:
            self._wanted = True

    async def wait_for_leader(self, seconds: float) -> bool:
        """Wait until another center leads; False if none does within so many seconds."""
        end = asyncio.get_running_loop().time() + seconds
        while self.is_mine or not self.leader:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self.news(left)
        return True

    async def end(self) -> None:
        """Give the lead away, and stand by no more."""
        if self._thread.ident is not None:
            self._ended.set()
            self._wake.set()
            await asyncio.to_thread(self._thread.join)
