"""The lead: at most one of the centers that share a store has it, and gives orders."""

from __future__ import annotations

import time
from typing import Protocol


class Lead(Protocol):
    """The lead of a shared store, as one center tries to get and keep it. One thread calls it; ``others`` any."""

    session: float
    """Seconds after which a center that is gone loses the lead; ``claim`` is called several times in this time."""

    until: int
    """Until then (µs of ``CLOCK_BOOTTIME``) no other center can have the lead; 0: it is not this one's."""

    def claim(self) -> bool:
        """Take or keep the lead; False if another center has it. Raises ``Unreachable`` and ``StoreError``."""

    def leader(self) -> str:
        """Return the address of the center that has the lead, empty if none has."""

    def wait(self, seconds: float) -> None:
        """Wait until another center may have lost the lead, at most so long."""

    def stand_by(self) -> None:
        """Note that this center stands by, until its session ends. Raises ``Unreachable`` and ``StoreError``."""

    def others(self) -> list[str]:
        """Return the addresses of the other centers that stand by. Raises ``Unreachable`` and ``StoreError``."""

    def release(self) -> None:
        """Give the lead away, so that another center need not wait."""

    def close(self) -> None:
        """Stand by no more, and close the connections of its own."""


def boottime() -> int:
    """Return the microseconds since the computer was started, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
