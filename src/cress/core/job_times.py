"""Time that a job still takes by its estimate and its limit, and how urgent its deadline makes it (source S, design
note 0023).
"""

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
    """The group of a job, as far as it matters here."""

    options: Options


class TimesLeft:
    """The part of ``JobEntry`` that follows from its estimate, its time limit and its deadline; times in
    microseconds.
    """

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
        """Return how long the job still takes by the pessimistic estimate (µs), once it starts; NEVER if that is not
        known.
        """
        return self._left(self.longest)

    @property
    def longest(self) -> int:
        """The pessimistic estimate of the run of one task (µs), the limit without one."""
        return self.limit if self.estimate is None else min(self.limit, self.estimate.pessimistic)

    @property
    def shortest(self) -> int:
        """The optimistic estimate of the run of one task (µs).

        0 without one, as a limit does not show that a run cannot be short.
        """
        return 0 if self.estimate is None else min(self.limit, self.estimate.optimistic)

    @property
    def mean(self) -> int:
        """The mean estimate of the run of one task (µs), the limit without one."""
        return self.limit if self.estimate is None else min(self.limit, self.estimate.mean)

    def limit_left(self) -> int:
        """Return how long it takes at most, by its time limit; NEVER without one."""
        return self._left(self.limit)

    @property
    def least(self) -> int:
        """The least part of its limit that one task is likely to take (µs); 0 if nothing is known of earlier runs."""
        return 0 if self.estimate is None else min(self.limit, self.estimate.least)

    def least_left(self) -> int:
        """Return how long it takes at least, by what such jobs took of their limits."""
        return self._left(self.least)

    def presses_at(self) -> int:
        """Return when it is more urgent than the threshold of its group, or late; 0 without a deadline, or if nothing
        tells how long it runs.
        """
        threshold = self.group.options.urgency_threshold
        if self.deadline >= NEVER or self.longest_left() >= NEVER or not threshold:
            return 0
        return self.deadline - int(self.longest_left() / threshold) + 1

    def nearness(self, now: int) -> float:
        """Return its place by deadline, the nearest highest; 0 without one, or if it cannot be met any more and late
        jobs come last.
        """
        found: float = score(True, self.deadline, self.longest_left(), self.least_left(), self.late, now)
        return found

    def next_late(self, now: int) -> int:
        """Return the next time at which the deadline cannot be met any more, even by what such jobs took of their
        limits; NEVER if there is none.
        """
        return int(bends_at(True, self.deadline, self.longest_left(), self.least_left(), self.late, now))

    def shortest_left(self) -> int:
        """Return how long it takes at least, by the optimistic estimate."""
        return self._left(self.shortest)

    def urgency(self, now: int) -> float:
        """Return its urgency, 0 … 1 (source S)."""
        if self.deadline >= NEVER:
            return 0.0
        found: float = urgency(self.deadline, self.longest_left(), self.shortest_left(), self.late, now)
        return found

    def urgency_of_one(self, now: int) -> float:
        """Return the urgency of one task of it that starts now, whatever else of it waits."""
        if self.deadline >= NEVER:
            return 0.0
        found: float = urgency(self.deadline, self.longest, self.shortest, self.late, now)
        return found

    def takes_back(self, other: TimesLeft, now: int) -> bool:
        """Return whether a task of it that yields to one of ``other``, of the same group, could take the room back for
        its urgency.
        """
        options = self.group.options
        most = self.urgency(now)
        least = other.urgency_of_one(now)
        return most > options.urgency_threshold and least < most and least <= most - options.urgency_margin + _SLACK

    def next_urgency_bend(self, now: int) -> int:
        """Return the next time at which its urgency stops to grow: it is 1, or the deadline cannot be met any more;
        NEVER if there is none.
        """
        return int(bends_at(False, self.deadline, self.longest_left(), self.shortest_left(), self.late, now))

    def urgent_at(self, threshold: float) -> int:
        """Return when its urgency is above ``threshold`` at the latest, while it waits; NEVER if that is never known to
        be.
        """
        if self.deadline >= NEVER or self.longest_left() >= NEVER or threshold >= 1:
            return NEVER
        return self.deadline - int(self.longest_left() / threshold) + 1 if threshold else self.submitted

    def mean_left(self) -> int:
        """Return how long it takes on average, by the estimate; the limit without one."""
        return self._left(self.mean)

    @property
    def late(self) -> float:
        """The urgency that it has when the deadline can no longer be met."""
        return 1.0 if self.group.options.late == "urgent" else 0.0

    def _left(self, each: int) -> int:
        if each >= NEVER or not self.most:
            return each
        return min(NEVER - 1, each * -(-(self.waiting + len(self.attempts)) // self.most))
