"""Licences: countable resources of the whole cluster that tasks take and give back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Amounts: TypeAlias = tuple[tuple[str, int], ...]


class Licence(NamedTuple):
    """A licence as an object that shapes watch: its free number may change their match."""

    licence: str


class LicenceShortage(NamedTuple):
    """A shortage: a unit needs ``wanted`` of a licence; tasks have ``taken`` of the ``total``."""

    name: str
    wanted: int
    taken: int
    total: int


class Licences:
    """The total number of each licence, and the number held by tasks.

    Tasks may hold more than the total, because no task is stopped when the total is lowered.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.taken: dict[str, int] = {}

    def free(self, name: str) -> int:
        """Return the free number; negative if tasks hold more than the total."""
        return self.counts.get(name, 0) - self.taken.get(name, 0)

    def short(self, wanted: Amounts) -> tuple[LicenceShortage, ...]:
        """Return the licences with too few free."""
        return tuple(self._shortage(name, number) for name, number in wanted if number > self.free(name))

    def never(self, wanted: Amounts) -> tuple[LicenceShortage, ...]:
        """Return the licences with a total that is too small, even if no task held any."""
        return tuple(self._shortage(name, number) for name, number in wanted if number > self.counts.get(name, 0))

    def _shortage(self, name: str, wanted: int) -> LicenceShortage:
        return LicenceShortage(name, wanted, self.taken.get(name, 0), self.counts.get(name, 0))

    def hold(self, amounts: Amounts, sign: int = 1) -> None:
        """Take licences for a task, or (-1) return them."""
        for name, number in amounts:
            taken = self.taken.get(name, 0) + sign * number
            assert taken >= 0, f"{name}: {number} returned that no task had"
            if taken:
                self.taken[name] = taken
            else:
                del self.taken[name]


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
