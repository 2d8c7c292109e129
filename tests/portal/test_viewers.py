"""Answers that are kept for open pages: one question for all, slow ones for longer, old ones asked again later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cress.portal import viewers
from cress.portal.viewers import LARGE, Viewer


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("cress.portal.viewers.time.monotonic", lambda: self.now)


def slow(clock: Clock, seconds: float, made: list[int]) -> Callable[[], Awaitable[int]]:
    """An answer that takes so long; each one is another number."""

    async def make() -> int:
        await asyncio.sleep(0)
        clock.now += seconds
        made.append(len(made))
        return made[-1]

    return make


async def turns() -> None:
    """Let others run for a few turns; the clock of the loop is that of the test, so nothing may sleep."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_an_answer_that_took_long_is_kept_for_longer_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    client: Any = None

    async def story() -> None:
        viewer, quick, long, large = Viewer(client), list[int](), list[int](), list[int]()

        async def ask() -> tuple[int, int, int]:
            return (
                await viewer.keep(("quick", ""), slow(clock, 0.0, quick), 5.0),
                await viewer.keep(("long", ""), slow(clock, 0.2, long), 1.0),
                await viewer.keep((LARGE, ""), slow(clock, 0.0, large), 5.0),
            )

        assert await ask() == (0, 0, 0)
        # Something happens: quick answers are old at once, slow ones after sixty times what they took.
        viewer.outdate()
        assert await ask() == (1, 0, 0)
        # The pages that showed the slow one are told to read it again then.
        assert viewer.stale_until == pytest.approx(clock.now + 12.0, abs=0.3)
        clock.now = viewer.stale_until + 0.1
        # The slow one is shown once more, while the next one is made.
        assert (await ask())[1:] == (0, 1)
        await turns()
        assert (await ask())[1:] == (1, 1)
        # The user changes something: nothing is kept.
        viewer.forget()
        assert await ask() == (3, 2, 2)

    asyncio.run(story())


def test_an_old_answer_that_takes_long_is_shown_until_its_successor_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    client: Any = None

    async def story() -> None:
        viewer, made, told = Viewer(client), list[int](), list[None]()
        monkeypatch.setattr(viewer, "_tell", told.append)

        async def ask(seconds: float = 2.0) -> int:
            return await viewer.keep((LARGE, "nodes"), slow(clock, seconds, made), 5.0)

        assert await ask() == 0
        clock.now += viewers.LONGEST + 1
        # Several pages get the old one at once; one successor is made, and open pages are told of it.
        assert (await ask(), await ask(), made, told) == (0, 0, [0], [])
        await turns()
        assert (await ask(), made, told) == (1, [0, 1], [None])
        # Nobody gets one that is too old, or one from before a change of the user's own.
        clock.now += viewers.OLDEST + 1
        assert await ask() == 2
        clock.now += viewers.LONGEST + 1
        assert await ask() == 2
        viewer.forget()
        assert await ask() == 4
        await turns()
        assert await ask() == 4

    asyncio.run(story())


@pytest.mark.parametrize("end", ["there", "failed", "forgotten"])
def test_a_page_with_an_old_answer_that_opens_after_its_successor_is_read_again(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    clock = Clock(monkeypatch)
    client: Any = None

    async def fail() -> int:
        await asyncio.sleep(0)
        clock.now += 0.2
        raise ValueError("no answer")

    async def story() -> None:
        viewer, made = Viewer(client), list[int]()
        viewer._last = 5
        assert await viewer.keep(("job", "7"), slow(clock, 0.2, made), 1.0) == 0
        clock.now += viewers.LONGEST
        # The job ends. The event has been told to another page; then the page of the job is asked for.
        viewer.outdate()
        moment = viewer.moment()
        make = fail if end == "failed" else slow(clock, 0.2, made)
        assert await viewer.keep(("job", "7"), make, 1.0) == 0
        if end == "forgotten":
            viewer.forget()
        await turns()
        # It opens its stream of events: none is missing, but what it shows is old.
        at = viewer.made_at(moment)
        assert at is not None
        assert at < viewer.stale_until <= clock.now

    asyncio.run(story())


def test_a_page_that_misses_no_event_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    client: Any = None
    viewer = Viewer(client)
    assert viewer.moment() == ""
    viewer._last = 12
    made = viewer.moment()
    assert viewer.made_at(made) == clock.now
    # An event was told before the feed of the page was there, or the page is of another portal.
    viewer._last = 13
    assert viewer.made_at(made) is None
    assert [viewer.made_at(text) for text in ("", "13", "13:", "13:x", ":")] == [None] * 5


def test_many_pages_ask_once_and_a_failure_is_not_kept() -> None:
    client: Any = None

    async def story() -> None:
        viewer, asked = Viewer(client), list[int]()

        async def fail() -> int:
            asked.append(1)
            await asyncio.sleep(0.01)
            raise ValueError("no answer")

        found = await asyncio.gather(*(viewer.keep(("a", ""), fail, 9.0) for _ in range(20)), return_exceptions=True)
        assert (len(asked), {type(one) for one in found}) == (1, {ValueError})
        with pytest.raises(ValueError, match="no answer"):
            await viewer.keep(("a", ""), fail, 9.0)
        assert len(asked) == 2

    asyncio.run(story())


def test_a_page_goes_on_without_an_answer_that_is_not_there_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "MOMENT", 0.01)
    client: Any = None

    async def story() -> None:
        viewer, may = Viewer(client), asyncio.Event()

        async def make() -> str:
            await may.wait()
            return "whole"

        async def at_once() -> str:
            await asyncio.sleep(0)
            return "whole"

        assert await viewer.soon(("a", ""), make, 9.0, "kind") is None
        may.set()
        assert await viewer.keep(("a", ""), make, 9.0) == "whole"
        assert await viewer.soon(("a", ""), make, 9.0, "kind") == "whole"
        # After a slow answer, the page of another one goes on without waiting for the moment; a kept one is shown.
        monkeypatch.setattr(viewers, "SLOW", 0.0)
        monkeypatch.setattr(viewers, "MOMENT", 3600.0)
        may.clear()
        assert await viewer.soon(("b", ""), make, 9.0, "kind") is None
        may.set()
        assert await viewer.keep(("b", ""), make, 9.0) == "whole"
        assert await viewer.soon(("b", ""), make, 9.0, "kind") == "whole"
        # Another kind is waited for.
        assert await viewer.soon(("c", ""), at_once, 9.0, "another") == "whole"

    asyncio.run(story())
