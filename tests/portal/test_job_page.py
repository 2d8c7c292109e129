"""A job's page and the time line of nodes: every attempt, the explanation in full, and what a user can do about it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
import yaml
from msgspec.structs import replace
from playwright.sync_api import Browser, expect

from cress.client import calls
from cress.model.explanation import Remedy
from cress.portal.drawings import ROW, TimelineRow, TimeScale, rows_of_tasks, timeline_of
from cress.portal.gantt import MOST_ROWS, GanttWork, gantt_of
from cress.portal.job_texts import job_file_of, program_of, reason_of_step, requests_of
from cress.portal.job_view import actions_of, members_of, values_of
from cress.portal.pages.jobs import states_of_steps, steps_of
from cress.portal.viewers import Viewer
from cress.protocol.access_views import CallerView
from cress.protocol.cluster_views import NodeAttempt
from cress.protocol.job_views import (
    AttemptView,
    DagView,
    ExpectedStartView,
    ExplanationView,
    JobsPage,
    JobView,
    PartView,
    StepView,
    TaskCounts,
    TaskView,
)
from cress.protocol.lease_views import ReservationView
from tests.portal.running import Portal, csrf_of, opened
from tests.system.cluster import Cluster, wait_until


def job(id: int = 7, **more: object) -> JobView:
    return JobView(
        **{
            "id": id,
            "name": "train",
            "group": "lab",
            "user": "ann",
            "type": "batch",
            "state": "waiting",
            "tasks": TaskCounts(total=2, waiting=2),
            "priority": 0,
            "gang": False,
            "resource": {"cpu": "2", "memory": "4G"},
            "time_limit": None,
            "submitted": 0.0,
            "command": ("sh", "-c", "echo $A"),
            **more,
        }  # type: ignore[arg-type]
    )


# --- what a user can do -----------------------------------------------------------------------------------------------

ANN = CallerView(user="ann", role="user")
ADMIN = CallerView(user="root", role="admin")


@pytest.mark.parametrize(
    ("remedy", "caller", "own", "does"),
    [
        (Remedy("release", "if it were released"), ANN, True, "/jobs/7/release"),
        (Remedy("release", "if it were released"), ANN, False, ""),
        (Remedy("amount", "with memory of at most 1G", {"memory": "1G"}), ANN, True, "/submit?from=7&memory=1G"),
        (Remedy("clause", "without a", {"requirement": ""}), ANN, True, "/submit?from=7&requirement="),
        (Remedy("priority", "with priority 6", {"priority": "6"}), ANN, False, ""),
        (Remedy("uncordon", "if node n 2 …", {"node": "n 2"}), ADMIN, False, "/nodes/n%202/uncordon"),
        (Remedy("uncordon", "if node n2 …", {"node": "n2"}), ANN, True, ""),
        (
            Remedy("quota", "if the quota …", {"group": "lab", "ResourceQuota": "6"}),
            ADMIN,
            False,
            "/groups/lab?ResourceQuota=6#edit",
        ),
        (Remedy("end", "when job 3 ends"), ADMIN, True, ""),
    ],
)
def test_a_remedy_is_offered_to_those_who_may(remedy: Remedy, caller: CallerView, own: bool, does: str) -> None:
    (action,) = actions_of(job(), ExplanationView(job=7, reason="…", remedies=(remedy,)), caller, own=own, update=None)
    assert (action.text, action.post or action.href) == (remedy.text, does)


def test_a_center_that_changes_submitted_jobs_is_asked_to() -> None:
    remedies = Remedy("amount", "…", {"memory": "1G"}), Remedy("tasks", "…", {"tasks": "1"})
    found = ExplanationView(job=7, reason="…", remedies=remedies)
    first, second = actions_of(job(), found, ANN, own=True, update=object())
    assert (first.post, first.fields) == ("/jobs/7/update", (("memory", "1G"),))
    assert second.href == "/submit?from=7&tasks=1"
    assert values_of(job(), {"memory": "1G"}) == {"resource": {"cpu": "2", "memory": "1G"}}
    assert values_of(job(), {"priority": "6", "requirement": ""}) == {"priority": 6, "requirement": None}


def test_a_member_is_not_submitted_alone() -> None:
    found = ExplanationView(job=8, reason="…", remedies=(Remedy("amount", "…", {"memory": "1G"}),))
    (action,) = actions_of(job(7, type="service"), found, ADMIN, own=True)
    assert action.href == ""


def test_a_job_is_written_as_a_job_file_with_the_change() -> None:
    written = yaml.safe_load(job_file_of(job(requirement="a = 1", priority=3), {"memory": "1G", "requirement": ""}))
    assert written == {
        "name": "train",
        "command": ["sh", "-c", "echo $A"],
        "group": "lab",
        "tasks": 2,
        "resource": {"cpu": 2, "memory": "1G"},
        "priority": 3,
    }
    # Of a job without a command, the image says what runs.
    written = yaml.safe_load(job_file_of(job(command=(), image="docker.io/library/redis:7"), {}))
    assert written["image"] == "docker.io/library/redis:7"
    assert "command" not in written


def test_a_script_has_a_box_of_its_own_and_a_command_one_line() -> None:
    lines = "echo 1\necho 2\n"
    head = ("/bin/sh", "-c", "export SLURM_JOB_ID=1", "slurm", "mode=batch pieces=2")
    assert program_of(job(command=(*head, lines, "echo 3\n", "argument"))) == (
        "a script of 3 lines",
        lines + "echo 3\n",
    )
    assert program_of(job(command=("bash", "-c", lines, "x"))) == ("bash -c and a script of 2 lines", lines.strip())
    assert program_of(job(command=("bash", "-c", "echo 1\n"))) == ("bash -c 'echo 1\n'", "")
    assert program_of(job(command=("python3", "a b"))) == ("python3 'a b'", "")
    assert program_of(job(command=())) == ("", "")


@pytest.mark.parametrize(
    ("more", "runs", "labels"),
    [
        ({}, [], ["Each task"]),
        # An image says what runs.
        ({"command": ()}, [], ["Each task"]),
        ({"command": (), "type": "service"}, [], ["Each task"]),
        ({"command": (), "type": "cron"}, ["batch"], ["Each task"]),
        ({"command": (), "type": "cron"}, ["dag"], []),
        ({"command": (), "type": "cron"}, [], []),
        ({"type": "cron"}, [], ["Each task"]),
        ({"command": (), "type": "dag"}, ["batch"], []),
        ({"command": (), "parts": (PartView(name="head", tasks=1, resource={"cpu": "2"}),)}, [], ["Each task of head"]),
        ({"resource": {}}, [], []),
    ],
)
def test_what_each_task_asks_for_is_told_unless_steps_ask(
    more: dict[str, object], runs: list[str], labels: list[str]
) -> None:
    assert [label for label, _ in requests_of(replace(job(), **more), [job(8, type=type_) for type_ in runs])] == labels


def test_the_reason_of_a_step_names_other_steps() -> None:
    step = StepView(name="merge", id=9, state="cancelled", reason="dependency failed: job 8 did not succeed")
    assert reason_of_step(step, {8: "split"}) == "dependency failed: step split did not succeed"
    waits = StepView(name="merge", id=9, state="waiting", reason="waiting for job 8 (flow.split), and job 70 (other)")
    assert reason_of_step(waits, {8: "split"}) == "waiting for step split, and job 70 (other)"


def test_failed_steps_of_a_large_dag_are_drawn_and_found() -> None:
    states = [*["succeeded"] * 60, "failed", *["waiting"] * 80, "running"]
    steps = tuple(StepView(name=f"s{number}", id=number, state=state) for number, state in enumerate(states, 1))
    dag = job(900, type="dag", dag=DagView(steps=steps))
    asked = list[int]()

    class Center:
        async def ask(self, call: Any) -> JobsPage:
            asked.append(call.query["limit"])
            started = {"succeeded": 5.0, "failed": 5.0}
            members = [job(step.id, state=step.state, started=started.get(step.state)) for step in reversed(steps)]
            return JobsPage(jobs=tuple(members))

    async def drawn() -> list[int]:
        return [member.id for member in await members_of(Viewer(cast("Any", Center())), dag)]

    assert asyncio.run(drawn()) == [61, 142, *range(60, 22, -1)]
    assert asked == [142]
    assert states_of_steps(dag) == [("", 142), ("failed", 1), ("running", 1), ("succeeded", 60), ("waiting", 80)]
    assert [step.name for step, _ in steps_of(dag, "failed")] == ["s61"]
    # The steps of a small one are seen at once.
    small = job(7, type="dag", dag=DagView(steps=steps[:3]))
    assert states_of_steps(small) == []
    # Whoever looks at some of them finds back to all.
    assert states_of_steps(small, "failed") == [("", 3), ("failed", 0), ("succeeded", 3)]


# --- drawings ---------------------------------------------------------------------------------------------------------


def test_a_time_line_has_all_attempts_the_wait_and_the_expected_end() -> None:
    attempts = (
        AttemptView(id=1, node="n1", outcome="lost", placed=10.0, started=12.0, ended=20.0),
        AttemptView(id=2, node="n2", outcome="running", placed=30.0, started=30.0),
    )
    rows = rows_of_tasks([TaskView(index=0, state="running", attempts=attempts)], submitted=0.0)
    drawn = timeline_of(rows, end=40.0, now=40.0, lasts=30.0)
    assert drawn is not None
    assert [bar.tone for bar in drawn.bars] == ["waits", "wait", "bad", "run", "expected"]
    assert (drawn.begin, drawn.end) == (0.0, 60.0)
    assert drawn.now is not None
    assert timeline_of([], end=1.0, now=1.0) is None
    # A dag has no attempts of its own; one that waits is not drawn. Many rows are low.
    runs = [job(number, type="dag", state="succeeded", started=50.0, ended=60.0) for number in range(30)]
    whole = [TimelineRow(f"run {run.id}", (), whole=run) for run in (*runs, job(31, type="dag"))]
    drawn = timeline_of([*rows, *whole], end=60.0, now=60.0)
    assert drawn is not None
    assert [bar.text for bar in drawn.bars if bar.tone == "good"][-1] == "run 29: succeeded"
    assert drawn.labels[-1] == (30 * drawn.row, "run 29", "")
    assert drawn.height < 30 * ROW


def on(node: str, task: int, placed: float, ended: float | None) -> NodeAttempt:
    return NodeAttempt(
        node=node,
        job=7,
        task=task,
        attempt=task,
        name="train",
        group="lab",
        outcome="succeeded" if ended else "running",
        placed=placed,
        started=placed,
        ended=ended,
        expected=None if ended else placed + 30,
    )


def test_nodes_over_time_use_few_rows_and_show_reservations_and_expected_starts() -> None:
    scale = TimeScale(0.0, 100.0)
    attempts = [on("n1", 0, 0, 10), on("n1", 1, 10, 20), on("n1", 2, 5, 15), on("n1", 3, 40, None)]
    waiting = [
        job(9, expected_start=ExpectedStartView(earliest=60.0, likely=70.0, latest=80.0), time_limit=10.0),
        job(10, expected_start=ExpectedStartView(likely=900.0)),
        job(11),
    ]
    reserved = ReservationView(name="exam", group="b", start=50.0, until=90.0, nodes={"n2": 1})
    work = GanttWork(attempts, waiting, (reserved,))
    drawn = gantt_of(["n1", "n2"], work, scale, now=50.0)
    assert [label.text for label in drawn.labels] == ["n1", "n2", "job 9 waits"]
    # Tasks one after the other share a row; the third ran beside them.
    assert [bar.y for bar in drawn.bars if bar.tone == "good"] == [0, 22, 0]
    assert [bar.tone for bar in drawn.bars].count("expected") == 1
    assert [bar.text for bar in drawn.bars if bar.tone == "reserved"] == ["reservation exam of b on n2"]
    many = GanttWork([on("n1", task, 0, 50) for task in range(40)], (), ())
    assert len(gantt_of(["n1"], many, scale, now=50.0).bars) == MOST_ROWS


# --- the whole --------------------------------------------------------------------------------------------------------


def test_a_remedy_leads_to_a_changed_job_in_place_of_the_waiting_one(owner: httpx.Client, cluster: Cluster) -> None:
    with cluster.client() as center:
        first = center.submit([{"name": "first", "command": "sleep 90", "resource": "<1, 1G>", "time_limit": "5min"}])
        wait_until(lambda: center.job(first.jobs[0].id).state == "running", "the first job")
        waits = center.submit([{"name": "large", "command": "true", "resource": "<2, 1G>"}]).jobs[0].id
        shown = owner.get(f"/jobs/{waits}?whole=1").text
        assert f"/submit?from={waits}&amp;cpu=1" in shown or f"/jobs/{waits}/update" in shown
        form = owner.get(f"/submit?from={waits}&cpu=1").text
        assert "resource: {cpu: 1, memory: 1G}" in form
        assert f"cancel job {waits}" in form
        text = "name: small\ncommand: 'true'\nresource: <1, 1G>\n"
        answer = owner.post("/submit", data={"csrf": csrf_of(owner), "text": text, "key": "k", "replaces": str(waits)})
        made = int(answer.headers["location"].rpartition("/")[2])
        assert center.job(made, wait=30).state == "succeeded"
        assert center.job(waits, wait=30).state == "cancelled"
        # The past attempt is in the picture of the nodes, and the running one.
        assert "<dt>Each task</dt><dd>cpu" in owner.get(f"/jobs/{made}").text
        line = owner.get("/timeline").text
        assert f"small {made}.0 on n1, succeeded" in line
        assert f"first {first.jobs[0].id}.0 on n1, running" in line
        center.cancel(first.jobs[0].id)


def test_a_cron_job_shows_its_runs_when_they_are_dags(owner: httpx.Client, cluster: Cluster) -> None:
    flow = {"name": "nightly", "type": "cron", "when": "0 3 1 1 *", "steps": {"only": {"command": "true"}}}
    with cluster.client() as client:
        cron = client.submit([flow]).jobs[0].id
        run = client.ask(calls.trigger(cron)).jobs[0].id
        assert client.job(run, wait=60).state == "succeeded"
        shown = owner.get(f"/jobs/{cron}")
        assert shown.status_code == 200
        assert f"run {run}: succeeded" in shown.text
        assert "Each task" not in shown.text
        client.cancel(cron)


@pytest.mark.long
def test_a_dag_a_cron_job_and_a_service_show_their_attempts(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    with cluster.client() as client:
        steps = {"one": {"command": "true"}, "two": {"command": "false", "after": ["one"]}}
        dag = client.submit([{"name": "flow", "type": "dag", "steps": steps}]).jobs[0].id
        assert client.job(dag, wait=60).state == "failed"
        service = client.apply([{"name": "web", "type": "service", "command": "sleep 600", "tasks": 1}]).jobs[0].id
        wait_until(lambda: (view := client.job(service).service) is not None and view.ready == 1, "the service")
        with opened(browser, portal) as page:
            page.goto(f"{portal.url}/jobs/{dag}")
            line = page.get_by_role("region", name="Time line")
            expect(line).to_contain_text("one")
            expect(line).to_contain_text("two")
            page.get_by_role("button", name="Resume").click()
            expect(page.locator(".told")).to_contain_text(f"job {dag} is resumed as this one")
            page.goto(f"{portal.url}/jobs/{service}")
            expect(page.get_by_role("region", name="Service")).to_contain_text("1 of 1")
            expect(page.get_by_role("region", name="Time line")).to_contain_text("task 0")
        client.cancel(service)


def test_files_of_a_task_are_listed_and_downloaded(cluster: Cluster, owner: httpx.Client) -> None:
    command = "mkdir -p out && printf '<b>1</b>' > 'out/a b.html' && printf 12345 > n.txt && ln -s n.txt l"
    with cluster.client() as client:
        id = client.submit([{"command": ["sh", "-c", command], "name": "writes", "resource": "<0.1, 64M>"}]).jobs[0].id
        assert client.job(id, wait=30).state == "succeeded"
    listed = owner.get(f"/jobs/{id}/files").text
    assert "out/a b.html</a>" in listed
    assert "l → n.txt" in listed
    assert "n.txt</a>" not in owner.get(f"/jobs/{id}/files", params={"path": "out"}).text
    sent = owner.get(f"/jobs/{id}/files/content", params={"path": "out/a b.html"})
    # A browser keeps it, and never shows it as a page of the portal.
    assert (sent.content, sent.headers["content-type"]) == (b"<b>1</b>", "application/octet-stream")
    assert sent.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.html"
    for path in ("nowhere", "../escaped", ""):
        refused = owner.get(f"/jobs/{id}/files/content", params={"path": path}, headers={"accept": "text/html"})
        assert refused.status_code >= 400, path
        assert "content-disposition" not in refused.headers
    assert owner.get(f"/jobs/{id}/files", params={"task": "7"}).status_code >= 400
    assert f"/jobs/{id}/files?" in owner.get(f"/jobs/{id}").text
