"""Retries of calls while a center that has answered before is unreachable."""

from __future__ import annotations

import time

from cress.client.errors import ClientError, Unreachable

# Seconds between two calls to a center that is away.
PAUSE, LONGEST_PAUSE = 0.1, 2.0


class RetryBudget:
    """The number of seconds for which a center that has answered before may be unreachable."""

    def __init__(self, seconds: float, *, met: bool = False) -> None:
        self.seconds = seconds
        self.met = met

    def at_most(self, seconds: float) -> RetryBudget:
        """Return a budget of at most ``seconds``."""
        return RetryBudget(min(self.seconds, seconds), met=self.met)


class CenterOutage:
    """The attempts of one call. A call that is not ``again`` is not repeated once it may have arrived."""

    def __init__(self, budget: RetryBudget, *, again: bool) -> None:
        self._budget = budget
        self._again = again
        self._since: float | None = None
        self._next = PAUSE

    def pause(self, error: ClientError) -> float | None:
        """Return the seconds to wait before the next attempt; ``None`` if the error is final."""
        sent = isinstance(error, Unreachable) and not self._again
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        over = now - self._since >= self._budget.seconds
        if not error.passing or sent or not self._budget.met or over:
            return None
        pause, self._next = self._next, min(self._next * 1.5, LONGEST_PAUSE)
        return pause
