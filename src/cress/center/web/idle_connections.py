"""Connections without a request under way, by address: the ones to close when an address has too many.

A program that opens thousands of connections and says nothing would otherwise shut out everybody at its address.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from cress.center.web.sign_ins import network_of

C = TypeVar("C")


class IdleConnections(Generic[C]):
    """The idle connections of each address in the order in which they became idle, with that time in seconds.

    ``silent`` ones have never begun a request; further ones wait between two requests.
    """

    def __init__(self) -> None:
        self._silent: dict[str, dict[C, float]] = {}
        self._waiting: dict[str, dict[C, float]] = {}

    def opened(self, address: str, connection: C, now: float) -> None:
        """Note a new connection."""
        self._silent.setdefault(network_of(address), {})[connection] = now

    def answered(self, address: str, connection: C, now: float) -> None:
        """Note that the request of a connection is answered."""
        self._waiting.setdefault(network_of(address), {})[connection] = now

    def busy(self, address: str, connection: C) -> None:
        """Note that a connection has begun a request or has ended."""
        name = network_of(address)
        for table in (self._silent, self._waiting):
            there = table.get(name)
            if there is not None and there.pop(connection, None) is not None and not there:
                del table[name]

    def oldest(self, address: str, before: float) -> C | None:
        """Return the connection of an address that is idle for longest, since a time before ``before``.

        Silent ones come first. Return None if there is none.
        """
        for table in (self._silent, self._waiting):
            for connection, since in table.get(network_of(address), {}).items():
                if since < before:
                    return connection
                break
        return None

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
