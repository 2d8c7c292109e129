"""The watchdog: measures the time for which the event loop is blocked, and names the cause."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

import msgspec

# Seconds between two ticks of the loop, and between two samples of what a late loop executes. A delay that begins
# between two ticks counts from the next one. More ticks would measure it better, but they keep an idle machine awake.
TICK = 0.05
LOOK = 0.01
# Seconds from which on a delay is kept with its cause, and logged.
NOTED, TOLD = 0.05, 0.25
# Most samples of one delay.
MOST_SAMPLES = 100
# Seconds between two warnings; delays in between are counted.
QUIET = 10.0
# Minutes for which the worst delay is kept.
KEPT = 60

_PACKAGE = "cress."
# Modules on every stack, which do not identify the work: the layers through which every request passes.
_ROUND_ALL = (
    __name__, "cress.center.run", "cress.center.access.guard", "cress.center.access.audited",
    "cress.center.access.open_answers", "cress.center.api.leader_routing", "cress.center.api.context",
    "cress.center.api.errors", "cress.center.api.routes", "cress.center.web.sign_ins", "cress.center.web.gradual",
    "cress.center.process.turns",
)  # fmt: skip
# Modules that call one step of the loop after the other: what is outside of them started the program.
_LOOPS = ("asyncio.base_events", "asyncio.events", "asyncio.runners", "uvloop")
# Modules in which a thread waits, and those of a loop that has nothing of this package to do.
_WAITING = ("threading", "queue", "selectors", "concurrent.futures.thread")
_LOOP = ("asyncio.", "uvloop")
# Threads that a description names.
MOST_THREADS = 3
_log = logging.getLogger("cress.center")


class Delay(msgspec.Struct, frozen=True):
    """A time in which the event loop was blocked: its end (monotonic clock, s), its length in seconds, its cause."""

    at: float
    length: float
    what: str


class Watchdog:
    """Watches the event loop of the thread that starts it. ``clock`` returns seconds, and never goes back.

    A task of the loop notes the time at short intervals. If it comes late, all other tasks were late too. Meanwhile a
    thread samples what the loop's thread executes; the place that most samples show is the cause.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = 0.0  # time of the loop's next tick; 0 while the loop is not watched
        self._thread = 0
        self._seen: Counter[str] = Counter()
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
            what = self._seen.most_common(1)[0][0] if self._seen else "something short"
            if self._collected > length / 2:
                what = "garbage collection"
            self.note(Delay(now, length, what))
        self._seen = Counter()
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
        while not self._stop.wait(max(LOOK, self._due + NOTED - self._clock())):
            seen = self._seen
            if self._clock() < self._due + NOTED or seen.total() >= MOST_SAMPLES:
                continue
            frames = sys._current_frames()  # noqa: SLF001 – documented in spite of its name
            frame = frames.pop(self._thread, None)
            frames.pop(threading.get_ident(), None)
            if frame is not None:
                seen[described(frame, frames)] += 1

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        """Add up the time spent by the garbage collector."""
        if phase == "start":
            self._collecting = self._clock()
        else:
            self._collected += self._clock() - self._collecting


def _length(delay: Delay) -> float:
    return delay.length


def described(frame: FrameType, others: Mapping[int, FrameType] | None = None) -> str:
    """Return a description of a thread's work: the last and the first function of this package on its stack.

    If it executes nothing of this package, it waits for the interpreter that another thread uses: ``others`` are the
    stacks of the other threads, by their ids.
    """
    place = _place(frame)
    if place:
        return place
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    busy = ((names.get(ident, "?"), _place(other)) for ident, other in (others or {}).items() if not _waits(other))
    beside = sorted(f"thread {name} in {place}" for name, place in busy if place)
    if beside:
        return f"the event loop, beside {'; '.join(beside[:MOST_THREADS])}"
    if frame.f_globals.get("__name__", "").startswith(_LOOP):
        return "the event loop itself, or other programs on this machine"
    return f"{frame.f_globals.get('__name__', 'something')}.{frame.f_code.co_name} (line {frame.f_lineno})"


def _place(frame: FrameType) -> str:
    """Return the last and the first function of this package on a stack; empty if there is none."""
    ours = [caller for caller in _stack(frame) if caller.f_globals.get("__name__", "").startswith(_PACKAGE)]
    ours = [caller for caller in ours if caller.f_globals["__name__"] not in _ROUND_ALL]
    if not ours:
        return ""
    last, first = ours[0], ours[-1]
    inner = f"{_name(last)} (line {last.f_lineno})"
    return inner if last is first else f"{inner}, called by {_name(first)}"


def _waits(frame: FrameType) -> bool:
    """Return whether a thread waits for work or for a lock."""
    return frame.f_globals.get("__name__", "") in _WAITING


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a step of the loop, or of a whole stack without one, the innermost first."""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith(_LOOPS):
        yield frame
        frame = frame.f_back


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals['__name__'].removeprefix(_PACKAGE)}.{frame.f_code.co_qualname}"
