"""What a change would do, through the API: by a fork of the center, of which nothing is stored."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.center.inside import Inside, inside


async def two_wait(center: Inside) -> list[int]:
    """Two nodes of 4 cores are full for an hour; two jobs wait, the second one behind the first."""
    for name in ("n1", "n2"):
        await center.join(name, 4)
    jobs = [await center.submit(resource="<4, 1G>", time_limit="1h", name=f"run{i}") for i in range(2)]
    return jobs + [await center.submit(resource="<4, 1G>", time_limit="1h", name=f"wait{i}") for i in range(2)]


async def ask(center: Inside, status: int = 200, **change: Any) -> Any:
    return await center.call("POST", "/v1/what-if", change, status)


def test_a_planned_job_starts_when_there_is_room_and_delays_nobody_before_it(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await two_wait(center)
        now = time.time()
        found = await ask(center, jobs=[{"command": ["true"], "resource": "<4, 1G>", "time_limit": "30m"}])
        (planned,) = found["jobs"]
        assert planned["start"] == pytest.approx(now + 7200, abs=60)
        assert planned["end"] == pytest.approx(now + 9000, abs=60)
        assert planned["nodes"] in ({"n1": 1}, {"n2": 1})
        assert (found["later"], found["earlier"], found["shifts"], found["stopped"]) == (0, 0, [], [])
        assert found["before"]["finished"]
        assert found["before"]["length"] == pytest.approx(7200, abs=60)
        assert found["after"]["length"] == pytest.approx(9000, abs=60)
        # Nothing of this has happened.
        assert len((await center.get("/v1/jobs"))["jobs"]) == 4
        assert await center.submit(resource="<4, 1G>") == planned["id"]

    inside(tmp_path, story)


def test_a_node_more_and_a_node_less(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        running, _, first, second = await two_wait(center)
        found = await ask(center, add_nodes=["<4, 1G>"])
        (shift,) = found["shifts"]
        assert (shift["job"], found["earlier"], found["later"]) == (first, 1, 0)
        assert shift["after"] == pytest.approx(time.time(), abs=60)
        assert found["before"]["total"]["mean_wait"] == pytest.approx(3600, abs=60)
        assert found["after"]["total"]["mean_wait"] == pytest.approx(1800, abs=60)
        found = await ask(center, remove_nodes=["n1"])
        (stopped,) = found["stopped"]
        assert (stopped["job"], stopped["node"], stopped["why"]) == (running, "n1", "lost")
        assert {shift["job"] for shift in found["shifts"]} == {first, second}
        assert found["later"] == 2
        assert len((await center.get("/v1/nodes"))["nodes"]) == 2

    inside(tmp_path, story)
