"""Reports of a node, limited to what can be true."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.slices import whole
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.reports import Cause, Checked, Ended, Report, Started, Usage
from cress.model.times import SECOND
from cress.shell.center.credible_reports import AHEAD, MOST_PROCESSORS, PART, credible, examining

UTC = 1_700_000_000 * SECOND
HOUR = 3600 * SECOND
ATTEMPT = LiveAttempt(id=1, job=1, task=0, node="n1", placed=UTC - HOUR)


def ended(started: int, at: int, usage: Usage | None = None, error: str = "") -> Ended:
    return Ended(attempt=1, cause=Cause.EXITED, code=0, started=started, at=at, usage=usage or Usage(5, 6), error=error)


def judged(report: Report) -> Report:
    (found,) = credible((report,), {1: ATTEMPT}, UTC)
    return found


@pytest.mark.parametrize(
    "report",
    [
        Started(attempt=1, at=UTC, pid=7),
        Checked(attempt=1, at=UTC, ready=True, why="no answer"),
        ended(UTC - HOUR, UTC),
        ended(0, UTC),
        ended(UTC - HOUR, UTC + AHEAD),  # a clock that is a little ahead
        ended(UTC - 100 * HOUR, UTC - 99 * HOUR),  # one that is far behind
    ],
)
def test_what_can_be_true_stays_as_it_is(report: Report) -> None:
    assert judged(report) is report


def test_no_end_lies_in_the_future_and_a_wrong_clock_keeps_the_length_of_the_run() -> None:
    late = judged(ended(UTC + 40 * 365 * 24 * HOUR, UTC + 40 * 365 * 24 * HOUR + 60 * SECOND))
    assert isinstance(late, Ended)
    assert (late.at, late.at - late.started) == (UTC + AHEAD, 60 * SECOND)
    assert judged(Started(attempt=1, at=2**53, pid=7)) == Started(attempt=1, at=UTC + AHEAD, pid=7)


def test_no_attempt_ran_for_longer_than_since_it_was_placed() -> None:
    long = judged(ended(1, UTC, Usage(2**53, 2**62)))
    assert isinstance(long, Ended)
    assert long.at == UTC
    assert long.at - long.started == HOUR + AHEAD
    assert long.usage == Usage((HOUR + AHEAD) * MOST_PROCESSORS, 2**50)


def test_a_long_reason_is_cut() -> None:
    report = judged(ended(UTC - HOUR, UTC, error="x" * 60_000))
    assert isinstance(report, Ended)
    assert len(report.error) == 2_001


def test_many_reports_are_examined_with_pauses_and_only_once() -> None:
    reports = tuple(ended(UTC, UTC + AHEAD + number) for number in range(3 * PART))
    assert sum(1 for _ in examining(reports, {1: ATTEMPT}, UTC)) == 3
    found = whole(examining(reports, {1: ATTEMPT}, UTC))
    assert found == credible(reports, {1: ATTEMPT}, UTC)
    assert credible(found, {1: ATTEMPT}, UTC) is found
    # It is stored as any other.
    assert msgspec.msgpack.encode(found) == msgspec.msgpack.encode(tuple(found))
