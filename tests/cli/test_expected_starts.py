"""Expected starts on the command line: after a submit, and as a fact of a job."""

from __future__ import annotations

import pytest

from cress.cli import explain, submit
from cress.protocol.job_views import ExpectedStartView, Submitted

NOW = 1_700_000_000.0
SOON = ExpectedStartView(earliest=NOW + 60, likely=NOW + 120, latest=NOW + 300, because=7, behind=2, ahead="ads")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.cli.submit.time.time", lambda: NOW)
    monkeypatch.setattr("cress.cli.explain.moment", lambda _: "MOMENT")


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (None, ""),
        (ExpectedStartView(earliest=NOW, likely=NOW, latest=NOW), ""),
        (
            SOON,
            "; expected to start MOMENT, in 2m00s (in 1m00s to 5m00s), behind 2 jobs, most of ads, when job 7 ends",
        ),
        (
            ExpectedStartView(earliest=NOW + 60, likely=NOW + 120),
            "; expected to start MOMENT, in 2m00s or later",
        ),
    ],
    ids=["not known", "at once", "behind others", "without an end"],
)
def test_a_submit_tells_when_a_job_that_waits_will_start(start: ExpectedStartView | None, told: str) -> None:
    assert submit._remarks(Submitted(id=1, name="job", expected_start=start)) == told


def test_an_unknown_start_says_why_it_is_not_known() -> None:
    assert explain.when(ExpectedStartView(), NOW) == (
        "not known: no known end of a running task makes room for it, or it is too far ahead"
    )
    assert explain.when(ExpectedStartView(), NOW, 0, "held") == "not known: it is held"
    assert explain.when(ExpectedStartView(), NOW, 0, "unsatisfied") == "not known: no node satisfies its constraints"
    assert explain.when(ExpectedStartView(), NOW, 0, "after_tasks").endswith("it first waits for what the reason names")
