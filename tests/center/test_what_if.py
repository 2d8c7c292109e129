"""What a change would do, through the API: by a fork of the center, of which nothing is stored."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.model.course import CourseDetails
from cress.model.groups.conf import parse_groups
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.simulator.courses import write_courses
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


GROUPS = "Name: a\nResourceQuota: 4\n\nName: b\nResourceQuota: 4\n"


def test_a_document_and_keywords_of_a_group_are_changes_too(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.call("PUT", "/v1/groups", {"text": GROUPS})
        await center.join("n1", 8)
        await center.submit(group="a", resource="<4, 1G>", time_limit="1h", name="run")
        waits = await center.submit(group="a", resource="<8, 1G>", time_limit="1h", name="waits")
        bound = {"MaxQuota": "4"}
        found = await ask(center, set_group={"a": bound})
        assert [(shift["job"], shift["after"]) for shift in found["shifts"]] == [(waits, None)]
        text = (await center.get("/v1/config"))["text"]
        changed = text.replace("  ResourceQuota: 4\n", "  ResourceQuota: 4\n  MaxQuota: 4\n", 1)
        found = await ask(center, config=changed, file="edited")
        assert [(shift["job"], shift["after"]) for shift in found["shifts"]] == [(waits, None)]
        # Mistakes are those of the change itself, with their places.
        mistake = await ask(center, 422, set_group={"c": bound})
        assert mistake["faults"][0]["field"] == "set_group"
        assert "there is no group 'c'" in mistake["message"]
        mistake = await ask(center, 422, config="options: {grace: x}\n", file="edited")
        assert (mistake["faults"][0]["file"], mistake["faults"][0]["line"]) == ("edited", 1)
        mistake = await ask(center, 422, config=text, options={"grace": "1s"})
        assert mistake["faults"][0]["field"] == "config"
        assert (await center.get("/v1/config"))["text"] == text

    inside(tmp_path, story)


def test_the_details_of_both_courses_make_a_report_of_the_simulator(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.call("PUT", "/v1/groups", {"text": GROUPS})
        await center.join("n1", 4)
        first = await center.submit(group="a", resource="<4, 1G>", time_limit="1h")
        second = await center.submit(group="b", resource="<4, 1G>", time_limit="30m")
        await center.started(first)
        view = await ask(center, add_nodes=["<4, 1G>"], details=True)
        assert (await ask(center, add_nodes=["<4, 1G>"]))["details"] == []
        details = [msgspec.convert(one, CourseDetails) for one in view["details"]]
        groups = parse_groups(GROUPS, dimensions=Dimensions()).groups
        labelled = [(label, one, groups, Options()) for label, one in zip(("before", "after"), details, strict=True)]
        assert write_courses(tmp_path / "out", labelled).stat().st_size > 1000
        rows = {label: jobs_of(tmp_path / "out" / label / "jobs.csv") for label in ("before", "after")}
        assert list(rows["before"]) == [str(first), str(second)]
        waits = [float(rows[label][str(second)]["wait_s"]) for label in ("before", "after")]
        total = view["before"]["total"]["mean_wait"]
        # The table of a course and its numbers say the same.
        assert waits == [pytest.approx(total, abs=1), pytest.approx(0, abs=60)]
        assert rows["after"][str(second)]["state"] == "finished"
        assert {row["node"] for row in attempts_of(tmp_path / "out" / "after" / "attempts.csv")} == {"n1", "new-1"}

    inside(tmp_path, story)


def jobs_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open() as file:
        return {row["job"]: row for row in csv.DictReader(file)}


def attempts_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))
