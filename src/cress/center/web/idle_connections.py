"""Connections without a request under way, by address: the ones to close when an address has too many.

A program that opens thousands of connections and says nothing would otherwise shut out everybody at its address.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from cress.center.web.sign_ins import network_of

# Seconds after which a connection that says nothing gives way before one that waits between two requests.
LONG = 1.0

C = TypeVar("C")


class IdleConnections(Generic[C]):
    """The idle connections of each address in the order in which they became idle, with that time in seconds.

    ``silent`` ones have never completed the head of a request. ``unknown`` ones have, and their callers have not signed
    in. Further ones wait between two requests.
    """

    def __init__(self) -> None:
        self._silent: dict[str, dict[C, float]] = {}
        self._unknown: dict[str, dict[C, float]] = {}
        self._waiting: dict[str, dict[C, float]] = {}
        self._tables = self._silent, self._unknown, self._waiting

    def opened(self, address: str, connection: C, now: float) -> None:
        """Note a new connection."""
        self._silent.setdefault(network_of(address), {})[connection] = now

    def asked(self, address: str, connection: C, now: float) -> None:
        """Note the head of a request, whose caller is not known yet."""
        self.busy(address, connection)
        self._unknown.setdefault(network_of(address), {})[connection] = now

    def answered(self, address: str, connection: C, now: float) -> None:
        """Note that the request of a connection is answered."""
        self.busy(address, connection)
        self._waiting.setdefault(network_of(address), {})[connection] = now

    def busy(self, address: str, connection: C) -> None:
        """Note that the caller of a request is known, or that a connection has ended."""
        name = network_of(address)
        for table in self._tables:
            there = table.get(name)
            if there is not None and there.pop(connection, None) is not None and not there:
                del table[name]

    def oldest(self, address: str, before: float) -> C | None:
        """Return the connection of an address that is idle for longest, since a time before ``before``.

        Those that are idle for ``LONG`` come first: silent ones, then unknown ones, then the rest. A silent one that is
        new may be about to say something, so it is treated as all others. Return None if there is none.
        """
        name = network_of(address)
        first = [next(iter(table[name].items())) for table in self._tables if name in table]
        long = [connection for connection, since in first if since < before - LONG]
        if long:
            return long[0]
        connection, since = min(first, key=lambda idle: idle[1], default=(None, before))
        return connection if since < before else None

    def surplus(self, most: int, before: float) -> list[C]:
        """Return the silent connections beyond ``most`` of an address that are silent since a time before ``before``.

        The newest ``most`` ones stay.
        """
        found: list[C] = []
        for there in self._silent.values():
            for number, (connection, since) in enumerate(there.items()):
                if number >= len(there) - most or since >= before:
                    break
                found.append(connection)
        return found
