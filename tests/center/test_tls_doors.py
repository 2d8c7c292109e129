"""Clients that begin a TLS handshake and never finish it: they keep nobody out, not even at their own address."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.center.tls.authority import Authority
from cress.center.web.tls_doors import Handshakes
from cress.executor.bundle import BundleFolder
from tests.center.program import PATIENCE, SecureCenter, eventually

# Open files of the center, and connections that say nothing: more than the former.
FILES, CROWD = 640, 700
# What the crowd says to each listener; the second is the beginning of a handshake, of which the rest never comes.
SAID = {"executor_url": b"", "url": b"\x16\x03\x01\x02\x00\x01"}


def test_an_address_with_half_of_the_places_gives_way_itself_else_the_oldest_of_all_does() -> None:
    table: Handshakes[str] = Handshakes(4)
    for number, address in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.1")):
        assert table.surplus(address) is None
        table.begun(address, f"h{number}")
    table.begun("10.0.0.3", "h3")
    assert table.surplus("10.0.0.1") == "h0"
    assert table.surplus("10.0.0.2") == "h0"  # the oldest of all
    table.over("h0")
    assert table.surplus("10.0.0.2") is None
    table.begun("10.0.0.4", "h4")
    assert table.surplus("10.0.0.1") == "h1"  # the oldest of all: its address has a quarter
    table.over("h1")
    table.begun("10.0.0.4", "h5")
    assert table.surplus("10.0.0.4") == "h4"
    # All addresses of an IPv6 network count as one.
    again: Handshakes[int] = Handshakes(2)
    again.begun("10.0.0.1", 0)
    again.begun("2001:db8::1", 1)
    assert again.surplus("2001:db8::2") == 1
    for number in (1, 1, 0):
        again.over(number)
    assert len(again) == 0


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCenter]:
    data = tmp_path_factory.mktemp("doors") / "data"
    data.mkdir(mode=0o700)
    authority = Authority.create(data / "tls")
    authority.issue_center(["127.0.0.1"])
    authority.issue_node("n1", data.parent / "n1")
    with SecureCenter(data, forked=True, files=FILES) as made:
        yield made


def where(center: SecureCenter, door: str) -> tuple[str, int]:
    return "127.0.0.1", int(center.address[door].rsplit(":", 1)[1])


def shakes_hands(center: SecureCenter, door: str, context: ssl.SSLContext) -> None:
    """Connect as an honest client does: once, without a second try."""
    with socket.create_connection(where(center, door), PATIENCE) as plain, context.wrap_socket(plain) as wire:
        wire.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.recv(1)


@pytest.mark.parametrize("door", SAID)
def test_unfinished_handshakes_keep_nobody_out(center: SecureCenter, door: str) -> None:
    context = BundleFolder(center.data.parent / "n1").context()
    context.check_hostname = False
    before = files_of(center)
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            wire = stack.enter_context(socket.create_connection(where(center, door), PATIENCE))
            with contextlib.suppress(ConnectionError):
                wire.sendall(SAID[door])
        for other in SAID:
            for _ in range(3):
                shakes_hands(center, other, context)
        assert files_of(center) < before + 100
    # Nothing is left of them.
    eventually(lambda: files_of(center) <= before + 5)


def files_of(center: SecureCenter) -> int:
    """Open descriptors of the center."""
    return sum(1 for _ in Path(f"/proc/{center.process.pid}/fd").iterdir())
