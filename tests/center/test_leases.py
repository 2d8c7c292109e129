"""Leases through the API: requested, held, used, lent, given back (design note 0024)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cress.model.reports import Cause
from tests.center.program import Center, Executor, eventually


def ask(center: Center, expect: int = 201, **keys: Any) -> Any:
    return center.post("/v1/leases", {"workload": "dask", "resource": "<4, 4G>"} | keys, expect)


def leases(center: Center, id: str = "", **query: Any) -> list[Any]:
    found: list[Any] = center.get(f"/v1/leases{id and '/'}{id}", **query)["leases"]
    return found


def test_a_lease_is_requested_held_and_released(center: Center) -> None:
    with center.executor() as executor:
        (asked,) = ask(center)["leases"]
        assert asked["id"] in ("1", "1.0")
        (launch,) = executor.launches()
        assert center.get("/v1/jobs/1")["command"] == ["sleep", "infinity"]
        executor.started(launch.attempt)
        (held,) = eventually(lambda: [each for each in leases(center) if each["state"] == "held"])
        assert (held["id"], held["workload"], held["node"]) == ("1.0", "dask", "n1")
        assert (held["holds"], held["uses"]) == ({"cpu": "4", "memory": "4G"}, {})
        assert held["idle"] == {"cpu": "4", "memory": "4G"}
        answer = center.http.delete("/v1/leases/1.0").json()["leases"]
        assert [(each["state"], each["reason"][:11]) for each in answer] == [("stopping", "released by")]
        assert executor.stops().stops[0].attempt == launch.attempt
        executor.ended(launch.attempt, cause=Cause.STOPPED, code=-15)
        eventually(lambda: center.get("/v1/jobs/1")["state"] == "succeeded")
        assert leases(center) == []


def held(center: Center, executor: Executor, **keys: Any) -> tuple[Any, int]:
    """A lease that is held, and its attempt."""
    ask(center, **keys)
    (launch,) = executor.launches()
    executor.started(launch.attempt)
    (found,) = eventually(lambda: [each for each in leases(center) if each["attempt"] == launch.attempt])
    return found, launch.attempt


def test_a_short_job_borrows_and_gives_back_within_the_grace_of_loans(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True, option="lending=on reclaim_grace=1s") as center:
        with center.executor(resource="<4, 4G>") as executor:
            lease, _ = held(center, executor)
            borrower = center.submit(resource="<3, 1G>", time_limit="1min", stop_grace="1h")
            (launch,) = executor.launches()
            executor.started(launch.attempt)
            (now,) = leases(center, lease["id"])
            assert now["lent"] == [
                {"job": borrower, "task": 0, "group": "default", "amounts": {"cpu": "3", "memory": "1G"}}
            ]
            assert now["idle"] == {"cpu": "1", "memory": "3G"}
            (attempt,) = center.get(f"/v1/jobs/{borrower}/tasks/0")["attempts"]
            assert (attempt["borrows"], attempt["lenders"]) == ({"cpu": "3", "memory": "1G"}, ["1.0"])

            center.post("/v1/leases/1.0/use", {"amounts": {"cpu": 4, "memory": "4G"}})
            (stop,) = executor.stops().stops
            assert (stop.attempt, stop.grace) == (launch.attempt, 1_000_000)
            (now,) = leases(center, "1")
            assert (now["uses"]["cpu"], now["wants"]["cpu"]) == ("1", "4")
            executor.ended(launch.attempt, cause=Cause.STOPPED, code=-9)
            (now,) = leases(center, "1.0")
            assert now["uses"] == now["wants"] == {"cpu": "4", "memory": "4G"}
        told = [json.loads(line[5:]) for line in events(center) if line.startswith("data:")]
        assert "uses <4,4G>" in [each.get("text") for each in told if each["kind"] == "lease.used"]


def events(center: Center) -> list[str]:
    text: str = center.http.get("/v1/events", params={"after": 0, "follow": "false"}).text
    return text.splitlines()


def test_lending_can_be_switched_on_while_a_lease_is_held(center: Center) -> None:
    with center.executor() as executor:
        held(center, executor)
        center.submit(resource="<3, 1G>", time_limit="1min")
        assert (
            center.http.put("/v1/config", json={"options": {"lending": "on", "min_fragment": "0.5"}}).status_code == 200
        )
        executor.launches()
        assert leases(center, "1.0")[0]["lent"][0]["amounts"]["cpu"] == "3"
        assert center.http.put("/v1/config", json={"options": {"reclaim_grace": "7s"}}).status_code == 200
        center.post("/v1/leases/1.0/use", {"amounts": "<4, 4G>"})
        assert executor.stops().stops[0].grace == 5_000_000, "its own is shorter"


def test_tasks_run_inside_a_lease_on_its_node(center: Center) -> None:
    with center.executor() as executor, center.executor("n2") as other:
        asked = ask(center, nodes=["n1"], min_time="1min")["leases"]
        assert [each["count"] for each in asked] == [1]
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        made = center.post("/v1/leases/1/tasks", {"command": ["true"], "resource": "<3, 1G>"}, 201)["jobs"][0]["id"]
        (inside,) = executor.launches()
        (lease,) = leases(center, "1.0")
        assert [(each["job"], each["amounts"]["cpu"]) for each in lease["tasks"]] == [(made, "3")]
        assert center.get(f"/v1/jobs/{made}")["workload"] == "dask"
        assert center.get(f"/v1/jobs/{made}/tasks/0")["attempts"][0]["inside"] == ["1.0"]
        executor.ended(inside.attempt)
        error = center.post("/v1/leases/1.0/tasks", {"command": ["true"], "resource": "<5, 1G>"}, 409)
        assert "a task is larger than lease 1.0: more cpu" in error["message"]
        error = center.post("/v1/leases/1.0/tasks", {"command": ["true"], "workload": "spark"}, 409)
        assert "the workload of the lease is dask" in error["message"]
        assert other.epoch


GROUPS = "Name: dask\nResourceQuota: 1\n\nName: batch\nResourceQuota: 7\n"


def cores(view: Any) -> list[float]:
    """What a lease holds, and the sum of what its parts have: what is used, idle, in tasks, lent."""
    parts = [view["uses"], view["idle"], *(each["amounts"] for each in (*view["tasks"], *view["lent"]))]
    return [float(view["holds"].get("cpu", 0)), sum(float(each.get("cpu", 0)) for each in parts)]


def test_a_lease_with_a_task_in_it_is_taken_as_a_whole_after_its_minimum_time(tmp_path: Path) -> None:
    """A lease of 6 of 8 cores with ``min_time`` and a task of 5 in it, and a group below its quota that asks for 5."""
    with Center(tmp_path / "data", forked=True) as center:
        center.put_groups(GROUPS)
        with center.executor(resource="<8, 8G>") as executor:
            first, holder = held(center, executor, resource="<6, 4G>", group="dask", min_time="6s")
            center.post("/v1/leases/1.0/tasks", {"command": ["work"], "resource": "<5, 1G>"}, 201)
            (inside,) = executor.launches()
            executor.started(inside.attempt)
            entitled = center.submit(resource="<5, 1G>", group="batch")
            (lease,) = leases(center, "1.0")
            assert cores(lease) == [6, 6]
            # On a busy machine its minimum time may be over by now.
            assert lease["state"] == "held" or time.time() - first["since"] > 5
            stops = [*executor.stops().stops]
            while len(stops) < 2:
                stops += executor.stops().stops
            assert time.time() - first["since"] >= 5.9, "not before its minimum time"
            assert {each.attempt for each in stops} == {holder, inside.attempt}
            (lease,) = leases(center, "1.0")
            assert (lease["state"], cores(lease)) == ("stopping", [6, 6])
            assert lease["reason"].startswith(f"preempted for job {entitled}")
            told = [json.loads(line[5:]) for line in events(center) if line.startswith("data:")]
            assert [each["text"] for each in told if each["kind"] == "lease.stopping"]
            executor.ended(inside.attempt, cause=Cause.STOPPED, code=-15)
            (launch,) = executor.launches()
            assert (launch.job, launch.task) == (entitled, 0)
            # Beside the five cores of that one, the lease has what is left of it until its program has ended.
            (lease,) = leases(center, "1.0")
            assert cores(lease) == [1, 1]
            executor.ended(holder, cause=Cause.STOPPED, code=-15)
            assert [each["state"] for each in leases(center)] == ["waiting"]


def test_what_a_workload_holds_in_all_is_one_call(tmp_path: Path) -> None:
    """Two leases of 2 cores on n1 and n2 of which one runs a task and one lends, one that waits; and who borrows."""
    with Center(tmp_path / "data", forked=True, option="lending=on") as center:
        assert center.get("/v1/workloads")["workloads"] == []
        with center.executor(resource="<2, 4G>") as one, center.executor("n2", resource="<2, 4G>") as two:
            ask(center, count=2, resource="<2, 1G>")
            for executor in (one, two):
                executor.started(executor.launches()[0].attempt)
            center.post("/v1/leases/1.0/use", {"amounts": "<0.5>"})
            center.submit(resource="<1, 512M>", workload="dask", requirement='Name = "n1"', time_limit="1h")
            one.launches()
            center.submit(resource="<2, 512M>", workload="spark", time_limit="1min")
            two.launches()
            ask(center, resource="<2, 1G>")
            page = eventually(lambda: found if len(found := center.get("/v1/workloads")["workloads"]) == 2 else None)
            dask, spark = page
            assert (dask["workload"], dask["group"]) == ("dask", "default")
            assert (dask["leases"], dask["kept"], dask["waiting"]) == (2, 0, 1)
            assert dask["holds"] == {"cpu": "4", "memory": "2G"}
            assert (dask["uses"]["cpu"], dask["tasks"]["cpu"], dask["lent"]["cpu"]) == ("0.5", "1", "2")
            assert dask["idle"]["cpu"] == "0.5"
            assert {name: amounts["cpu"] for name, amounts in dask["nodes"].items()} == {"n1": "2", "n2": "2"}
            assert (spark["workload"], spark["leases"], spark["borrows"]["cpu"]) == ("spark", 0, "2")
            (only,) = center.get("/v1/workloads", workload="dask", group="default")["workloads"]
            assert only == dask
            assert center.get("/v1/workloads", group="other")["workloads"] == []


def test_more_and_fewer_leases_of_a_kind(center: Center) -> None:
    with center.executor() as executor:
        ask(center, count=2, resource="<1, 1G>", command=["worker"], uses="<0.5, 1G>")
        launches = executor.launches()
        executor.started(*(each.attempt for each in launches))
        (more,) = center.post("/v1/leases/1/grow", {}, 201)["leases"]
        assert (more["job"], more["workload"], more["holds"]) == (2, "dask", {"cpu": "1", "memory": "1G"})
        assert center.get("/v1/jobs/2")["command"] == ["worker"]
        executor.started(*(each.attempt for each in executor.launches()))
        left = center.post("/v1/leases/1/shrink", {"count": 1})["leases"]
        assert [each["state"] for each in left] == ["held", "stopping"]
        assert left[1]["stops_at"] == pytest.approx(time.time() + 5, abs=5)
        error = center.post("/v1/leases/1/shrink", {"count": 2}, 409)
        assert "1 leases of 1 are held, not 2" in error["message"]


def test_a_request_with_a_key_is_taken_once(center: Center) -> None:
    for _ in range(2):
        answer = center.http.post("/v1/leases", json={"workload": "w"}, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["leases"][0]["job"]) == (201, 1)
    assert len(leases(center)) == 1


def test_a_watcher_hears_of_a_change_at_once(center: Center) -> None:
    with center.executor() as executor:
        ask(center)
        stamp = center.get("/v1/leases/1")["stamp"]
        begin = time.monotonic()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        states, seen = [], stamp
        while "held" not in states:
            page = center.get("/v1/leases/1", wait=30, stamp=seen)
            seen, states = page["stamp"], [each["state"] for each in page["leases"]]
        assert time.monotonic() - begin < 20
        begin = time.monotonic()
        assert center.get("/v1/leases", wait=0.2, stamp=center.get("/v1/leases")["stamp"])["stamp"] == seen
        assert 0.1 < time.monotonic() - begin < 10


def test_leases_and_their_terms_outlive_a_kill(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor() as executor:
        held(center, executor, term="5min")
        center.post("/v1/leases/1.0/use", {"amounts": "<2, 1G>"})
        center.kill()
    with Center(tmp_path / "data", forked=True) as center:
        (lease,) = leases(center)
        assert (lease["uses"], lease["idle"]) == ({"cpu": "2", "memory": "1G"}, {"cpu": "2", "memory": "3G"})
        assert lease["expires"] == pytest.approx(time.time() + 300, abs=60)
        assert center.http.put("/v1/leases/1/renew").status_code == 200


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({}, "workload", "is missing"),
        ({"workload": "w", "tasks": 3}, "tasks", "belongs to jobs, not to leases"),
        ({"workload": "w", "count": 0}, "count", "0 is too small"),
        ({"workload": "w", "term": "10ms"}, "term", "is out of range"),
        ({"workload": "w", "uses": "<9>"}, "uses", "more cpu than the lease has"),
        ({"workload": "w", "uses": "much"}, "uses.cpu", "much"),
        ({"workload": "w", "resorce": "<9>"}, "resorce", "resorce"),
        ({"workload": "/w"}, "workload", "/w"),
        ({"workload": 7.5, "type": "service"}, "type", "belongs to jobs"),
    ],
)
def test_a_mistake_is_named(shared: Center, body: dict[str, Any], field: str, sentence: str) -> None:
    error = shared.post("/v1/leases", body, 422)
    assert [fault["field"] for fault in error["faults"]] == [field], error
    assert sentence in error["message"]


def test_a_dry_run_asks_for_nothing(shared: Center) -> None:
    answer = shared.http.post("/v1/leases", params={"dry_run": "true"}, json={"workload": "w"}).json()
    assert (answer["leases"], leases(shared)) == ([], [])
    answer = shared.http.post("/v1/leases", params={"dry_run": "true"}, json={"workload": "w", "group": "nope"})
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "group")


def test_what_was_given_back_can_be_given_back_again(center: Center) -> None:
    ask(center)
    for _ in range(2):
        answer = center.http.delete("/v1/leases/1")
        assert (answer.status_code, answer.json()["leases"]) == (200, [])


@pytest.mark.parametrize("id", ["x", "1.x", "@4", "99", "1.2.3", "-1", "99999999999999999999999"])
def test_what_is_not_a_lease_is_not_found(shared: Center, id: str) -> None:
    assert shared.http.get(f"/v1/leases/{id}").status_code == 404
    assert shared.http.delete(f"/v1/leases/{id}").status_code == 404


def test_a_job_is_not_a_lease(center: Center) -> None:
    number = center.submit()
    assert center.http.get(f"/v1/leases/{number}").status_code == 404
    assert center.http.delete(f"/v1/leases/{number}").status_code == 404
    assert [job["type"] for job in center.get("/v1/jobs", type="lease")["jobs"]] == []
    ask(center)
    assert [job["type"] for job in center.get("/v1/jobs", type="lease")["jobs"]] == ["lease"]
