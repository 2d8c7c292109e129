"""The watchdog: the longest delay of the last hour, what caused it, and a warning that does not fill the log."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from cress.center.process import watchdog as watchdog_module
from cress.center.process.watchdog import QUIET, TOLD, Delay, Watchdog, described
from cress.model.units import one_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_delay_of_the_last_hour_is_kept() -> None:
    clock = Clock()
    watchdog = Watchdog(clock)
    assert watchdog.worst() is None
    for at, length in ((1000.0, 0.1), (1001.0, 0.2), (1002.0, 0.06), (2000.0, 0.15)):
        watchdog.note(Delay(at, length, f"what ran at {at:g}"))
    clock.now = 2000.0
    assert watchdog.worst() == Delay(1001.0, 0.2, "what ran at 1001")
    clock.now = 1000.0 + 61 * 60
    assert watchdog.worst() == Delay(2000.0, 0.15, "what ran at 2000")
    clock.now = 2000.0 + 61 * 60
    assert watchdog.worst() is None


def test_a_long_delay_is_told_with_what_ran_and_many_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(Clock())
    watchdog.note(Delay(1000.0, TOLD / 2, "short work"))
    watchdog.note(Delay(1001.0, 1.5, "center.api.groups.apply"))
    watchdog.note(Delay(1002.0, 1.0, "other work"))
    watchdog.note(Delay(1003.0, 1.0, "other work"))
    watchdog.note(Delay(1001.0 + QUIET, 2.0, "the last work"))
    assert caplog.messages == [
        "everything waited 1.50 s for center.api.groups.apply",
        "everything waited 2.00 s for the last work (2 more such delays since the last message)",
    ]


def test_what_runs_is_named_by_its_first_and_last_function() -> None:
    frames = []

    class Words(list[str]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            frames.append(sys._getframe())
            return super().__iter__()

    one_of("x", Words(["a"]))
    assert described(frames[0]).startswith("model.units.one_of (line ")


class Noting(Watchdog):
    """A watchdog that keeps every delay: a busy machine has others, and some may be longer than that of a test."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Delay] = []

    def note(self, delay: Delay) -> None:
        self.noted.append(delay)
        super().note(delay)


def noted(*works: Callable[[], None]) -> Delay:
    """The delay that is noted when these hold up a watched loop, one after the other."""

    async def story() -> Delay:
        watchdog = Noting()
        task = asyncio.create_task(watchdog.run())
        await asyncio.sleep(0.1)
        watchdog.noted.clear()
        for work in works:
            work()
        while not watchdog.noted:  # noqa: ASYNC110 – it looks again by its own clock
            await asyncio.sleep(0.01)
        assert watchdog.worst() is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return watchdog.noted[0]

    return asyncio.run(story())


def test_work_that_holds_up_the_loop_is_noticed() -> None:
    def hold_up() -> None:
        time.sleep(0.3)

    delay = noted(hold_up)
    assert delay.length >= 0.2
    assert "hold_up" in delay.what


def test_the_place_of_most_samples_is_named_and_not_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from outside: a delay was put down to the bottom of the stack, ``asyncio.runners.run``."""
    monkeypatch.setattr(watchdog_module, "_PACKAGE", __name__)

    def short() -> None:
        time.sleep(0.15)

    def long() -> None:
        time.sleep(0.5)

    what = noted(short, long).what
    assert "long (line" in what
    assert "asyncio" not in what


def frame_of(*modules: str) -> FrameType:
    """The innermost of frames of a function ``work`` in each of these modules, the outermost first."""
    text = "import sys\ndef work(rest):\n    return rest[0](rest[1:]) if rest else sys._getframe()"
    works = []
    for module in modules:
        space: dict[str, Any] = {"__name__": module}
        exec(text, space)
        works.append(space["work"])
    frame = works[0](works[1:])
    assert isinstance(frame, FrameType)
    return frame


def test_the_caller_is_what_the_loop_began_and_not_what_started_the_program() -> None:
    """Found by hostile requests: each delay was called by ``cli.configured``, which starts the center."""
    step = "cress.center.web.sign_ins", "cress.center.access.guard", "cress.center.api.jobs", "cress.language.program"
    for loop in ("asyncio.runners", "asyncio.events"):
        told = described(frame_of("cress.cli.configured", "cress.center.run", loop, *step))
        assert told == "language.program.work (line 3), called by center.api.jobs.work"


def test_a_loop_that_waits_for_another_thread_names_that_thread() -> None:
    loop = frame_of("asyncio.runners")
    busy = threading.Thread(target=time.sleep, args=(0.5,), name="check")
    busy.start()
    assert busy.ident is not None
    others = {busy.ident: frame_of("cress.center.requests.validation"), 1: frame_of("threading")}
    beside = "the event loop, beside thread check in center.requests.validation.work (line 3)"
    assert described(loop, others).startswith(beside)
    busy.join()
    assert described(loop, {1: frame_of("threading")}) == "the event loop itself, or other programs on this machine"
