"""Deadlines on the command line: the column of the slack, the facts of one job, the forecast after a submit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cress.cli import deadlines, job, jobs
from cress.cli.common import moment
from cress.cli.main import app
from cress.cli.tables import plain
from cress.client import DeadlineView, JobView, TaskCounts
from tests.center.program import Center
from tests.center.test_deadlines import ran
from tests.cli.test_tables import NOW, job_view

HOUR = 3600.0


def due(forecast: str, slack: float, **more: Any) -> DeadlineView:
    return DeadlineView(at=NOW + 2 * HOUR, forecast=forecast, slack=slack, **more)


def view(name: str, state: str = "waiting", **more: Any) -> JobView:
    return job_view(1, name, state, TaskCounts(total=1, waiting=1), **more)


def test_the_column_is_there_when_a_job_has_a_deadline() -> None:
    rows = [view("a", deadline=due("fine", 2 * HOUR + 300)), view("b", deadline=due("cannot_be_met", -600)), view("c")]
    assert plain(*jobs.table(rows, NOW)) == [
        "ID  NAME  GROUP  USER  STATE    DONE  RUNNING    AGE  TIME  DEADLINE  REASON",
        " 1  a     web    ann   waiting   0/1        0  3m20s     -     2h05m",
        " 1  b     web    ann   waiting   0/1        0  3m20s     -   -10m00s",
        " 1  c     web    ann   waiting   0/1        0  3m20s     -         -",
    ]
    assert "DEADLINE" not in plain(*jobs.table(rows[2:], NOW))[0]
    assert "DEADLINE" in plain(*jobs.table(rows[2:], NOW, ("deadline",)))[0]


@pytest.mark.parametrize(
    ("forecast", "slack", "colour"),
    [
        ("fine", 60, "green"),
        ("at_risk", 60, "yellow"),
        ("cannot_be_met", -60, "red"),
        ("unknown", 60, ""),
        ("unknown", -60, "red"),
        ("met", 60, "green"),
        ("missed", -60, "red"),
    ],
)
def test_the_slack_has_the_colour_of_the_forecast(forecast: str, slack: float, colour: str) -> None:
    assert deadlines.slack(due(forecast, slack)) == (f"{'-' * (slack < 0)}1m00s", colour)


TOLD: list[tuple[DeadlineView, str]] = [
    (due("fine", 60), "fine"),
    (due("at_risk", 60, chance=0.4), "at risk: 60% miss it"),
    (due("unknown", 60), "not known yet"),
    (due("cannot_be_met", -60), "cannot be met"),
    (due("cannot_be_met", -60, earliest_end=NOW), f"cannot be met: earliest end {moment(NOW)}"),
]


@pytest.mark.parametrize(("each", "text"), TOLD)
def test_the_forecast_in_words(each: DeadlineView, text: str) -> None:
    assert deadlines.forecast(each) == text


def test_about_a_job_with_a_deadline() -> None:
    facts = dict(job.about(view("a", deadline=due("at_risk", 300, urgency=0.957, chance=0.75)), NOW))
    assert str(facts["Deadline"]).endswith(" (in 2h00m)")
    assert (facts["Slack"], facts["Urgency"]) == (("5m00s", "yellow"), "0.96")
    assert facts["Forecast"] == ("at risk: 25% miss it", "yellow")
    over = dict(job.about(view("a", "succeeded", ended=NOW, deadline=due("met", 300)), NOW))
    assert (over["Met"], over["Urgency"], over["Forecast"]) == ("yes", "", "")
    assert "Deadline" not in dict(job.about(view("a"), NOW))


def test_a_wrong_deadline_is_told_by_its_option(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: true\nDead-Line: 1h\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["submit", str(file), "--deadline", "tomorrow"])
    assert result.exit_code == 2
    assert "cress submit: --deadline: 'tomorrow' is not a deadline (a time from the submission on" in result.output


def test_a_wrong_deadline_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: true\ndeadline: 2026-12-01\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 1
    assert "job.yaml:2: deadline: '2026-12-01' has no time of day (2026-12-01 18:00)" in result.output


def test_a_submit_says_what_is_foreseen(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: true\nname: a\ntime_limit: 1h\ndeadline: 5h\n", encoding="utf-8")
    with Center(tmp_path / "data", forked=True) as center, center.executor() as executor:
        ran(center, executor, 0.15, "a")
        data = ["--data", str(center.data)]
        told = CliRunner().invoke(app, ["submit", str(file), *data])
        assert told.exit_code == 0
        assert "job 2 (a) submitted; deadline 20" in told.output
        assert told.output.endswith(": fine\n")
        refused = CliRunner().invoke(app, ["submit", str(file), "--deadline", "5min", "--strict", *data])
        assert refused.exit_code == 3
        assert "deadline: cannot be met: the job ends at 20" in refused.output
        late = CliRunner().invoke(app, ["submit", str(file), "--deadline", "7min", *data])
        assert (late.exit_code, "cannot be met: earliest end 20" in late.output) == (0, True)
