"""The lead: at most one of the centers that share a store has it and gives orders."""

from __future__ import annotations

import time
from typing import Protocol


class Lead(Protocol):
    """The lead of a shared store, as one center tries to get and keep it. One thread calls it; any thread may call
    ``others``.
    """

    session: float
    """Seconds after which a center that is gone loses the lead; ``claim`` is called several times in this time."""

    until: int
    """Until this time (µs of ``CLOCK_BOOTTIME``) no other center can have the lead; 0: this center does not have it."""

    def claim(self) -> bool:
        """Take or keep the lead; return False if another center has it. Raises ``Unreachable`` and ``StoreError``."""

    def leader(self) -> str:
        """Return the address of the leader, empty if there is none."""

    def wait(self, seconds: float) -> None:
        """Wait at most ``seconds`` until another center may have lost the lead."""

    def stand_by(self) -> None:
        """Register this center as a standby until its session ends. Raises ``Unreachable`` and ``StoreError``."""

    def others(self) -> list[str]:
        """Return the addresses of the other standbys. Raises ``Unreachable`` and ``StoreError``."""

    def release(self) -> None:
        """Give up the lead, so that another center need not wait."""

    def close(self) -> None:
        """End the registration as a standby, and close the connections of its own."""


def boottime() -> int:
    """Return the µs since the boot of the computer, including sleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
