"""Moving running tasks through the API: plans, rounds, who may ask for what, what is refused, rounds by the option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cress.model.reports import Cause
from tests.center.program import Center, Executor, eventually

JOB = {"resource": "<2, 64M>", "movable": True, "stop_grace": "1s"}


def two_half_full(center: Center, first: Executor, second: Executor) -> dict[str, tuple[int, int]]:
    """A movable job of two cores on each of the nodes n1 and n2; job and attempt by node."""
    found = {}
    for name, other, executor in (("n1", "n2", first), ("n2", "n1", second)):
        center.post(f"/v1/nodes/{other}/cordon", {})
        number = center.submit(**JOB)
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        center.post(f"/v1/nodes/{other}/uncordon", {})
        found[name] = number, launch.attempt
    eventually(lambda: center.get("/v1/state")["tasks_running"] == 2)
    eventually(lambda: all(center.get(f"/v1/jobs/{number}")["started"] for number, _ in found.values()))
    return found


def test_a_plan_is_shown_carried_out_and_told(center: Center) -> None:
    with center.executor("n1") as n1, center.executor("n2") as n2:
        jobs = two_half_full(center, n1, n2)
        plan = center.get("/v1/rebalance")
        (move,) = plan["moves"]
        assert (plan["before"]["nodes"], plan["after"]["nodes"], plan["nodes"]) == (0, 1, [move["node"]])
        assert (plan["movable"], plan["stays"], plan["note"]) == (2, [], "")
        assert move["lost"] == pytest.approx(plan["lost"])
        number, attempt = jobs[move["node"]]
        assert (move["job"], move["task"], move["attempt"], move["goal"]) == (number, 0, attempt, "nodes")
        # Nothing has moved.
        assert center.get("/v1/rebalance/round")["number"] == 0
        begun = center.post("/v1/rebalance", {"moves": [{"attempt": attempt, "to": move["to"]}]}, 201)
        assert (begun["number"], begun["state"], len(begun["under_way"])) == (1, "moving", 1)
        source, target = (n1, n2) if move["node"] == "n1" else (n2, n1)
        assert source.stops().stops[0].attempt == attempt
        source.ended(attempt, cause=Cause.STOPPED, code=-15)
        (launch,) = target.launches()
        target.started(launch.attempt)
        last = eventually(lambda: (now := center.get("/v1/rebalance/round"))["state"] == "done" and now)
        assert (last["problem"], [each["to"] for each in last["done"]]) == ("", [move["to"]])
        assert center.get("/v1/rebalance")["note"] == "there is nothing worth moving: 2 running tasks may move"
        (record, _) = center.get(f"/v1/jobs/{number}/tasks/0")["attempts"]
        assert record["outcome"] == "preempted"
        assert record["error"].startswith(f"moved to node {move['to']} by ")
        events = center.http.get("/v1/events", params={"after": 0, "follow": "false"}).text
        assert [kind for kind in ("rebalance.begun", "task.moved", "rebalance.ended") if kind in events] == [
            "rebalance.begun", "task.moved", "rebalance.ended",
        ]  # fmt: skip


def test_room_is_made_for_a_job_of_ones_own(center: Center) -> None:
    with center.executor("n1") as n1, center.executor("n2") as n2:
        two_half_full(center, n1, n2)
        large = center.submit(resource="<4, 64M>", command="true")
        plan = center.get("/v1/rebalance", **{"for": large})
        assert (plan["job"], len(plan["moves"])) == (large, 1)
        body = {"moves": [{"attempt": each["attempt"], "to": each["to"]} for each in plan["moves"]]}
        center.post("/v1/rebalance", body | {"job": large, "place": plan["place"]}, 201)
        source = n1 if plan["moves"][0]["node"] == "n1" else n2
        source.ended(source.stops().stops[0].attempt, cause=Cause.STOPPED, code=-15)
        assert {each.job for each in source.launches()} == {large}


REFUSED_PLANS: tuple[tuple[dict[str, str], int, str], ...] = (
    ({"for": "99"}, 404, "there is no job 99"),
    ({"for": "web"}, 404, "there is no job web"),
    ({"for": "1"}, 409, "job 1 does not wait: all its unfinished tasks run"),
    ({"for": "2"}, 409, "does not wait for room: held by "),
    ({"for": "1", "goal": "nodes"}, 422, "cannot be combined with a job"),
    ({"goal": "racks"}, 422, "'racks' is not a goal"),
    ({"moves": "0"}, 422, ""),
)
REFUSED_ROUNDS: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({}, 422, "moves"),
    ({"moves": []}, 422, "there is nothing to move"),
    ({"moves": [{"attempt": 77, "to": "n1"}]}, 409, "attempt 77 has ended"),
    ({"moves": [{"attempt": 1, "to": "n9"}]}, 422, "node 'n9' is not a valid target"),
    ({"moves": [{"attempt": 1, "to": "n1"}]}, 422, "node 'n1' is not a valid target"),
    ({"moves": [{"attempt": 1}]}, 422, "to"),
    ({"moves": [{"attempt": 1, "to": "n1"}], "job": 1}, 409, "does not wait"),
)


def test_what_makes_no_sense_is_refused(center: Center) -> None:
    with center.executor("n1") as executor:
        center.submit(**JOB)
        executor.started(executor.launches()[0].attempt)
        center.submit(hold=True)
        for query, status, told in REFUSED_PLANS:
            answer = center.http.get("/v1/rebalance", params=query)
            assert (answer.status_code, told in answer.text) == (status, True), (query, answer.text)
        for body, status, told in REFUSED_ROUNDS:
            answer = center.http.post("/v1/rebalance", json=body)
            assert (answer.status_code, told in answer.text) == (status, True), (body, answer.text)
        assert center.get("/v1/rebalance/round")["number"] == 0
        assert center.http.delete("/v1/rebalance").status_code == 409
        for value, told in (("sometimes", "not a valid schedule"), ("5s", "too often"), ("61 * * * *", "61")):
            answer = center.http.put("/v1/config", json={"options": {"rebalance": value}})
            assert (answer.status_code, told in answer.text) == (422, True), answer.text
        assert center.get("/v1/config")["options"]["rebalance"] == "off"


def test_users_ask_for_their_own_jobs_only(center: Center) -> None:
    center.http.put("/v1/users/ann", json={"role": "user"})
    token = center.post("/v1/tokens", {"name": "a", "user": "ann"}, 201)["secret"]
    with center.executor("n1"), center.client(Authorization=f"Bearer {token}") as ann:
        theirs = center.submit(resource="<4, 64M>", hold=True)
        answer = ann.post("/v1/jobs", json={"jobs": [{"command": ["true"], "hold": True}]})
        assert answer.status_code == 201, answer.text
        own = answer.json()["jobs"][0]["id"]
        assert ann.get("/v1/rebalance").status_code == 403
        assert ann.get("/v1/rebalance", params={"for": theirs}).status_code == 403
        assert "held by ann until it is released" in ann.get("/v1/rebalance", params={"for": own}).text
        assert ann.post("/v1/rebalance", json={"moves": []}).status_code == 403
        assert ann.delete("/v1/rebalance").status_code == 403
        assert ann.get("/v1/rebalance/round").status_code == 200


@pytest.mark.long
def test_a_round_begins_by_itself_within_its_budget(center: Center) -> None:
    with center.executor("n1") as n1, center.executor("n2") as n2:
        two_half_full(center, n1, n2)
        # Every minute is the shortest; a cron expression comes within one.
        options = {"rebalance": "* * * * *", "rebalance_moves": "1", "rebalance_lost": "0"}
        assert center.http.put("/v1/config", json={"options": options}).status_code == 200
        assert center.get("/v1/rebalance", lost=0)["moves"] == []
        assert center.http.put("/v1/config", json={"options": {"rebalance_lost": "5"}}).status_code == 200
        begun = eventually(lambda: (now := center.get("/v1/rebalance/round"))["number"] and now, 90)
        assert (begun["by"], len(begun["under_way"])) == ("", 1)


def test_a_round_goes_on_under_the_next_center(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Center(data, forked=True) as center, center.executor("n1") as n1, center.executor("n2") as n2:
        two_half_full(center, n1, n2)
        (move,) = center.get("/v1/rebalance")["moves"]
        center.post("/v1/rebalance", {"moves": [{"attempt": move["attempt"], "to": move["to"]}]}, 201)
        center.kill()
    with Center(data, forked=True) as center:
        now = center.get("/v1/rebalance/round")
        assert (now["state"], [each["attempt"] for each in now["under_way"]]) == ("moving", [move["attempt"]])
