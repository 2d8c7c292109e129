"""`cress explain`: the command that makes a change of the job."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cress.cli import explain
from cress.cli.explain import command_of
from cress.client import JobView
from cress.model.explanation import ClauseEffect, NearNode, Remedy
from cress.protocol.job_views import ExplanationView, TaskCounts

JOB = JobView(
    id=12, name="train", group="ads", user="ann", type="batch", state="waiting", tasks=TaskCounts(total=2, waiting=2),
    priority=0, gang=False, resource={}, time_limit=None, submitted=0, reason="",
)  # fmt: skip
RUNS = TaskCounts(total=2, waiting=1, running=1)


@pytest.mark.parametrize(
    ("kind", "change", "job", "command"),
    [
        ("amount", {"memory": "48G"}, {}, " (cress update 12 resource.memory=48G)"),
        ("clause", {"requirement": 'Rack = "r 1"'}, {}, " (cress update 12 'requirement=Rack = \"r 1\"')"),
        ("group", {"group": "web"}, {}, " (cress update 12 group=web)"),
        ("time_limit", {"time_limit": "10m"}, {"tasks": RUNS}, " (cress update 12 time_limit=10m)"),
        # What no update makes, or not now.
        ("group", {"group": "web"}, {"tasks": RUNS}, ""),
        ("tasks", {"tasks": "3"}, {}, ""),
        ("priority", {"priority": "7"}, {"type": "service"}, ""),
        ("priority", {"priority": "7"}, {"type": "lease"}, ""),
        ("quota", {"group": "ads", "ResourceQuota": "8"}, {}, ""),
        ("end", {}, {}, ""),
    ],
)
def test_a_change_of_the_job_names_its_command(
    kind: str, change: dict[str, str], job: dict[str, Any], command: str
) -> None:
    found = ExplanationView(job=12, reason="", kind="")
    assert command_of(replace(JOB, **job), found, Remedy(kind, "", change)) == command


def test_an_ended_job_has_run_and_does_not_run() -> None:
    found = ExplanationView(job=12, reason="", kind="", starting="its program has not begun: n1 was told to start it")
    ended = dict(explain._facts(replace(JOB, state="succeeded", started=1.0, ended=5.0), found, 9.0))
    assert ended["Ran"].endswith("for 4.0s")
    runs = dict(explain._facts(replace(JOB, state="running", started=1.0), found, 9.0))
    assert (runs["Runs"][-8:], runs["Starting"]) == ("for 8.0s", found.starting)


def test_what_others_wrote_does_not_command_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = 'Zone = "\x1b]0;x\x07"'
    found = ExplanationView(
        job=12, reason=evil, kind="nodes", clauses=(ClauseEffect(evil, 1, 2, 1),),
        nearest=(NearNode("n1", excluded_by=(evil,)),), remedies=(Remedy("clause", evil, {"requirement": evil}),),
    )  # fmt: skip
    monkeypatch.setattr(explain, "_asked", lambda *_: (JOB, found))
    explain.explain("12")
    explain.why("12")
    shown = capsys.readouterr().out
    assert shown.count("Zone") == 8
    assert "\x1b" not in shown
    assert "\x07" not in shown
