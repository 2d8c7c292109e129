"""Fair share with memory (design note 0030): the past borrowing of a group as an exponentially weighted mean.

A group borrows the amount that it uses beyond its quota. The mean is updated at *ticks* on an absolute grid: the
amount between two ticks is averaged exactly, and the older mean decays. All numbers are integers, and the value at a
tick depends only on the changes of the amount, never on the number of questions.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

import msgspec

from cress.model.times import SECOND

# The number of ticks in a half-life, unless a tick would be shorter than a second.
TICKS = 256
# Binary places of a mean, and of a factor.
_PLACES = 20
_FACTOR_PLACES = 62
_EXACT = Context(prec=60)


class MemoryState(msgspec.Struct, omit_defaults=True):
    """A memory as stored in a state."""

    tick: int
    mean: list[int]
    sum: list[int]
    since: int
    borrowed: list[int]
    then: list[int] | None = None
    changed: int | None = None


class TickClock:
    """The time and the tick of all memories of a cluster."""

    def __init__(self, half_life: int) -> None:
        """Start before all times; ``half_life`` in µs."""
        self.half_life = half_life
        self.length = max(SECOND, half_life // TICKS)
        self.now = 0
        self.tick = 0
        factor = _EXACT.power(Decimal(2), _EXACT.divide(Decimal(-self.length), Decimal(half_life)))
        self._factor = int(_EXACT.multiply(factor, Decimal(2**_FACTOR_PLACES)))
        self.kept = lru_cache(maxsize=4096)(self._kept)

    def advance(self, now: int) -> bool:
        """Advance to ``now`` (µs); return True if a tick has passed."""
        self.now = now
        tick = now // self.length
        if tick == self.tick:
            return False
        self.tick = tick
        return True

    def next_tick(self) -> int:
        """Return the time of the next tick (µs)."""
        return (self.tick + 1) * self.length

    def _kept(self, ticks: int) -> int:
        """Return the share of a mean that is left after ``ticks`` ticks, with ``_FACTOR_PLACES`` binary places."""
        share, factor = 1 << _FACTOR_PLACES, self._factor
        while ticks:
            if ticks & 1:
                share = (share * factor) >> _FACTOR_PLACES
            factor = (factor * factor) >> _FACTOR_PLACES
            ticks >>= 1
        return share

    def towards(self, mean: int, amount: int, ticks: int) -> int:
        """Return a mean after ``ticks`` ticks with this amount, both with ``_PLACES`` binary places."""
        kept = self.kept(ticks)
        if mean >= amount:
            return amount + ((mean - amount) * kept >> _FACTOR_PLACES)
        return amount - ((amount - mean) * kept >> _FACTOR_PLACES)


class ShareMemory:
    """The past borrowing of one group, in its measures."""

    PLACES = 8
    __slots__ = ("_asked", "_changed", "_clock", "_mean", "_since", "_sum", "_then", "_tick", "borrowed")

    def __init__(self, clock: TickClock, measures: int) -> None:
        self._clock = clock
        self._begin(measures)

    def _begin(self, measures: int) -> None:
        clock = self._clock
        self.borrowed = [0] * measures
        # The mean at the beginning of ``_tick``, and the amount × µs borrowed in it up to ``_since``.
        self._tick = clock.tick
        self._mean = [0] * measures
        self._sum = [0] * measures
        self._since = clock.now
        self._asked = (self._tick, [0] * measures)
        # The amounts since ``_changed``: an amount that changes back at the same time has not changed.
        self._then: list[int] | None = None
        self._changed = clock.now

    def follow(self, used: list[int], quota: list[int]) -> None:
        """Set the present use and quota of the group."""
        borrowed = [have - own if have > own else 0 for have, own in zip(used, quota, strict=True)]
        if len(borrowed) != len(self.borrowed):
            # Amounts in other measures cannot be compared.
            self._begin(len(borrowed))
        self._settle()
        self._then = borrowed if borrowed != self.borrowed else None
        self._changed = self._clock.now

    def _settle(self) -> None:
        """Add a change of the amount once its time is past."""
        moment = self._changed
        if self._then is None or self._clock.now == moment:
            return
        length = self._clock.length
        tick = moment // length
        if tick > self._tick:
            self._mean = self._at(tick)
            self._tick = tick
            self._sum = [0] * len(self.borrowed)
            self._since = tick * length
        passed = moment - self._since
        if passed:
            self._sum = [total + passed * amount for total, amount in zip(self._sum, self.borrowed, strict=True)]
            self._since = moment
        self.borrowed, self._then = self._then, None

    def past(self) -> list[int]:
        """Return the mean at the last tick, per measure, with ``PLACES`` binary places."""
        self._settle()
        tick = self._clock.tick
        if self._asked[0] != tick:
            self._asked = (tick, self._rounded(self._at(tick)))
        return self._asked[1]

    def changes(self) -> bool:
        """Return True if the next tick may change the mean."""
        past = self.past()
        steady = [amount << self.PLACES for amount in self.borrowed]
        return self._then is not None or past != steady or (self._tick == self._clock.tick and any(self._sum))

    def _at(self, tick: int) -> list[int]:
        """Return the mean at the beginning of ``tick``, without changes until then."""
        if tick <= self._tick or not (any(self._mean) or any(self._sum) or any(self.borrowed)):
            return self._mean
        clock = self._clock
        rest = (self._tick + 1) * clock.length - self._since
        found = []
        for mean, total, borrowed in zip(self._mean, self._sum, self.borrowed, strict=True):
            lately = ((total + borrowed * rest) << _PLACES) // clock.length
            mean = clock.towards(mean, lately, 1)
            found.append(clock.towards(mean, borrowed << _PLACES, tick - self._tick - 1))
        return found

    def _rounded(self, mean: list[int]) -> list[int]:
        return [amount >> (_PLACES - self.PLACES) for amount in mean]

    def export(self) -> MemoryState:
        """Return the memory in the form for a state."""
        self._settle()
        state = MemoryState(self._tick, list(self._mean), list(self._sum), self._since, list(self.borrowed))
        if self._then is not None:
            state.then, state.changed = list(self._then), self._changed
        return state

    def restore(self, state: MemoryState, length: int) -> None:
        """Restore an exported memory with ticks of ``length`` µs; if that has changed, the mean is kept."""
        if len(state.mean) != len(self.borrowed):
            return
        self._mean = list(state.mean)
        then = None if state.then is None else list(state.then)
        self.borrowed = list(state.borrowed)
        if length == self._clock.length:
            self._tick, self._sum, self._since = state.tick, list(state.sum), state.since
            self._then, self._changed = then, self._clock.now if state.changed is None else state.changed
        else:
            self.borrowed = self.borrowed if then is None else then
            self._tick = self._clock.tick
            self._sum = [0] * len(self._mean)
            self._since = self._clock.now
        self._asked = (self._tick, self._rounded(self._mean))
