"""A standby: follows the state that the leader stores, answers reads, and takes over (design note 0017)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from cress.center.committing.committer import Committer
from cress.center.committing.leader_election import LeaderElection
from cress.center.keeping.recovery import load_machine
from cress.center.leader.history_copies import HistoryCopies
from cress.center.leader.warm_replica import Warm
from cress.lifecycle.tables.rows import LiveJob
from cress.store.base import Changed, Fenced, StoreError
from cress.store.replicated import ReplicatedStore
from cress.store.shared_log import LogUnreachable, Trimmed

# Seconds between two checks of the log without notice of a change, and after an error.
LOOK, RETRY = 0.25, 1.0
# Least seconds between two applications of commits, and the multiple of their duration: readers go first.
PAUSE, SHARE = 0.03, 10

# Errors after which a center with the lead tries again.
PASSING = (LogUnreachable, Changed, Fenced, Trimmed)

_log = logging.getLogger("cress.center")


class Standby:
    """Keeps a committer at the leader's stored state while ``until_it_leads`` runs; ``age`` is that state's age (s)."""

    def __init__(self, committer: Committer, store: ReplicatedStore, election: LeaderElection) -> None:
        self._committer = committer
        self._store = store
        self._election = election
        self._warm: Warm | None = None
        self._copies = HistoryCopies(committer, store, self._live)
        self._current = 0.0
        self._told = ""

    def _live(self, number: int) -> LiveJob | None:
        """Return a live job; None also while nothing is loaded."""
        return None if self._warm is None else self._warm.opened.machine.jobs.get(number)

    @property
    def age(self) -> float:
        """Seconds since the shown state was the latest stored one."""
        return time.monotonic() - self._current

    async def load(self) -> None:
        """Load the state and show it. Raises StoreError."""
        committer = self._committer
        begin = time.monotonic()
        opened = await committer.in_thread(partial(load_machine, self._store, committer.settings, committer.clock))
        self._warm = Warm(opened, committer.clock)
        committer.show(opened)
        self._current = begin

    async def until_it_leads(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Follow the leader until this center leads and has begun its epoch.

        ``prepare`` is called once, when the state is loaded. Raises InputError, and StoreError if this center has the
        lead and cannot read or write the store.
        """
        prepared = False
        while True:
            try:
                if self._warm is None:
                    await self.load()
                self._election.start()
                # Without a recent confirmation another center may have the lead, whose epoch would be replaced.
                if await self._election.confirmed(LOOK):
                    await self._take_over()
                    return
                if not prepared:
                    await prepare()
                    prepared = True
                await self.follow()
                self._tell(self._election.problem)
            except StoreError as error:
                if self._election.is_mine and not isinstance(error, PASSING):
                    # Another center may be able to lead.
                    raise
                self._warm = None
                self._tell(str(error))
                await self._election.news(RETRY)
            else:
                await self._news()

    async def follow(self) -> None:
        """Apply and show new commits."""
        warm, committer = self._warm, self._committer
        assert warm is not None
        begin = time.monotonic()
        commits = await committer.in_thread(self._store.follow)
        if commits is None or (commits and not warm.take(commits)):
            await self.load()
            return
        if commits:
            committer.show(warm.opened)
        self._current = begin

    async def _take_over(self) -> None:
        begin = time.monotonic()
        while True:
            await self.follow()
            warm = self._warm
            assert warm is not None
            epoch = warm.opened.epoch
            try:
                await self._committer.take_over(warm.opened)
            except Changed:
                if warm.opened.epoch != epoch or not self._election.is_confirmed():
                    raise
                # The former leader stored more in the meantime.
                continue
            self._warm = None
            _log.warning("this center leads now, after %.0f ms", 1000 * (time.monotonic() - begin))
            return

    async def _news(self) -> None:
        """Wait for news of the log or of the lead."""
        warm = self._warm
        assert warm is not None
        if self._election.is_mine:
            return
        # Single commits are collected and applied together.
        await self._election.news(max(PAUSE, SHARE * warm.took))
        if not self._election.is_mine:
            looking = asyncio.create_task(asyncio.to_thread(self._look))
            news = asyncio.create_task(self._election.news(LOOK))
            await asyncio.wait((looking, news), return_when=asyncio.FIRST_COMPLETED)
            news.cancel()

    def _look(self) -> None:
        with contextlib.suppress(StoreError):
            self._store.wait(LOOK)

    def _tell(self, problem: str) -> None:
        leader = "" if self._election.is_mine else self._election.leader
        sentence = problem or (f"the center at {leader} leads" if leader else "")
        if sentence and sentence != self._told:
            _log.warning("standing by; %s", sentence)
            self._told = sentence
