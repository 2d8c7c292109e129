"""Groups and nodes through the API."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import isqrt, prod
from pathlib import Path
from typing import Any

import pytest

from cress.center.process.clock import Clock, boottime
from cress.protocol.messages import Refused, Welcome
from tests.center.inside import Inside, inside, until
from tests.center.program import Center, eventually

_TWO = "Name: news\nResourceQuota: 2\n\nName: web\nResourceQuota: 1\nUsers: alice\n"


def test_groups_are_applied_shown_and_applied_again(center: Center) -> None:
    applied = center.put_groups(_TWO)
    assert applied["changes"] == 2
    assert "+ news" in applied["diff"]
    page = center.get("/v1/groups")
    assert [(group["name"], group["quota"]) for group in page["groups"]] == [
        ("default", "1"),
        ("news", "2"),
        ("web", "1"),
    ]
    again = center.put_groups(page["text"])
    assert (again["changes"], again["diff"]) == (0, "no changes\n")


@pytest.mark.parametrize("number", [168, 700])
def test_the_priority_of_groups_is_exact_however_large_it_is(tmp_path: Path, number: int) -> None:
    primes = [n for n in range(2, 6_000) if all(n % d for d in range(2, isqrt(n) + 1))][:number]

    async def story(center: Inside) -> None:
        await center.join(cores=10_000)
        blocks = [f"Name: g{prime}\nResourceQuota: {prime}\n" for prime in primes]
        await center.call("PUT", "/v1/groups", {"text": "\n".join(blocks)})
        await center.submit(group="g997", resource="<1.5>")
        page = await center.get("/v1/groups")
        shown = {group["name"]: group["priority"] for group in page["groups"]}
        assert shown["g2"] == "0"
        assert Decimal(shown["g997"]) == Decimal(str(prod(primes) // 997)) * 3 / 2
        assert shown["g997"].strip("0123456789") in ("", "."), "digits only"
        blocks = page["text"].split("\n\n")
        assert blocks[167].startswith("Name: g997\n")
        *_, priority, used = blocks[167].splitlines()[:7]
        assert used == "UsedResource: 1.5"
        assert priority == f"Priority: {shown['g997']}" or len(shown["g997"]) > 1_000
        again = await center.call("PUT", "/v1/groups", {"text": page["text"]})
        assert (again["changes"], sum("ignored" in note for note in again["notes"])) == (0, 2)

    with localcontext(prec=4_000):
        inside(tmp_path, story)


def test_groups_show_their_quota_of_now_and_until_when(tmp_path: Path) -> None:
    """Two zones, of which in one the window is open at any moment."""
    day, night = "Etc/GMT+6", "Etc/GMT-6"
    block = "Name: web\nResourceQuota: 4; 06:00-18:00 = 12\n"

    async def story(center: Inside) -> None:
        seen = {}
        for zone in day, night:
            done = await center.call("PUT", "/v1/groups", {"text": f"Zone: {zone}\n\n{block}"})
            assert f"Zone: {day if zone == night else '(not set)'} -> {zone}" in done["diff"]
            page = await center.get("/v1/groups")
            web = page["groups"][1]
            assert (page["zone"], web["timetable"]) == (zone, "4; 06:00-18:00 = 12")
            assert page["text"].startswith(f"Zone: {zone}\n\nName: web\nResourceQuota: 4; 06:00-18:00 = 12\n")
            assert 0 < web["until"] - center.committer.clock.utc() / 1e6 <= 12 * 3600
            seen[zone] = web["quota"]
        assert sorted(seen.values()) == ["12", "4"]
        await center.call("PUT", "/v1/groups", {"text": block})
        assert (await center.get("/v1/groups"))["zone"] == "Asia/Shanghai"

    inside(tmp_path, story, zone="Asia/Shanghai")


def test_a_group_that_was_preempted_is_shown_as_cooling_off_until_that_is_over(tmp_path: Path) -> None:
    stands_at: int | None = None
    clock = Clock(boottime=lambda: boottime() if stands_at is None else stands_at)
    groups = "Name: taken\nResourceQuota: 1\n\nName: web\nResourceQuota: 1\n"

    async def story(center: Inside) -> None:
        nonlocal stands_at

        async def cooling() -> list[str]:
            return [group["name"] for group in (await center.get("/v1/groups"))["groups"] if group["cooling"]]

        await center.join(cores=2)
        await center.call("PUT", "/v1/groups", {"text": groups})
        await center.started(await center.submit(group="taken", tasks=2, resource="<1, 1G>"))
        assert await cooling() == []
        await center.submit(group="web", resource="<1, 1G>")
        taken = center.committer.machine.core.groups.by_name["taken"]
        await until(lambda: taken.cools_until() > clock.now())
        stands_at = taken.cools_until() - 1
        assert await cooling() == ["taken"]
        stands_at += 1
        assert await cooling() == []

    inside(tmp_path, story, clock=clock, options=("cooling=30s", "cooling_above_quota=30s"))


def test_a_dry_run_changes_nothing(center: Center) -> None:
    assert center.put_groups(_TWO, dry_run=True)["changes"] == 2
    assert [group["name"] for group in center.get("/v1/groups")["groups"]] == ["default"]


def test_a_wrong_file_is_told_line_by_line_and_changes_nothing(center: Center) -> None:
    error = center.put_groups("Name: news\nResourceQuota: much\nWieght: 2\n", 422, file="my.conf")
    assert [(fault["file"], fault["line"]) for fault in error["faults"]] == [("my.conf", 2), ("my.conf", 3)]
    assert "did you mean Weight?" in error["message"]
    assert [group["name"] for group in center.get("/v1/groups")["groups"]] == ["default"]


def test_quotas_are_held_against_the_nodes_that_registered(center: Center) -> None:
    with center.executor(resource="<2, 4G>"):
        error = center.put_groups("Name: news\nResourceQuota: 3\n", 422)
        assert "above the capacity" in error["message"]
        notes = center.put_groups(_TWO)["notes"]
        assert any("all quotas together are 3 cores, the cluster has 2 cores" in note for note in notes)


def test_jobs_of_a_removed_group_need_a_new_home(center: Center) -> None:
    center.put_groups(_TWO)
    id = center.submit(group="news")
    only_web = "Name: web\nResourceQuota: 1\n"
    for dry_run in True, False:
        assert "news" in center.put_groups(only_web, 422, dry_run=dry_run)["message"]
    assert "did you mean web?" in center.put_groups(only_web, 422, moves={"news": "wep"})["message"]
    center.put_groups(only_web, moves={"news": "web"})
    assert center.get(f"/v1/jobs/{id}")["state"] == "waiting"
    assert {group["name"]: group["waiting"] for group in center.get("/v1/groups")["groups"]} == {"default": 0, "web": 1}


def test_users_that_a_group_does_not_know_are_not_accepted(center: Center) -> None:
    center.put_groups(_TWO)
    error = center.post("/v1/jobs", {"jobs": [{"command": ["true"], "group": "web"}]}, 409)
    assert "may not submit to group web" in error["message"]


def test_a_cordoned_node_takes_nothing_new(center: Center) -> None:
    with center.executor() as executor:
        node = center.post("/v1/nodes/n1/cordon", {"reason": "a new disk"})
        assert (node["state"], node["reason"]) == ("cordoned", "a new disk")
        id = center.submit()
        assert center.get(f"/v1/jobs/{id}")["state"] == "waiting"
        assert center.post("/v1/nodes/n1/uncordon")["state"] == "up"
        assert executor.launches()[0].job == id
    assert "no node 'n2' (one of n1)" in center.post("/v1/nodes/n2/cordon", status=404)["message"]


def test_a_node_is_away_when_its_executor_leaves_and_up_when_it_is_back(center: Center) -> None:
    with center.executor(resource="<3, 8G>"):
        state = center.get("/v1/state")
        assert (state["nodes_up"], state["capacity"]["cpu"]) == (1, "3")
    eventually(lambda: center.get("/v1/nodes/n1")["state"] == "away")
    assert center.get("/v1/state")["capacity"] == {}
    with center.executor(resource="<3, 8G>"):
        assert center.get("/v1/nodes/n1")["state"] == "up"


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        ({"version": 4}, "speaks protocol 4"),
        ({"resource": "<much>"}, "resource of the node"),
        ({"name": ""}, "is not a name of a node"),
        ({"name": "../n1"}, "is not a name of a node"),
    ],
)
def test_an_executor_that_is_wrong_is_refused_for_good(shared: Center, hello: dict[str, Any], says: str) -> None:
    with shared.executor(**hello) as executor:
        assert isinstance(executor.first, Refused)
        assert says in executor.first.what
        assert executor.first.permanent
        assert executor.closed()


def test_an_executor_of_a_release_that_is_too_new_is_refused_until_the_center_is_upgraded(shared: Center) -> None:
    with shared.executor(version=99, protocol=(99, 0), oldest=98) as executor:
        assert isinstance(executor.first, Refused)
        assert "speaks protocol 98 to 99" in executor.first.what
        assert "upgrade this center first" in executor.first.hint
        assert not executor.first.permanent


def test_a_second_executor_of_the_same_name_is_refused_while_the_first_one_lives(center: Center) -> None:
    with center.executor() as first, center.executor() as second:
        assert isinstance(first.first, Welcome)
        assert isinstance(second.first, Refused)
        assert "connected already" in second.first.what
        assert not second.first.permanent
        assert center.get("/v1/nodes/n1")["state"] == "up"


_TREE = (
    "Name: all\nMaxQuota: 6\n\nName: web\nParent: all\nResourceQuota: 2\nLendable: 1\n\nName: lab\nParent: "
    "all\nResourceQuota: 1\n"
)


def test_a_tree_of_groups_through_the_api(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join(cores=8)
        applied = await center.call("PUT", "/v1/groups", {"text": _TREE})
        assert applied["changes"] == 3
        page = await center.get("/v1/groups")
        shown = {group["name"]: group for group in page["groups"]}
        assert [(shown[name]["parent"], shown[name].get("inner", False)) for name in ("all", "web", "lab")] == [
            ("", True),
            ("all", False),
            ("all", False),
        ]
        assert (shown["all"]["quota"], shown["all"]["max_quota"], shown["web"]["lendable"]) == ("3", "6", "1")
        # Of the 2 of web 1 is kept, so that much less of all is there for others.
        assert [shown[name]["lends"] for name in ("all", "web", "lab")] == ["2", "1", "1"]
        assert shown["web"]["share_of_parent"] == pytest.approx(2 / 3, abs=1e-5)
        again = await center.call("PUT", "/v1/groups", {"text": page["text"]})
        assert again["changes"] == 0
        await center.call("POST", "/v1/groups/all", {"values": {"Submit": "closed", "MaxJobs": "5"}})
        page = await center.get("/v1/groups")
        (above,) = [group for group in page["groups"] if group["name"] == "all"]
        assert (above["closed"], above["limits"], above["closed_since"] > 0) == (True, {"MaxJobs": "5"}, True)

    inside(tmp_path, story)
