"""Many, slow and ill-mannered clients: the center goes on answering, and gives back what they held."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from cress.center.api import timeouts as patience
from cress.center.api.timeouts import MOST_SILENT, TimedProtocol, close_overdue
from cress.center.executors import logs
from cress.center.web.asgi import Receive, Scope, Send
from cress.lifecycle.inputs import NodeLeft
from cress.protocol.messages import Launches
from cress.store.sqlite import SqliteStore
from tests.center.inside import Inside, inside
from tests.center.program import PATIENCE, Center, eventually

# Seconds for one answer on a machine that does much else; a quiet one needs hundredths (see the benchmark).
SOON = 10.0


def address(center: Center, key: str = "url") -> tuple[str, int]:
    host, _, port = center.address[key].rpartition("/")[2].rpartition(":")
    return host, int(port)


def files(center: Center) -> int:
    return len(list(Path(f"/proc/{center.process.pid}/fd").iterdir()))


def memory(center: Center) -> int:
    """Megabytes."""
    return int(Path(f"/proc/{center.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]) // 1024


def page(center: Center) -> float:
    begin = time.monotonic()
    assert len(center.get("/v1/jobs", limit=50)["jobs"]) == 50
    return time.monotonic() - begin


@pytest.fixture
def crowd(center: Center) -> Iterator[list[socket.socket]]:
    """1,000 connections: one half says nothing, the other half only a part of a request."""
    wires = [socket.create_connection(address(center), PATIENCE) for _ in range(1000)]
    for wire in wires[::2]:
        wire.sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {center.token}\r\n".encode())
    yield wires
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("hundreds", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a_crowd_hinders_nobody_among_thousands_of_jobs(
    center: Center, crowd: list[socket.socket], hundreds: int
) -> None:
    # Most of them end early, since an address may have only so many silent connections for longer than a moment.
    before = eventually(lambda: (count := files(center)) >= MOST_SILENT and count)
    with center.executor(resource="<1, 1T>"):
        for _ in range(hundreds):
            jobs = [{"command": ["true"], "resource": "<1, 1M>"}] * 100
            center.post("/v1/jobs", {"jobs": jobs}, 201)
        assert center.get("/v1/state")["tasks_waiting"] == 100 * hundreds - 1
        for _ in range(10):
            for key in ("url", "executor_url"):
                with socket.create_connection(address(center, key), PATIENCE) as wire:
                    wire.sendall(os.urandom(4096))
            assert page(center) < SOON
    assert memory(center) < 400
    for wire in crowd:
        wire.close()
    eventually(lambda: files(center) < max(before - MOST_SILENT // 2, MOST_SILENT // 2))
    assert center.process.poll() is None


def test_a_hundred_megabytes_are_not_read(center: Center) -> None:
    before = memory(center)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {center.token}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(5):
        with socket.create_connection(address(center), PATIENCE) as wire:
            wire.sendall(head.encode())
            sent = 0
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    wire.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
                    sent += 1
            # Cut off behind what it reads at most, and what lies in the buffers of the kernel.
            assert sent < 40
    assert memory(center) - before < 100


def test_a_head_without_end_is_cut_off(center: Center) -> None:
    with socket.create_connection(address(center), PATIENCE) as wire:
        wire.sendall(b"GET /v1/state HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(100_000):
                wire.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            pytest.fail("a head of 100 MB was taken")
    assert center.get("/v1/health")["status"] == "ok"


# --- patience ---------------------------------------------------------------------------------------------------------


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize(
    ("said", "answer", "ends"),
    [
        (b"", b"", True),
        (b"GET / HT", b"", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"", True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345", b"ok", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"ok", False),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345", b"ok", False),
    ],
    ids=["nothing", "part of a line", "part of a head", "part of a body", "a request", "a request with a body"],
)
def test_who_does_not_finish_a_request_is_cut_off_and_who_does_is_not(
    monkeypatch: pytest.MonkeyPatch, said: bytes, answer: bytes, *, ends: bool
) -> None:
    for name in ("SILENT", "HEAD", "BODY", "LOOK_EVERY"):
        monkeypatch.setattr(patience, name, 0.2)

    async def story() -> None:
        config = uvicorn.Config(app, http=TimedProtocol, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        closing = asyncio.create_task(close_overdue(lambda: server.server_state.connections))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(said)
        heard = b""
        if answer:
            heard = await asyncio.wait_for(reader.readuntil(answer), PATIENCE)
        if ends:
            assert (await asyncio.wait_for(reader.read(), PATIENCE)) == b""
        else:
            # Another one, patiently begun and then finished.
            await asyncio.sleep(1.0)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            heard = await asyncio.wait_for(reader.readuntil(answer), PATIENCE)
        assert heard.endswith(answer)
        writer.close()
        server.should_exit = True
        closing.cancel()
        await serving
        listening.close()

    asyncio.run(story())


def test_a_follower_whose_node_never_comes_back_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_AWAY", 0.3)
    monkeypatch.setattr(logs, "LOOK_AGAIN", 0.05)

    async def story(center: Inside) -> None:
        await center.join()
        job = await center.submit()
        await center.started(job)
        await center.committer.submit(NodeLeft(name="n1"))
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(
                *(center.http.get(f"/v1/jobs/{job}/logs?follow=true") for _ in range(50)), return_exceptions=True
            )
        assert {(answer.status_code, answer.text) for answer in answers if not isinstance(answer, BaseException)} <= {
            (200, ""),
            (503, answers[0].text),  # type: ignore[union-attr]
        }
        assert not any(isinstance(answer, BaseException) for answer in answers)
        # They left nothing behind.
        assert center.committer._watchers == {}

    inside(tmp_path, story)


# --- one damaged job --------------------------------------------------------------------------------------------------


def test_a_job_of_which_nobody_knows_how_to_run_it_does_not_stop_the_others(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        bad, good = center.submit(name="bad"), center.submit(name="good")
        center.stop()
    store = SqliteStore(tmp_path / "data" / "cress.db")
    store._writer.execute("UPDATE runs SET run = x'0102030405' WHERE job = ?", (bad,))
    store.close()
    with Center(tmp_path / "data", forked=True) as center, center.executor(resource="<4, 4G>") as executor:
        message = executor.receive()
        assert isinstance(message, Launches)
        # The executor refuses the one without a run, and says why.
        assert {launch.job for launch in message.launches} == {bad, good}
        assert [run.job for run in message.runs] == [good]
        assert center.get(f"/v1/jobs/{bad}")["command"] == []
