"""Election of the leader: of the centers that share a store one leads, the others are standbys (design note 0017)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from cress.store.base import StoreError
from cress.store.lead import Lead, boottime

# Claims of the lead within the time after which it is lost.
CLAIMS = 6
# Seconds between two checks that the chosen successor leads, and for the servers' answer to a claim.
AGAIN = 0.01
CONFIRMED = 0.03


class Lapses:
    """Finds out whether another center may have held a lead that has been claimed again since.

    The thread that claims the lead calls ``claimed``; its users call ``noticed`` from time to time, maybe much later.
    """

    def __init__(self) -> None:
        self._count = self._known = 0
        self._valid = True

    def claimed(self, now: int, until: int) -> None:
        """Note that the lead is claimed again ``now``; it had been relied on up to ``until``."""
        self._count += now >= until

    def noticed(self, *, valid: bool) -> bool:
        """Return True once for each lapse; ``valid`` says that no other center can hold the lead at this moment."""
        lapsed = self._valid and (not valid or self._count != self._known)
        self._known, self._valid = self._count, valid
        return lapsed


class LeaderElection:
    """Claims and keeps the lead of a store. A store without a lead is the center's own, and the center always leads.

    ``leader`` is the address of the leader if it is known, and ``problem`` the reason if it is not. Both belong to the
    event loop of ``start``.
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
        # A thread of its own, since a blocked event loop must not cost the lead.
        self._thread = threading.Thread(target=self._run, name="lead", daemon=True)

    def is_confirmed(self) -> bool:
        """Return whether no other center can lead at this moment."""
        return self._lead is None or boottime() < self._lead.until

    @property
    def unconfirmed(self) -> float:
        """Most seconds for which another center may have led; 0 if none can."""
        if self._lead is None or self.is_confirmed():
            return 0.0
        return (boottime() - self._lead.until) / 1e6 + self._lead.session

    async def confirmed(self, seconds: float) -> bool:
        """Wait until no other center can lead, at most ``seconds``; return False if one still may."""
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
        """Wait until the lead changes hands or ``stir`` is called, at most ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def stir(self) -> None:
        """Wake all callers of ``news``."""
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
                # The next answer of the servers will show whether another center leads.
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
        """Return the reason when another center leads, or has led and begun an epoch (``is_replaced``).

        ``lapsed`` is called when another center might have led for a time, so that the state must be loaded again.
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
        """Return the addresses of the standbys. Raises StoreError."""
        found = [] if self._lead is None else await asyncio.to_thread(self._lead.others)
        return [address for address in found if address != self.leader]

    async def give_away(self, seconds: float) -> bool:
        """Let another center lead; return False if none takes the lead within ``seconds``, and claim it again."""
        self._wanted = False
        self._wake.set()
        try:
            return await self.wait_for_leader(seconds)
        finally:
            self._wanted = True

    async def wait_for_leader(self, seconds: float) -> bool:
        """Wait until another center leads; return False if none does within ``seconds``."""
        end = asyncio.get_running_loop().time() + seconds
        while self.is_mine or not self.leader:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self.news(left)
        return True

    async def end(self) -> None:
        """Release the lead, and stop standing by."""
        if self._thread.ident is not None:
            self._ended.set()
            self._wake.set()
            await asyncio.to_thread(self._thread.join)
