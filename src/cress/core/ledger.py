"""The ledger: ``apply`` is the only function that changes the books, for events and for decisions.

A fact contains its whole change: node, devices, ports, task, charge, claims and cooling-off. Two ledgers in the same
state are in the same state after the same fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cress.core.admission import check_events
from cress.core.books import Books
from cress.core.facts.attempts import AttemptAppliers
from cress.core.facts.changes import ChangeAppliers
from cress.core.facts.claims import ClaimAppliers
from cress.core.facts.groups import GroupAppliers
from cress.core.facts.jobs import JobAppliers
from cress.core.facts.nodes import NodeAppliers
from cress.core.facts.rows import Rows
from cress.core.kernels.holding import NONE
from cress.core.passing_time import advance, went_back
from cress.model.decisions import Decision, Start
from cress.model.events import Event

Fact: TypeAlias = Event | Decision


class Ledger:
    """Changes books by facts; what each fact changes is told by the parts in ``facts/``."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._cluster = books.cluster
        self._matching = books.matching
        attempts = AttemptAppliers(books)
        self._nodes = nodes = NodeAppliers(books, attempts)
        self._start = attempts.start
        jobs = JobAppliers(books), ChangeAppliers(books)
        parts = attempts, nodes, *jobs, GroupAppliers(books), ClaimAppliers(books, attempts)
        self._appliers: Rows = {fact: row for part in parts for fact, row in part.rows().items()}

    def apply(self, fact: Fact, slot: int = NONE) -> None:
        """Change the books by one fact.

        ``slot`` is the lease of a start if it is already held: the kernel that chooses a node also holds the lease.
        """
        if type(fact) is Start:
            if self._nodes.unsettled:
                # Only a batch of another scheduler has both.
                self.settle_batch()
            self._start(fact, slot)
        else:
            apply, loosens = self._appliers[type(fact)]
            apply(fact)
            if loosens:
                self._cluster.loosened += 1

    def observe(self, now: int, events: Sequence[Event], *, checked: bool = False) -> None:
        """Apply events in this order, all at time ``now`` (µs).

        Raises ``InputError`` before anything changes. ``checked``: the caller has done what ``check_events`` does.
        """
        books = self._books
        if now < books.now:
            raise went_back(books.now, now)
        if not checked:
            check_events(books, events)
        advance(books, now)
        for event in events:
            self.apply(event)
        if self._nodes.unsettled or self._matching.behind:
            self.settle_batch()

    def settle_batch(self) -> None:
        """Compute the consequences of a batch of facts for the whole cluster.

        Once for each batch, because thousands of nodes may register together.
        """
        self._nodes.settle()
        self._matching.settle()
