"""Rates of requests by user and by address, and of connections by address: token buckets."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable

from cress.center.web.asgi import Scope
from cress.center.web.sign_ins import network_of

# Seconds' worth of its rate that a user or address may use at once.
BURST = 40
# Users or addresses that are remembered.
MOST_NAMES = 10_000


class Buckets:
    """A bucket for each name, filled with ``rate`` a second up to ``burst`` seconds' worth; rate 0 means no limit."""

    def __init__(self, rate: int, burst: int = BURST) -> None:
        self._rate = rate
        self._most = float(rate * burst)
        self._levels: dict[str, tuple[float, float]] = {}  # levels with their times, the latest last

    def take(self, name: str, now: float) -> float:
        """Take one token; return 0.0, or the seconds until there is one."""
        if not self._rate:
            return 0.0
        level, at = self._levels.pop(name, (self._most, now))
        level = min(self._most, level + self._rate * max(0.0, now - at))
        taken = level >= 1.0
        self._levels[name] = (level - taken, now)
        if len(self._levels) > MOST_NAMES:
            # The names with the oldest requests have full or nearly full buckets.
            del self._levels[next(iter(self._levels))]
        return 0.0 if taken else (1.0 - level) / self._rate


class RequestRates:
    """The requests of users, ``user_rate`` a second for each, and of addresses, ``address_rate`` a second."""

    def __init__(self, user_rate: int, address_rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._users, self._addresses = Buckets(user_rate), Buckets(address_rate)
        self._clock = clock

    def wait(self, scope: Scope, user: str) -> int:
        """Count a request of ``user`` (empty: unknown); return the seconds until it may be repeated, 0 to admit it."""
        now = self._clock()
        client = scope.get("client")
        address = str(client[0]) if client else ""
        found = self._addresses.take(network_of(address), now) if address else 0.0
        if user and not found:
            found = self._users.take(user, now)
        return math.ceil(found)


class Admissions:
    """Admitted connections: new ones of an address at its rate, and at most half of ``most`` at a time from one."""

    def __init__(self, rate: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._buckets = Buckets(rate)
        self._clock = clock
        self._open: Counter[str] = Counter()

    def is_full(self, address: str, total: int, beyond: int = 0) -> bool:
        """Return whether there are too many connections, of this address or in ``total``, for one more.

        ``beyond`` of them will end at once, and do not count.
        """
        return total - beyond > self.most or self._open[network_of(address)] - beyond >= self.most // 2

    def admit(self, address: str, total: int, beyond: int = 0) -> bool:
        """Return whether one more connection of this address is admitted; ``total`` counts all, this one included.

        ``beyond`` is as in ``is_full``.
        """
        name = network_of(address)
        if self.is_full(address, total, beyond) or self._buckets.take(name, self._clock()):
            return False
        self._open[name] += 1
        return True

    def left(self, address: str) -> None:
        """Note the end of a connection."""
        name = network_of(address)
        self._open[name] -= 1
        if self._open[name] <= 0:
            del self._open[name]

    def recount(self, addresses: Iterable[str]) -> None:
        """Count the open connections again."""
        self._open = Counter(map(network_of, addresses))
