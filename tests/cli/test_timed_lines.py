"""Lines of output with their times, and those since a moment."""

from __future__ import annotations

import re
from typing import Any

from cress.cli.chosen_lines import ChosenLines
from cress.cli.timed_lines import STAMP, TimedLines, stamp
from cress.model.log_times import MOST_RECORDS, SIZE, LogTimes, record, thinned
from cress.model.times import SECOND
from cress.protocol.logs import Piece

AT = 1_800_000_000 * SECOND
TIMES = record(AT, 4, 0) + record(AT + SECOND, 8, 0) + record(AT + 5 * SECOND, 12, 30)


class Collected:
    """An output that collects what it gets."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, task: int, stream: str, data: bytes) -> None:
        self.lines.append(data)

    def end(self, task: int, stream: str) -> None:
        self.lines.append(b"")


class Node:
    """A client that has the times of one attempt."""

    def logs(self, job: int, task: int, stream: str, **how: Any) -> list[bytes]:
        assert (job, task, stream, how) == (3, 0, "times", {"attempt": 7})
        return [TIMES[:30], TIMES[30:]]


def told(since: int | None, *, stamped: bool, pattern: str = "") -> list[bytes]:
    """What is shown of three lines that came in two pieces."""
    seen = Collected()
    chosen = ChosenLines(seen, re.compile(pattern.encode()), None, STAMP if stamped else 0) if pattern else seen
    output = TimedLines(Node(), 3, "stdout", chosen, since, stamped=stamped)  # type: ignore[arg-type]
    output.write(0, "stdout", Piece(b"one\ntw", 7, 6))
    output.write(0, "stdout", Piece(b"o\nthr", 7, 11))
    output.write(0, "stdout", Piece(b"e", 7, 12))
    output.end(0, "stdout")
    return seen.lines


def test_a_line_has_the_time_at_which_its_node_saw_it() -> None:
    times = [stamp(AT), stamp(AT + SECOND), stamp(AT + 5 * SECOND)]
    assert {len(time) for time in times} == {STAMP}
    assert told(None, stamped=True) == [times[0] + b"one\n", times[1] + b"two\n", times[2] + b"thre", b""]
    assert told(None, stamped=True, pattern="^t") == [times[1] + b"two\n", times[2] + b"thre", b""]


def test_only_the_lines_since_a_moment() -> None:
    assert told(AT + SECOND, stamped=False) == [b"two\n", b"thre", b""]
    assert told(AT + 6 * SECOND, stamped=False) == [b""]


def test_where_reading_begins() -> None:
    times = LogTimes(TIMES, "stdout", AT + 9 * SECOND)
    assert [times.first_since(AT + second * SECOND) for second in (-1, 0, 1, 3, 6)] == [0, 0, 4, 8, 12]
    assert times.at(12) == AT + 9 * SECOND
    assert LogTimes(TIMES, "stderr", 0).at(3) == AT + 5 * SECOND
    assert LogTimes(b"", "stdout", AT).at(3) == AT


def test_a_long_history_of_times_is_thinned() -> None:
    data = b"".join(record(number, number, 0) for number in range(MOST_RECORDS))
    kept = thinned(data + b"torn")
    assert len(kept) == len(data) // 2
    assert kept[-SIZE:] == data[-SIZE:]
    assert thinned(b"") == b""
