"""Rates of requests and connections: the buckets, and a real center that refuses what is too much and answers all
others.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cress.center.web.request_rates import BURST, MOST_NAMES, Admissions, Buckets, RequestRates
from tests.center.program import PATIENCE, Center, eventually
from tests.center.test_open_answers import token_of


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    buckets = Buckets(10)
    assert sum(buckets.take("ann", 0.0) == 0 for _ in range(1_000)) == 10 * BURST
    assert buckets.take("ann", 0.0) == pytest.approx(0.1)
    assert buckets.take("bob", 0.0) == 0, "each has its own"
    assert [buckets.take("ann", 0.11) == 0 for _ in range(2)] == [True, False]
    assert sum(buckets.take("ann", 10_000.0) == 0 for _ in range(1_000)) == 10 * BURST
    assert all(Buckets(0).take("ann", 0.0) == 0 for _ in range(1_000)), "0: no limit"


def test_the_table_of_buckets_does_not_grow_without_end() -> None:
    buckets = Buckets(1)
    for number in range(2 * MOST_NAMES):
        buckets.take(str(number), 0.0)
    assert len(buckets._levels) == MOST_NAMES


def test_users_behind_one_address_and_addresses_of_one_network_share() -> None:
    rates = RequestRates(1, 2, lambda: 0.0)
    near = {"client": ("2001:db8::1", 1)}
    assert sum(rates.wait(near, "ann") == 0 for _ in range(200)) == BURST, "of ann"
    same = {"client": ("2001:db8::ffff", 1)}
    assert sum(rates.wait(same, f"u{each}") == 0 for each in range(200)) == 0, "the address has used up its own"
    assert rates.wait({"client": None}, "bob") == 0, "a Unix socket has no address"


def test_one_address_gets_half_of_all_connections() -> None:
    admissions = Admissions(0, 10)
    assert sum(admissions.admit("10.0.0.1", 1) for _ in range(10)) == 5
    assert admissions.admit("10.0.0.2", 10)
    assert not admissions.admit("10.0.0.3", 11)
    admissions.left("10.0.0.1")
    assert admissions.admit("10.0.0.1", 1)
    admissions.recount(["10.0.0.2"] * 5)
    assert admissions.admit("10.0.0.1", 1)
    assert not admissions.admit("10.0.0.2", 1)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("rates") / "data", forked=True, more="user_rate=2, address_rate=0") as center:
        yield center


def test_a_user_who_asks_too_often_is_told_when_to_come_again(own: Center) -> None:
    with own.client(Authorization=f"Bearer {token_of(own, 'ann')}") as ann:
        answers = [ann.get("/v1/whoami") for _ in range(2 * BURST + 20)]
        refused = [each for each in answers if each.status_code == 429]
        assert 0 < len(refused) <= 20
        assert {each.status_code for each in answers} == {200, 429}
        assert refused[-1].headers["retry-after"] == "1"
        assert refused[-1].json()["message"] == "too many requests; try again in 1 s"
    with own.client(Authorization=f"Bearer {token_of(own, 'bob')}") as bob:
        assert bob.get("/v1/whoami").status_code == 200
    assert [own.http.get("/v1/whoami").status_code for _ in range(3 * BURST)] == [200] * 3 * BURST, "the owner"
    entries = own.get("/v1/audit", refused=True)["entries"]
    assert any(each["status"] == 429 and each["user"] == "ann" for each in entries)


@contextlib.contextmanager
def many(number: int, address: tuple[str, int], first: bytes) -> Iterator[list[socket.socket]]:
    """Connections that have sent ``first`` and nothing more."""
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(number):
            wire = stack.enter_context(socket.create_connection(address, PATIENCE))
            with contextlib.suppress(OSError):
                wire.sendall(first)
            wires.append(wire)
        yield wires


def place(url: str) -> tuple[str, int]:
    parsed = httpx.URL(url)
    return parsed.host, int(parsed.port or 0)


@pytest.fixture
def files() -> Iterator[None]:
    """Let this process have many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 12_000:
        pytest.skip("too few descriptors for thousands of connections: that a center survives them was not shown")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


# What a client sends first in a handshake of TLS, cut off in its middle.
def half_hello() -> bytes:
    out = ssl.MemoryBIO()
    wire = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="center")
    with contextlib.suppress(ssl.SSLWantReadError):
        wire.do_handshake()
    return out.read()[:100]


@pytest.mark.long
@pytest.mark.usefixtures("files")
def test_five_thousand_connections_keep_nobody_out(own: Center) -> None:
    api, executors = place(own.address["url"]), place(own.address["executor_url"])
    hello = half_hello()
    with (
        many(2_000, api, b""),
        many(1_000, api, b"GET /v1/state HTTP/1.1\r\nHost: "),
        many(500, api, b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"),
        many(500, api, hello),
        many(500, executors, b""),
        many(500, executors, b"GET / HTTP/1.1\r\n"),
    ):
        with own.client() as fresh:
            assert fresh.get("/v1/state").json()["problem"] == ""
        with own.executor("honest") as executor:
            number = own.submit()
            (launch,) = executor.launches()
            executor.started(launch.attempt)
            executor.ended(launch.attempt)
            eventually(lambda: own.get(f"/v1/jobs/{number}")["state"] == "succeeded")


@pytest.mark.long
def test_a_center_without_descriptors_left_answers_again_when_there_are_some(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True, files=160) as center:
        number = center.submit()
        for address in (place(center.address["url"]), place(center.address["executor_url"])):
            with many(300, address, b"GET / HTTP/1.1\r\n"):
                # Over the connection that there is.
                assert center.get(f"/v1/jobs/{number}")["state"] == "waiting"
                center.submit()
        with center.client() as fresh:
            eventually(lambda: fresh.get("/v1/state").json()["problem"] == "")
            assert fresh.post("/v1/jobs", json={"jobs": [{"command": "true"}]}).status_code == 201
