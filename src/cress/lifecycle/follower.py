"""The follower: a state that applies the facts of a log, record by record, and decides nothing."""

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
    """The tables and the scheduler of another machine, up to the last applied record."""

    def __init__(self, tables: Tables, core: Scheduler, now: int = 0, utc: int = 0, *, more: bool = False) -> None:
        self.tables, self.core = tables, core
        self.now, self.utc = now, utc
        self._more = more

    @classmethod
    def empty(cls, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> Follower:
        """Return a follower that begins with the first step of a machine."""
        return cls(Tables(), Scheduler(dimensions, options, zone))

    @classmethod
    def restore(cls, data: bytes) -> Follower:
        """Return a follower from a snapshot (``Machine.export``). Raises ``ValueError`` as ``Machine.restore`` does."""
        tables, core, stored = snapshot.decode(data)
        return cls(tables, core, stored.now, stored.utc, more=stored.more)

    def apply(self, record: Record) -> None:
        """Apply the facts of a step."""
        self.now, self.utc = record.now, record.utc
        facts = record.facts
        self._apply_core(facts.core)
        for fact in facts.core:
            if isinstance(fact, Start):
                place(self.tables, fact, record.utc)
        apply(self.tables, facts.rows, told_of(facts.core))
        # Further decisions are only foreseen: a machine that continues from here asks the scheduler.
        self._more = True

    def export(self) -> bytes:
        """Return the state for ``Machine.restore`` and ``Follower.restore``."""
        return snapshot.encode(self.tables, self.core, self.now, self.utc, more=self._more)

    def machine(self) -> Machine:
        """Return a machine that continues from here. It takes the follower's tables; the follower must not be used
        afterwards.
        """
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
