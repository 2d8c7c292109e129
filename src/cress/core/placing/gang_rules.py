"""Rules about all tasks of a gang together: how many of them each domain of an attribute may take.

A gang is judged by its end: after its start every domain that got tasks keeps the rules. Tasks are given out one after
the other, to the open domain that comes first. For one rule that finds a way if there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.domains import Domains

# More than any domain has tasks.
_MANY = 2**62

Levels: TypeAlias = npt.NDArray[np.float64]


class Counter(ABC):
    """The tasks of a gang in the domains of one attribute while they are given out; the last place is that of no
    domain.
    """

    def __init__(self, of: Ints, counts: Ints) -> None:
        self.of = of
        self.counts = counts.copy()

    @abstractmethod
    def open(self) -> Bools:
        """Return, per domain, whether it may take one more task."""

    @abstractmethod
    def level(self) -> Levels:
        """Return, per domain, how full it is: the least full one comes first."""

    def take(self, d: int, count: int = 1) -> None:
        """Give tasks to a domain."""
        self.counts[d] += count


class Even(Counter):
    """At most ``skew`` tasks more in a domain than in the least used of those that are ``eligible``."""

    def __init__(self, of: Ints, counts: Ints, eligible: Bools, skew: int) -> None:
        super().__init__(of, counts)
        self._eligible = eligible
        self._skew = skew

    def open(self) -> Bools:
        found = self.counts < least_used(self.counts, self._eligible) + self._skew
        found[-1] = False
        return found

    def level(self) -> Levels:
        return self.counts.astype(np.float64)


class AtMost(Counter):
    """At most ``bound`` tasks, per domain; ``weights``: how many of them each should have."""

    def __init__(self, of: Ints, counts: Ints, bound: Ints, weights: Ints | None = None) -> None:
        super().__init__(of, counts)
        self._bound = bound
        self._weights = None if weights is None else np.maximum(weights, 1)

    def open(self) -> Bools:
        return self.counts < self._bound

    def level(self) -> Levels:
        return np.zeros(len(self.counts)) if self._weights is None else self.counts / self._weights


def copied(counter: Counter) -> Counter:
    """Return a counter that counts for itself."""
    other = copy(counter)
    other.counts = counter.counts.copy()
    return other


def least_used(counts: Ints, eligible: Bools) -> int:
    """Return the tasks of the least used domain of those that count; 0 if none does."""
    if np.count_nonzero(eligible) == len(eligible) - 1 > 0:
        # Most often all count: the last place is that of no domain.
        return int(counts[:-1].min())
    least = int(np.min(counts, where=eligible, initial=_MANY))
    return 0 if least == _MANY else least


class Filling(NamedTuple):
    """A rule that counts: how its counter is made for so many tasks."""

    domains: Domains
    counts: Ints
    eligible: Bools
    skew: int
    # Bounds of the whole gang instead of a skew, by its size.
    weights: Ints | None = None

    def counter(self, size: int) -> Counter:
        """Return a counter for a gang of ``size``."""
        if self.weights is None:
            return Even(self.domains.of, self.counts, self.eligible, self.skew)
        total = int(self.counts.sum()) + size
        return AtMost(self.domains.of, self.counts, share_bound(self.weights, total, self.skew), self.weights)


class OneEach(NamedTuple):
    """A rule that each domain takes one task at most."""

    domains: Domains

    def counter(self, size: int) -> Counter:
        """Return a counter."""
        bound = np.ones(len(self.domains) + 1, np.int64)
        bound[-1] = 0
        return AtMost(self.domains.of, np.zeros_like(bound), bound)


class Within(NamedTuple):
    """A rule that all tasks are in one domain, of those ``used`` already if there are any."""

    domains: Domains
    used: tuple[int, ...]


def in_one(rule: Within, sizes: Sequence[int], copies: Sequence[Ints]) -> Iterator[list[Ints]]:
    """Yield the copies per node of each kind of tasks in each domain that holds so many of every kind by itself: those
    in use first, then the tightest.
    """
    rooms = [rule.domains.total(each).tolist()[:-1] for each in copies]
    of = rule.domains.of[: len(copies[0])]
    found = [
        (d not in rule.used, sum(room), d)
        for d, room in enumerate(zip(*rooms, strict=True))
        if all(have >= size for have, size in zip(room, sizes, strict=True))
    ]
    for _, _, d in sorted(found):
        yield [np.where(of == d, each, 0) for each in copies]


Rule: TypeAlias = Filling | OneEach | Within


class GangRules(NamedTuple):
    """The rules of a gang, and its preferences."""

    hard: tuple[Rule, ...] = ()
    soft: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)


NO_RULES = GangRules()


def share_bound(weights: Ints, total: int, skew: int) -> Ints:
    """Return, per domain, the tasks that it may have of ``total``: its share rounded up, and ``skew - 1`` more; 0
    without a share.
    """
    whole = max(1, int(weights.sum()))
    # Rounded up, without floats.
    bound: Ints = -(-weights * total // whole) + (skew - 1)
    bound[weights == 0] = 0
    return bound


def fill(copies: Ints, size: int, hard: list[Counter], soft: list[Counter]) -> tuple[Ints, list[int]] | None:
    """Give ``size`` tasks to nodes with so many ``copies``; ``None`` if the hard rules leave no way, or the greedy
    choice finds none.

    Returns a number for each node, alike for nodes of the same domains, and the tasks of the nodes with each number;
    the last number is that of nodes that take none. Of domains that may take one, the least full in all rules comes
    first, then the roomiest, then that of the first node.
    """
    places = np.flatnonzero(copies)
    of = np.zeros(len(copies), np.int64)
    if not len(places):
        return None
    counters = [*hard, *soft]
    alike = np.stack([each.of[places] for each in counters]) if counters else np.zeros((1, len(places)), np.int64)
    _, first, numbers = np.unique(alike, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    numbers = rank[numbers.ravel()]
    first = first[order]
    of[:] = len(first)
    of[places] = numbers
    room = np.bincount(numbers, copies[places], len(first)).astype(np.int64)
    where = [each.of[places[first]] for each in counters]
    taken = np.zeros(len(first), np.int64)
    left = size
    while left:
        may = room > taken
        for each, domain in zip(hard, where, strict=False):
            may &= each.open()[domain]
        if not may.any():
            return None
        level = np.zeros(len(first))
        for each, domain in zip(counters, where, strict=True):
            level += each.level()[domain]
        candidates = np.flatnonzero(may)
        best = level[candidates]
        candidates = candidates[best == best.min()]
        if len(counters) == 1 and len(candidates) <= left:
            # Each takes one: none of them changes what the others may take.
            chosen = candidates
        else:
            chosen = candidates[[int(np.argmax(room[candidates] - taken[candidates]))]]
        for i in chosen.tolist():
            taken[i] += 1
            for each, domain in zip(counters, where, strict=True):
                each.take(int(domain[i]))
        left -= len(chosen)
    return of, [*taken.tolist(), 0]
