"""Upkeep: the decisions that are due whatever waits, before the passes of a ``decide``."""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.advance.clearing import clearing
from cress.core.books import Books
from cress.core.combined_restarts import changed_units
from cress.core.passes import Decided
from cress.core.starting.claims import Claims
from cress.core.whole_starts import changed_sets
from cress.model.decisions import Decision, LeaseReduced


class Upkeep:
    """Stops, starts of moved tasks, returns of idle parts, changes of units and of advance reservations."""

    def __init__(self, books: Books, decided: Decided, claims: Claims) -> None:
        self._books = books
        self._decided = decided
        self._claims = claims
        # Decisions to apply first: moves of running tasks, as claims and stops.
        self._proposed: list[Decision] = []

    def propose(self, facts: Iterable[Decision]) -> None:
        """Begin the next ``decide`` with these decisions."""
        self._proposed += facts

    def begin(self, now: int) -> None:
        """Decide what is due."""
        books, decided = self._books, self._decided
        if self._proposed:
            for fact in self._proposed:
                decided.do(fact)
            self._proposed = []
        if books.to_stop:
            self.stop_attempts()
        for fact in clearing(books):
            decided.do(fact)
        if books.claims:
            # A task may not start on a node that a clause excludes by now.
            self.follow()
            self._claims.start_moved()
        for lease in books.pool.due(now):
            decided.do(LeaseReduced(lease))
        if books.units.in_doubt:
            for changed in changed_units(books):
                decided.do(changed)
            books.units.in_doubt = False
        if books.units.changed_sets:
            for changed in changed_sets(books):
                decided.do(changed)
            books.units.changed_sets.clear()
        books.reservations.expire(now)

    def stop_attempts(self) -> None:
        """Stop the attempts whose stop is due."""
        books = self._books
        ending = books.advance_reservations.ending
        for number, due in list(books.to_stop.items()):
            attempt = books.attempts[number]
            self._decided.stop(attempt, due + attempt.time_to_stop(books.options), ending.get(number, ""))

    def follow(self) -> None:
        """Update jobs that depend on the load, and clauses and claims."""
        books = self._books
        if books.relaxing.by_load:
            books.relaxing.follow(books.balance.utilisation(), books.shapes.look_at)
        books.matching.flush()
        self._claims.drop_void()
