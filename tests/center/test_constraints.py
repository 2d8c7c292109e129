"""Constraints through the API: what is refused and where, what a job and a node show, which nodes satisfy a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cress.client import Client, Refused
from cress.model.reports import Cause
from tests.center.program import PATIENCE, Center, eventually


def client(center: Center) -> Client:
    return Client(center.address["url"], center.token, timeout=PATIENCE)


def test_a_typo_is_told_with_its_key_and_character_and_nothing_is_submitted(center: Center) -> None:
    jobs = [{"command": "true"}, {"command": "true", "requirement": ["GCC >= 4", "SSD => 1"], "rank": "CPU +"}]
    error = center.post("/v1/jobs", {"jobs": jobs}, 422)
    assert [fault["field"] for fault in error["faults"]] == ["jobs[1].requirement[1]", "jobs[1].rank"]
    assert "at character" in error["faults"][0]["what"]
    assert center.get("/v1/jobs")["jobs"] == []


def test_jobs_that_depend_on_each_other_are_refused_together(center: Center) -> None:
    jobs = [
        {"command": "true", "name": "a", "job_dependency": "b"},
        {"command": "true", "name": "b", "job_dependency": "a"},
    ]
    error = center.post("/v1/jobs", {"jobs": jobs}, 422)
    assert "depend on each other" in error["message"]
    assert center.get("/v1/jobs")["jobs"] == []


def test_a_dependency_on_a_job_that_depends_on_it_already_is_refused(center: Center) -> None:
    center.submit(name="a", job_dependency="b", hold=True)
    jobs = [{"command": "true", "name": "b", "job_dependency": "a"}]
    assert "depend on each other: b → a → b" in center.post("/v1/jobs", {"jobs": jobs}, 422)["message"]


def test_what_no_node_could_ever_satisfy_is_not_accepted_with_the_clause(center: Center) -> None:
    with center.executor():
        jobs = [{"command": "true", "requirement": 'os = "y"'}]
        error = center.post("/v1/jobs", {"jobs": jobs}, 409)
        assert 'os = "y"' in error["message"]
        assert error["faults"][0]["field"] == "requirement"
        assert center.get("/v1/jobs")["jobs"] == []


def test_a_job_shows_its_constraints_as_submitted_and_as_they_are_now(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(
            resource="<1, 1G>",
            requirement='os = "x" && Memory >= 1G && f(x) = True',
            rank="<CPU>",
            ports={"http": 8080, "admin": "dynamic"},
            max_per_node=1,
            application="shop",
            job_failure=False,
        )
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        view = eventually(lambda: (found := center.get(f"/v1/jobs/{id}"))["started"] and found)
        assert view["requirement"] == 'os = "x" && Memory >= 1G && f(x) = True'
        assert view["requirement_now"].startswith('os = "x" && Resource = <1,1G> && Port = 8080')
        assert (view["rank"], view["rank_now"]) == ("CPU", "CPU + (Memory >= 1G)")
        assert view["ports"] == {"http": 8080, "admin": "dynamic"}
        assert (view["max_per_node"], view["application"], view["job_failure"]) == (1, "shop", False)
        (attempt,) = center.get(f"/v1/jobs/{id}/tasks/0")["attempts"]
        assert attempt["ports"]["http"] == 8080
        assert attempt["ports"]["admin"] == 20_000
        # Names are of what is stored.
        (place,) = eventually(lambda: center.get("/v1/names/true")["places"])
        assert place["ports"] == attempt["ports"]
        executor.ended(launch.attempt)
        over = eventually(lambda: (found := center.get(f"/v1/jobs/{id}"))["ended"] and found)
        assert (over["requirement"], over["rank"], over["requirement_now"]) == (view["requirement"], "CPU", "")
        (attempt,) = center.get(f"/v1/jobs/{id}/tasks/0")["attempts"]
        assert attempt["ports"] == {"http": 8080, "admin": 20_000}


def test_a_node_shows_what_it_is_and_who_has_its_ports(center: Center) -> None:
    facts: dict[str, Any] = {"gcc": "12.2.0", "ssd": True, "slots": 4, "disks": 3}
    with center.executor(attributes=facts, rack="r1", address="10.0.0.1", listening=(22, 5432)) as executor:
        id = center.submit(name="web", port=8080, exclusive_disk=True)
        (launch,) = executor.launches()
        node = center.get("/v1/nodes/n1")
        assert (node["attributes"], node["rack"], node["address"]) == (facts, "r1", "10.0.0.1")
        assert node["ports_seen"] == [22, 5432]
        assert (node["disks"], node["disks_free"]) == (3, 2)
        assert node["tasks"] == [
            {
                "job": id, "task": 0, "attempt": launch.attempt, "name": "web", "started": None,
                "ports": {"port": 8080}, "devices": [{"kind": "disk", "id": "disk0", "amount": 1000}],
            }
        ]  # fmt: skip


def test_nodes_say_whether_they_satisfy_a_text_and_what_they_are_worth(center: Center) -> None:
    with (
        center.executor("n1", attributes={"gcc": "4.10", "ssd": True}),
        center.executor("n2", attributes={"gcc": "4.4"}),
        center.executor("n3"),
        client(center) as calls,
    ):
        found = calls.match_nodes("GCC >= 4.5", "2 × (SSD = True) + 0.5")
        assert found.notes == ()
        told = {node.name: node.match for node in found.nodes}
        one, two, three = told["n1"], told["n2"], told["n3"]
        assert one is not None
        assert two is not None
        assert three is not None
        assert (one.satisfied, one.clause, one.score) == (True, "", 2.5)
        assert (two.satisfied, two.clause, two.undefined) == (False, "GCC >= 4.5", False)
        assert (three.satisfied, three.clause, three.undefined) == (False, "GCC >= 4.5", True)
        assert (one.has, two.has, three.has) == ({}, {"GCC": "4.4"}, {"GCC": None})
        assert all(node.match is None for node in calls.nodes())
        page = center.get("/v1/nodes", where="GCC >= 4.5", limit=2)
        assert [node["match"]["satisfied"] for node in page["nodes"]] == [True, False]
        assert page["notes"] == []
        assert calls.match_nodes("Rack = r1", "CPPU").notes == (
            'no node has an attribute Rack', 'no node has an attribute r1, a text must be in quotes: "r1"',
            "no node has an attribute CPPU, did you mean CPU?",
        )  # fmt: skip
        for field, query in (
            ("where", {"where": "GCC >>"}),
            ("where", {"where": "Job.TPU > 0"}),
            ("rank", {"where": "GCC > 1", "rank": "CPU +"}),
        ):
            with pytest.raises(Refused) as caught:
                calls.match_nodes(**query)
            assert caught.value.bad_input
            assert [fault.field for fault in caught.value.faults] == [field]


def test_a_node_that_is_away_satisfies_nothing(center: Center) -> None:
    with client(center) as calls:
        with center.executor("n1"):
            assert [node.match.satisfied for node in calls.match_nodes("CPU >= 1").nodes if node.match] == [True]
        eventually(lambda: calls.node("n1").state == "away")
        (node,) = calls.match_nodes("CPU >= 1", "CPU").nodes
        assert node.match is not None
        assert (node.match.satisfied, node.match.clause) == (False, "its executor is not connected")


def test_constraints_survive_a_restart(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        id = center.submit(requirement="GCC >= 4.5", rank="CPU", network_adjacent="true && f(x) = (Waittime > 1h)")
        before = center.get(f"/v1/jobs/{id}")
        center.kill()
    with Center(tmp_path / "data", forked=True) as center:
        after = center.get(f"/v1/jobs/{id}")
        for key in ("requirement", "rank", "requirement_now", "rank_now", "state"):
            assert after[key] == before[key]
        assert "NetworkAdjacent = True" in after["requirement_now"]


def test_a_task_that_does_not_run_again_after_its_node_has_failed_and_says_why(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(tasks=2, job_failure=False, retries=3)
        executor.started(*(launch.attempt for launch in executor.launches()))
        lost = executor.ended(1, code=None, cause=Cause.UNKNOWN)
        assert lost.attempts == (1,)
        task = center.get(f"/v1/jobs/{id}/tasks/0")
        assert (task["state"], [each["outcome"] for each in task["attempts"]]) == ("lost", ["lost"])
        executor.ended(2)
        over = eventually(lambda: (found := center.get(f"/v1/jobs/{id}"))["ended"] and found)
        assert (over["state"], over["tasks"]["failed"], over["tasks"]["succeeded"]) == ("lost", 1, 1)
        assert over["reason"] == "a task was lost with node n1; tasks of this job are not restarted"


def test_events_tell_of_what_starts_again_together(center: Center) -> None:
    with center.executor("n1") as executor:
        first = center.submit(name="a")
        (launch,) = executor.launches()
        second = center.submit(name="b", job_dependency="a")
        (other,) = executor.launches()
        executor.started(launch.attempt, other.attempt)
        executor.ended(launch.attempt, other.attempt, code=None, cause=Cause.UNKNOWN)
        with client(center) as calls:
            placed = [(event.job, event.text) for event in calls.events(follow=False) if event.kind == "task.placed"]
        assert placed == [(first, ""), (second, ""), (first, ""), (second, f"together with job {first}")]
