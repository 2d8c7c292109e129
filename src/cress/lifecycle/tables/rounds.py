"""Rounds of moves as the machine keeps them: what is left, what is under way, what is done (design note 0027)."""

from __future__ import annotations

from cress.core.moving.plan import Move
from cress.lifecycle.tables.tracked import Row

# Rounds that are kept.
MOST_ROUNDS = 20


class Round(Row, kw_only=True):
    """Moves that are made one after the other, by the word of the user ``by`` (empty: by the option ``rebalance``).

    Times are wall clock in µs; ``ended`` is 0 while it is under way. For the waiting unit ``job``, which starts on
    ``place``, the last ``together`` moves are one step. ``stopping`` is by whom it is to end after the step under way,
    ``problem`` why it ended before all was done. ``skipped`` are moves of tasks that ended by themselves before their
    turn came.
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
        """Return its state in a word: moving, done or stopped."""
        return "moving" if not self.ended else "stopped" if self.problem else "done"
