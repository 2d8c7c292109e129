"""The center of today opens what the release before left: nothing that was acknowledged is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cress.center.process.clock import Clock
from cress.executor.journal import JournalFile
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.records import canonical_state
from cress.model.times import HOUR
from cress.shell.center.runs import decode_run, template_of
from tests.center.inside import Inside, inside
from tests.upgrade.release import OLD, left_at, manifest, unpack

LEFT = ("stopped", "killed")
# What of a job stays as it was told, whatever the center of today makes of its reason.
JOB = (
    "id name group user type state priority gang resource time_limit submitted started ended preempted held "
    "retries after "
    "command environment directory requirement rank ports max_running licences application job_failure family index"
).split()
NODE = "name rack capacity used running address attributes disks judged".split()
ATTEMPT = "id node outcome placed started ended code error ports devices".split()


def an_hour_later(left: str) -> Clock:
    """The computer was started again since, and an hour has passed, whatever day it is: keys live for a day."""
    wall = left_at(f"{OLD}/{left}") + HOUR
    return Clock("another boot", wall=lambda: wall)


def some(fields: list[str], view: dict[str, Any]) -> dict[str, Any]:
    return {name: view[name] for name in fields}


@pytest.mark.parametrize("left", LEFT)
def test_every_job_attempt_group_and_node_is_there(tmp_path: Path, left: str) -> None:
    told = manifest(f"{OLD}/{left}")

    async def story(center: Inside) -> None:
        for job in told["jobs"]:
            now = await center.get(f"/v1/jobs/{job['id']}")
            # A run of a cron job may come in addition: its moments have gone by since.
            assert some(JOB, now) == some(JOB, {**job, "state": canonical_state(job["state"])})
            assert job["type"] == "cron" or now["tasks"] == job["tasks"]
        for number, tasks in told["tasks"].items():
            now = (await center.get(f"/v1/jobs/{number}/tasks?limit=1000"))["tasks"]
            assert [task["index"] for task in now] == [task["index"] for task in tasks]
            for task, before in zip(now, tasks, strict=True):
                assert task["state"] == before["state"]
                assert [some(ATTEMPT, attempt) for attempt in task["attempts"]] == [
                    some(ATTEMPT, attempt) for attempt in before["attempts"]
                ]
        groups = (await center.get("/v1/groups"))["text"].splitlines()
        given = [line for line in groups if not line.startswith(("Priority:", "UsedResource:"))]
        assert given == told["/v1/groups"]["text"].splitlines()
        assert (await center.get("/v1/licences")) == told["/v1/licences"]
        names = "/v1/names/web?group=web"
        before = told[names]["places"]
        now = (await center.get(names))["places"]
        assert [some(list(was), place) for place, was in zip(now, before, strict=True)] == before
        nodes = (await center.get("/v1/nodes?limit=1000"))["nodes"]
        assert [some(NODE, node) for node in nodes] == [
            some(NODE, node) for node in told["/v1/nodes?limit=1000"]["nodes"]
        ]
        assert {node["state"] for node in nodes} == {"away"}
        assert center.committer.machine.validate() == []

    inside(unpack(f"{OLD}/{left}", tmp_path) / "d", story, clock=an_hour_later(left))


@pytest.mark.parametrize("left", LEFT)
def test_the_keys_of_submits_are_known(tmp_path: Path, left: str) -> None:
    job = {"name": "done", "command": ["true"]}

    async def story(center: Inside) -> None:
        refused = await center.call("POST", "/v1/jobs", {"jobs": [job]}, 409, **{"Idempotency-Key": "first"})
        assert "another submit" in refused["message"]

    inside(unpack(f"{OLD}/{left}", tmp_path) / "d", story, user="root", clock=an_hour_later(left))


@pytest.mark.parametrize("left", LEFT)
def test_jobs_have_the_stop_grace_of_their_runs(tmp_path: Path, left: str) -> None:
    """Jobs of the release before had none: only their runs did."""

    async def story(center: Inside) -> None:
        machine = center.committer.machine
        alive: list[LiveJob | Family] = [*machine.jobs.values(), *machine.families.values()]
        for each in alive:
            data = center.committer.store.run(template_of(each))
            if data is not None:
                assert each.job.stop_grace == decode_run(data).stop_grace
        for state in machine.core.jobs.values():
            assert state.job.stop_grace == machine.jobs[state.job.id].job.stop_grace
        (grower,) = (each for each in machine.core.jobs.values() if each.job.name == "grower")
        assert grower.job.stop_grace == HOUR

    inside(unpack(f"{OLD}/{left}", tmp_path) / "d", story, clock=an_hour_later(left))


@pytest.mark.parametrize("left", LEFT)
def test_journals_of_executors_are_read(tmp_path: Path, left: str) -> None:
    told = manifest(f"{OLD}/{left}")
    data = unpack(f"{OLD}/{left}", tmp_path) / "d"
    running: dict[str, set[int]] = {}
    for tasks in told["tasks"].values():
        for task in tasks:
            for attempt in task["attempts"]:
                if attempt["outcome"] == "running":
                    running.setdefault(attempt["node"], set()).add(attempt["id"])
    assert set(running) == {"n1", "n2", "n3"}
    for node, attempts in running.items():
        journal = JournalFile(data / "executors" / node / "journal")
        assert set(journal.known.running) == attempts
        assert all(entry.start is not None and entry.start.pid > 1 for entry in journal.known.running.values())
        assert journal.known.epoch == (1 if left == "stopped" else 2)
        journal.close()
