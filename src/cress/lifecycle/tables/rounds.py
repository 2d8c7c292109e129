"""Rows of rounds of moves: moves to come, under way, and done (design note 0027)."""

from __future__ import annotations

from cress.core.moving.plan import Move
from cress.lifecycle.tables.tracked import Row

# Maximum number of stored rounds.
MOST_ROUNDS = 20


class Round(Row, kw_only=True):
    """Moves that are made one after the other, ordered by the user ``by`` (empty: by the option ``rebalance``).

    Times are wall clock in µs; ``ended`` is 0 while it is under way. For the waiting unit ``job``, which starts on
    ``place``, the last ``together`` moves are one step. ``stopping`` is the user who ends it after the step under way;
    ``problem`` is why it ended early. ``skipped`` are moves of tasks that ended before their turn.
    """

    begun: int
    by: str = ""
    ended: int = 0
    job: int = 0
    place: tuple[tuple[str, int], ...] = ()
    together: int = 0
    left: tuple[Move, ...] = ()
    under_way: tuple[Move, ...] = ()
    done: tuple[Move, ...] = ()
    skipped: tuple[Move, ...] = ()
    stopping: str = ""
    problem: str = ""

    @property
    def state(self) -> str:
        """The state in a word: moving, done or stopped."""
        return "moving" if not self.ended else "stopped" if self.problem else "done"
