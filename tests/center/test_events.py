"""Events as a stream: what is told, in which order, from where on, to whom."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.center.api.stream import MOST_OF_USER, MOST_READERS
from cress.client import Client, EventView
from cress.lifecycle.inputs import NodeLeft
from cress.model.events import DataLocated, LicencesSet, LoadSeen
from cress.model.node import Load
from cress.model.reports import Cause
from tests.center.inside import Inside, inside
from tests.center.program import PATIENCE, Center, eventually


def client(center: Center) -> Client:
    return Client(center.address["url"], center.token, timeout=PATIENCE)


def told(center: Center, **query: Any) -> list[EventView]:
    with client(center) as calls:
        return list(calls.events(follow=False, **query))


def test_the_life_of_a_job_is_told_in_order(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(name="etl")
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        executor.ended(launch.attempt, code=3)
    # The node is shown as away a moment before that is told.
    eventually(lambda: told(center)[-1].kind == "node.left")
    found = told(center)
    assert [event.number for event in found] == list(range(1, len(found) + 1))
    assert [event.kind for event in found] == [
        "center.started",
        "node.joined",
        "job.submitted",
        "task.placed",
        "task.started",
        "task.ended",
        "job.ended",
        "node.left",
    ]
    ended = found[5]
    assert (ended.job, ended.task, ended.node, ended.state, ended.code) == (id, 0, "n1", "failed", 3)
    over = found[6]
    assert (over.job, over.name, over.group, over.state) == (id, "etl", "default", "failed")


def test_filters_leave_out_what_is_of_others(center: Center) -> None:
    first, second = center.submit(), center.submit()
    assert {event.job for event in told(center, job=second)} == {second}
    assert {event.job for event in told(center, group="default")} == {first, second}
    assert told(center, group="web") == []


def test_who_was_cut_off_goes_on_behind_the_last_number(center: Center) -> None:
    ids = [center.submit() for _ in range(5)]
    found = told(center)
    middle = found[-3].number
    assert [event.job for event in told(center, after=middle)] == ids[-2:]
    answer = center.http.get("/v1/events?follow=false&after=0", headers={"Last-Event-ID": str(middle)})
    lines = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [line["job"] for line in lines] == ids[-2:]
    assert f"id: {middle + 1}\nevent: job.submitted\ndata: " in answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_numbers_go_on_over_a_restart(tmp_path: Path, end: str) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        before = [center.submit() for _ in range(3)]
        number = told(center)[-1].number
        if end == "clean":
            assert center.stop() == 0
        else:
            center.kill()
    with Center(tmp_path / "data", forked=True) as center:
        after = center.submit()
        assert [event.kind for event in told(center, after=number)] == ["center.started", "job.submitted"]
        kept = told(center)
        assert [event.job for event in kept if event.kind == "job.submitted"] == [*before, after]
        assert [event.number for event in kept] == list(range(1, number + 3))


def test_events_come_as_they_happen(center: Center) -> None:
    with client(center) as calls, contextlib.closing(_follow(calls)) as events:
        # Those who follow are told what comes after they came: this one tells when they are there.
        eventually(lambda: center.submit() and _there(center))
        first = next(events)
        id = center.submit(name="next")
        while first.name != "next":
            first = next(events)
        assert (first.kind, first.job) == ("job.submitted", id)


def _follow(calls: Client) -> Any:
    return calls.events(after=0)


def _there(center: Center) -> bool:
    return bool(told(center))


def test_a_number_that_never_was_is_the_latest(center: Center) -> None:
    center.submit()
    assert told(center, after=10**9) == []
    assert "is not a number of an event" in center.http.get("/v1/events", headers={"Last-Event-ID": "x"}).text


def test_a_stop_ends_the_stream(center: Center) -> None:
    with client(center) as calls:
        events: Iterator[EventView] = calls.events(after=0)
        assert next(events).kind == "center.started"
        center.process.terminate()
        assert list(events) == []
    _, said = center.process.communicate(timeout=PATIENCE)
    assert (center.process.returncode, said) == (0, "")


def test_a_reader_that_reads_nothing_costs_the_others_nothing(center: Center) -> None:
    host, port = center.address["url"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.sendall(
            b"GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n"
            + f"Authorization: Bearer {center.token}\r\n\r\n".encode()
        )
        job = {"command": ["true"], "name": "x" * 60}
        for _ in range(3):
            center.post("/v1/jobs", {"jobs": [job] * 500}, 201)
        assert len(told(center, after=1)) == 1500


def test_one_user_does_not_take_the_streams_of_others(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        body = {"name": "t", "user": "bob", "role": "user"}
        secret = (await center.call("POST", "/v1/tokens", body, 201))["secret"]
        own: dict[str, dict[str, str]] = {"ann": {}, "bob": {"Authorization": f"Bearer {secret}"}}

        async def status(user: str) -> int:
            return (await center.http.get("/v1/events?follow=false", headers=own[user])).status_code

        readers = center.committer.events.readers
        readers["bob"] = MOST_OF_USER
        assert [await status("bob"), await status("ann")] == [429, 200]
        assert "ann" not in readers, "a stream that has ended is still counted"
        readers["cid"] = MOST_READERS - MOST_OF_USER
        assert await status("ann") == 503

    inside(tmp_path, story)


def test_a_gap_is_told(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        ids = []
        for _ in range(21):
            ids = center.post("/v1/jobs", {"jobs": [{"command": ["true"]}] * 1000}, 201)["jobs"]
        found = told(center, after=0)
        assert (found[0].kind, found[0].number) == ("gap", found[1].number - 1)
        assert len(found) == 20_001
        assert found[-1].job == ids[-1]["id"]


def test_what_is_found_out_beside_tasks_is_told(tmp_path: Path) -> None:
    """Nodes that get too busy, and are not any more; licences; data that cannot be found, once and not at each look."""
    calm, busy = (Load(cpu=cpu, free_memory=2**40) for cpu in (300, 970))
    data, problem = "hdfs://namenode/sets/a", "the name node does not answer"

    async def story(center: Inside) -> None:
        committer = center.committer
        await center.join("n1")
        await committer.submit(LoadSeen(name="n1", load=calm))
        await committer.submit(LoadSeen(name="n1", load=busy))
        await committer.submit(LoadSeen(name="n1", load=msgspec.structs.replace(busy, cpu=990)))
        await committer.submit(LoadSeen(name="n1", load=calm))
        await committer.submit(LoadSeen(name="n1", load=busy))
        # It is gone, and takes its load with it; that it left is told.
        await committer.submit(NodeLeft(name="n1"))
        # As one does that is refused whenever it comes back.
        await committer.submit(NodeLeft(name="n1"))
        await committer.submit(LoadSeen(name="n1", load=None))
        await committer.submit(LicencesSet(counts=(("matlab", 5), ("ansys", 2))))
        await committer.submit(LicencesSet(counts=()))
        await center.submit(requirement=f'DataLocality = "{data}"')
        await committer.submit(DataLocated(data=data, places=None, problem=problem))
        await committer.submit(DataLocated(data=data, places=None, problem=problem))
        await committer.submit(DataLocated(data=data, places=(("n1", 1000),)))
        await committer.submit(DataLocated(data=data, places=None, problem=problem))
        found = [(each.kind, each.node, each.text) for each in committer.events.after(0, 100)]
        missing = ("data.missing", "", f"{data}: {problem}")
        assert found[found.index(("node.joined", "n1", "")) + 1 :] == [
            ("node.overloaded", "n1", "cpu 97%"),
            ("node.recovered", "n1", ""),
            ("node.overloaded", "n1", "cpu 97%"),
            ("node.left", "n1", ""),
            ("licences.changed", "", "matlab 5, ansys 2"),
            ("licences.changed", "", "none"),
            ("job.submitted", "", ""),
            missing,
            missing,
        ]

    inside(tmp_path, story)


def test_reports_that_are_repeated_are_told_once(center: Center) -> None:
    with center.executor() as executor:
        center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        executor.started(launch.attempt)
        executor.ended(launch.attempt, code=1, cause=Cause.EXITED)
    assert [event.kind for event in told(center)].count("task.started") == 1
