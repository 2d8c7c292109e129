"""Terms: the time until which a node that is away may run exclusive tasks, and the time from which they are lost.

A node's supervisor stops such tasks if it has not heard from the center for a term minus a margin. The center counts
from its last answer, which is later than the request from which the supervisor counts, and adds the margin again. So
running tasks are never called lost, whatever the two clocks show, as long as they run at the same rate: over one term
they may differ by twice the margin.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.tables.deadlines import Deadlines
from cress.model.options import Options


class Terms:
    """The granted terms by name of node; all times are the machine's clock, in µs.

    ``granted`` is the end of the last term known here: for a connected node its connection has a newer value.
    ``lost_at`` is the time at which the tasks of a node that is away are lost.
    """

    def __init__(self, granted: dict[str, int] | None = None, lost_at: dict[str, int] | None = None) -> None:
        self.granted = {} if granted is None else granted
        self._lost_at = Deadlines(lost_at)

    def restarted(self, names: Iterable[str], now: int, before: Options, options: Options) -> None:
        """Restart the terms after a restart of the center, which does not know what was granted: at most a term.

        ``before`` are the options until now.
        """
        for name in names:
            self.left(name, now, now + max(before.term, options.term), max(before.term_margin, options.term_margin))

    def left(self, name: str, now: int, granted: int, margin: int) -> None:
        """Note that a node is away. ``granted`` is the end of the last term over this connection, 0 if there was none.

        A connection without a granted term does not shorten the term of an earlier one.
        """
        end = self.granted[name] = max(now, granted, self.granted.get(name, 0))
        self._lost_at.set(name, max(end + margin, self._lost_at.times.get(name, 0)))

    def joined(self, name: str) -> None:
        """Note that a node is back."""
        self._lost_at.drop(name)

    def forget(self, name: str) -> None:
        """Forget a node on which nothing runs any more."""
        self.granted.pop(name, None)
        self._lost_at.drop(name)

    def run_out(self, now: int) -> list[str]:
        """Return the nodes whose tasks are lost by now, each once, the longest away first."""
        names = self._lost_at.take(now)
        for name in names:
            # Earlier its tasks may still run, and would run twice.
            assert self.granted.get(name, 0) <= now, f"node {name} is lost before its term ends"
            self.forget(name)
        return names

    def next(self) -> int | None:
        """Return the time of the next name from ``run_out``."""
        return self._lost_at.next()
