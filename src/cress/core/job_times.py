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


class HasOptions(Protocol):
    """The part of the group of a job that counts here."""

    options: Options


class TimesLeft:
    """The part of ``JobEntry`` that follows from its estimate, time limit and deadline; times in µs."""

    __slots__ = ()

    submitted: int
    limit: int
    estimate: RunEstimate | None
    deadline: int
    most: int
    waiting: int
    attempts: Sized
    group: HasOptions

    def longest_left(self) -> int:
        """Return the remaining time of the job after its start by the pessimistic estimate (µs); NEVER if unknown."""
        return self._left(self.longest)

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

    def limit_left(self) -> int:
        """Return the longest remaining time of the job by its time limit (µs); NEVER without one."""
        return self._left(self.limit)

    @property
    def least(self) -> int:
        """The smallest likely run of one task, as a part of its limit (µs); 0 without earlier runs."""
        return 0 if self.estimate is None else min(self.limit, self.estimate.least)

    def least_left(self) -> int:
        """Return the shortest remaining time of the job (µs), by the parts of their limits that similar jobs used."""
        return self._left(self.least)

    def presses_at(self) -> int:
        """Return the time (µs) at which the job is more urgent than the threshold of its group, or late.

        0 without a deadline, or if the length of its run is unknown.
        """
        threshold = self.group.options.urgency_threshold
        if self.deadline >= NEVER or self.longest_left() >= NEVER or not threshold:
            return 0
        return self.deadline - int(self.longest_left() / threshold) + 1

    def nearness(self, now: int) -> float:
        """Return the priority by deadline: the nearer the deadline, the higher.

        0 without a deadline, or if it can no longer be met and late jobs come last.
        """
        found: float = score(True, self.deadline, self.longest_left(), self.least_left(), self.late, now)
        return found

    def next_late(self, now: int) -> int:
        """Return the next time (µs) at which the deadline can no longer be met, even with the shortest likely run;
        NEVER if there is none.
        """
        return int(bends_at(True, self.deadline, self.longest_left(), self.least_left(), self.late, now))

    def shortest_left(self) -> int:
        """Return the shortest remaining time of the job by the optimistic estimate (µs)."""
        return self._left(self.shortest)

    def urgency(self, now: int) -> float:
        """Return the urgency of the job, 0 … 1 (source S)."""
        if self.deadline >= NEVER:
            return 0.0
        found: float = urgency(self.deadline, self.longest_left(), self.shortest_left(), self.late, now)
        return found

    def urgency_of_one(self, now: int) -> float:
        """Return the urgency of one task that starts now, without the other waiting tasks of the job."""
        if self.deadline >= NEVER:
            return 0.0
        found: float = urgency(self.deadline, self.longest, self.shortest, self.late, now)
        return found

    def takes_back(self, other: TimesLeft, now: int) -> bool:
        """Return True if a task that yields to a task of ``other``, of the same group, could take the room back by its
        urgency.
        """
        options = self.group.options
        most = self.urgency(now)
        least = other.urgency_of_one(now)
        return most > options.urgency_threshold and least < most and least <= most - options.urgency_margin + _SLACK

    def next_urgency_bend(self, now: int) -> int:
        """Return the next time (µs) at which the urgency stops to grow; NEVER if there is none.

        Then it is 1, or the deadline can no longer be met.
        """
        return int(bends_at(False, self.deadline, self.longest_left(), self.shortest_left(), self.late, now))

    def urgent_at(self, threshold: float) -> int:
        """Return the latest time (µs) at which the urgency exceeds ``threshold`` while the job waits; NEVER if
        unknown.
        """
        if self.deadline >= NEVER or self.longest_left() >= NEVER or threshold >= 1:
            return NEVER
        return self.deadline - int(self.longest_left() / threshold) + 1 if threshold else self.submitted

    def mean_left(self) -> int:
        """Return the mean remaining time of the job by the estimate (µs), by the limit without one."""
        return self._left(self.mean)

    @property
    def late(self) -> float:
        """The urgency of the job once its deadline can no longer be met."""
        return 1.0 if self.group.options.late == "urgent" else 0.0

    def _left(self, time: int) -> int:
        if time >= NEVER or not self.most:
            return time
        return min(NEVER - 1, time * -(-(self.waiting + len(self.attempts)) // self.most))
