"""Failover: the change of this center between leader and standby (design note 0017)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from cress.center.committing.committer import Committer
from cress.center.committing.leader_election import LeaderElection
from cress.center.leader.standby import Standby
from cress.model.errors import InputError, NotAccepted
from cress.store.base import StoreError

# Seconds within which another center must take the lead that is handed over.
HAND_OVER = 2.0
# Seconds that a call waits for a leader.
PATIENCE = 10.0
# Seconds between two looks whether this center stops, and whether the state is loaded.
STOPPING = 0.25
AGAIN = 0.02


class Failover:
    """The role of this center among those that share a store. With a store of its own it always leads."""

    def __init__(self, committer: Committer, election: LeaderElection, standby: Standby | None, address: str) -> None:
        self._committer = committer
        self._election = election
        self._standby = standby
        self.address = address
        self._handing_over = False
        self.leads = standby is None

    @property
    def age(self) -> float:
        """Seconds since the shown state was the latest stored one; 0 on the leader while its lead is confirmed."""
        return self._election.unconfirmed if self.leads or self._standby is None else self._standby.age

    async def confirmed(self, seconds: float) -> bool:
        """Wait until no other center can lead, at most ``seconds``; return False if one still may.

        A center that was cut off or asleep assumes that it leads until the servers of the store answer.
        """
        return await self._election.confirmed(seconds)

    async def ready(self, seconds: float = PATIENCE) -> None:
        """Wait until this center has loaded its state again after a lapse of its lead, at most ``seconds``.

        A change that comes meanwhile waits, as one does while nobody leads.
        """
        end = asyncio.get_running_loop().time() + seconds
        while self._committer.is_reloading and (left := end - asyncio.get_running_loop().time()) > 0:
            await self._election.news(min(left, AGAIN))

    @property
    def leader(self) -> str:
        """The address of the leader; empty if none is known."""
        if self.leads:
            return self.address
        return "" if self._election.is_mine else self._election.leader

    @property
    def is_shared(self) -> bool:
        """True if there may be other centers."""
        return self._standby is not None

    @property
    def is_changing(self) -> bool:
        """True while the lead is handed over, or this center begins or ceases to lead."""
        return (
            self._handing_over
            or self._election.is_mine is not self.leads
            or self._committer.loop.is_aside is self.leads
        )

    async def others(self) -> list[str]:
        """Return the addresses of the other standbys. Raises StoreError."""
        return await self._election.others()

    async def elsewhere(self) -> list[str]:
        """Return the addresses of all other centers, that of the leader too. Raises StoreError."""
        there = {self.leader, *await self.others()} - {self.address, ""}
        return sorted(there)

    async def settled(self, seconds: float = PATIENCE) -> str:
        """Wait until the leader is known, at most ``seconds``; return its address, empty if there is none."""
        end = asyncio.get_running_loop().time() + seconds
        while (not self.leader or self.is_changing) and (left := end - asyncio.get_running_loop().time()) > 0:
            if self._committer.stopping:
                # Its callers get an answer before the center ends.
                break
            await self._election.news(min(left, STOPPING))
        return self.leader

    async def run(
        self,
        prepare: Callable[[], Awaitable[None]],
        begin: Callable[[], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Stand by and lead in turns until cancelled. Raises InputError.

        ``prepare`` is called when the state is loaded, ``begin`` when this center leads, ``end`` when it ceases to
        lead.
        """
        assert self._standby is not None
        while True:
            await self._standby.until_it_leads(prepare)
            await begin()
            self._set(leads=True)
            why = await self._election.watch(self._committer.lapsed, lambda: self._committer.loop.is_replaced)
            if self._handing_over:
                # Executors look for the other leader once it is there.
                await self._election.wait_for_leader(HAND_OVER)
            self._committer.step_aside(f"this center stands by; {why}")
            self._set(leads=False)
            await end()

    def _set(self, *, leads: bool, handing_over: bool = False) -> None:
        self.leads, self._handing_over = leads, handing_over
        self._election.stir()

    async def hand_over(self) -> str:
        """Make another center the leader; return its address. Raises NotAccepted if there is none, and StoreError."""
        if not self.leads or self._handing_over:
            raise NotAccepted("this center does not lead", hint=self.leader and f"the one at {self.leader} does")
        if not await self.others():
            raise NotAccepted("no other center stands by", hint="start another one with the same --store")
        if self._committer.problem:
            raise NotAccepted("this center cannot hand over, because it cannot store", hint=self._committer.problem)
        self._set(leads=True, handing_over=True)
        if not await self._committer.finish("another center takes over; try again", HAND_OVER):
            self._set(leads=True)
            raise NotAccepted("what this center does has not come to an end", hint="try again")
        if not await self._election.give_away(HAND_OVER):
            raise NotAccepted("no other center has taken over", hint="this one goes on; their logs say why")
        return self._election.leader

    async def resign(self) -> None:
        """Hand over the lead to a standby, if there is one, since this center stops; so clients need not wait."""
        with contextlib.suppress(InputError, StoreError):
            if self.is_shared and self.leads and await self.others():
                await self.hand_over()
