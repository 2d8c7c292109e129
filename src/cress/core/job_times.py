"""Remaining time of a job by its estimate and its limit, and the urgency of its deadline (source S, note 0023)."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol

from cress.core.kernels.urgency import bends_at, score, urgency
from cress.model.estimates import RunEstimate
from cress.model.options import Options
from cress.model.times import NEVER

# Victims are compared in millionths of urgency.
_SLACK = 1e-6


class GroupTimes(Protocol):
    """The part of the group of a job that counts here; it ``trusts`` estimates at this moment, or not."""

    options: Options
    trusts: bool


class Timed:
    """The part of ``JobEntry`` that follows from its estimate, time limit and deadline; times in µs."""

    __slots__ = ()

    submitted: int
    limit: int
    run: int
    estimate: RunEstimate | None
    deadline: int
    most: int
    waiting: int
    attempts: Sized
    group: GroupTimes

    @property
    def duration(self) -> int:
        """The planned duration (µs) of a unit that starts now: the limit, or the estimate while its group trusts
        estimates.
        """
        return self.run if self.group.trusts else self.limit

    @property
    def is_predicted(self) -> bool:
        """True while the duration is an estimate."""
        return self.group.trusts

    @property
    def longest(self) -> int:
        """The pessimistic estimate of the run of one task (µs), or its limit without one."""
        return self.limit if self.estimate is None else min(self.limit, self.estimate.pessimistic)

    @property
    def shortest(self) -> int:
        """The optimistic estimate of the run of one task (µs).

        0 without one, as a limit does not show that a run cannot be short.
        """
        return 0 if self.estimate is None else min(self.limit, self.estimate.optimistic)

    @property
    def mean(self) -> int:
        """The mean estimate of the run of one task (µs), or its limit without one."""
        return self.limit if self.estimate is None else min(self.limit, self.estimate.mean)

    @property
    def least(self) -> int:
        """The smallest likely run of one task, as a part of its limit (µs); 0 without earlier runs."""
        return 0 if self.estimate is None else min(self.limit, self.estimate.least)


def last_end(job: Timed, start: int, expected: int) -> int:
    """Return the latest end (µs) of a task that starts at ``start`` and is expected to end at ``expected``."""
    return max(expected, NEVER if job.limit >= NEVER else start + job.limit)


def longest_left(job: Timed) -> int:
    """Return the remaining time of the job after its start by the pessimistic estimate (µs); NEVER if unknown."""
    return _left(job, job.longest)


def least_left(job: Timed) -> int:
    """Return the shortest remaining time of the job (µs), by the parts of their limits that similar jobs used."""
    return _left(job, job.least)


def presses_at(job: Timed) -> int:
    """Return the time (µs) at which the job is more urgent than the threshold of its group, or late.

    0 without a deadline, or if the length of its run is unknown.
    """
    threshold, left = job.group.options.urgency_threshold, longest_left(job)
    if job.deadline >= NEVER or left >= NEVER or not threshold:
        return 0
    return job.deadline - int(left / threshold) + 1


def nearness(job: Timed, now: int) -> float:
    """Return the priority by deadline: the nearer the deadline, the higher.

    0 without a deadline, or if it can no longer be met and late jobs come last.
    """
    found: float = score(True, job.deadline, longest_left(job), least_left(job), when_late(job), now)
    return found


def next_late(job: Timed, now: int) -> int:
    """Return the next time (µs) at which the deadline can no longer be met, even with the shortest likely run;
    NEVER if there is none.
    """
    return int(bends_at(True, job.deadline, longest_left(job), least_left(job), when_late(job), now))


def shortest_left(job: Timed) -> int:
    """Return the shortest remaining time of the job by the optimistic estimate (µs)."""
    return _left(job, job.shortest)


def urgency_of(job: Timed, now: int) -> float:
    """Return the urgency of the job, 0 … 1 (source S)."""
    if job.deadline >= NEVER:
        return 0.0
    found: float = urgency(job.deadline, longest_left(job), shortest_left(job), when_late(job), now)
    return found


def urgency_of_one(job: Timed, now: int) -> float:
    """Return the urgency of one task that starts now, without the other waiting tasks of the job."""
    if job.deadline >= NEVER:
        return 0.0
    found: float = urgency(job.deadline, job.longest, job.shortest, when_late(job), now)
    return found


def takes_back(job: Timed, other: Timed, now: int) -> bool:
    """Return True if a task that yields to a task of ``other``, of the same group, could take the room back by its
    urgency.
    """
    options = job.group.options
    most = urgency_of(job, now)
    least = urgency_of_one(other, now)
    return most > options.urgency_threshold and least < most and least <= most - options.urgency_margin + _SLACK


def next_urgency_bend(job: Timed, now: int) -> int:
    """Return the next time (µs) at which the urgency stops to grow; NEVER if there is none.

    Then it is 1, or the deadline can no longer be met.
    """
    return int(bends_at(False, job.deadline, longest_left(job), shortest_left(job), when_late(job), now))


def urgent_at(job: Timed, threshold: float) -> int:
    """Return the latest time (µs) at which the urgency exceeds ``threshold`` while the job waits; NEVER if
    unknown.
    """
    if job.deadline >= NEVER or threshold >= 1 or (left := longest_left(job)) >= NEVER:
        return NEVER
    return job.deadline - int(left / threshold) + 1 if threshold else job.submitted


def mean_left(job: Timed) -> int:
    """Return the mean remaining time of the job by the estimate (µs), by the limit without one."""
    return _left(job, job.mean)


def when_late(job: Timed) -> float:
    """Return the urgency of the job once its deadline can no longer be met."""
    return 1.0 if job.group.options.late == "urgent" else 0.0


def _left(job: Timed, time: int) -> int:
    if time >= NEVER or not job.most:
        return time
    return min(NEVER - 1, time * -(-(job.waiting + len(job.attempts)) // job.most))
