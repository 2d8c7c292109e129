"""Plans of moves, made by a forked process, and automatic rounds by the option ``rebalance``."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.forked_work import ForkedWork
from cress.core.moving.plan import MovePlan
from cress.lifecycle.inputs import Rebalance
from cress.lifecycle.machine import Machine
from cress.lifecycle.moving.planning import PlanPurpose, made
from cress.lifecycle.moving.rounds import present
from cress.lifecycle.moving.schedule import next_round
from cress.model.errors import InputError, NotAccepted
from cress.model.times import SECOND
from cress.store.base import StoreError

FILE = "plan.new"
# Seconds between two checks of the option.
LOOK = 5.0

_log = logging.getLogger("cress.center")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MovePlan).decode


class Planner:
    """Makes one plan at a time, from the state of one moment."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._turn = asyncio.Lock()

    async def plan(self, wanted: PlanPurpose) -> MovePlan:
        """Return a plan. Raises NotAccepted if it cannot be made."""
        async with self._turn:
            work = ForkedWork(
                partial(_made, self._committer.machine, wanted), self._committer.settings.data / FILE, "a plan of moves"
            )
            data = await asyncio.to_thread(work.result)
        if data is None:
            raise NotAccepted("the plan could not be made; see the center's log", hint="try again")
        return _decode(data)


def _made(machine: Machine, wanted: PlanPurpose) -> bytes:
    return _encode(made(machine, wanted))


class Rebalancing:
    """Begins rounds at the moments given by the option ``rebalance``."""

    def __init__(self, committer: Committer, planner: Planner) -> None:
        self._committer = committer
        self._planner = planner
        self._since = committer.clock.utc()
        self._schedule = ""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(self._wait())
            if self._is_due():
                self._since = self._committer.clock.utc()
                try:
                    await self._begin()
                except (InputError, StoreError) as error:
                    _log.warning("nothing is moved this time: %s", error)
                except Exception:  # noqa: BLE001 – tried again at the next moment
                    _log.exception("nothing is moved this time")

    def _next(self) -> int | None:
        core = self._committer.machine.core
        schedule = core.options.rebalance
        if schedule != self._schedule:
            self._schedule, self._since = schedule, self._committer.clock.utc()
        return next_round(schedule, str(core.groups.cluster_zone), self._since)

    def _wait(self) -> float:
        due = self._next()
        left = LOOK if due is None else (due - self._committer.clock.utc()) / SECOND
        return min(LOOK, max(0.05, left))

    def _is_due(self) -> bool:
        due = self._next()
        return due is not None and due <= self._committer.clock.utc()

    async def _begin(self) -> None:
        """Make a plan, and begin a round if it has moves and no round is in progress."""
        machine = self._committer.machine
        if present(machine) is not None or self._committer.problem:
            return
        plan = await self._planner.plan(PlanPurpose(by_itself=True))
        if plan.moves:
            await self._committer.submit(Rebalance(moves=plan.moves, job=plan.job, place=plan.place))
