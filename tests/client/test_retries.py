"""Calls to a center that is away: which are sent again, and for how long."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cress.client.blocking.http import Http
from cress.client.blocking.patient import PatientHttp
from cress.client.calls import PreparedCall, call_of
from cress.client.errors import Broken, ClientError, NotFound, Unavailable
from cress.client.retries import LONGEST_PAUSE, CenterOutage, RetryBudget
from cress.protocol.calls import CALLS
from cress.protocol.calls.row import WEBSOCKET, CallRow

ROWS = [row for row in CALLS if row.method != WEBSOCKET]


class Lost:
    """A connection that breaks off ``times`` times, and answers then."""

    def __init__(self, times: int, error: ClientError | None = None) -> None:
        self.times = times
        self.error = error or Broken("it broke off")
        self.sent = self.looked = 0

    def ask(self, call: PreparedCall[Any]) -> str:
        self.sent += 1
        if self.sent <= self.times:
            raise self.error
        return "the answer"

    def look(self) -> bool:
        self.looked += 1
        return False


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited, which pass at once."""
    waited: list[float] = []
    monkeypatch.setattr("cress.client.blocking.patient.sleep", waited.append)
    monkeypatch.setattr("cress.client.retries.time.monotonic", lambda: sum(waited))
    return waited


def asked(row: CallRow[Any], lost: Lost, budget: RetryBudget) -> object:
    return PatientHttp(cast(Http, lost), budget).ask(call_of(row, *"x" * row.path.count("{")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_a_call_that_may_have_arrived_is_sent_again_only_if_the_table_allows_it(row: CallRow[Any]) -> None:
    lost = Lost(2)
    if row.again:
        assert asked(row, lost, RetryBudget(60, met=True)) == "the answer"
        assert (lost.sent, lost.looked) == (3, 2)
    else:
        with pytest.raises(Broken):
            asked(row, lost, RetryBudget(60, met=True))
        assert (lost.sent, lost.looked) == (1, 0)


def test_what_a_center_has_refused_for_now_was_not_done_and_is_sent_again() -> None:
    once = next(row for row in ROWS if not row.again)
    busy = Unavailable("it starts")
    busy.passing = True
    lost = Lost(2, busy)
    assert asked(once, lost, RetryBudget(60, met=True)) == "the answer"
    assert lost.sent == 3


def test_a_center_that_never_answered_is_not_waited_for() -> None:
    lost = Lost(1)
    with pytest.raises(Broken):
        asked(ROWS[1], lost, RetryBudget(60))
    assert lost.sent == 1


def test_a_center_that_has_answered_once_is_waited_for() -> None:
    center = PatientHttp(cast(Http, Lost(0)), RetryBudget(60))
    call = call_of(ROWS[1], *"x" * ROWS[1].path.count("{"))
    assert center.ask(call) == "the answer"
    center.http = cast(Http, Lost(1))
    assert center.ask(call) == "the answer"


def test_patience_ends(pauses: list[float]) -> None:
    with pytest.raises(Broken):
        asked(ROWS[1], Lost(1000), RetryBudget(10, met=True))
    assert 10 <= sum(pauses) < 10 + LONGEST_PAUSE
    assert pauses == sorted(pauses)


def test_an_answer_that_stays_the_same_is_final() -> None:
    assert CenterOutage(RetryBudget(60, met=True), again=True).pause(NotFound("there is no job 7")) is None


def test_a_smaller_budget_remembers_the_center() -> None:
    budget = RetryBudget(60, met=True).at_most(5)
    assert (budget.seconds, budget.met) == (5, True)
    assert RetryBudget(1).at_most(5).seconds == 1
