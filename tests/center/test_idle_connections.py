"""Connections that say nothing: they give way to others of their address, and end early."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
import uvloop

from cress.center.api import timeouts
from cress.center.api.timeouts import MOST_SILENT, TimedProtocol
from cress.center.web.asgi import Receive, Scope, Send
from cress.center.web.idle_connections import LONG, IdleConnections
from cress.center.web.request_rates import Admissions
from tests.center.program import PATIENCE, Center, eventually


def test_the_oldest_idle_connection_gives_way_and_silent_ones_first() -> None:
    table: IdleConnections[str] = IdleConnections()
    for number in range(3):
        table.opened("10.0.0.1", f"silent{number}", now=number)
    table.opened("10.0.0.2", "other", now=0)
    assert table.oldest("10.0.0.1", before=5) == "silent0"
    # One that was opened a moment ago may be about to say something.
    assert table.oldest("10.0.0.1", before=0) is None
    table.busy("10.0.0.1", "silent0")
    assert table.oldest("10.0.0.1", before=5) == "silent1"
    for number in range(3):
        table.busy("10.0.0.1", f"silent{number}")
    table.answered("10.0.0.1", "silent0", now=3)
    assert table.oldest("10.0.0.1", before=5) == "silent0"
    # Who has not signed in yet gives way before one that waits between two requests.
    table.asked("10.0.0.1", "unknown", now=3.5)
    assert table.oldest("10.0.0.1", before=5) == "unknown"
    assert set(table.surplus(0, before=5)) == {"other"}
    for name in ("silent0", "unknown"):
        table.busy("10.0.0.1", name)
    assert table.oldest("10.0.0.1", before=5) is None
    assert table.oldest("10.0.0.2", before=5) == "other"
    # One that has just come gives way no sooner than those that wait.
    table.answered("10.0.0.3", "waits", now=9.0)
    table.opened("10.0.0.3", "comes", now=9.5)
    assert table.oldest("10.0.0.3", before=9.6) == "waits"
    assert table.oldest("10.0.0.3", before=11) == "comes"


def test_more_silent_connections_of_an_address_than_allowed_end_early() -> None:
    table: IdleConnections[int] = IdleConnections()
    for number in range(10):
        table.opened("10.0.0.1", number, now=number)
    assert table.surplus(4, before=100) == [0, 1, 2, 3, 4, 5]
    # The newest stay for a moment.
    assert table.surplus(4, before=3) == [0, 1, 2]
    assert table.surplus(10, before=100) == []
    # All addresses of an IPv6 network count as one.
    for number in range(10, 15):
        table.opened(f"2001:db8::{number}", number, now=number)
    assert table.surplus(4, before=100)[-1:] == [10]


def test_who_has_just_come_does_not_give_way_because_the_center_was_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on a busy machine: a request that was not read yet looked as silent as a connection that says nothing."""
    monkeypatch.setattr(TimedProtocol, "admissions", Admissions(0, 8))
    monkeypatch.setattr(TimedProtocol, "idle", IdleConnections())
    monkeypatch.setattr(timeouts, "YOUNG", 0.5)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    made: list[TimedProtocol] = []
    held_up = threading.Event()

    class HeldUp(TimedProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.append(self)

        def data_received(self, data: bytes) -> None:
            if data != b"hold up":
                super().data_received(data)
                return
            held_up.set()
            time.sleep(LONG + 1)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def come(place: tuple[str, int]) -> None:
        with contextlib.ExitStack() as stack:
            wires: list[socket.socket] = []
            for number in range(5):
                wire = stack.enter_context(socket.create_connection(place, PATIENCE))
                if number == 4:
                    # There are more than an address may have: one is to go in a moment.
                    eventually(lambda: len(made) == 5)
                    wires[1].sendall(b"hold up")
                    assert held_up.wait(PATIENCE)
                wire.sendall(request)
                assert wire.recv(1000).endswith(b"ok")
                wires.append(wire)
            assert wires[0].recv(1) == b"", "the one that was idle for longest goes instead"

    async def story() -> None:
        server = uvicorn.Server(uvicorn.Config(app, http=HeldUp, ws="none", lifespan="off", log_config=None))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                await asyncio.to_thread(come, listening.getsockname())
            finally:
                server.should_exit = True
                await serving

    uvloop.run(story())


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    # So few descriptors that one address may have 384 connections.
    with Center(tmp_path_factory.mktemp("idle") / "data", forked=True, files=2_048) as made:
        yield made


_HEAD = b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
SAID = {
    "nothing": b"",
    "part of a line": b"GET /v1/health HT",
    # Answered with 401; the body never comes.
    "a body that is not wanted": b"POST /v1/jobs" + _HEAD,
    "the body of a call without a token": b"POST /v1/join" + _HEAD,
    "a whole request": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a handshake in part": b"\x16\x03\x01\x02\x00\x01",
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_thousands_of_silent_connections_do_not_shut_out_their_address(center: Center, said: bytes) -> None:
    with crowd(center, said) as wires:
        for _ in range(20):
            is_healthy(center)
        if said not in (SAID["nothing"], SAID["part of a line"]):
            return
        # The rest ends long before the time that a single silent connection has.
        begun = time.monotonic()
        eventually(lambda: sum(map(is_open, wires)) <= MOST_SILENT)
        assert time.monotonic() - begun < PATIENCE


@pytest.mark.long
def test_five_thousand_of_them_do_not_either(tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with Center(tmp_path / "data", forked=True) as center, crowd(center, b"", 5_000):
        for _ in range(20):
            is_healthy(center)


@contextlib.contextmanager
def crowd(center: Center, said: bytes, count: int = 900) -> Iterator[list[socket.socket]]:
    """Connections that say something that is not a request of anybody."""
    with contextlib.ExitStack() as stack:
        wires: list[socket.socket] = []
        for _ in range(count):
            wire = stack.enter_context(socket.create_connection(where(center), PATIENCE))
            with contextlib.suppress(ConnectionError):
                wire.sendall(said)
            wires.append(wire)
        yield wires


def where(center: Center) -> tuple[str, int]:
    return "127.0.0.1", int(center.address["url"].rsplit(":", 1)[1])


def is_healthy(center: Center) -> None:
    """Ask as programs of others do: by a new connection for each check, without a second try."""
    check = http.client.HTTPConnection(*where(center), timeout=PATIENCE)
    check.request("GET", "/v1/health")
    assert check.getresponse().status == 200
    check.close()


def is_open(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        return bool(wire.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_the_page_names_the_bound() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"{MOST_SILENT} silent connections" in page
