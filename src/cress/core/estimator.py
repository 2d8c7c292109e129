"""Estimates of the runs of waiting jobs, updated as runs of their users end (design note 0022).

Each shell around the core owns one estimator. An estimate reaches the core with its job, and as an event when the
history changes it, so a log replays without the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from cress.core.run_history import Key, Request, RunHistory
from cress.model.estimates import RunEstimate
from cress.model.events import RunEstimated
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.times import NEVER

# The number of waiting jobs of a user, oldest first, that are estimated again when a run of the user ends.
MOST_AGAIN = 20


# The inputs of an estimate: user, job name and group; request; time limit (µs, NEVER without one).
Kind: TypeAlias = tuple[Key, Request, int]


class Estimator:
    """Estimates of jobs at their submission, and again when a run of their user ends.

    ``settled`` returns the jobs among the given ones that no longer wait.
    """

    def __init__(self, settled: Callable[[Iterable[int]], list[int]]) -> None:
        self._settled = settled
        self._history = RunHistory()
        # Waiting jobs by user and group, in the order of submission.
        self._waiting: dict[tuple[str, str], dict[int, Kind]] = {}
        # The number of jobs in this table; below, the number after the last sweep.
        self.kept = 0
        self._swept = MOST_AGAIN

    def submitted(self, job: Job) -> RunEstimate:
        """Return the estimate of a job that is submitted now, and keep the job for later updates."""
        kind = _kind(job)
        self._waiting.setdefault(_owner(kind), {})[job.id] = kind
        self.kept += 1
        if self.kept > 2 * self._swept:
            self._sweep()
        return self._history.estimate(*kind)

    def expected(self, job: Job) -> RunEstimate:
        """Return the estimate that a job would get if it were submitted now."""
        return self._history.estimate(*_kind(job))

    def _sweep(self) -> None:
        """Drop the jobs that no longer wait, also of users whose runs never end."""
        for key, jobs in list(self._waiting.items()):
            for number in self._settled(jobs):
                del jobs[number]
            if not jobs:
                del self._waiting[key]
        self.kept = sum(map(len, self._waiting.values()))
        self._swept = max(MOST_AGAIN, self.kept)

    def recall(self, key: Key, request: Request, limit: int | None, run: int) -> None:
        """Add a past run of ``run`` µs; ``key`` is its user, job name and group."""
        self._history.add(key, request, NEVER if limit is None else limit, run)

    def ended(self, job: Job, run: int) -> list[RunEstimated]:
        """Add a task that ran for ``run`` µs until it ended by itself or at its limit; return the new estimates."""
        kind = _kind(job)
        self._history.add(*kind, run)
        waiting = self._waiting.get(_owner(kind))
        if waiting is None:
            return []
        for number in self._settled(islice(waiting, MOST_AGAIN)):
            del waiting[number]
            self.kept -= 1
        if not waiting:
            del self._waiting[_owner(kind)]
            return []
        # Jobs of one user often have the same request.
        alike: dict[Kind, list[int]] = {}
        for number, (key, request, limit) in islice(waiting.items(), MOST_AGAIN):
            alike.setdefault((self._history.known(key), request, limit), []).append(number)
        return [RunEstimated(tuple(jobs), self._history.estimate(*same)) for same, jobs in alike.items()]


def _owner(kind: Kind) -> tuple[str, str]:
    """Return the user and the group of jobs of a kind."""
    (user, _, group), _, _ = kind
    return user, group


def _kind(job: Job) -> Kind:
    return (
        (job.user, job.name, job.group or DEFAULT_GROUP),
        job.mean_request,
        NEVER if job.time_limit is None else job.time_limit,
    )
