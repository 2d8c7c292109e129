"""A timer on CLOCK_BOOTTIME, which runs during sleep: an alarm that is due rings as soon as the machine wakes.

The selector's timeouts stand still during sleep, and Python supports the kernel's timerfd only from 3.13 on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_CLOCK_BOOTTIME, _ABSOLUTE = 7, 1


class _TimerSpec(ctypes.Structure):
    """struct itimerspec: interval and first time, each as seconds and nanoseconds."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class Alarm:
    """A descriptor that becomes readable at a set time; without kernel support (``fd`` -1) it never does."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        self._at: int | None = None

    def set(self, at: int | None) -> None:
        """Set the time, in microseconds of CLOCK_BOOTTIME; ``None`` switches the alarm off."""
        if at == self._at or self.fd < 0:
            return
        self._at = at
        # Zero would switch the timer off.
        due = 0 if at is None else max(1, at)
        spec = _TimerSpec(0, 0, due // 1_000_000, due % 1_000_000 * 1000)
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(spec), None)

    def rang(self) -> None:
        """Acknowledge that the alarm has expired."""
        self._at = None
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
