"""Rules for all tasks of a gang together: the number of tasks in each domain of an attribute.

Only the result counts: after the start every domain with tasks must keep the rules. Tasks are assigned one by one, to
the first open domain in the order. With one rule this finds a solution if there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.domains import Domains

# The number of choices of domains tried for a gang that needs preemption.
MOST_CHOICES = 8
# More tasks than any domain has.
_MANY = 2**62

Levels: TypeAlias = npt.NDArray[np.float64]


class Counter(ABC):
    """The tasks of a gang per domain of one attribute, during assignment; the last element is for nodes without a
    domain.
    """

    def __init__(self, of: Ints, counts: Ints) -> None:
        self.of = of
        self.counts = counts.copy()

    @abstractmethod
    def open(self) -> Bools:
        """Return, per domain, True if it may take one more task."""

    @abstractmethod
    def level(self) -> Levels:
        """Return the fill level of each domain; the least full one comes first."""

    def take(self, d: int, count: int = 1) -> None:
        """Assign tasks to a domain."""
        self.counts[d] += count


class Even(Counter):
    """At most ``skew`` more tasks in a domain than in the least used ``eligible`` one."""

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
    """At most ``bound`` tasks per domain; ``weights`` are the shares that each should have."""

    def __init__(self, of: Ints, counts: Ints, bound: Ints, weights: Ints | None = None) -> None:
        super().__init__(of, counts)
        self._bound = bound
        self._weights = None if weights is None else np.maximum(weights, 1)

    def open(self) -> Bools:
        return self.counts < self._bound

    def level(self) -> Levels:
        return np.zeros(len(self.counts)) if self._weights is None else self.counts / self._weights


def least_used(counts: Ints, eligible: Bools) -> int:
    """Return the number of tasks in the least used eligible domain; 0 without any."""
    if np.count_nonzero(eligible) == len(eligible) - 1 > 0:
        # Most often all domains are eligible; the last element is for nodes without a domain.
        return int(counts[:-1].min())
    least = int(np.min(counts, where=eligible, initial=_MANY))
    return 0 if least == _MANY else least


class Filling(NamedTuple):
    """A rule that counts: it makes a counter for a number of tasks."""

    domains: Domains
    counts: Ints
    eligible: Bools
    skew: int
    # In place of a skew, bounds that depend on the size of the whole gang.
    weights: Ints | None = None

    def counter(self, size: int) -> Counter:
        """Return a counter for a gang of ``size``."""
        if self.weights is None:
            return Even(self.domains.of, self.counts, self.eligible, self.skew)
        total = int(self.counts.sum()) + size
        return AtMost(self.domains.of, self.counts, share_bound(self.weights, total, self.skew), self.weights)


class Limit(NamedTuple):
    """A rule that allows at most ``most`` tasks per domain; nodes without a domain count as one if ``outside``, else
    they take none.
    """

    domains: Domains
    most: int
    outside: bool = False

    def bound(self) -> Ints:
        """Return the limit of each domain."""
        bound = np.full(len(self.domains) + 1, self.most, np.int64)
        bound[-1] *= self.outside
        return bound

    def counter(self, size: int) -> Counter:
        """Return a counter."""
        bound = self.bound()
        return AtMost(self.domains.of, np.zeros_like(bound), bound)


class Within(NamedTuple):
    """A rule that keeps all tasks in one domain, the ``used`` ones first; ``adjacent``: or in domains near each other,
    and near all used ones.
    """

    domains: Domains
    used: tuple[int, ...]
    adjacent: bool = False

    def single(
        self, sizes: Sequence[int], copies: Sequence[Ints], limits: Sequence[Limit] = ()
    ) -> Iterator[list[Ints]]:
        """Yield the copies per node of each kind of tasks, for each domain that can hold every kind by itself.

        Domains in use come first, then the tightest.
        """
        domains = self.domains
        rooms = [room_in(domains, each, limits) for each in copies]
        enough = np.logical_and.reduce([room >= size for room, size in zip(rooms, sizes, strict=True)])
        enough[-1] &= self.adjacent
        holding = np.flatnonzero(enough)
        if self.adjacent and self.used:
            holding = holding[np.isin(holding, list(domains.near_all(self.used)))]
        total = np.sum(rooms, axis=0)[holding]
        order = np.lexsort((domains.first[holding], total, ~np.isin(holding, self.used)))
        for d in holding[order].tolist():
            yield [np.where(domains.of[: len(each)] == d, each, 0) for each in copies]

    def ways(self, sizes: Sequence[int], copies: Sequence[Ints], limits: Sequence[Limit]) -> Iterator[list[Ints]]:
        """Yield the copies per node of each kind for each choice of domains that holds every kind by itself, best
        choice first.
        """
        found = False
        for way in self.single(sizes, copies, limits):
            found = True
            yield way
        # Several kinds may fit into one domain each by itself and still not together.
        if self.adjacent and (not found or len(sizes) > 1):
            rooms = [room_in(self.domains, kind, limits).tolist() for kind in copies]
            for chosen in self.domains.adjacent_sets(rooms, sizes, self.used):
                yield [within(self.domains, kind, chosen) for kind in copies]

    def tightest(self, size: int, copies: Ints, limits: Sequence[Limit]) -> tuple[tuple[int, int, int], Ints]:
        """Return key and copies for the fewest and nearest domains that hold a gang of ``size``; all copies if none do.

        The key is their number, their distances and their copies.
        """
        domains = self.domains
        room: list[int] = room_in(domains, copies, limits).tolist()
        chosen = (domains.adjacent if self.adjacent else domains.tightest)(room, size, self.used)
        if chosen is None:
            return (len(room), 0, 0), copies
        length = 0 if self.adjacent else sum(domains.distance(a, b) for a, b in combinations(chosen, 2))
        return (len(chosen), length, sum(room[d] for d in chosen)), within(domains, copies, chosen)


Rule: TypeAlias = Filling | Limit | Within


def either(one: Rule, other: Rule) -> Rule:
    """Return the same rule of two kinds of tasks; domains that one of them may use are eligible."""
    if isinstance(one, Filling) and isinstance(other, Filling):
        weights = (
            one.weights if one.weights is None or other.weights is None else np.maximum(one.weights, other.weights)
        )
        return one._replace(eligible=one.eligible | other.eligible, weights=weights)
    return one


def room_in(domains: Domains, copies: Ints, limits: Sequence[Limit]) -> Ints:
    """Return the copies per domain: the sums of those per node, within the limits of the same domains."""
    total = domains.total(copies)
    for limit in limits:
        if limit.domains is domains:
            total = np.minimum(total, limit.bound())
    return total


def within(domains: Domains, copies: Ints, chosen: Sequence[int]) -> Ints:
    """Return the copies in the chosen domains."""
    return np.where(np.isin(domains.of[: len(copies)], chosen), copies, 0)


class GangRules(NamedTuple):
    """The hard rules of a gang, and its preferences."""

    hard: tuple[Rule, ...] = ()
    soft: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)

    @property
    def counting(self) -> bool:
        """True if some rules count the tasks in domains."""
        return not all(isinstance(rule, Within) for rule in (*self.hard, *self.soft))

    def counters(self, size: int) -> tuple[list[Counter], list[Counter]]:
        """Return counters for a gang of ``size``: those of the hard rules that count, and of such preferences."""
        hard = [rule.counter(size) for rule in self.hard if not isinstance(rule, Within)]
        return hard, [rule.counter(size) for rule in self.soft if not isinstance(rule, Within)]


NO_RULES = GangRules()


def choices(rules: GangRules, sizes: Sequence[int], copies: Sequence[Ints]) -> Iterator[list[Ints]]:
    """Yield the copies per node of each kind of tasks in the domains to which the gang is restricted, best choice
    first; preferred ones precede the rest.

    Each choice has enough room for every kind by itself. Without rules all copies are the only choice.
    """
    if any(int(kind.sum()) < size for kind, size in zip(copies, sizes, strict=True)):
        return
    limits = [rule for rule in rules.hard if isinstance(rule, Limit)]
    # Single domains come first, because near ones are looked for inside them.
    asked = sorted((rule for rule in rules.hard if isinstance(rule, Within)), key=lambda rule: rule.adjacent)
    preferred = sorted((rule for rule in rules.soft if isinstance(rule, Within)), key=lambda rule: rule.adjacent)
    ways: Iterable[list[Ints]] = [list(copies)]
    for rule in asked:
        ways = _narrowed(ways, rule, sizes, limits)
    if preferred:
        ways = list(ways)
        if len(sizes) > 1:
            for rule in preferred:
                for way in ways:
                    yield from rule.ways(sizes, way, limits)
        else:
            yield from _tightest(ways[:MOST_CHOICES], preferred, sizes[0], limits)
    yield from ways


def _narrowed(
    ways: Iterable[list[Ints]], rule: Within, sizes: Sequence[int], limits: list[Limit]
) -> Iterator[list[Ints]]:
    for copies in ways:
        yield from rule.ways(sizes, copies, limits)


def _tightest(ways: list[list[Ints]], preferred: list[Within], size: int, limits: list[Limit]) -> Iterator[list[Ints]]:
    """Yield the tightest domains that are preferred inside each of these choices for tasks that are all alike."""
    found = [(*preferred[0].tightest(size, way, limits), i) for i, (way,) in enumerate(ways)]
    for _, inside, _ in sorted(found, key=lambda each: (each[0], each[2])):
        tight = inside
        for other in preferred[1:]:
            tight = other.tightest(size, tight, limits)[1]
        yield [tight]


def share_bound(weights: Ints, total: int, skew: int) -> Ints:
    """Return the limit of tasks per domain for ``total`` tasks: the share rounded up plus ``skew - 1``; 0 without a
    share.
    """
    whole = max(1, int(weights.sum()))
    # Rounded up, in integers.
    bound: Ints = -(-weights * total // whole) + (skew - 1)
    bound[weights == 0] = 0
    return bound


def alike(copies: Ints, counters: Sequence[Counter]) -> tuple[Ints, Ints]:
    """Return a number for each node, equal for nodes in the same domains, and the first node with each number.

    The last number is for nodes without copies.
    """
    places = np.flatnonzero(copies)
    domains = (
        np.stack([counter.of[places] for counter in counters]) if counters else np.zeros((1, len(places)), np.int64)
    )
    _, first, numbers = np.unique(domains, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    of = np.full(len(copies), len(first), np.int64)
    of[places] = rank[numbers.ravel()]
    return of, places[first[order]]


def fill(copies: Ints, size: int, hard: list[Counter], soft: list[Counter]) -> tuple[Ints, list[int]] | None:
    """Assign ``size`` tasks to nodes with ``copies`` each; ``None`` if the rules or the greedy choice leave no way.

    Returns a number for each node, equal for nodes in the same domains, and the tasks for the nodes with each number;
    the last number is for nodes that take none. Among open domains, the least full by all rules comes first, then the
    roomiest, then that of the first node.
    """
    if not copies.any():
        return None
    counters = [*hard, *soft]
    of, first = alike(copies, counters)
    room = np.bincount(of, copies, len(first) + 1)[:-1].astype(np.int64)
    where = [counter.of[first] for counter in counters]
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
            # Each takes one task, and none affects the others.
            chosen = candidates
        else:
            chosen = candidates[[int(np.argmax(room[candidates] - taken[candidates]))]]
        for i in chosen.tolist():
            taken[i] += 1
            for each, domain in zip(counters, where, strict=True):
                each.take(int(domain[i]))
        left -= len(chosen)
    return of, [*taken.tolist(), 0]
