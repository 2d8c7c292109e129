"""Turns: the time since which a unit, first in the order of groups and jobs, has been blocked (design note 0011)."""

from __future__ import annotations

from collections.abc import Iterator

from cress.core.groups.policies.base import PassedOver, nobody
from cress.core.jobs import JobEntry


class Turns:
    """The units that were first in the order and found no room, by job, in the order of their turns.

    A unit whose turn is older than its group's ``drain_after`` is *due*: the reservation of the first of them binds
    every group. A unit that starts or leaves its queue loses its turn.
    """

    def __init__(self) -> None:
        # By job id, the time (µs) at which the turn of its next unit came.
        self.since: dict[int, int] = {}

    def note(self, job: JobEntry, now: int) -> int:
        """Note that a blocked unit is first in the order; return the time (µs) at which it becomes due."""
        return self.since.setdefault(job.job.id, now) + job.group.options.drain_after

    def forget(self, job: JobEntry) -> None:
        """Remove the turn of a job's unit."""
        self.since.pop(job.job.id, None)

    def due(self, jobs: dict[int, JobEntry], now: int, passed_over: PassedOver = nobody) -> Iterator[JobEntry]:
        """Yield the jobs whose units are due and offered by their policies, oldest turn first."""
        for number, since in self.since.items():
            job = jobs[number]
            if now >= since + job.group.options.drain_after and job.group.policy.looks_at(job, passed_over):
                yield job
