"""Estimates of the runs of waiting jobs, as their users' earlier runs end (design note 0022).

The shells around the core own one: estimates reach the core with the job, and as events when the history tells more, so
that a log replays without the history.
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

# Waiting jobs of a user, the oldest ones, that are estimated again when one of his runs ends.
MOST_AGAIN = 20


# What an estimate depends on: user, job name and group; request; time limit (NEVER without one).
Kind: TypeAlias = tuple[Key, Request, int]


class Estimator:
    """Estimates jobs when they are submitted, and again when a run of their user ends; ``settled`` returns those of
    these jobs that wait no more.
    """

    def __init__(self, settled: Callable[[Iterable[int]], list[int]]) -> None:
        self._settled = settled
        self._history = RunHistory()
        # By user and group, in the order of submission.
        self._waiting: dict[tuple[str, str], dict[int, Kind]] = {}
        # The number of jobs that it keeps, and kept after it last looked through all of them.
        self.kept = 0
        self._swept = MOST_AGAIN

    def submitted(self, job: Job) -> RunEstimate:
        """Return the estimate of a job that is submitted now."""
        kind = _kind(job)
        self._waiting.setdefault(_owner(kind), {})[job.id] = kind
        self.kept += 1
        if self.kept > 2 * self._swept:
            self._sweep()
        return self._history.estimate(*kind)

    def expected(self, job: Job) -> RunEstimate:
        """Return the estimate that a job would get if it was submitted now."""
        return self._history.estimate(*_kind(job))

    def _sweep(self) -> None:
        """Forget jobs that do not wait any more, of users of whom no run ends."""
        for key, jobs in list(self._waiting.items()):
            for number in self._settled(jobs):
                del jobs[number]
            if not jobs:
                del self._waiting[key]
        self.kept = sum(map(len, self._waiting.values()))
        self._swept = max(MOST_AGAIN, self.kept)

    def recall(self, key: Key, request: Request, limit: int | None, run: int) -> None:
        """Learn from a run of earlier days; ``key`` is its user, job name and group."""
        self._history.add(key, request, NEVER if limit is None else limit, run)

    def ended(self, job: Job, run: int) -> list[RunEstimated]:
        """Learn from a task that ran for ``run`` µs until it ended by itself or at its limit; return what that
        changes.
        """
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
        # Jobs of one user ask for the same again and again.
        alike: dict[Kind, list[int]] = {}
        for number, (key, request, limit) in islice(waiting.items(), MOST_AGAIN):
            alike.setdefault((self._history.known(key), request, limit), []).append(number)
        return [RunEstimated(tuple(jobs), self._history.estimate(*each)) for each, jobs in alike.items()]


def _owner(kind: Kind) -> tuple[str, str]:
    """Return the user and group of jobs of a kind."""
    (user, _, group), _, _ = kind
    return user, group


def _kind(job: Job) -> Kind:
    return (
        (job.user, job.name, job.group or DEFAULT_GROUP),
        job.mean_request,
        NEVER if job.time_limit is None else job.time_limit,
    )
