"""Rounds of moves in a simulation: planned and begun by the option ``rebalance``, as in a live center."""

from __future__ import annotations

from cress.lifecycle.inputs import Rebalance
from cress.lifecycle.machine import Machine
from cress.lifecycle.moving.planning import made_by_itself
from cress.lifecycle.moving.rounds import present
from cress.lifecycle.moving.schedule import next_round
from cress.model.options import OFF


class Rounds:
    """The rounds of one machine; times are microseconds of the trace, whose second 0 is ``utc`` on the wall clock."""

    def __init__(self, machine: Machine, utc: int, begin: int) -> None:
        self._machine = machine
        self._utc = utc
        self._since = utc + begin
        # The next round after a moment, kept once it has been computed.
        self._known: tuple[int, int | None] | None = None
        self.on = machine.core.options.rebalance != OFF

    def next(self) -> int | None:
        """Return the time of the next round; ``None``: never."""
        if not self.on:
            return None
        if self._known is None or self._known[0] != self._since:
            core = self._machine.core
            due = next_round(core.options.rebalance, str(core.groups.cluster_zone), self._since)
            self._known = self._since, None if due is None else due - self._utc
        return self._known[1]

    def due(self, now: int) -> list[Rebalance]:
        """Return the round that begins now: one is due, tasks can be moved, and no other round is in progress.

        It sees the state after all other events of this moment.
        """
        when = self.next()
        if when is None or when > now:
            return []
        self._since = self._utc + now
        if present(self._machine) is not None:
            return []
        plan = made_by_itself(self._machine, self._machine.core.clone())
        return [Rebalance(moves=plan.moves, job=plan.job, place=plan.place)] if plan.moves else []
