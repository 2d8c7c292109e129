"""The watchdog: measures the time for which the event loop is blocked, and names the cause."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType

import msgspec

# Seconds between two ticks of the loop, and between two checks of the watching thread.
TICK = 0.02
LOOK = 0.05
# Seconds from which on a delay is kept with its cause, and logged.
NOTED, TOLD = 0.05, 0.25
# Seconds between two warnings; delays in between are counted.
QUIET = 10.0
# Minutes for which the worst delay is kept.
KEPT = 60

_PACKAGE = "cress."
# Modules on every stack, which do not identify the work.
_ROUND_ALL = (__name__, "cress.center.run", "cress.center.access.guard", "cress.cli.main", "cress.cli.center")
_log = logging.getLogger("cress.center")


class Delay(msgspec.Struct, frozen=True):
    """A time in which the event loop was blocked: its end (monotonic clock, s), its length in seconds, its cause."""

    at: float
    length: float
    what: str


class Watchdog:
    """Watches the event loop of the thread that starts it. ``clock`` returns seconds, and never goes back.

    A task of the loop notes the time at short intervals. If it comes late, all other tasks were late too. Meanwhile a
    thread samples what the loop's thread executes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0  # time of the loop's next tick; 0 while the loop is not watched
        self._thread = 0
        self._seen = ""
        self._collecting = 0.0
        self._collected = 0.0
        self._stop = threading.Event()
        self._minutes: deque[tuple[int, Delay]] = deque(maxlen=KEPT)
        self._told = -QUIET
        self._untold = 0

    async def run(self) -> None:
        """Watch the running loop until cancelled."""
        self._thread = threading.get_ident()
        thread = threading.Thread(target=self._look_on, name="watchdog", daemon=True)
        gc.callbacks.append(self._collection)
        thread.start()
        try:
            while True:
                self._due = self._clock() + TICK
                await asyncio.sleep(TICK)
                self.looked()
        finally:
            gc.callbacks.remove(self._collection)
            self._stop.set()
            thread.join()

    def looked(self) -> None:
        """Note that the loop runs again, and its delay."""
        now = self._clock()
        length = now - self._due
        if length >= NOTED:
            what = self._seen or "something short"
            if self._collected > length / 2:
                what = "garbage collection"
            self.note(Delay(now, length, what))
        self._seen = ""
        self._collected = 0.0

    def note(self, delay: Delay) -> None:
        """Keep the worst delay of each minute, and warn about a long one."""
        minute = int(delay.at // 60)
        if self._minutes and self._minutes[-1][0] == minute:
            if delay.length > self._minutes[-1][1].length:
                self._minutes[-1] = minute, delay
        else:
            self._minutes.append((minute, delay))
        if delay.length < TOLD:
            return
        if delay.at - self._told < QUIET:
            self._untold += 1
            return
        more = f" ({self._untold} more such delays since the last message)" if self._untold else ""
        _log.warning("everything waited %.2f s for %s%s", delay.length, delay.what, more)
        self._told, self._untold = delay.at, 0

    def worst(self) -> Delay | None:
        """Return the longest noted delay of the last hour; None if there is none."""
        oldest = int(self._clock() // 60) - KEPT
        return max((delay for minute, delay in self._minutes if minute > oldest), key=_length, default=None)

    def _look_on(self) -> None:
        """Sample the loop's thread whenever the loop is late. Runs in the watching thread."""
        while not self._stop.wait(LOOK):
            if self._seen or self._clock() < self._due + NOTED:
                continue
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001 – documented in spite of its name
            if frame is not None:
                self._seen = described(frame)

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        """Add up the time spent by the garbage collector."""
        if phase == "start":
            self._collecting = self._clock()
        else:
            self._collected += self._clock() - self._collecting


def _length(delay: Delay) -> float:
    return delay.length


def described(frame: FrameType) -> str:
    """Return a description of a thread's work: the first and the last function of this package on its stack."""
    ours = [caller for caller in _stack(frame) if caller.f_globals.get("__name__", "").startswith(_PACKAGE)]
    ours = [caller for caller in ours if caller.f_globals["__name__"] not in _ROUND_ALL]
    if not ours:
        return f"{frame.f_globals.get('__name__', 'something')}.{frame.f_code.co_name}"
    last, first = ours[0], ours[-1]
    inner = f"{_name(last)} (line {last.f_lineno})"
    return inner if last is first else f"{_name(first)}, in {inner}"


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals['__name__'].removeprefix(_PACKAGE)}.{frame.f_code.co_qualname}"
