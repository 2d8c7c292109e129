"""Logs in parts: whatever pieces they come in, readers know the true offset of what they have."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cress.client.wire import Pieces
from cress.protocol.logs import LogFrame, LogFrames, Shown, encode_frame

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
