"""Deadlines through the API: what is accepted and foreseen at submit, and what is shown of jobs that have one."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cress.model.times import SECOND
from cress.protocol.messages import Reports
from tests.center.program import Center, Executor, ended, eventually

HOUR = 3600.0


def submit(center: Center, expect: int = 201, query: str = "", **keys: object) -> Any:
    return center.post(f"/v1/jobs{query}", {"jobs": [{"command": ["true"], **keys}]}, expect)


def due(center: Center, number: int) -> Any:
    return center.get(f"/v1/jobs/{number}")["deadline"]


def ran(center: Center, executor: Executor, hours: float, name: str = "true") -> None:
    """A job of this name has run for so long: the next one is expected to take no less.

    The center believes no report of more than ten minutes in a moment.
    """
    center.submit(name=name)
    report = ended(executor.launches()[0].attempt)
    executor.send(Reports(reports=(msgspec.structs.replace(report, started=report.at - round(hours * HOUR * SECOND)),)))
    executor.durable()


def test_a_job_says_how_much_time_is_left(center: Center) -> None:
    with center.executor() as executor:
        number = center.submit(deadline="2h", time_limit="30min")
        executor.launches()
        found = due(center, number)
        assert found["at"] == pytest.approx(time.time() + 2 * HOUR, abs=30)
        assert found["slack"] == pytest.approx(1.5 * HOUR, abs=30)
        assert (found["forecast"], found["chance"]) == ("fine", 1.0)
        assert found["urgency"] == pytest.approx(0.25, abs=0.01)
        # Without earlier runs it may end at any time.
        assert found["earliest_end"] == pytest.approx(time.time(), abs=30)
        (listed,) = center.get("/v1/jobs")["jobs"]
        assert listed["deadline"]["forecast"] == "fine"


def test_a_job_without_a_deadline_says_nothing(center: Center) -> None:
    assert due(center, center.submit()) is None


def test_a_moment_is_one_in_the_zone_of_the_cluster_or_its_own(center: Center) -> None:
    assert due(center, center.submit(deadline="2099-12-01 18:00 +02:00"))["at"] == at("2099-12-01 16:00")
    assert due(center, center.submit(deadline="2099-12-01 18:00Z"))["at"] == at("2099-12-01 18:00")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_deadline_that_has_passed_is_refused(center: Center) -> None:
    error = submit(center, 409, deadline="2020-01-01 12:00Z")
    assert "deadline: 2020-01-01" in error["message"]
    assert "has passed (a later moment, or a time such as 6h)" in error["message"]


def test_a_submit_is_told_whether_the_deadline_will_be_met(center: Center) -> None:
    with center.executor(resource="<1, 1G>"):
        for tried in ("?dry_run=true", ""):
            (job,) = submit(center, 200 if tried else 201, tried, deadline="2h", time_limit="1h")["jobs"]
            assert job["deadline"]["forecast"] == "fine"
        for tried in ("?dry_run=true", ""):
            # The node is taken for an hour at most.
            (job,) = submit(center, 200 if tried else 201, tried, deadline="90min", time_limit="1h")["jobs"]
            assert (job["deadline"]["forecast"], job["deadline"]["chance"]) == ("at_risk", None)
        (job,) = submit(center, deadline="90min")["jobs"]
        assert job["deadline"]["forecast"] == "unknown"


def test_a_strict_submit_is_refused_if_the_deadline_cannot_be_met(center: Center) -> None:
    with center.executor() as executor:
        # The center believes ten minutes of it: that is the shortest run to expect.
        ran(center, executor, 0.5)
        for query in ("?strict=true", "?strict=true&dry_run=true"):
            error = submit(center, 409, query, deadline="9min", time_limit="1h")
            assert "deadline: cannot be met: the job ends at" in error["message"]
        assert len(center.get("/v1/jobs")["jobs"]) == 1
        # A limit does not show that another job cannot be short.
        submit(center, 200, "?strict=true&dry_run=true", name="other", deadline="9min", time_limit="1h")
        submit(center, 201, "?strict=true", deadline="2h", time_limit="1h")
        submit(center, 201, deadline="9min", time_limit="1h")


DAG = {
    "type": "dag",
    "name": "etl",
    "steps": {
        "load": {"command": "true", "time_limit": "10min"},
        "sum": {"command": "true", "time_limit": "20min", "after": ["load"]},
    },
}


def test_a_dag_is_foreseen_by_its_critical_path(center: Center) -> None:
    with center.executor() as executor:
        # By its limits it could miss its deadline, but that proves nothing.
        (job,) = center.post("/v1/jobs?strict=true&dry_run=true", {"jobs": [{**DAG, "deadline": "25min"}]}, 200)["jobs"]
        assert job["deadline"]["forecast"] == "at_risk"
        for step in ("load", "sum"):
            ran(center, executor, 0.15, f"etl.{step}")
        error = center.post("/v1/jobs?strict=true", {"jobs": [{**DAG, "deadline": "16min"}]}, 409)
        assert error["faults"][0]["field"] == "jobs[0].deadline"
        (job,) = center.post("/v1/jobs", {"jobs": [{**DAG, "deadline": "40min"}]}, 201)["jobs"]
        assert job["deadline"]["forecast"] == "fine"
        view = center.get(f"/v1/jobs/{job['id']}")
        assert view["deadline"]["earliest_end"] == pytest.approx(time.time() + 0.3 * HOUR, abs=60)
        load, last = (due(center, step["id"]) for step in view["dag"]["steps"])
        assert (load["at"], last["at"]) == (view["deadline"]["at"] - HOUR / 3, view["deadline"]["at"])
        # By the means of runs of 9 minutes and limits of 10 and 20, which count as half a run.
        assert view["deadline"]["slack"] == pytest.approx(0.3 * HOUR, abs=30)
        assert (load["forecast"], last["forecast"]) == ("fine", "unknown")


def test_the_runs_of_a_cron_job_have_deadlines(center: Center) -> None:
    number = center.submit(type="cron", name="tidy", when="@daily", deadline="6h")
    view = center.get(f"/v1/jobs/{number}")
    assert (view["deadline"], view["within"]) == (None, 6 * HOUR)


def test_a_service_has_no_deadline(center: Center) -> None:
    error = submit(center, 422, type="service", name="web", deadline="6h")
    assert "deadline: belongs to jobs of type batch, cron or dag" in error["message"]


def test_a_resumed_dag_gets_the_time_again_and_forgets_a_moment_that_passed(center: Center) -> None:
    soon = datetime.fromtimestamp(time.time() + 2, UTC).isoformat()
    with center.executor() as executor:
        ids = [job["id"] for job in center.post("/v1/jobs", {"jobs": [{**DAG, "deadline": soon}]}, 201)["jobs"]]
        executor.ended(executor.launches()[0].attempt, code=1)
        eventually(lambda: center.get(f"/v1/jobs/{ids[0]}")["state"] == "failed")
        time.sleep(2.5)
        (again,) = center.post(f"/v1/jobs/{ids[0]}/resume", {}, 201)["jobs"]
        assert due(center, again["id"]) is None


def test_what_is_over_says_whether_it_met_its_deadline_and_so_does_the_usage(center: Center) -> None:
    soon = datetime.fromtimestamp(time.time() + 1.5, UTC).isoformat()
    with center.executor() as executor:
        good, late, bad = numbers = [center.submit(deadline=each) for each in ("1h", soon, "1h")]
        attempts: dict[int, int] = {}
        while attempts.keys() != {*numbers}:
            attempts |= {launch.job: launch.attempt for launch in executor.launches()}
        executor.ended(attempts[good])
        executor.ended(attempts[bad], code=1)
        time.sleep(2)
        executor.ended(attempts[late])
        eventually(lambda: center.get(f"/v1/jobs/{late}")["state"] == "succeeded")
        assert [due(center, number)["forecast"] for number in (good, late, bad)] == ["met", "missed", "missed"]
        assert due(center, good)["slack"] == pytest.approx(HOUR, abs=30)

    def counted() -> bool:
        found = center.get("/v1/usage")["usage"]
        return (sum(each["met"] for each in found), sum(each["missed"] for each in found)) == (1, 2)

    eventually(counted, 30)
    kinds = {event["job"]: event["text"] for event in events(center) if event["kind"] == "job.deadline_missed"}
    assert kinds.keys() == {late, bad}
    assert kinds[late].startswith("it should have ended by 20")


def events(center: Center) -> list[Any]:
    lines = center.http.get("/v1/events", params={"after": 0, "follow": "false"}).text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_deadline_at_risk_is_an_event(center: Center) -> None:
    with center.executor() as executor:
        center.submit(name="other", deadline="10min", time_limit="1h")
        executor.launches()
        ran(center, executor, 0.5)
        known = center.submit(deadline="10min", time_limit="1h")
        eventually(lambda: bool(risks(center)))
        # Nothing is known of the other one but its limit.
        ((number, text),) = risks(center).items()
        assert number == known
        assert text.startswith("the deadline cannot be met: the job ends at 20")


def risks(center: Center) -> dict[int, str]:
    return {event["job"]: event["text"] for event in events(center) if event["kind"] == "job.deadline_at_risk"}
