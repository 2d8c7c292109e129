"""Counts of unfinished jobs and waiting tasks, for key figures.

A large cluster has a hundred thousand jobs. They are counted once after each step, for all who ask.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cress.center.process.turns import chunks, in_turns
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveJob
from cress.model.group import DEFAULT_GROUP


class WorkCounts(NamedTuple):
    """Numbers of a machine: ``waiting`` tasks by group, jobs without a ``family``, and those of them that ``run``.

    ``busy`` are the jobs with an attempt.
    """

    waiting: Counter[str]
    alone: int
    running: int
    busy: list[LiveJob]


class WorkCounter:
    """Counts the work of a machine, and keeps the result until its next step."""

    def __init__(self) -> None:
        self._of: tuple[Machine | None, int] = (None, 0)
        self._kept: WorkCounts | None = None

    async def counts(self, machine: Machine) -> WorkCounts:
        """Return the counts of this moment."""
        now = (machine, machine.steps)
        if self._kept is not None and self._of == now and not machine.in_step:
            return self._kept
        at_rest = not machine.in_step
        found = await _counted(machine)
        # A step that began meanwhile, or is under way, makes them old at once.
        if at_rest and not machine.in_step and machine.steps == now[1]:
            self._of, self._kept = now, found
        return found


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
