"""``cress rebalance``: what a plan and a round say, and options that contradict each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cress.cli import rebalance
from cress.cli.tables import plain
from cress.client import DeviceName, FreeView, MoveView, PlanView, RoundView, StaysView

WEB = MoveView(attempt=7, job=5, task=2, name="web", group="lab", node="n1", to="n2", goal="spread")
FIT = MoveView(attempt=9, job=8, task=0, name="fit", group="lab", node="n3", to="n2", goal="nodes", lost=2.5)
HIDDEN = MoveView(attempt=11, job=None, task=None, name="", group="hr", node="n4", to="n2", goal="place", lost=0.01)
PLAN = PlanView(
    moves=(WEB, FIT),
    before=FreeView(nodes=1, devices=10, all_nodes=20, all_devices=1200),
    after=FreeView(nodes=2, devices=14, all_nodes=20, all_devices=1200),
    movable=312,
    stays=(
        StaysView(reason="of databases, which are bound to their nodes", tasks=3),
        StaysView(reason="of batch jobs without movable: true", tasks=1400),
    ),
    nodes=("n3",),
    devices=(DeviceName(node="n1", kind="gpu", id="0"),),
    spread=(5,),
    lost=2.5,
)


def test_a_plan_says_what_it_frees_and_costs() -> None:
    assert rebalance.summary(PLAN) == [
        "2 moves, which lose 2.5 core h of work; 312 running tasks may move",
        "on more nodes: 1 service (5)",
        "free nodes: 1 → 2 of 20 (n3)",
        "free devices: 10 → 14 of 1,200 (n1 gpu:0)",
        "not moved: 3 of databases, which are bound to their nodes, 1,400 of batch jobs without movable: true",
    ]
    assert plain(rebalance.COLUMNS, [rebalance.row(each) for each in (WEB, FIT, HIDDEN)]) == [
        "TASK  NAME  FROM  TO        LOST  FOR",
        "5.2   web   n1    n2           -  spread",
        "8.0   fit   n3    n2  2.5 core h  nodes",
        "-     -     n4    n2   36 core s  place",
    ]


def test_a_plan_that_loses_nothing_says_so() -> None:
    only = msgspec.structs.replace(PLAN, moves=(WEB,), lost=0.0)
    assert rebalance.summary(only)[0] == "1 move, which loses no work; 312 running tasks may move"


def test_a_round_says_what_was_done_and_what_not(capsys: pytest.CaptureFixture[str]) -> None:
    rebalance._tell_round(
        RoundView(
            number=3,
            state="stopped",
            by="ann",
            done=(WEB,),
            under_way=(FIT,),
            left=(HIDDEN,),
            problem="node n2 is full",
        ),
        as_json=False,
    )
    assert capsys.readouterr().out.splitlines() == [
        "round 3 by ann: 1 of 3 tasks moved",
        "stopped: node n2 is full",
        "on its way: 8.0 from n3 to n2",
        "not moved: - from n4 to n2",
    ]
    rebalance._tell_round(RoundView(), as_json=False)
    assert capsys.readouterr().out == "nothing was moved yet\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--plan", "--apply"), "--plan and --apply contradict each other"),
        (("--stop", "--for", "5"), "applies only to a plan"),
        (("--status", "--goal", "nodes"), "applies only to a plan"),
        (("--for", "5", "--goal", "nodes"), "cannot be combined with --for"),
        (("--max-moves", "0"), "--max-moves"),
        (("--max-lost", "-1"), "--max-lost"),
        (("--force",), "there is no option --force"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_a_center_is_asked(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "cress", "rebalance", *words, "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
