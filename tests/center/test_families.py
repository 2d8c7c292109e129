"""Services, cron jobs and dags over the API: apply, scale, resume, their tasks, what a dry run says; before and after a
move.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from cress.center.requests import apply as applying
from cress.center.requests.validation import read_jobs
from cress.center.views.members import place_of
from cress.lifecycle.inputs import Cancel
from cress.lifecycle.slices import whole
from cress.model.errors import NotAccepted
from tests.center.inside import Inside, inside

WEB: dict[str, Any] = {"name": "web", "type": "service", "command": ["serve"], "tasks": 2, "resource": "<1, 1G>"}
NIGHTLY: dict[str, Any] = {"name": "nightly", "type": "cron", "command": ["report"], "when": "0 2 * * *"}
DAG: dict[str, Any] = {
    "name": "etl",
    "type": "dag",
    "steps": {
        "a": {"command": "true"},
        "b": {"command": "true", "after": ["a"]},
        "c": {"command": "true", "after": ["b"]},
    },
}


async def apply(center: Inside, *jobs: dict[str, Any], dry_run: bool = False, status: int = 200) -> Any:
    answer = await center.call("POST", "/v1/apply", {"jobs": list(jobs), "dry_run": dry_run}, status)
    return [(job["id"], job["name"], job["what"], job["note"]) for job in answer["jobs"]] if status == 200 else answer


async def members(center: Inside, family: int) -> list[int]:
    return sorted(job["id"] for job in (await center.get(f"/v1/jobs?family={family}"))["jobs"])


def test_apply_makes_jobs_what_they_are_said_to_be(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        assert await apply(center, WEB, NIGHTLY, dry_run=True) == [
            (0, "web", "created", ""),
            (0, "nightly", "created", ""),
        ]
        assert (await center.get("/v1/jobs"))["jobs"] == []
        assert await apply(center, WEB, NIGHTLY) == [(1, "web", "created", ""), (2, "nightly", "created", "")]
        # However it is written, it is the same; and nothing happens.
        same = {
            "Name": "web",
            "TYPE": "Service",
            "command": ["serve"],
            "tasks": "2",
            "resource": {"cpu": 1, "memory": "1024M"},
        }
        before = await members(center, 1)
        assert [what for _, _, what, _ in await apply(center, same, NIGHTLY)] == ["unchanged", "unchanged"]
        assert await members(center, 1) == before
        assert await apply(center, {**WEB, "tasks": 3}) == [(1, "web", "scaled", "2 to 3 tasks")]
        assert set(before) < set(await members(center, 1))
        view = await center.get("/v1/jobs/1")
        assert (view["service"]["version"], view["service"]["wanted"], view["tasks"]["total"]) == (1, 3, 3)
        changed = {**WEB, "command": ["serve", "--fast"]}
        assert await apply(center, changed, {**NIGHTLY, "when": "@daily"}, dry_run=True) == [
            (1, "web", "updated", "back to 2 tasks from 3, which was set by scaling"),
            (2, "nightly", "updated", ""),
        ]
        assert (await center.get("/v1/jobs/1"))["command"] == ["serve"]
        await apply(center, changed, {**NIGHTLY, "when": "@daily"})
        assert (await center.get("/v1/jobs/1"))["command"] == ["serve", "--fast"]
        assert (await center.get("/v1/jobs/1"))["service"]["version"] == 2
        cron = (await center.get("/v1/jobs/2"))["cron"]
        assert (cron["when"], len(cron["next"])) == ("@daily", 3)
        # How it is updated is no version.
        assert [what for _, _, what, _ in await apply(center, {**changed, "max_unavailable": 2})] == ["updated"]
        assert (await center.get("/v1/jobs/1"))["service"]["version"] == 2

    inside(tmp_path, story)


@pytest.mark.parametrize(
    ("jobs", "status", "sentence"),
    [
        (
            [{**WEB, "tasks": 5}, DAG],
            422,
            "jobs[1].type: a dag job is run once (only services, databases and cron jobs can be",
        ),
        ([{**WEB, "tasks": 5}, {**NIGHTLY, "when": "61 * * * *"}], 422, "jobs[1].when: '61' is not a valid minute"),
        ([{**WEB, "tasks": 5}, {**NIGHTLY, "group": "x"}], 422, "jobs[1].group: there is no group 'x'"),
        (
            [{**NIGHTLY, "name": "new"}, {**WEB, "resource": "<99, 1G>"}],
            409,
            "jobs[1].resource: one task is larger than",
        ),
        ([{**WEB, "tasks": 5}, WEB], 422, "jobs[1].name: two jobs have the name web"),
        (
            [{**WEB, "tasks": 5}, {**WEB, "name": "other", "requirement": "GCC >> 4"}],
            422,
            "jobs[1].requirement: at char",
        ),
        ([{**NIGHTLY, "name": "web"}], 409, "jobs[0].type: there is a service web already, job 1"),
    ],
)
def test_apply_is_all_or_nothing(tmp_path: Path, jobs: list[dict[str, Any]], status: int, sentence: str) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        await apply(center, WEB)
        answer = await apply(center, *jobs, status=status)
        assert answer["message"].startswith(sentence), answer["message"]
        assert [(job["id"], job["tasks"]["total"]) for job in (await center.get("/v1/jobs"))["jobs"]] == [(1, 2)]

    inside(tmp_path, story)


def test_who_is_faster_than_an_apply_is_told_of(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        await apply(center, WEB, NIGHTLY)
        committer = center.committer
        entries = [{**WEB, "tasks": 3}, {**NIGHTLY, "when": "@daily"}]
        specs, jobs = read_jobs(entries, dimensions=committer.machine.core.dimensions, user="ann")
        changes = whole(applying.changes_of(committer, specs, jobs, lambda _: None))
        whole(applying.check(committer, changes, ()))
        committer.post(Cancel(job=1))
        with pytest.raises(NotAccepted, match=r"job 1 is .*; nightly is updated anyway \(apply the file again\)"):
            await applying.carry_out(committer, changes, ())
        assert (await center.get("/v1/jobs/2"))["cron"]["when"] == "@daily"

    inside(tmp_path, story)


def test_tasks_of_a_service_are_its_members_now_and_afterwards(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        service = await center.submit(**WEB)
        ids = await members(center, service)
        listed = (await center.get("/v1/jobs"))["jobs"]
        assert [(job["id"], job["type"]) for job in listed] == [(service, "service")]
        assert [job["id"] for job in (await center.get("/v1/jobs?type=service"))["jobs"]] == [service]
        await center.started(ids[1])
        page = (await center.get(f"/v1/jobs/{service}/tasks"))["tasks"]
        assert [(task["index"], task["job"], task["state"], task["ready"]) for task in page] == [
            (0, ids[0], "starting", False),
            (1, ids[1], "running", True),
        ]
        assert (await center.get(f"/v1/jobs/{service}/tasks?state=running"))["tasks"] == page[1:]
        assert (await center.get(f"/v1/jobs/{service}/tasks/1"))["job"] == ids[1]
        assert (await center.get(f"/v1/jobs/{service}"))["service"]["ready"] == 1
        member = await center.get(f"/v1/jobs/{ids[1]}")
        assert (member["family"], member["index"], member["command"]) == (service, 1, ["serve"])
        assert "has no task 2 (tasks 0 to 1)" in (await center.get(f"/v1/jobs/{service}/tasks/2", 404))["message"]
        assert (await center.call("POST", f"/v1/jobs/{service}/scale", {"tasks": 1}))["service"]["wanted"] == 1
        refused = await center.call("POST", f"/v1/jobs/{ids[0]}/scale", {"tasks": 1}, 409)
        assert "services, databases and cron jobs can be changed" in refused["message"]
        assert (await center.call("POST", f"/v1/jobs/{service}/scale", {"tasks": -1}, 422))["code"] == "bad_input"
        await center.call("POST", f"/v1/jobs/{service}/cancel")
        for number in ids:
            if number in center.committer.machine.jobs:
                await center.end(number, code=-15)
        await _is_over(center, service, ids)
        await center.mover.work()
        await _is_over(center, service, ids)

    inside(tmp_path, story)


def test_between_two_lives_a_task_is_what_it_was(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        database = await center.submit(**{**WEB, "type": "database", "tasks": 1, "name": "db"}, backoff="1h")
        (first,) = await members(center, database)
        await center.started(first)
        (attempt,) = center.committer.machine.jobs[first].attempts
        await center.end(first, code=3)
        # Nothing of it is alive; what there is of it is its last life.
        assert center.committer.machine.families[database].members == {}
        (task,) = (await center.get(f"/v1/jobs/{database}/tasks"))["tasks"]
        assert (task["index"], task["job"], task["state"], task["ready"]) == (0, first, "waiting", False)
        assert [(each["id"], each["code"]) for each in task["attempts"]] == [(attempt, 3)]
        assert await center.get(f"/v1/jobs/{database}/tasks/0") == task
        assert await place_of(center.committer, center.committer.machine.families[database], 0) == (first, 0)
        await center.mover.work()
        assert (await center.get(f"/v1/jobs/{database}/tasks"))["tasks"] == [task]
        assert await place_of(center.committer, center.committer.machine.families[database], 0) == (first, 0)

    inside(tmp_path, story)


def test_while_the_next_member_waits_for_a_node_a_task_has_the_attempts_of_the_last_one(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        service = await center.submit(**{**WEB, "tasks": 1})
        (first,) = await members(center, service)
        await center.started(first)
        await center.call("POST", "/v1/nodes/n1/cordon", {"reason": "work on it"})
        await apply(center, {**WEB, "tasks": 1, "command": ["other"]})
        await center.end(first, code=-15)
        (second,) = center.committer.machine.families[service].members.values()
        assert not center.committer.machine.jobs[second].attempts
        (task,) = (await center.get(f"/v1/jobs/{service}/tasks"))["tasks"]
        assert (task["job"], task["state"], [each["code"] for each in task["attempts"]]) == (second, "waiting", [-15])
        assert await place_of(center.committer, center.committer.machine.families[service], 0) == (first, 0)
        await center.call("POST", "/v1/nodes/n1/uncordon", {})
        (task,) = (await center.get(f"/v1/jobs/{service}/tasks"))["tasks"]
        assert (task["job"], task["state"], [each["code"] for each in task["attempts"]]) == (second, "starting", [None])
        assert await place_of(center.committer, center.committer.machine.families[service], 0) == (second, 0)

    inside(tmp_path, story)


async def _is_over(center: Inside, service: int, ids: list[int]) -> None:
    view = await center.get(f"/v1/jobs/{service}")
    assert (view["state"], view["type"], view["command"]) == ("cancelled", "service", ["serve"])
    page = (await center.get(f"/v1/jobs/{service}/tasks"))["tasks"]
    assert [(task["index"], task["job"], task["state"]) for task in page] == [(0, ids[0], "cancelled")]
    assert await members(center, service) == ids
    assert [job["id"] for job in (await center.get("/v1/jobs"))["jobs"]] == [service]
    assert (await center.get(f"/v1/jobs/{ids[0]}"))["command"] == ["serve"]


def test_a_dag_is_resumed_from_where_it_failed(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        dag = await center.submit(**DAG)
        assert (await center.call("POST", f"/v1/jobs/{dag}/resume", {}, 409))["message"].startswith(
            "job 1 has not ended"
        )
        await center.end(2)
        view = await center.get(f"/v1/jobs/{dag}")
        assert (view["state"], view["tasks"]["total"], view["tasks"]["succeeded"]) == ("running", 3, 1)
        assert [(step["name"], step["id"], step["state"], step["after"]) for step in view["dag"]["steps"]] == [
            ("a", 2, "succeeded", {}),
            ("b", 3, "running", {"a": "ok"}),
            ("c", 4, "waiting", {"b": "ok"}),
        ]
        assert (await center.get(f"/v1/jobs/{dag}/tasks", 409))["message"].startswith(
            "job 1 is a dag, whose steps are jobs"
        )
        await center.end(3, code=1)
        assert (await center.get(f"/v1/jobs/{dag}"))["state"] == "failed"
        await center.mover.work()
        answer = await center.call("POST", f"/v1/jobs/{dag}/resume", {}, 201, **{"Idempotency-Key": "k"})
        assert answer["jobs"] == [{"id": 5, "name": "etl", "note": "", "deadline": None, "expected_start": None}]
        assert answer == await center.call("POST", f"/v1/jobs/{dag}/resume", {}, 201, **{"Idempotency-Key": "k"})
        assert (await center.get("/v1/jobs/5"))["dag"]["resumed"] == dag
        for number in (6, 7):
            await center.end(number)
        view = await center.get("/v1/jobs/5")
        assert (view["state"], [step["name"] for step in view["dag"]["steps"]]) == ("succeeded", ["b", "c"])
        assert (await center.call("POST", "/v1/jobs/5/resume", {}, 409))["message"].startswith(
            "job 5 has no unfinished steps"
        )
        assert (await center.call("POST", "/v1/jobs/2/resume", {}, 409))["message"].startswith("job 2 is a batch job")
        # A dag waits for what its first step waits for that waits for no other.
        large = {"x": {"command": "true", "tasks": 2, "resource": "<40, 1G>"}, "w": {"command": "true", "after": ["x"]}}
        waiting = await center.submit(name="large", type="dag", steps=large)
        view = await center.get(f"/v1/jobs/{waiting}")
        assert view["reason"].startswith("step x: no node has enough free"), view["reason"]
        assert view["reason_kind"] == "no_room"
        assert (await center.get(f"/v1/jobs/{waiting}/explanation"))["job"] == view["dag"]["steps"][0]["id"]

    inside(tmp_path, story)


def test_a_dry_run_says_what_a_submit_would_say_and_stores_nothing(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join(cores=2)
        answer = await center.call(
            "POST", "/v1/jobs?dry_run=true", {"jobs": [DAG, WEB, {"command": "x", "rank": "Foo"}]}
        )
        assert [(job["id"], job["name"]) for job in answer["jobs"]] == [(0, "etl"), (0, "web"), (0, "x")]
        assert "Foo" in answer["jobs"][2]["note"]
        too_large = {**DAG, "steps": {"a": {"command": "x"}, "b": {"command": "x", "resource": "<4, 1G>"}}}
        for path in ("/v1/jobs?dry_run=true", "/v1/jobs"):
            refused = await center.call("POST", path, {"jobs": [{"command": "x"}, too_large]}, 409)
            assert refused["faults"][0]["field"] == "jobs[1].steps.b.resource"
        assert (await center.get("/v1/jobs"))["jobs"] == []
        assert center.committer.machine.next_job == 1

    inside(tmp_path, story)


def test_every_mistake_of_a_submit_is_told_at_once(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        steps = {"a": {"command": "x", "rank": "CPU +"}, "b": {"tasks": 0, "command": "x"}}
        jobs = [{**DAG, "requirement": "GCC >> 4", "steps": steps}, {**NIGHTLY, "zone": "Europe/Berln"}]
        faults = (await center.call("POST", "/v1/jobs", {"jobs": jobs}, 422))["faults"]
        assert sorted(fault["field"] for fault in faults) == [
            "jobs[0].requirement",
            "jobs[0].steps.a.rank",
            "jobs[0].steps.b.tasks",
            "jobs[1].zone",
        ]

    inside(tmp_path, story)


def test_the_schema_is_the_one_of_job_files(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        validator = jsonschema_rs.Draft202012Validator(await center.get("/v1/schema"))
        assert all(validator.is_valid(each) for each in (WEB, NIGHTLY, DAG, [WEB, DAG]))
        assert not validator.is_valid({**WEB, "when": "@daily"})

    inside(tmp_path, story)


def test_the_job_file_is_the_job_as_submitted_or_last_changed(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        async def file(number: int, status: int = 200) -> Any:
            answer = await center.get(f"/v1/jobs/{number}/file", status)
            return answer["job"] if status == 200 else answer["message"]

        await center.join()
        await center.call("PUT", "/v1/groups", {"text": "Name: a\nResourceQuota: 8\n\nName: b\nResourceQuota: 8\n"})
        await apply(center, {**WEB, "group": "a"}, NIGHTLY)
        assert await file(1) == {**WEB, "group": "a"}
        # Members share the submission of their family.
        await center.call("POST", "/v1/jobs/2/trigger", {}, 201)
        run, task = (await members(center, 2))[0], (await members(center, 1))[0]
        for number, family in ((run, 2), (task, 1)):
            assert f"is a part of job {family} and has no job file" in await file(number, 409)
        await center.call("POST", "/v1/leases", {"workload": "dask", "resource": "<1, 1G>"}, 201)
        lease = (await center.get("/v1/jobs?limit=1"))["jobs"][0]["id"]
        assert "is a request of leases and has no job file" in await file(lease, 409)
        # A scale and new groups make no new run.
        await center.call("POST", "/v1/jobs/1/scale", {"tasks": 5})
        assert await apply(center, await file(1)) == [(1, "web", "unchanged", "")]
        array = await center.submit(TASKS="100%10", group="a", resource="<1, 1G>")
        await center.call("POST", "/v1/jobs/update", {"jobs": [array], "values": {"max_running": 20}})
        groups = {"text": "Name: b\nResourceQuota: 8\n", "moves": {"a": "b"}}
        await center.call("PUT", "/v1/groups", groups)
        assert await file(1) == {**WEB, "group": "b", "tasks": 5}
        again = await file(array)
        assert (again["TASKS"], again["max_running"], again["group"]) == ("100", 20, "b")
        await center.call("POST", f"/v1/jobs/{array}/cancel", {})
        await _is_ended(center, array)
        assert await file(array) == again
        retried = (await center.call("POST", f"/v1/jobs/{array}/retry", {}, 201))["jobs"][0]["id"]
        assert await file(retried) == again
        await center.call("POST", "/v1/jobs/1/scale", {"tasks": 0})
        assert (await file(1))["tasks"] == 2

    inside(tmp_path, story)


async def _is_ended(center: Inside, job: int) -> None:
    await center.end(job)
    assert (await center.get(f"/v1/jobs/{job}"))["ended"]
