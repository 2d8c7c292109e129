"""Warnings for programs that wait, since silence looks like a hang."""

from __future__ import annotations

import logging
import time

from cress.protocol.job_views import JobView

# Without a handler of the program's own, Python writes warnings to standard error.
logger = logging.getLogger("cress")
# Seconds of waiting after which a program is told the reason.
TELL_AFTER = 5.0


class Waiting:
    """Decides when to report a reason: after ``after`` seconds (default: ``TELL_AFTER``), and again when it changes.

    The intervals between reports grow.
    """

    def __init__(self, after: float | None = None) -> None:
        self._after = after = TELL_AFTER if after is None else after
        self._since = time.monotonic()
        self._due = self._since + after
        self._told = ""

    def until(self, seconds: float) -> float:
        """Return the seconds to wait for news, at most ``seconds`` and not beyond the next report."""
        left = self._due - time.monotonic()
        return min(seconds, left) if left > 0 else seconds

    def is_due(self) -> bool:
        """Return whether a reason may be reported now."""
        return time.monotonic() >= self._due

    def tells(self, reason: str) -> bool:
        """Return whether the reason is to be reported now."""
        now = time.monotonic()
        if not reason or now < self._due:
            return False
        # The numbers in reasons change all the time, so reports must become rarer.
        self._due = now + max(self._after, now - self._since)
        known, self._told = self._told, reason
        return reason != known

    def look(self, view: JobView) -> None:
        """Warn that a job waits, with the reason."""
        if view.state != "waiting":
            self._since = time.monotonic()
            self._due = self._since + self._after
        elif self.tells(view.reason):
            logger.warning("job %d (%s) waits: %s", view.id, view.name, view.reason)


def because(view: JobView) -> str:
    """Return the reason why a job waits, as the end of a sentence; empty if it does not wait."""
    return f": {view.reason}" if view.state == "waiting" and view.reason else ""
