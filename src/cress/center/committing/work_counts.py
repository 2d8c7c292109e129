"""Counts of unfinished jobs and waiting tasks, for key figures.

A large cluster has a hundred thousand jobs. They are counted once after each step, for all who ask.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from cress.center.process.turns import chunks, in_turns
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveJob
from cress.model.group import DEFAULT_GROUP


class WorkCounts(NamedTuple):
    """Numbers of a machine: ``waiting`` tasks by group, jobs ``alone`` (without a family), those of them ``running``.

    ``busy`` are the jobs with an attempt.
    """

    waiting: Counter[str]
    alone: int
    running: int
    busy: list[LiveJob]


class WorkCounter:
    """Counts the work of a machine, and keeps the result until its next step."""

    def __init__(self) -> None:
        self._of: tuple[Machine | None, int, bool] = (None, 0, False)
        # The latest count, which may be under way.
        self._count: asyncio.Future[WorkCounts] | None = None

    async def counts(self, machine: Machine) -> WorkCounts:
        """Return the counts of this moment."""
        now = (machine, machine.steps, machine.in_step)
        count = self._count
        if count is None or self._of != now or (count.done() and (machine.in_step or _failed(count))):
            # A step makes a count old when it begins, and again when it is over: it changes what is counted meanwhile.
            self._of, self._count = now, (count := asyncio.ensure_future(_counted(machine)))
        # Who asks may go away; the others go on waiting.
        return await asyncio.shield(count)


def _failed(count: asyncio.Future[WorkCounts]) -> bool:
    return count.cancelled() or count.exception() is not None


async def _counted(machine: Machine) -> WorkCounts:
    waiting: Counter[str] = Counter()
    busy: list[LiveJob] = []
    alone = running = 0
    async for part in in_turns(chunks(list(machine.jobs.values()))):
        for job in part:
            spec, here = job.job, job.running
            waiting[spec.group] += job.waiting
            alone += not spec.family
            if here:
                busy.append(job)
                running += not spec.family
    # A job that names no group is in the default one.
    waiting[DEFAULT_GROUP] += waiting.pop("", 0)
    return WorkCounts(waiting, alone, running, busy)
