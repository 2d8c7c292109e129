"""Licences: countable resources of the whole cluster that tasks take and give back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from cress.core.accounts import Account, AtBound, ChargedAttempt

Amounts: TypeAlias = tuple[tuple[str, int], ...]


class Licence(NamedTuple):
    """A licence as an object that shapes watch: its free number may change their match."""

    licence: str


class Licences(Account):
    """The total number of each licence, and the number held by tasks.

    Tasks may hold more than the total, because no task is stopped when the total is lowered.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        # Told of each licence whose free number changes, with the number before and the number now.
        self.follower: Callable[[str, int, int], None] | None = None

    def begin(self, attempt: ChargedAttempt) -> None:
        self._hold(attempt.job.job.licences, 1)

    def end(self, attempt: ChargedAttempt) -> None:
        self._hold(attempt.job.job.licences, -1)

    def forget(self) -> None:
        self.taken.clear()

    def set_counts(self, counts: Amounts) -> None:
        """Set the total number of each licence."""
        before = {name: self.free(name) for name in (*self.counts, *dict(counts), *self.taken)}
        self.counts = dict(counts)
        for name, free in before.items():
            self._changed(name, free)

    def free(self, name: str) -> int:
        """Return the free number; negative if tasks hold more than the total."""
        return self.counts.get(name, 0) - self.taken.get(name, 0)

    def short(self, wanted: Amounts) -> tuple[AtBound, ...]:
        """Return the licences with too few free."""
        return tuple(self._at_bound(name, number) for name, number in wanted if number > self.free(name))

    def never(self, wanted: Amounts) -> tuple[AtBound, ...]:
        """Return the licences with a total that is too small, even if no task held any."""
        return tuple(self._at_bound(name, number) for name, number in wanted if number > self.counts.get(name, 0))

    def _at_bound(self, name: str, asks: int) -> AtBound:
        return AtBound(name, self.counts.get(name, 0), self.taken.get(name, 0), asks)

    def _hold(self, amounts: Amounts, sign: int) -> None:
        for name, number in amounts:
            free, taken = self.free(name), self.taken.get(name, 0) + sign * number
            assert taken >= 0, f"{name}: {number} returned that no task had"
            if taken:
                self.taken[name] = taken
            else:
                del self.taken[name]
            self._changed(name, free)

    def _changed(self, name: str, before: int) -> None:
        if self.follower is not None:
            self.follower(name, before, self.free(name))


def times(amounts: Amounts, copies: int) -> Amounts:
    """Return the amounts of ``copies`` tasks together."""
    return amounts if copies == 1 else tuple((name, number * copies) for name, number in amounts)


def added(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum of the amounts of different tasks, by name."""
    total: dict[str, int] = {}
    for name, number in (pair for one in amounts for pair in one):
        total[name] = total.get(name, 0) + number
    return tuple(sorted(total.items()))


def amounts_text(amounts: Amounts) -> str:
    """Return the amounts as text: ``matlab=2, ansys=1``."""
    return ", ".join(f"{name}={number}" for name, number in amounts)
