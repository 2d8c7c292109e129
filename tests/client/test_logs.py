"""Logs in parts: whatever pieces they come in, readers know the true offset of what they have."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.client.aio.handles import AsyncJobHandle
from cress.client.aio.http import AsyncHttp
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.errors import Unavailable
from cress.client.retries import RetryBudget
from cress.client.wire import Pieces
from cress.protocol.logs import LogFrame, LogFrames, Shown, encode_frame
from tests.client.server import Server, serving

PARTS = st.lists(
    st.builds(
        LogFrame,
        st.integers(1, 2**63),
        st.integers(0, 2**63),
        st.binary(max_size=50),
        st.integers(0, 2**40),
        st.integers(0, 2**40),
    ),
    max_size=8,
)


@given(parts=PARTS, cuts=st.lists(st.integers(0, 700), max_size=6))
def test_frames_come_out_as_they_went_in_however_they_are_cut(parts: list[LogFrame], cuts: list[int]) -> None:
    wire = b"".join(map(encode_frame, parts))
    places = sorted({0, len(wire), *(min(cut, len(wire)) for cut in cuts)})
    taker = LogFrames()
    found = [part for begin, end in itertools.pairwise(places) for part in taker.feed(wire[begin:end])]
    assert found == parts


def test_what_is_gone_is_a_line_of_its_own_that_counts_for_no_offset() -> None:
    wire = (
        encode_frame(LogFrame(7, 0, b"one\ntw", gone=1_600_000, kept=500))
        + encode_frame(LogFrame(7, 1_600_006, b"o\n", gone=2048, kept=500))
        + encode_frame(LogFrame(9, 0, b"anew\n"))
    )
    pieces = list(Pieces().feed(wire))
    assert [(bytes(each), each.attempt, each.end) for each in pieces] == [
        (b"[the first 1.53M are gone: the log keeps its last 500 bytes]\n", 7, 1_600_000),
        (b"one\ntw", 7, 1_600_006),
        (b"\n[2K from here on are gone: the log keeps its last 500 bytes]\n", 7, 1_602_054),
        (b"o\n", 7, 1_602_056),
        (b"anew\n", 9, 5),
    ]


@given(parts=PARTS)
def test_who_goes_on_behind_the_last_piece_has_missed_nothing(parts: list[LogFrame]) -> None:
    for part in parts:
        pieces = list(Shown().show(part))
        if part.data or part.gone:
            assert (pieces[-1].attempt, pieces[-1].end) == (part.attempt, part.end)
        assert b"".join(each for each in pieces if each.end == part.end or not part.gone).endswith(part.data)


# --- connections ------------------------------------------------------------------------------------------------------

STARTS = {"error": "it starts"}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def output(server: Server, *, patience: float = 60) -> str:
    """The output of job 7, by a client that knows the center already."""

    async def main() -> str:
        async with AsyncHttp(server.url, "secret") as http:
            center = AsyncPatientHttp(http, RetryBudget(patience, met=True))
            return await asyncio.wait_for(AsyncJobHandle(center, 7, "").output(), 6)

    return asyncio.run(main())


def test_a_log_is_read_on_from_where_the_connection_broke_off(server: Server) -> None:
    server.first = [
        (503, STARTS, False),
        (200, encode_frame(LogFrame(1, 0, b"one\n")), True),
        (200, encode_frame(LogFrame(1, 4, b"two\n")), True),
        (200, encode_frame(LogFrame(1, 8, b"three\n")), False),
    ]
    assert output(server) == "one\ntwo\nthree\n"
    assert ["offset=4" in asked.line for asked in server.asked] == [False, False, True, False]
    assert "offset=8" in server.asked[-1].line


def test_a_center_that_is_away_for_longer_than_the_patience_ends_the_reading_of_a_log(server: Server) -> None:
    server.status, server.body = 503, STARTS
    with pytest.raises(Unavailable):
        output(server, patience=0.2)
    assert 2 <= len(server.asked) <= 4


def test_so_it_does_in_the_middle_of_a_log(server: Server) -> None:
    server.first = [(200, encode_frame(LogFrame(1, 0, b"one\n")), True), (503, STARTS, False)]
    with pytest.raises(Unavailable):
        output(server, patience=0.2)
