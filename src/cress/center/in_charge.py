"""Being in charge: of the centers that share a store one leads, the others stand by (design note 0017)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

from cress.store.base import StoreError
from cress.store.lead import Lead, boottime

# Claims of the lead in the time in which it would be lost.
CLAIMS = 6

_log = logging.getLogger("cress.center")


class InCharge:
    """Gets and keeps the lead of a store. Without one the center is in charge of a store of its own, always."""

    def __init__(self, lead: Lead | None) -> None:
        self._lead = lead
        self._interval = 0.0 if lead is None else lead.session / CLAIMS
        self._ended = threading.Event()
        self._lost = ""
        # Not the event loop: what keeps that for a time must not cost the lead.
        self._thread = threading.Thread(target=self._keep, name="lead", daemon=True)

    def __call__(self) -> bool:
        """Return whether no other center can be in charge at this moment."""
        return self._lead is None or boottime() < self._lead.until

    async def begin(
        self, stop: asyncio.Event, follow: Callable[[], object], prepare: Callable[[], Awaitable[None]]
    ) -> bool:
        """Stand by until this center is in charge; False when it is stopped before.

        ``prepare`` is called once if it has to stand by, and ``follow`` again and again, in a thread: it takes over what the
        leader stores.
        """
        lead = self._lead
        if lead is None:
            return True
        told, prepared = "", False
        stopped = asyncio.create_task(stop.wait())
        while not stop.is_set():
            try:
                if await asyncio.to_thread(lead.claim):
                    stopped.cancel()
                    self._thread.start()
                    return True
                leader = await asyncio.to_thread(lead.leader)
                problem = f"standing by; the center at {leader} is in charge" if leader else ""
                await asyncio.to_thread(follow)
                if not prepared:
                    await prepare()
                    prepared = True
            except StoreError as error:
                problem = f"standing by; {error}"
            if problem and problem != told:
                _log.warning("%s", problem)
                told = problem
            await asyncio.wait((stopped,), timeout=self._interval)
        return False

    def _keep(self) -> None:
        lead = self._lead
        assert lead is not None
        while not self._ended.wait(self._interval):
            try:
                if lead.claim():
                    continue
                leader = lead.leader()
            except StoreError:
                continue
            self._lost = f"another center is in charge now{leader and f', at {leader}'}"
            return

    async def watch(self, lapsed: Callable[[], None]) -> str:
        """Return why when another center has the lead.

        ``lapsed`` is called when another center might have had it for a time: the state must be loaded again.
        """
        in_time = True
        while not self._lost:
            await asyncio.sleep(self._interval or 3600)
            if in_time and not self():
                lapsed()
            in_time = self()
        return self._lost

    async def end(self) -> None:
        """Give the lead away."""
        if self._lead is not None:
            self._ended.set()
            if self._thread.ident is not None:
                await asyncio.to_thread(self._thread.join)
            await asyncio.to_thread(self._lead.release)
