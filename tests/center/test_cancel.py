"""Many jobs are cancelled in one call: checked together, in slices, and none is missed on its way to the history."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from cress.store.base import StoreError
from tests.center.inside import Inside, inside
from tests.waiting import PATIENCE


def test_if_one_is_not_there_none_is_cancelled(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        jobs = [await center.submit() for _ in range(3)]
        error = await center.call("POST", "/v1/jobs/cancel", {"jobs": [*jobs, 99, 0, -(2**63), 2**70]}, 404)
        assert error["message"].startswith("there is no job 99, 0, -9223372036854775808, ")
        assert error["message"].endswith("; none was cancelled")
        assert [(await center.get(f"/v1/jobs/{job}"))["state"] for job in jobs] == ["waiting"] * 3
        for wrong in ([], ["1"], [1.5]):
            await center.call("POST", "/v1/jobs/cancel", {"jobs": wrong}, 422)

    inside(tmp_path, story)


def test_each_is_told_once_and_those_that_were_over_stay_as_they_were(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        old, running = await center.submit(name="old"), await center.submit(name="running")
        await center.end(old)
        await center.mover.work()
        await center.started(running)
        answer = await center.call("POST", "/v1/jobs/cancel", {"jobs": [running, old, running]})
        assert answer["jobs"] == [
            {"id": running, "name": "running", "state": "running", "was_over": False},
            {"id": old, "name": "old", "state": "succeeded", "was_over": True},
        ]
        await center.end(running, code=-15)
        assert (await center.get(f"/v1/jobs/{running}"))["state"] == "cancelled"

    inside(tmp_path, story)


def test_a_thousand_are_cancelled_while_the_finished_ones_move(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        body = {"jobs": [{"command": ["true"]}] * 1_000}
        await center.call("POST", "/v1/jobs", body, 201)
        ids = list(range(1, 1_001))
        async with center.moving():
            first = asyncio.create_task(center.call("POST", "/v1/jobs/cancel", {"jobs": ids}))
            second = await center.call("POST", "/v1/jobs/cancel", {"jobs": ids[::-1]})
            assert {job["state"] for job in (await first)["jobs"] + second["jobs"]} == {"cancelled"}

    inside(tmp_path, story)


def test_a_cancel_that_is_not_stored_yet_is_not_acknowledged_to_a_second_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def commit(*_: object) -> None:
        gate.wait(PATIENCE)
        raise StoreError("the disk is full")

    async def story(center: Inside) -> None:
        job = await center.submit()
        with monkeypatch.context() as patch:
            patch.setattr(center.store, "commit", commit)
            calls = []
            for path, body in (
                (f"/v1/jobs/{job}/cancel", {}),
                (f"/v1/jobs/{job}/cancel", {}),
                ("/v1/jobs/cancel", {"jobs": [job]}),
            ):
                calls.append(asyncio.create_task(center.http.post(path, json=body)))
                await asyncio.sleep(0.1)
            await asyncio.wait(calls, timeout=0.3, return_when=asyncio.FIRST_COMPLETED)
            gate.set()
            assert [answer.status_code for answer in await asyncio.gather(*calls)] == [503] * 3

    inside(tmp_path, story)
