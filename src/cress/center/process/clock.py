"""The machine's clock: CLOCK_BOOTTIME, continued over restarts of the center and of the computer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cress.model.times import DAY

# The longest off time of a computer that the wall clock is trusted for.
MOST_OFF = 30 * DAY


class _SavedClock(msgspec.Struct, frozen=True, array_like=True):
    boot: str
    boottime: int
    now: int
    utc: int


def boottime() -> int:
    """Return the microseconds since the computer was started, including time asleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def wall() -> int:
    """Return the wall clock in microseconds since the epoch."""
    return time.time_ns() // 1000


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Clock:
    """A clock in microseconds that never goes back.

    Between reboots, steps of the wall clock do not affect it. The duration of a reboot is measured by the wall clock
    only, and is accepted from 0 to 30 days.
    """

    def __init__(
        self, boot: str = "", *, boottime: Callable[[], int] = boottime, wall: Callable[[], int] = wall
    ) -> None:
        self.boot = boot or boot_id()
        self.offset = 0
        self._last = 0
        self._boottime = boottime
        self._wall = wall

    def now(self) -> int:
        """Return the time of the machine's clock."""
        self._last = max(self._last, self._boottime() + self.offset)
        return self._last

    def utc(self) -> int:
        """Return the wall clock in microseconds since the epoch; it may step."""
        return self._wall()

    def save(self, now: int, utc: int) -> bytes:
        """Return the value that ``resume`` needs, to be stored with the step of this moment."""
        return msgspec.msgpack.encode(_SavedClock(self.boot, now - self.offset, now, utc))

    def resume(self, saved: bytes | None, least: int = 0) -> None:
        """Continue from a saved clock, never before ``least``, the time of the last step (µs)."""
        if saved is not None:
            was = msgspec.msgpack.decode(saved, type=_SavedClock)
            if was.boot == self.boot:
                self.offset = was.now - was.boottime
            else:
                passed = min(MOST_OFF, max(0, self._wall() - was.utc))
                self.offset = was.now + passed - self._boottime()
        self.offset += max(0, least - (self._boottime() + self.offset))
        self._last = least
