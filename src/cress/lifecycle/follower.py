"""The follower: a state that takes over the facts of a log, record by record, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

from cress.core.ledger import Fact
from cress.core.scheduler import Scheduler
from cress.lifecycle import snapshot
from cress.lifecycle.configure import configured
from cress.lifecycle.facts import Configured, CoreFact, Widened, told_of
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import Record
from cress.lifecycle.tables.changes import apply
from cress.lifecycle.tables.tables import Tables, place
from cress.model.decisions import Start
from cress.model.options import Options
from cress.model.resources import Dimensions


class Follower:
    """The tables and the scheduler of a machine that led, as far as records of it were applied."""

    def __init__(self, tables: Tables, core: Scheduler, now: int = 0, utc: int = 0, *, more: bool = False) -> None:
        self.tables, self.core = tables, core
        self.now, self.utc = now, utc
        self._more = more

    @classmethod
    def empty(cls, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> Follower:
        """Return a follower of a machine from its first step on."""
        return cls(Tables(), Scheduler(dimensions, options, zone))

    @classmethod
    def restore(cls, data: bytes) -> Follower:
        """Return a follower from a snapshot on (``Machine.export``); raises ``ValueError`` as ``Machine.restore``
        does.
        """
        tables, core, stored = snapshot.decode(data)
        return cls(tables, core, stored.now, stored.utc, more=stored.more)

    def apply(self, record: Record) -> None:
        """Take over what a step came to."""
        self.now, self.utc = record.now, record.utc
        facts = record.facts
        self._apply_core(facts.core)
        for fact in facts.core:
            if isinstance(fact, Start):
                place(self.tables, fact, record.utc)
        apply(self.tables, facts.rows, told_of(facts.core))
        # Whether more was to be decided is only foreseen: whoever goes on from here asks the scheduler.
        self._more = True

    def export(self) -> bytes:
        """Return the state, from which ``Machine.restore`` and ``Follower.restore`` go on."""
        return snapshot.encode(self.tables, self.core, self.now, self.utc, more=self._more)

    def machine(self) -> Machine:
        """Return a machine that goes on from here. It has the tables of the follower, which is not used any more."""
        return Machine.of(self.tables, self.core, self.now, self.utc, more=self._more)

    def _apply_core(self, facts: Sequence[CoreFact]) -> None:
        batch: list[Fact] = []
        for fact in facts:
            if isinstance(fact, Configured | Widened):
                self.core.apply(self.now, batch)
                self.core, batch = configured(self.core, self.tables, fact), []
            else:
                batch.append(fact)
        self.core.apply(self.now, batch)
