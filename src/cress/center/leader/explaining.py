"""Explanations of waiting jobs, made by a forked process, and their trials by forks of that process.

A fork has the state of one moment, and what it changes is its own. So the scheduler is asked "what if" without a copy
of its state, and the center goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.forked_work import ForkedWork
from cress.center.process.forks import Fork
from cress.core.answers.forward import Forecast
from cress.core.answers.placed import best_nodes
from cress.core.scheduler import Scheduler
from cress.lifecycle.explaining import explained, explained_group, explained_node
from cress.lifecycle.machine import Machine
from cress.model.errors import NotAccepted
from cress.model.explanation import Explanation, GroupExplanation, NodeExplanation, NodeScore

FILE = "explanation.new"
# Seconds that all runs forward of one explanation may take together.
PATIENCE = 2.0

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode
_WAITING: Callable[[memoryview], Explanation | None] = msgspec.msgpack.Decoder(Explanation | None).decode
_GROUP: Callable[[memoryview], GroupExplanation | None] = msgspec.msgpack.Decoder(GroupExplanation | None).decode
_NODE: Callable[[memoryview], NodeExplanation] = msgspec.msgpack.Decoder(NodeExplanation).decode
_PLACED: Callable[[memoryview], tuple[NodeScore, ...]] = msgspec.msgpack.Decoder(tuple[NodeScore, ...]).decode


class Explainer:
    """Makes one explanation at a time."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._turn = asyncio.Lock()

    async def explain(self, number: int) -> Explanation | None:
        """Return the explanation of a job; ``None`` if no task of it waits. Raises NotAccepted if it cannot be made."""
        return await self._ask(lambda machine: explained(machine, number, Forks(machine.core)), _WAITING)

    async def group(self, name: str) -> GroupExplanation | None:
        """Return why a group does not get more; ``None`` if there is no such group. Raises NotAccepted."""
        return await self._ask(partial(explained_group, name=name), _GROUP)

    async def node(self, name: str) -> NodeExplanation:
        """Return why a node, which must be known, is not fuller. Raises NotAccepted."""
        return await self._ask(partial(explained_node, name=name), _NODE)

    async def placed(self, attempt: int) -> tuple[NodeScore, ...]:
        """Return the best nodes for the task of a running attempt. Raises NotAccepted."""
        center = os.getpid()

        def work(machine: Machine) -> tuple[NodeScore, ...]:
            # It changes the scheduler, so it must not run in the center itself.
            return best_nodes(machine.core, attempt) if os.getpid() != center else ()

        return await self._ask(work, _PLACED)

    async def _ask(self, ask: Callable[[Machine], _T], decode: Callable[[memoryview], _T]) -> _T:
        machine, path = self._committer.machine, self._committer.settings.data / FILE
        center, follows = os.getpid(), self._committer.loop.is_aside

        def work_on_copy() -> bytes:
            if follows and os.getpid() != center:
                # A standby takes over the facts of the leader. What waits, and why, only a pass finds out.
                machine.core.decide(machine.core.now)
            return _encode(ask(machine))

        async with self._turn:
            work = ForkedWork(work_on_copy, path, "an explanation")
            data = await asyncio.to_thread(work.result)
        if data is None:
            raise NotAccepted("the explanation could not be made; see the center's log", hint="try again")
        return decode(data)


class Forks:
    """Copies of a scheduler: each trial runs in a fork of this process."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._until = time.monotonic() + PATIENCE

    def holds(self, trial: Callable[[Scheduler], bool]) -> bool:
        """Return the result of a trial; False if its fork fails."""
        return self._in_a_fork(trial, bool) or False

    def forecast(self, trial: Callable[[Scheduler], Forecast]) -> Forecast:
        """Return the result of a run forward; no start is known if its fork fails."""
        return self._in_a_fork(trial, Forecast) or Forecast(None)

    def patient(self) -> bool:
        """Return False once the runs forward have taken too long together."""
        return time.monotonic() < self._until

    def _in_a_fork(self, trial: Callable[[Scheduler], _T], kind: type[_T]) -> _T | None:
        data = Fork(lambda: _encode(trial(self._core))).result()
        return msgspec.msgpack.decode(data, type=kind) if data else None
