"""Licences: countable resources of the whole cluster, taken and given back with tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Amounts: TypeAlias = tuple[tuple[str, int], ...]


class Licence(NamedTuple):
    """The tasks that have some of a licence, for who watches what becomes of it."""

    licence: str


class Shortage(NamedTuple):
    """A unit wants so many of a licence, of which tasks have ``taken`` and there are ``total`` in all."""

    name: str
    wanted: int
    taken: int
    total: int


class Licences:
    """How many there are of each, and how many tasks have.

    There may be fewer than tasks have, since nothing is stopped when somebody says that there are fewer.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.taken: dict[str, int] = {}

    def free(self, name: str) -> int:
        """How many nobody has; below zero where tasks have more than there are."""
        return self.counts.get(name, 0) - self.taken.get(name, 0)

    def short(self, wanted: Amounts) -> tuple[Shortage, ...]:
        """Those of which too few are free."""
        return tuple(self._shortage(name, number) for name, number in wanted if number > self.free(name))

    def never(self, wanted: Amounts) -> tuple[Shortage, ...]:
        """Those of which there are too few even if nobody had any."""
        return tuple(self._shortage(name, number) for name, number in wanted if number > self.counts.get(name, 0))

    def _shortage(self, name: str, wanted: int) -> Shortage:
        return Shortage(name, wanted, self.taken.get(name, 0), self.counts.get(name, 0))

    def hold(self, amounts: Amounts, sign: int = 1) -> None:
        """A task has so many, or (-1) has them no longer."""
        for name, number in amounts:
            taken = self.taken.get(name, 0) + sign * number
            if taken:
                self.taken[name] = taken
            else:
                del self.taken[name]


def times(amounts: Amounts, copies: int) -> Amounts:
    """What so many tasks take together."""
    return amounts if copies == 1 else tuple((name, number * copies) for name, number in amounts)


def added(amounts: Iterable[Amounts]) -> Amounts:
    """What different tasks take together, by name."""
    total: dict[str, int] = {}
    for name, number in (each for one in amounts for each in one):
        total[name] = total.get(name, 0) + number
    return tuple(sorted(total.items()))


def said(amounts: Amounts) -> str:
    """As people write it: ``matlab=2, ansys=1``."""
    return ", ".join(f"{name}={number}" for name, number in amounts)
