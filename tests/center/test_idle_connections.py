"""Connections that say nothing: they give way to others of their address, and end early."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.center.api.timeouts import MOST_SILENT
from cress.center.web.idle_connections import IdleConnections
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
    table.busy("10.0.0.1", "silent0")
    assert table.oldest("10.0.0.1", before=5) is None
    assert table.oldest("10.0.0.2", before=5) == "other"


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


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    # So few descriptors that one address may have 384 connections.
    with Center(tmp_path_factory.mktemp("idle") / "data", forked=True, files=2_048) as made:
        yield made


@pytest.mark.parametrize("said", [b"", b"GET /v1/health HT"], ids=["nothing", "part of a line"])
def test_thousands_of_silent_connections_do_not_shut_out_their_address(center: Center, said: bytes) -> None:
    where = "127.0.0.1", int(center.address["url"].rsplit(":", 1)[1])
    with contextlib.ExitStack() as stack:
        wires: list[socket.socket] = []
        for _ in range(900):
            wire = stack.enter_context(socket.create_connection(where, PATIENCE))
            with contextlib.suppress(ConnectionError):
                wire.sendall(said)
            wires.append(wire)
        for _ in range(20):
            # As programs of others do: a new connection for each check, without a second try.
            check = http.client.HTTPConnection(*where, timeout=PATIENCE)
            check.request("GET", "/v1/health")
            assert check.getresponse().status == 200
            check.close()

        def open_ones() -> int:
            return sum(is_open(wire) for wire in wires)

        # The rest ends long before the time that a single silent connection has.
        begun = time.monotonic()
        eventually(lambda: open_ones() <= MOST_SILENT)
        assert time.monotonic() - begun < PATIENCE


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
