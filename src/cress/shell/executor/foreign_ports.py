"""Foreign ports: all listening ports of the machine except those of attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cress.model.reports import Cause, Ended, Report
from cress.protocol.messages import Launch


class ForeignPorts:
    """Tracks the ports of attempts. ``told`` are the ports that the center knows; ``None``: report in any case."""

    def __init__(self) -> None:
        self.told: tuple[int, ...] | None = None
        self._by_attempt: dict[int, tuple[int, ...]] = {}

    def begin(self, ports: Mapping[int, tuple[int, ...]]) -> None:
        """Set the ports of all attempts."""
        self._by_attempt = dict(ports)

    def launched(self, launches: Iterable[Launch]) -> None:
        """Add the ports of attempts that are about to start."""
        self._by_attempt |= {launch.attempt: launch.ports for launch in launches if launch.ports}

    def ended(self, attempt: int) -> None:
        """Forget the ports of an ended attempt: a program that listens on them from now on is foreign."""
        self._by_attempt.pop(attempt, None)

    def own(self) -> frozenset[int]:
        """Return the ports of attempts. A scan omits ports that belong to one at its begin or its end."""
        return frozenset(port for ports in self._by_attempt.values() for port in ports)

    def seen(self, listening: Iterable[int]) -> tuple[int, ...]:
        """Return the foreign ports among these."""
        return tuple(sorted(frozenset(listening) - self.own()))

    def news(self, listening: Iterable[int]) -> tuple[int, ...] | None:
        """Return the foreign ports among these if they are new to the center, and note that it knows them."""
        found = self.seen(listening)
        if found == self.told:
            return None
        self.told = found
        return found


def port_conflict(reports: Iterable[Report]) -> bool:
    """Return whether an attempt could not start because another program has its port."""
    return any(isinstance(report, Ended) and report.cause is Cause.PORT for report in reports)
