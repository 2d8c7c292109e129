"""Jobs through the API: submitted, run by an executor, looked at, cancelled, read."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from cress.model.reports import Cause
from cress.protocol.logs import LogFrame, LogFrames
from cress.protocol.messages import Signal
from tests.budget import slowness_now
from tests.center.program import Center, eventually, lines_of


def test_a_job_goes_its_way_from_submit_to_success(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(name="etl", command=["sleep", "1"], environment={"A": "b"})
        (launch,) = executor.launches()
        assert (launch.job, launch.task) == (id, 0)
        job = center.get(f"/v1/jobs/{id}")
        assert (job["name"], job["state"], job["command"], job["environment"]) == (
            "etl", "running", ["sleep", "1"], {"A": "b"},
        )  # fmt: skip
        assert center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "starting"
        executor.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running")
        assert center.get("/v1/nodes/n1")["running"] == 1
        assert center.get("/v1/nodes/n1")["attributes"] == {"os": "x"}
        assert executor.ended(launch.attempt).attempts == (launch.attempt,)
        job = center.get(f"/v1/jobs/{id}")
        assert (job["state"], job["tasks"]["succeeded"], job["command"]) == ("succeeded", 1, ["sleep", "1"])
        assert job["submitted"] <= job["started"] <= job["ended"]
        (task,) = center.get(f"/v1/jobs/{id}/tasks")["tasks"]
        assert [(each["id"], each["outcome"], each["code"]) for each in task["attempts"]] == [
            (launch.attempt, "succeeded", 0)
        ]


def test_a_gang_that_is_over_still_has_what_its_parts_asked_for(center: Center) -> None:
    with center.executor() as executor:
        parts = {"a": {"command": "x", "requirement": 'os = "x"', "rank": "Memory"}, "b": {"command": "y"}}
        id = center.submit(gang=True, parts=parts, requirement="CPU > 0")
        launches = executor.launches()

        def asked() -> tuple[str, list[tuple[str, str]]]:
            job = center.get(f"/v1/jobs/{id}")
            return job["state"], [(each["requirement"], each["rank"]) for each in job["parts"]]

        own = [('os = "x"', "Memory"), ("CPU > 0", "")]
        assert asked() == ("running", own)
        executor.started(*(each.attempt for each in launches))
        executor.ended(*(each.attempt for each in launches))
        assert asked() == ("succeeded", own)


def test_what_waits_says_why(center: Center) -> None:
    id = center.submit()
    assert center.get(f"/v1/jobs/{id}")["reason"] == "no executor is connected"
    with center.executor(resource="<1, 1G>") as executor:
        executor.launches()
        second = center.submit()
        assert "no node has enough free; of 1 node 1 lacks cpu" in center.get(f"/v1/jobs/{second}")["reason"]
        assert center.get(f"/v1/jobs/{id}")["reason"] == ""


def test_a_list_is_accepted_as_a_whole_or_not_at_all(center: Center) -> None:
    bad = [{"command": ["true"]}, {"command": ["true"], "group": "defualt"}, {"command": ["true"], "tasks": 0}]
    error = center.post("/v1/jobs", {"jobs": bad}, 422)
    assert [fault["field"] for fault in error["faults"]] == ["jobs[2].tasks"]
    error = center.post("/v1/jobs", {"jobs": bad[:2]}, 422)
    assert "there is no group 'defualt' (did you mean default?)" in error["message"]
    assert center.get("/v1/jobs")["jobs"] == []
    page = center.post("/v1/jobs", {"jobs": [{"command": ["true"], "name": name} for name in "abc"]}, 201)
    assert [(job["id"], job["name"]) for job in page["jobs"]] == [(1, "a"), (2, "b"), (3, "c")]


def test_what_can_never_run_is_not_accepted(center: Center) -> None:
    with center.executor(resource="<4, 8G>"):
        error = center.post("/v1/jobs", {"jobs": [{"command": ["true"], "resource": "<64>"}]}, 409)
    assert error["code"] == "not_accepted"
    assert error["faults"][0]["field"] == "resource"


def test_a_million_tasks_are_one_row(center: Center) -> None:
    begin = time.monotonic()
    id = center.submit(tasks=1_000_000)
    page = center.get(f"/v1/jobs/{id}/tasks", limit=3, after=999_995)
    assert [task["index"] for task in page["tasks"]] == [999_996, 999_997, 999_998]
    assert page["next"] == 999_998
    assert center.get(f"/v1/jobs/{id}/tasks", after=999_998)["next"] is None
    assert center.get(f"/v1/jobs/{id}")["tasks"]["waiting"] == 1_000_000
    # A row for each task would take many times as long, on any machine.
    assert time.monotonic() - begin < 5 * slowness_now().wall


def test_pages_hold_each_job_once_whether_it_lives_or_is_over(center: Center) -> None:
    with center.executor(resource="<1, 1G>") as executor:
        for number in range(7):
            center.submit(name="even" if number % 2 else "odd")
        for _ in range(3):
            (launch,) = executor.launches()
            executor.ended(launch.attempt, code=int(launch.job == 2))
        seen: list[int] = []
        before: Any = None
        while True:
            page = center.get("/v1/jobs", limit=2, **({} if before is None else {"before": before}))
            seen += [job["id"] for job in page["jobs"]]
            before = page["next"]
            if before is None:
                break
        assert seen == [7, 6, 5, 4, 3, 2, 1]

        def ids(**query: Any) -> list[int]:
            return [job["id"] for job in center.get("/v1/jobs", **query)["jobs"]]

        assert ids(name="even") == [6, 4, 2]
        assert ids(state="succeeded") == [3, 1]
        assert ids(state="failed") == [2]
        assert ids(state="running") == [4]
        assert ids(state="pending", limit=1) == [7]
        assert ids(group="default", name="odd", before=5) == [3, 1]
        assert ids(user="nobody_known") == []


def test_tasks_can_be_asked_for_by_state(center: Center) -> None:
    with center.executor(resource="<2, 2G>") as executor:
        id = center.submit(tasks=5)
        first, second = executor.launches()
        executor.ended(first.attempt, code=3)
        executor.launches()

        def tasks(state: str, **query: Any) -> list[int]:
            return [task["index"] for task in center.get(f"/v1/jobs/{id}/tasks", state=state, **query)["tasks"]]

        assert (tasks("failed"), tasks("starting"), tasks("waiting")) == ([0], [1, 2], [3, 4])
        assert tasks("waiting", limit=1) == [3]
        assert second.task == 1


def test_who_waits_for_a_job_hears_when_it_is_over(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        assert center.get(f"/v1/jobs/{id}", wait=0.05)["state"] == "running"
        (launch,) = executor.launches()
        heard: list[str] = []
        with center.client() as other:
            waiting = threading.Thread(
                target=lambda: heard.append(other.get(f"/v1/jobs/{id}", params={"wait": 60}).json()["state"])
            )
            waiting.start()
            executor.ended(launch.attempt)
            waiting.join()
        assert heard == ["succeeded"]
        assert center.get(f"/v1/jobs/{id}", wait=60)["state"] == "succeeded"


def test_a_cancelled_job_is_stopped_and_stays_cancelled(center: Center) -> None:
    with center.executor(resource="<1, 1G>") as executor:
        id = center.submit(tasks=3, stop_grace="7s")
        (launch,) = executor.launches()
        center.post(f"/v1/jobs/{id}/cancel")
        stops = executor.stops()
        assert [(stop.attempt, stop.grace) for stop in stops.stops] == [(launch.attempt, 7_000_000)]
        executor.ended(launch.attempt, code=-15, cause=Cause.STOPPED)
        job = center.get(f"/v1/jobs/{id}")
        assert (job["state"], job["tasks"]["cancelled"]) == ("cancelled", 3)
        assert [task["state"] for task in center.get(f"/v1/jobs/{id}/tasks")["tasks"]] == ["cancelled"] * 3
        assert center.post(f"/v1/jobs/{id}/cancel")["state"] == "cancelled"
        center.post("/v1/jobs/99/cancel", status=404)


def test_signals_reach_running_tasks(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(tasks=2)
        first, second = executor.launches()
        center.post(f"/v1/jobs/{id}/signal", {"signal": "int", "task": 1})
        assert executor.receive() == Signal(epoch=executor.epoch, attempt=second.attempt, number=2)
        center.post(f"/v1/jobs/{id}/signal", {"signal": "SIGUSR1"})
        received = [executor.receive(), executor.receive()]
        assert {each.attempt for each in received if isinstance(each, Signal)} == {first.attempt, second.attempt}
        error = center.post(f"/v1/jobs/{id}/signal", {"signal": "SIGHUPP"}, 422)
        assert "did you mean HUP?" in error["message"]
        center.post(f"/v1/jobs/{id}/signal", {"signal": "INT", "task": 2}, 404)
        executor.ended(first.attempt, second.attempt)
        assert center.post(f"/v1/jobs/{id}/signal", {"signal": "INT"}, 409)["code"] == "not_accepted"


def test_logs_are_read_from_the_node_and_followed_over_attempts(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running")
        with lines_of(center, f"/v1/jobs/{id}/logs?follow=true") as parts:
            question = executor.answer_logs(b"one\n", over=False)
            assert (question.attempt, question.stream, question.offset) == (launch.attempt, "stdout", 0)
            assert next(parts) == b"one\n"
            executor.answer_logs(b"one\ntwo\n", over=True)
            assert next(parts) == b"two\n"
            # Nobody saw how it ended: it is tried again, and the follower goes on with the next attempt.
            executor.ended(launch.attempt, code=0, cause=Cause.UNKNOWN)
            (again,) = executor.launches()
            assert again.attempt != launch.attempt
            executor.started(again.attempt)
            executor.answer_logs(b"anew\n", over=True)
            assert next(parts) == b"anew\n"
            executor.ended(again.attempt)
            assert list(parts) == []


def test_a_follower_who_broke_off_goes_on_in_the_attempt_where_he_was(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        executor.ended(launch.attempt, code=0, cause=Cause.UNKNOWN)
        (again,) = executor.launches()
        executor.started(again.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running")
        for attempts, since in (([launch.attempt, again.attempt], launch.attempt), ([again.attempt], 10**9)):
            path = f"/v1/jobs/{id}/logs?follow=true&framed=true&offset=4&since={since}"
            with lines_of(center, path) as parts:
                taker = LogFrames()
                for attempt in attempts:
                    question = executor.answer_logs(b"one\ntwo\n", over=True)
                    offset = 4 if attempt == since else 0
                    assert (question.attempt, question.offset) == (attempt, offset)
                    (part,) = taker.feed(next(parts))
                    assert part == LogFrame(attempt, offset, b"one\ntwo\n"[offset:])
        executor.ended(again.attempt)


def test_readers_are_told_what_a_log_has_not_kept(center: Center) -> None:
    text = b"x" * 3_000_000
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running")
        with lines_of(center, f"/v1/jobs/{id}/logs?follow=true") as parts:
            executor.answer_logs(text[:1_600_000] + b"one\n", over=False, first=1_600_000)
            assert next(parts) == b"[the first 1.53M are gone: the log keeps its last 4 bytes]\n"
            assert next(parts) == b"one\n"
            # The follower was too slow.
            question = executor.answer_logs(text + b"two\n", over=True, first=3_000_000)
            assert question.offset == 1_600_004
            assert next(parts) == b"[1.34M from here on are gone: the log keeps its last 4 bytes]\n"
            assert next(parts) == b"two\n"
            executor.ended(launch.attempt)
            assert list(parts) == []


def test_a_signal_that_reaches_nobody_is_told(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        executor.launches()
    eventually(lambda: center.get("/v1/nodes/n1")["state"] == "away")
    assert "n1: the node is away" in center.post(f"/v1/jobs/{id}/signal", {"signal": "INT"}, 503)["message"]


def test_logs_that_cannot_be_read_say_why(center: Center) -> None:
    id = center.submit()
    assert "has not been started" in center.get(f"/v1/jobs/{id}/logs", 409)["message"]
    assert "has no task 1 (only task 0)" in center.get(f"/v1/jobs/{id}/logs", 404, task=1)["message"]
    assert "did you mean stderr?" in center.get(f"/v1/jobs/{id}/logs", 422, stream="sterr")["message"]
    with center.executor() as executor:
        (launch,) = executor.launches()
        executor.ended(launch.attempt)
    eventually(lambda: center.get("/v1/nodes/n1")["state"] == "away")
    for follow in False, True:
        assert "node n1 is away" in center.get(f"/v1/jobs/{id}/logs", 503, follow=follow)["message"]


@pytest.mark.parametrize("tasks", [1, 4])
def test_tasks_beyond_the_job_are_not_there(center: Center, tasks: int) -> None:
    id = center.submit(tasks=tasks)
    page = center.get(f"/v1/jobs/{id}/tasks", after=tasks - 1)
    assert page == {"tasks": [], "next": None}
