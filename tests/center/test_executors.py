"""The listener of executors, and the effect on attempts of connections that come and go."""

from __future__ import annotations

import socket
from base64 import b64encode

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cress.model.reports import Cause, Started
from cress.protocol.messages import (
    PROTOCOL,
    VERSION,
    Hello,
    Launches,
    Ports,
    Refused,
    Reports,
    Stops,
    Welcome,
    decode_from_center,
    encode,
)
from cress.protocol.proof import HEADER, NONCE, ExecutorProof, ProofError
from tests.center.program import PATIENCE, Center, ended, eventually, open_wire


@pytest.mark.parametrize(
    ("token", "origin", "status"), [("", None, 401), ("no", None, 401), ("right", "http://x", 403)]
)
def test_only_executors_with_the_token_get_in(shared: Center, token: str, origin: str | None, status: int) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        open_wire(shared, shared.token if token == "right" else token, origin),
    ):
        pass
    assert refused.value.response.status_code == status


def test_what_is_no_message_ends_the_connection(shared: Center) -> None:
    with shared.executor("garbler") as executor:
        executor.wire.send(executor.seals.out.seal(b"\xc1garbage"))
        assert executor.closed()
    eventually(lambda: shared.get("/v1/nodes/garbler")["state"] == "away")


def test_a_message_without_a_seal_ends_the_connection_and_counts_for_nothing(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
        executor.wire.send(encode(Reports(reports=(ended(launch.attempt),))))
        assert executor.closed()
    assert center.get(f"/v1/jobs/{id}")["state"] != "succeeded"
    with center.executor() as executor:
        assert executor.launches() == (launch,)


def test_an_executor_that_knows_no_token_is_not_heard(shared: Center) -> None:
    proof = ExecutorProof("another-token", bytes(NONCE))
    with open_wire(shared, headers={HEADER: proof.header}) as wire:
        assert wire.response is not None
        with pytest.raises(ProofError):
            proof.check(wire.response.headers.get(HEADER))
        wire.send(bytes(32))
        with pytest.raises(ConnectionClosed, match="not made with the center's token"):
            wire.recv(PATIENCE)
    with open_wire(shared, headers={HEADER: proof.header}) as wire:
        wire.send(bytes(100_000))
        with pytest.raises(ConnectionClosed, match="too big"):
            wire.recv(PATIENCE)
    with pytest.raises(InvalidStatus), open_wire(shared, headers={HEADER: "1 nonsense"}):
        pass


def test_an_executor_of_protocol_5_may_send_the_token_and_one_of_protocol_6_may_not(center: Center) -> None:
    hello = Hello(version=VERSION, name="old", resource="<4, 8G>", boot="b", attributes={"os": "x"})
    with open_wire(center, center.token) as wire:
        wire.send(encode(hello))
        assert isinstance(decode_from_center(wire.recv(PATIENCE)), Welcome)  # type: ignore[arg-type]
    with open_wire(center, center.token) as wire:
        wire.send(encode(msgspec.structs.replace(hello, protocol=PROTOCOL)))
        refused = decode_from_center(wire.recv(PATIENCE))  # type: ignore[arg-type]
        assert isinstance(refused, Refused)
        assert "has sent the token instead of a proof" in refused.what
    center.stop()
    assert "node old (protocol 5) sends the token to any program that listens" in center.process.communicate()[1]


def test_an_order_that_was_lost_comes_again_with_the_same_id(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
    with center.executor() as executor:
        assert executor.launches() == (launch,)
        executor.ended(launch.attempt)
    assert center.get(f"/v1/jobs/{id}")["state"] == "succeeded"


def test_ends_that_happened_while_nobody_was_connected_are_told_at_the_next_hello(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
    with center.executor(reports=(ended(launch.attempt),)) as executor:
        assert isinstance(executor.first, Welcome)
        assert executor.durable().attempts == (launch.attempt,)
    assert center.get(f"/v1/jobs/{id}")["state"] == "succeeded"


def test_what_runs_unknown_to_the_center_is_stopped(center: Center) -> None:
    with center.executor(reports=(Started(attempt=77, at=1, pid=1),)) as executor:
        stops = executor.receive()
        assert isinstance(stops, Stops)
        assert [stop.attempt for stop in stops.stops] == [77]


def test_a_dead_connection_makes_room_for_its_successor(center: Center) -> None:
    hello = encode(Hello(version=VERSION, name="n1", resource="<4, 8G>", boot="b"))
    with socket.create_connection(("127.0.0.1", int(center.address["executor_url"].rpartition(":")[2]))) as dead:
        # Says hello and then nothing any more, not even to pings.
        lines = (
            "GET / HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade",
            f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}", "Sec-WebSocket-Version: 13",
            f"Authorization: Bearer {center.token}", "", "",
        )  # fmt: skip
        dead.sendall("\r\n".join(lines).encode())
        dead.sendall(b"\x82" + bytes([0x80 | len(hello)]) + bytes(4) + hello)
        eventually(lambda: center.get("/v1/state")["nodes_up"] == 1)
        with center.executor() as executor:
            assert isinstance(executor.first, Welcome)
            assert center.submit() == executor.launches()[0].job


def test_a_port_of_a_stranger_is_given_when_he_is_gone_and_the_same_when_it_is_told_again(center: Center) -> None:
    with center.executor(listening=(80,)) as executor:
        id = center.submit(ports={"web": 80, "admin": "dynamic"})
        assert "80" in center.get(f"/v1/jobs/{id}")["reason"]
        executor.send(Ports(ports=(443,)))
        (launch,) = executor.launches()
        web, admin = launch.ports
        assert web == 80
        assert 20_000 <= admin <= 32_767
    with center.executor() as executor:
        assert executor.launches() == (launch,)


def test_a_port_that_is_taken_after_all_counts_as_taken_until_the_node_says_otherwise(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit(ports=8080)
        (launch,) = executor.launches()
        executor.send(Reports(reports=(msgspec.structs.replace(ended(launch.attempt, cause=Cause.PORT), port=8080),)))
        assert executor.durable().attempts == (launch.attempt,)
        assert center.get(f"/v1/jobs/{id}")["state"] == "waiting"
        # First it waits for another try, then for the port.
        eventually(lambda: "8080" in center.get(f"/v1/jobs/{id}")["reason"])
        executor.send(Ports(ports=()))
        (again,) = executor.launches()
        assert (again.task, again.ports) == (0, (8080,))
        assert again.attempt > launch.attempt


def test_a_gang_is_sent_with_the_hosts_of_its_tasks_also_when_it_is_sent_again(center: Center) -> None:
    with (
        center.executor("a", resource="<1, 8G>", address="10.0.0.1") as a,
        center.executor("b", resource="<1, 8G>", address="10.0.0.2", rack="r2") as b,
    ):
        id = center.submit(tasks=2, gang=True, ports="dynamic")
        orders = [executor.receive() for executor in (a, b)]
        assert all(isinstance(each, Launches) for each in orders)
        (first, second) = (each for each in orders if isinstance(each, Launches))
        assert first.gangs == second.gangs
        ((job, hosts),) = [(gang.job, gang.hosts) for gang in first.gangs]
        launches = {order.launches[0].task: (order.address, order.launches[0].ports) for order in (first, second)}
        assert job == id
        assert [(host.address, host.ports) for host in hosts] == [launches[0], launches[1]]
        assert (second.address, second.rack) == ("10.0.0.2", "r2")
    with center.executor("b", resource="<1, 8G>", address="10.0.0.2", rack="r2") as b:
        again = b.receive()
        assert isinstance(again, Launches)
        assert msgspec.structs.replace(again, witness=second.witness) == second


def test_one_message_carries_all_launches_for_a_node(center: Center) -> None:
    with center.executor("a", resource="<8, 8G>") as a, center.executor("b", resource="<8, 8G>") as b:
        center.submit(tasks=12, resource="<1, 512M>")
        assert len(a.launches()) + len(b.launches()) == 12
