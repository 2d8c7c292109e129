"""Followed logs on the way to their readers: signs of life, and an end that is not taken for the end of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from cress.center.connections.connection_table import Away
from cress.center.executors import logs
from cress.center.executors.logs import LogReader, Unfinished, answered
from cress.client.wire import Pieces
from cress.protocol.logs import LogFrame, encode_frame


class Reader:
    """Gives these parts; a number is a pause, an error is raised."""

    def __init__(self, *given: LogFrame | float | Exception) -> None:
        self._given = given

    async def check(self) -> None:
        pass

    def sign(self) -> LogFrame:
        return LogFrame(7, 3)

    async def read(self, *, follow: bool) -> AsyncIterator[LogFrame]:
        for each in self._given:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, LogFrame):
                yield each
            else:
                await asyncio.sleep(each)


def answer_of(*given: LogFrame | float | Exception, framed: bool = True) -> tuple[bytes, list[str]]:
    aborted: list[str] = []

    async def whole() -> bytes:
        reader = cast(LogReader, Reader(*given))
        parts = await answered(reader, follow=True, framed=framed, abort=lambda: aborted.append("aborted"))
        return b"".join([data async for data in parts])

    return asyncio.run(whole()), aborted


def test_a_silent_log_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SIGN", 0.1)
    one, two = LogFrame(7, 0, b"one"), LogFrame(7, 3, b"two")
    data, aborted = answer_of(one, 0.25, two)
    assert data == encode_frame(one) + 2 * encode_frame(LogFrame(7, 3)) + encode_frame(two)
    assert aborted == []
    # Readers get them as empty pieces, and could go on behind each.
    pieces = list(Pieces().feed(data))
    assert pieces == [b"one", b"", b"", b"two"]
    assert [(piece.attempt, piece.end) for piece in pieces] == [(7, 3)] * 3 + [(7, 6)]


def test_readers_without_frames_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SIGN", 0.05)
    assert answer_of(LogFrame(7, 0, b"one"), 0.12, LogFrame(7, 3, b"two"), framed=False) == (b"onetwo", [])


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("error", [Unfinished(), Away("n1")])
def test_what_is_not_all_breaks_off(error: Exception, framed: bool) -> None:
    data, aborted = answer_of(LogFrame(7, 0, b"one"), error, framed=framed)
    assert (data[-3:], aborted) == (b"one", ["aborted"])
