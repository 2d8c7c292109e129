"""Finished work on its way from the store into the history: out of nobody's sight, counted once, gone when it is
old.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cress.center.leader import mover
from cress.model.times import DAY, HOUR
from cress.store.base import StoreError
from cress.store.sqlite import SqliteStore
from tests.center.inside import Inside, inside, until


async def _answers(center: Inside, *jobs: int) -> list[Any]:
    """Everything that the API says about these jobs."""
    found = [await center.get("/v1/jobs?limit=2"), await center.get("/v1/jobs?state=failed&group=default")]
    for job in jobs:
        found += [await center.get(f"/v1/jobs/{job}"), await center.get(f"/v1/jobs/{job}/tasks")]
        found += [
            await center.get(f"/v1/jobs/{job}/tasks?state=succeeded"),
            await center.get(f"/v1/jobs/{job}/tasks/0"),
        ]
    return found


def test_what_is_moved_is_answered_as_before(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        first = await center.submit(name="first", tasks=3, environment={"A": "ü"}, command=["echo", "$A"])
        await center.end(first)
        second = await center.submit(name="second")
        await center.end(second, code=3)
        third = await center.submit(name="third")
        before = await _answers(center, first, second, third)
        await center.mover.work()
        assert await center.committer.finished.oldest(9) == ([], [])
        assert [center.store.run(job) is None for job in (first, second, third)] == [True, True, False]
        assert await _answers(center, first, second, third) == before
        assert before[1]["jobs"][0]["name"] == "second"

    inside(tmp_path, story)

    async def again(center: Inside) -> None:
        assert (await center.get("/v1/jobs/1"))["environment"] == {"A": "ü"}
        assert (await center.get("/v1/jobs/9", 404))["message"].startswith("there is no job 9")

    inside(tmp_path, again)


def test_tasks_of_a_job_that_goes_on_are_moved_and_seen(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join(cores=2)
        job = await center.submit(tasks=4, resource="<1, 64M>")
        await center.end(job)
        await center.mover.work()
        await center.started(job)
        tasks = (await center.get(f"/v1/jobs/{job}/tasks"))["tasks"]
        assert [task["state"] for task in tasks] == ["succeeded", "succeeded", "running", "running"]
        await center.end(job)
        await center.mover.work()
        tasks = (await center.get(f"/v1/jobs/{job}/tasks"))["tasks"]
        assert [task["state"] for task in tasks] == ["succeeded"] * 4

    inside(tmp_path, story)


def test_a_copy_that_was_not_removed_is_copied_once(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        job = await center.submit(tasks=2)
        await center.end(job)
        before = await _answers(center, job)
        center.store.failing = True
        with pytest.raises(StoreError, match="the disk is full"):
            await center.mover.work()
        center.store.failing = False
        # It is in both places now.
        assert await _answers(center, job) == before
        await center.mover.work()
        assert await _answers(center, job) == before
        (used,) = (await center.get("/v1/usage?by=day"))["usage"]
        assert (used["attempts"], used["succeeded"], used["cpu_seconds"]) == (2, 2, 2.0)

    inside(tmp_path, story)


def test_usage_counts_what_ended_and_what_runs(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        ended = await center.submit(tasks=2, resource="<2, 1G>")
        await center.end(ended, later=2 * HOUR, code=1)
        await center.mover.work()
        await center.submit(resource="<4, 1G>", tasks=3)
        now = center.committer.clock.utc() / 1e6
        page = await center.get(f"/v1/usage?since={now - 1}&until={now + 3 * 3600}&group=default")
        assert page["span"] == 3600
        cores = sum(used["core_seconds"] for used in page["usage"])
        # Two tasks of two cores for two hours; what runs has run for a moment.
        assert 4 * 7200 <= cores < 4 * 7200 + 12 * 60
        assert sum(used["byte_seconds"] for used in page["usage"]) >= 2 * 2**30 * 7200
        assert [used["start"] % 3600 for used in page["usage"]] == [0] * len(page["usage"])
        assert sum(used["attempts"] for used in page["usage"]) == 2
        assert (await center.get("/v1/usage?group=web"))["usage"] == []
        assert "did you mean" in (await center.get("/v1/usage?by=dya", 422))["message"]

    inside(tmp_path, story)


def test_usage_of_long_ago_comes_in_pages(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        since: float | None = 0.0
        pages = 0
        while since is not None:
            page = await center.get(f"/v1/usage?by=day&since={since}&until={400 * 86_400}")
            since, pages = page["next"], pages + 1
        assert pages == 7

    inside(tmp_path, story)


def test_jobs_by_the_time_of_their_submit(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        for number in range(4):
            job = await center.submit(name=f"j{number}")
            if number < 2:
                await center.end(job)
            if number == 0:
                await center.mover.work()
        times = [job["submitted"] for job in (await center.get("/v1/jobs"))["jobs"]][::-1]
        page = await center.get(f"/v1/jobs?since={times[1]}&until={times[3]}")
        assert [job["name"] for job in page["jobs"]] == ["j2", "j1"]
        assert [job["name"] for job in (await center.get(f"/v1/jobs?until={times[1]}"))["jobs"]] == ["j0"]

    inside(tmp_path, story)


def test_a_history_that_is_away_keeps_nobody_from_working(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        job = await center.submit()
        await center.end(job)
        with pytest.raises(StoreError, match="cannot be opened"):
            await center.mover.work()
        page = await center.get("/v1/jobs")
        assert [each["id"] for each in page["jobs"]] == [job]
        assert "cannot be opened" in page["problem"]
        assert (await center.get(f"/v1/jobs/{job}"))["state"] == "succeeded"
        error = await center.get("/v1/jobs/99", 503)
        assert error["code"] == "unavailable"
        assert await center.submit() == job + 1

    inside(tmp_path, story, history=f"postgresql://cress@/cress?host={tmp_path}")


def test_a_job_is_found_while_it_moves_from_place_to_place(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        async with center.moving():
            for _ in range(30):
                job = await center.submit(resource="<1, 64M>")
                await center.started(job)
                ending = asyncio.create_task(center.end(job))
                while not ending.done():
                    await _all_of(center, job)
                for _ in range(3):
                    await _all_of(center, job)

    inside(tmp_path, story)


async def _all_of(center: Inside, job: int) -> None:
    view = await center.get(f"/v1/jobs/{job}")
    assert view["command"] == ["true"]
    (task,) = (await center.get(f"/v1/jobs/{job}/tasks"))["tasks"]
    assert (task["state"], len(task["attempts"])) in {("running", 1), ("succeeded", 1)}
    (listed,) = [each for each in (await center.get("/v1/jobs?limit=3"))["jobs"] if each["id"] == job]
    assert listed["state"] in {"running", "succeeded"}


def test_a_job_that_ended_in_a_step_that_was_not_stored_is_seen(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        job = await center.submit()
        center.store.failing = True
        assert (await center.call("POST", f"/v1/jobs/{job}/cancel", status=503))["code"] == "unavailable"
        assert (await center.get(f"/v1/jobs/{job}"))["id"] == job
        center.store.failing = False
        await until(lambda: not center.committer.problem)
        assert (await center.get(f"/v1/jobs/{job}"))["state"] == "running"

    inside(tmp_path, story)


def test_what_is_old_goes(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        old = await center.submit()
        await center.end(old)
        await center.mover.work()
        await center.mover.retain()
        assert (await center.get(f"/v1/jobs/{old}"))["state"] == "succeeded"
        center.committer.clock._wall = lambda: 10**15 * 4
        await center.mover.retain()
        gone = await center.get(f"/v1/jobs/{old}", 404)
        assert gone["message"].startswith(f"the record of job {old} is no longer kept")
        assert (await center.get("/v1/jobs"))["jobs"] == []

    inside(tmp_path, story, keep_history=DAY)


def test_a_mover_that_fails_says_so_once_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(center: Inside) -> None:
        patch = pytest.MonkeyPatch()
        patch.setattr(mover, "INTERVAL", 0.01)
        patch.setattr(mover, "RETRY", 0.01)
        await center.join()
        job = await center.submit()
        await center.end(job)
        center.store.failing = True
        task = asyncio.create_task(center.mover.run())
        await until(lambda: bool(center.mover.problem))
        await asyncio.sleep(0.1)
        center.store.failing = False
        await until(lambda: _is_empty(center.store) and not center.mover.problem)
        task.cancel()
        await asyncio.wait((task,))
        patch.undo()

    inside(tmp_path, story)
    assert caplog.text.count("finished work stays in the store: the disk is full") == 1


def _is_empty(store: SqliteStore) -> bool:
    reader = store.reader()
    try:
        return reader.finished(9) == ([], [])
    finally:
        reader.close()
