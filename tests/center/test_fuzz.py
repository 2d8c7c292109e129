"""Fuzzers of the center's WebSockets: whatever executors and users send, it goes on, and others notice nothing."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cress.model.node import Load as Measured
from cress.model.reports import Cause, Ended, Started
from cress.protocol.messages import (
    VERSION,
    AskMaterial,
    Beat,
    Data,
    ExecData,
    ExecOver,
    Hello,
    Load,
    LogData,
    Ports,
    Reports,
    encode,
)
from cress.protocol.proof import HEADER, NONCE, ExecutorProof
from tests.center.program import PATIENCE, Center, eventually, open_wire
from tests.center.test_execution import opened
from tests.hostile import changed, packed

HELLO = Hello(
    version=VERSION, name="evil", resource="<4, 8G>", boot="b", attributes={"os": "x"}, listening=(80,), data=("/d",)
)
MESSAGES: list[Any] = [
    Beat(sent=1),
    Reports(
        reports=(
            Started(attempt=1, at=1, pid=1),
            Ended(attempt=1, cause=Cause.EXITED, code=0, started=1, at=2),
        )
    ),
    Ports(ports=(1, 2)),
    Load(load=Measured()),
    Data(data=("/d",)),
    LogData(id=1, data=b"x"),
    ExecData(id=1, data=b"x", taken=1),
    ExecOver(id=1, code=0),
    AskMaterial(epoch=1, attempts=(1,)),
    HELLO,
]
START = {"command": ["cat"], "environment": {"A": "b"}, "terminal": [24, 80]}
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
FEW = settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
MANY = settings(max_examples=500, deadline=None, suppress_health_check=CHECKS)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    """A center that has seen nothing it could not handle when all fuzzers are done."""
    data: Path = tmp_path_factory.mktemp("fuzz") / "data"
    with Center(data, forked=True) as center:
        yield center
        with center.executor("honest", attributes={"who": "honest"}) as executor:
            number = center.submit(requirement='who = "honest"')
            (launch,) = executor.launches()
            executor.started(launch.attempt)
            executor.ended(launch.attempt)
            eventually(lambda: center.get(f"/v1/jobs/{number}")["state"] == "succeeded")
        events = center.http.get("/v1/events?follow=false").text
        assert "input.set_aside" not in events
    assert "Traceback" not in data.with_name("said").read_text()


def is_well(center: Center) -> None:
    state = center.get("/v1/state")
    assert state["problem"] == ""
    assert state["epoch"] == 1


def attack(center: Center, data: st.DataObject) -> None:
    """One connection of a hostile executor, in any state of its handshake."""
    stage = data.draw(st.sampled_from(("raw", "proof", "hello", "session", "session", "session")))
    header = data.draw(st.text("abcXYZ019+/=- ,;", max_size=80))
    garbage = data.draw(st.one_of(st.binary(max_size=6_000), st.text(max_size=50)))
    hello = encode(HELLO) if stage == "session" else msgspec.msgpack.encode(changed(HELLO, data))
    sent = [sending(data) for _ in range(data.draw(st.integers(1, 4)))]
    proof = ExecutorProof(center.token, secrets.token_bytes(NONCE))
    headers = {HEADER: header if stage == "raw" else proof.header}
    with contextlib.suppress(ConnectionClosed, InvalidStatus, TimeoutError), open_wire(center, headers=headers) as wire:
        if stage in ("raw", "proof"):
            wire.send(garbage)
            wire.recv(5)
            return
        assert wire.response is not None
        first, seals = proof.check(wire.response.headers.get(HEADER))
        wire.send(first)
        wire.send(seals.out.seal(hello))
        wire.recv(PATIENCE)
        for sealed, each in sent if stage == "session" else ():
            wire.send(seals.out.seal(bytes(each)) if sealed and isinstance(each, bytes) else each)
        wire.send(seals.out.seal(encode(Beat(sent=1))))
        wire.recv(0.2)


def sending(data: st.DataObject) -> tuple[bool, bytes | str]:
    """Something to be sent, and whether it is sealed."""
    kind = data.draw(st.integers(0, 9))
    if not kind:
        return False, data.draw(st.one_of(st.text(max_size=20), st.binary(max_size=100)))
    return True, encode(data.draw(st.sampled_from(MESSAGES))) if kind == 1 else packed(MESSAGES, data)


@FEW
@given(data=st.data())
def test_hostile_executors(own: Center, data: st.DataObject) -> None:
    attack(own, data)
    is_well(own)


@pytest.mark.long
@MANY
@given(data=st.data())
def test_many_hostile_executors(own: Center, data: st.DataObject) -> None:
    attack(own, data)
    is_well(own)


@pytest.fixture(scope="module")
def path(own: Center) -> Iterator[str]:
    """The address of commands in a task that runs."""
    with own.executor("busy", attributes={"who": "busy"}) as executor:
        number = own.submit(requirement='who = "busy"')
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: own.get(f"/v1/jobs/{number}/tasks/0")["state"] == "running")
        # What the center sends it is read, so that it does not wait for that.
        reader = threading.Thread(target=executor.closed)
        reader.start()
        yield f"/v1/jobs/{number}/tasks/0/exec"
        own.post(f"/v1/jobs/{number}/cancel")
    reader.join()


def command(center: Center, path: str, data: st.DataObject) -> None:
    """One hostile connection to a command."""
    sent: list[bytes | str] = [json.dumps(START)] * data.draw(st.integers(0, 1))
    for _ in range(data.draw(st.integers(1, 4))):
        plain = data.draw(st.sampled_from((START, {"size": [1, 2]}, {"end": True}, {"taken": 5})))
        hostile = json.dumps(changed(plain, data), default=repr)
        others = st.one_of(
            st.binary(max_size=200), st.text(max_size=50), st.sampled_from(("[" * 20_000, '{"taken":1e999}'))
        )
        sent.append(hostile if data.draw(st.booleans()) else data.draw(others))
    with contextlib.suppress(ConnectionClosed, TimeoutError), opened(center, path) as person:
        for each in sent:
            person.send(each)
        person.recv(0.05)


@FEW
@given(data=st.data())
def test_hostile_users_of_commands(own: Center, path: str, data: st.DataObject) -> None:
    command(own, path, data)
    is_well(own)


@pytest.mark.long
@MANY
@given(data=st.data())
def test_many_hostile_users_of_commands(own: Center, path: str, data: st.DataObject) -> None:
    command(own, path, data)
    is_well(own)
