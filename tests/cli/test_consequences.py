"""The consequences of a change as people read them: golden texts, one for each part of the answer."""

from __future__ import annotations

import pytest

from cress.cli import consequences
from cress.protocol.trial_views import (
    ConsequencesView,
    CourseView,
    GroupCourseView,
    PlannedView,
    ShiftView,
    StoppedView,
)

NOW = 1_000_000.0
WAS = GroupCourseView(waiting=2, started=2, mean_wait=60, longest_wait=90, share=0.5, missed=0, stopped=0)
WILL = GroupCourseView(waiting=2, started=1, mean_wait=30, longest_wait=30, share=0.25, missed=1, stopped=1)


def course(total: GroupCourseView, *, finished: bool = True, unending: int = 0) -> CourseView:
    return CourseView(
        length=3600, finished=finished, unending=unending, use={"cpu": total.share}, total=total, groups={"web": total}
    )


def found(**more: object) -> ConsequencesView:
    fields: dict[str, object] = {
        "before": course(WAS), "after": course(WILL), "later": 0, "earlier": 0, "shifts": (), "stopped": (), "jobs": (),
    }  # fmt: skip
    return ConsequencesView(**fields | more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.cli.consequences.time.time", lambda: NOW)
    monkeypatch.setattr(consequences, "moment", lambda _: "MOMENT")


def told(capsys: pytest.CaptureFixture[str], view: ConsequencesView) -> list[str]:
    consequences.tell(view)
    return capsys.readouterr().out.splitlines()


def test_nothing_would_happen(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, found())[:2] == [
        "no running task would be stopped",
        "no waiting job would start at another time",
    ]


def test_the_cluster_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, found())[2:] == [
        "",
        "                             BEFORE   AFTER",
        "the queue of now is done in   1h00m   1h00m",
        "waiting jobs that start      2 of 2  1 of 2",
        "mean wait                     1m00s     30s",
        "longest wait                  1m30s     30s",
        "use of cpu                    50.0%   25.0%",
        "deadlines missed                  0       1",
        "tasks stopped                     0       1",
        "",
        "GROUP  WAITING    MEAN WAIT      LONGEST          SHARE   LATE  STOPPED",
        "web          2  1m00s → 30s  1m30s → 30s  50.0% → 25.0%  0 → 1    0 → 1",
    ]


@pytest.mark.parametrize(
    ("start", "nodes", "late", "reason", "line"),
    [
        (NOW, {"n1": 1}, False, "", "job 7 (etl) would start now on n1; it would end MOMENT"),
        (
            NOW + 600, {"n1": 2, "n2": 3}, True, "",
            "job 7 (etl) would start MOMENT, in 10m00s on n2 (3 tasks), n1 (2 tasks); it would end MOMENT, late",
        ),
        (None, {}, False, "", "job 7 (etl) would wait: no start is known"),
        (
            None, {}, False, "waiting for job 2 (db)",
            "job 7 (etl) would wait: no start is known; waiting for job 2 (db)",
        ),
    ],
)  # fmt: skip
def test_a_planned_job(
    capsys: pytest.CaptureFixture[str], start: float | None, nodes: dict[str, int], late: bool, reason: str, line: str
) -> None:
    end = None if start is None else start + 60
    job = PlannedView(
        id=7, name="etl", group="web", start=start, end=end, nodes=nodes, deadline=None, late=late, reason=reason
    )
    assert told(capsys, found(jobs=(job,)))[0] == line


def test_stopped_tasks_and_shifts(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = StoppedView(
        job=3, task=0, name="a", group="web", node="n1", at=NOW, why="preempted", by=7, done=90
    )  # fmt: skip
    hidden = StoppedView(
        job=None, task=None, name="", group="lab", node="n2", at=NOW + 60, why="lost", by=None, done=30
    )  # fmt: skip
    shifts = (
        ShiftView(job=4, name="b", group="web", before=NOW + 60, after=NOW + 3660),
        ShiftView(job=5, name="", group="web", before=None, after=NOW),
    )
    lines = told(capsys, found(stopped=(stopped, hidden), shifts=shifts, later=1, earlier=2))
    assert lines[:9] == [
        "2 running tasks would be stopped and begin again, 2m00s of runs lost:",
        "TASK  NAME  GROUP  NODE  WHEN      WHY                  REPEATS",
        " 3.0  a     web    n1    now       preempted for job 7    1m30s",
        "   -  -     lab    n2    in 1m00s  lost                     30s",
        "1 waiting job would start later, 2 waiting jobs would start earlier:",
        "JOB  NAME  GROUP  BEFORE     AFTER     CHANGE",
        "  4  b     web    in 1m00s   in 1h01m  +1h00m",
        "  5  -     web    not known  now            -",
        "and 1 more",
    ]


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, found(before=course(WAS, finished=False), after=course(WILL, unending=1)))
    assert "the queue of now is done in  more than 1h00m   1h00m" in lines
    assert lines[-3].startswith("Not finished: there was no time to follow the whole queue")
    assert lines[-1] == "1 waiting job has no known start or end."
