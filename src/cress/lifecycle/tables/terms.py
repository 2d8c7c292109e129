"""Terms: until when a node that is away may still run what must not run twice, and from when on it is lost.

A node's supervisor stops such tasks when it has not heard from the center for a term, minus a margin. The center counts
from the last answer that it gave, which is later than the question that the supervisor counts from, and adds the margin
again. So whatever the clocks of the two say, nothing is called lost that still runs, as long as they tick alike: over
one term they may differ by twice the margin.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.tables.deadlines import Deadlines
from cress.model.options import Options


class Terms:
    """The terms that were granted, by name of node; all times are the machine's clock, in microseconds.

    ``granted`` is the end of the last one that is known here: while a node is connected its connection knows better.
    ``lost_at`` is when the tasks of a node that is away are lost.
    """

    def __init__(self, granted: dict[str, int] | None = None, lost_at: dict[str, int] | None = None) -> None:
        self.granted = {} if granted is None else granted
        self._lost_at = Deadlines(lost_at)

    def restarted(self, names: Iterable[str], now: int, before: Options, options: Options) -> None:
        """Restart the terms after the center did, which does not know what was granted: at most a term.

        ``before`` are the options that held until now.
        """
        for name in names:
            self.left(name, now, now + max(before.term, options.term), max(before.term_margin, options.term_margin))

    def left(self, name: str, now: int, granted: int, margin: int) -> None:
        """The node is away. ``granted`` is the end of the last term over this connection, 0 if there was none.

        A connection that was gone before it was granted anything does not shorten what an earlier one was.
        """
        end = self.granted[name] = max(now, granted, self.granted.get(name, 0))
        self._lost_at.set(name, max(end + margin, self._lost_at.times.get(name, 0)))

    def joined(self, name: str) -> None:
        """The node is back."""
        self._lost_at.drop(name)

    def forget(self, name: str) -> None:
        """Forget the node: nothing runs there any more."""
        self.granted.pop(name, None)
        self._lost_at.drop(name)

    def run_out(self, now: int) -> list[str]:
        """The nodes whose tasks are lost by now; each is named once, the longest away first."""
        names = self._lost_at.take(now)
        for name in names:
            # Before that its tasks may still run, and would run twice.
            assert self.granted.get(name, 0) <= now, f"node {name} is lost before its term ends"
            self.forget(name)
        return names

    def next(self) -> int | None:
        """When ``run_out`` has a name next."""
        return self._lost_at.next()
