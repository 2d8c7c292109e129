"""Calls about tasks, attempts, holding, draining, and a submit that is sent twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cress.center.committing.work_counts import WorkCounter
from cress.client import Client, Refused, Unreachable
from tests.center.inside import Inside, inside
from tests.center.program import PATIENCE, Center, eventually

_JOBS: dict[str, list[dict[str, object]]] = {"jobs": [{"command": ["true"], "name": "a"}, {"command": ["true"]}]}


def test_the_same_submit_twice_is_one(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        key = {"Idempotency-Key": "k1"}
        first = await center.call("POST", "/v1/jobs", _JOBS, 201, **key)
        assert await center.call("POST", "/v1/jobs", _JOBS, 201, **key) == first
        # The order of keys says nothing.
        turned = {"jobs": [dict(reversed(job.items())) for job in _JOBS["jobs"]]}
        assert await center.call("POST", "/v1/jobs", turned, 201, **key) == first
        other = await center.call("POST", "/v1/jobs", _JOBS, 201, **{"Idempotency-Key": "k2"})
        assert [job["id"] for job in other["jobs"]] == [3, 4]
        error = await center.call("POST", "/v1/jobs", {"jobs": _JOBS["jobs"][:1]}, 409, **key)
        assert error["code"] == "not_accepted"
        await center.call("POST", "/v1/jobs", _JOBS, 422, **{"Idempotency-Key": "x" * 201})
        assert len((await center.get("/v1/jobs"))["jobs"]) == 4

    inside(tmp_path, story)

    async def again(center: Inside) -> None:
        answer = await center.call("POST", "/v1/jobs", _JOBS, 201, **{"Idempotency-Key": "k1"})
        assert [job["id"] for job in answer["jobs"]] == [1, 2]

    inside(tmp_path, again)


class Cut:
    """A relay in front of a center that takes the first POSTs and breaks off instead of answering them."""

    def __init__(self, center: Center, *, times: int) -> None:
        host, port = center.address["url"].removeprefix("http://").split(":")
        self._target = host, int(port)
        self._times = times
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            with caller, socket.create_connection(self._target) as center:
                data = _whole(caller)
                if not data:
                    return
                center.sendall(data)
                answer = _whole(center)
                self._times -= data.startswith(b"POST")
                if self._times < 0 or not data.startswith(b"POST"):
                    # Else the client may send its next request into this connection before it notices the end.
                    caller.sendall(answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._thread.join(PATIENCE)
        self._door.close()


def _whole(caller: socket.socket) -> bytes:
    """A request or an answer, with its body."""
    data = b""
    while part := caller.recv(65536):
        data += part
        head, end, body = data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].split()
        if end and len(body) >= (int(length[0]) if length else 0):
            break
    return data


@pytest.mark.parametrize(("times", "arrives"), [(1, True), (2, False)])
def test_the_client_sends_again_once_and_nothing_is_there_twice(center: Center, times: int, arrives: bool) -> None:
    cut = Cut(center, times=times)
    with Client(f"http://127.0.0.1:{cut.port}", center.token, timeout=PATIENCE) as client:
        if arrives:
            assert client.submit([{"command": ["true"]}]).jobs[0].id == 1
        else:
            with pytest.raises(Unreachable, match="broke off"):
                client.submit([{"command": ["true"]}])
    cut.close()
    assert [job["id"] for job in center.get("/v1/jobs")["jobs"]] == [1]


def test_a_job_that_comes_after_one_of_long_ago_runs(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        first = await center.submit()
        await center.end(first)
        await center.mover.work()
        second = await center.submit(after=[f"{first}"])
        assert (await center.get(f"/v1/jobs/{second}"))["state"] == "running"

    inside(tmp_path, story)


def test_one_task_and_one_attempt(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(tasks=2, retries=1, backoff="1ms")
        launches = executor.launches()
        executor.ended(launches[0].attempt, code=1)
        (again,) = executor.launches()
        executor.started(again.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{id}/tasks/0")["state"] == "running")
        task = center.get(f"/v1/jobs/{id}/tasks/0")
        assert task["index"] == 0
        assert [attempt["outcome"] for attempt in task["attempts"]] == ["failed", "running"]
        error = center.get(f"/v1/jobs/{id}/tasks/2", 404)
        assert error["message"] == f"job {id} has no task 2 (tasks 0 to 1)"
        assert "no task zero" in center.get(f"/v1/jobs/{id}/tasks/zero", 404)["message"]
        path = f"/v1/jobs/{id}/logs?attempt={launches[0].attempt}"
        asked = threading.Thread(target=lambda: executor.answer_logs(b"the first", over=True))
        asked.start()
        assert center.http.get(path).content == b"the first"
        asked.join(PATIENCE)
        error = center.get(f"/v1/jobs/{id}/logs", 404, attempt=99)
        assert error["message"] == f"task 0 of job {id} has no attempt 99"


def test_a_held_job_waits(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(hold=True)
        other = center.submit()
        assert executor.launches()[0].job == other
        job = center.get(f"/v1/jobs/{id}")
        assert (job["held"], job["state"]) == (True, "waiting")
        assert "held" in job["reason"]
        assert not center.post(f"/v1/jobs/{id}/release")["held"]
        assert executor.launches()[0].job == id


def test_a_drained_node_is_emptied(center: Center) -> None:
    with center.executor() as executor:
        center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        node = center.post("/v1/nodes/n1/drain", {"deadline": 0.05, "reason": "new disk"})
        assert (node["state"], node["running"]) == ("draining", 1)
        assert node["reason"].startswith("draining: new disk; running tasks are ")
        assert executor.stops().stops[0].attempt == launch.attempt
        assert "deadline" in center.post("/v1/nodes/n1/drain", {"deadline": -1}, 422)["message"]
        assert center.post("/v1/nodes/n1/drain", {})["reason"] == "draining; running tasks are being stopped"


def test_the_client_has_them_all(center: Center) -> None:
    with Client(center.address["url"], center.token, timeout=PATIENCE) as client, center.executor():
        id = client.submit([{"command": ["true"], "tasks": 2}]).jobs[0].id
        assert client.task(id, 1).index == 1
        node = client.drain("n1", 60, "why")
        assert node.reason.startswith("draining: why; running tasks are stopped in ")
        assert node.drained_at is not None
        assert client.state().now < node.drained_at < client.state().now + 60
        assert client.hold(id).held
        assert not client.release(id).held
        assert client.usage(by="day").span == 86_400
        assert client.jobs(since=0, until=1).jobs == ()
        with pytest.raises(Refused):
            client.usage(by="year")


def test_nodes_come_in_pages(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        for name in ("b", "a", "c"):
            await center.join(name)
        first = await center.get("/v1/nodes?limit=2")
        assert ([node["name"] for node in first["nodes"]], first["next"]) == (["b", "a"], "a")
        second = await center.get("/v1/nodes?limit=2&after=a")
        assert ([node["name"] for node in second["nodes"]], second["next"]) == (["c"], None)
        assert (await center.get("/v1/nodes?after=gone"))["nodes"] == []

    inside(tmp_path, story)


def test_a_service_is_one_job_of_the_cluster(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        await center.submit(name="web", type="service", tasks=3)
        await center.submit()
        dag = {
            "name": "etl",
            "type": "dag",
            "hold": True,
            "steps": {"a": {"command": "true"}, "b": {"command": "true"}},
        }
        await center.call("POST", "/v1/jobs", {"jobs": [dag]}, 201)
        state = await center.get("/v1/state")
        assert (state["jobs_running"], state["jobs_waiting"], state["tasks_running"]) == (2, 1, 4)
        # The work is counted once for all who ask, and anew after a step.
        counter, machine = center.committer.work_counter, center.committer.machine
        counts = await counter.counts(machine)
        assert await counter.counts(machine) is counts
        await center.submit(tasks=100)
        state = await center.get("/v1/state")
        (default,) = (await center.get("/v1/groups"))["groups"]
        assert state["tasks_waiting"] == default["waiting"] == 102 - (state["tasks_running"] - 4)
        assert state["jobs_running"] + state["jobs_waiting"] == 4

    inside(tmp_path, story)


def test_those_who_ask_while_the_work_is_counted_wait_for_the_same_count(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    class Jobs(dict[int, Any]):
        def values(self) -> Any:
            begun.append(len(self))
            return super().values()

    # Each chunk of jobs is a turn of its own.
    monkeypatch.setattr("cress.center.process.turns.SLICE", -1.0)
    job = SimpleNamespace(job=SimpleNamespace(group="a", family=0), waiting=1, running=0)
    machine: Any = SimpleNamespace(steps=1, in_step=False, jobs=Jobs(dict.fromkeys(range(5000), job)))
    counter = WorkCounter()

    async def story() -> None:
        first = asyncio.create_task(counter.counts(machine))
        await asyncio.sleep(0)
        others = [asyncio.create_task(counter.counts(machine)) for _ in range(9)]
        await asyncio.sleep(0)
        # One who goes away takes nothing from the others.
        first.cancel()
        found = await asyncio.gather(*others)
        assert ({id(one) for one in found}, begun) == ({id(found[0])}, [5000])
        assert await counter.counts(machine) is found[0]
        # In a step, and after it, the jobs are not as they were before.
        machine.steps, machine.in_step = 2, True
        inside = asyncio.create_task(counter.counts(machine))
        await asyncio.sleep(0)
        machine.in_step = False
        after, _ = await asyncio.gather(counter.counts(machine), inside)
        assert len(begun) == 3
        assert await counter.counts(machine) is after
        machine.in_step = True
        assert await counter.counts(machine) is not await counter.counts(machine)
        # A failure is told to those who wait for it; the next one counts again.
        machine.steps, machine.in_step, machine.jobs = 3, False, None
        asked = await asyncio.gather(*(counter.counts(machine) for _ in range(3)), return_exceptions=True)
        assert {type(one) for one in asked} == {AttributeError}
        machine.jobs = Jobs()
        assert (await counter.counts(machine)).alone == 0

    asyncio.run(story())
