"""A fuzzer of the supervisor's socket: whatever comes, its tasks go on, and the next agent is served."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cress.executor.folder import socket_path
from cress.executor.frames import frame
from cress.model.reports import Cause
from cress.model.run import File, Run
from cress.protocol.messages import Durable, Launch, Launches, Material, Signal, Stop, Stops
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor
from tests.hostile import NOT_MESSAGES, packed
from tests.waiting import PATIENCE

RUN = Run(job=1, command=("/bin/true",), files=(File(source="/etc/hostname", path="x"),), environment=(("A", "b"),))
MESSAGES: list[Any] = [
    Launches(epoch=1, runs=(RUN,), launches=(Launch(5, 1, 0, (80,)),)),
    Stops(epoch=1, stops=(Stop(5, 10),)),
    Signal(epoch=1, attempt=5, number=10),
    Durable(epoch=1, attempts=(5,)),
    Material(epoch=1, attempt=5),
]
# The threads of connections use random numbers.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
LAST = 2**48
TOLD: list[str] = []


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisorProcess]:
    """A supervisor with a task that is still there when the fuzzers are done; other orders are obeyed, too."""
    with supervisor(tmp_path_factory.mktemp("fuzz") / "executor") as process:
        client = process.start()
        client.launch(shell("exec sleep 600"), 10**9)
        client.wait_started(10**9)
        client.close()
        # Nobody else reads what it tells the operator, and it waits when the pipe is full.
        reader = threading.Thread(target=read, args=(process,))
        reader.start()
        yield process
        client = Client(process.directory)
        assert 10**9 not in client.ended
        client.launch(Run(job=3, command=("/bin/echo", "served")), 10**9 + 1, epoch=LAST)
        assert client.wait_ended(10**9 + 1).cause is Cause.EXITED
        client.stop(10**9, 0, epoch=LAST)
        client.wait_ended(10**9)
        client.close()
        assert process.process is not None
        process.process.terminate()
        reader.join()
        assert "Traceback" not in "".join(TOLD)


def read(process: SupervisorProcess) -> None:
    assert process.process is not None
    assert process.process.stderr is not None
    TOLD.extend(line[:500] for line in process.process.stderr)


def attack(directory: Path, data: st.DataObject) -> None:
    """One connection of a hostile agent."""
    sent = [sending(data) for _ in range(data.draw(st.integers(1, 4)))]
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), socket.socket(socket.AF_UNIX) as wire:
        with socket_path(directory / "supervisor.sock") as path:
            wire.connect(path)
        for each in sent:
            wire.sendall(each)


def sending(data: st.DataObject) -> bytes:
    if data.draw(st.integers(0, 7)):
        return frame(packed(MESSAGES, data))
    return data.draw(st.sampled_from((b"\xff" * 8, struct.pack(">I", 2**28 + 1), b"\0\0\0", *NOT_MESSAGES)))


def is_well(parent: SupervisorProcess) -> None:
    assert parent.process is not None
    try:
        Client(parent.directory).close()
    except OSError:
        raise AssertionError("".join(TOLD[-40:])) from None


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(data=st.data())
def test_hostile_agents(parent: SupervisorProcess, data: st.DataObject) -> None:
    attack(parent.directory, data)
    is_well(parent)


@pytest.mark.long
@settings(max_examples=500, deadline=None, suppress_health_check=CHECKS)
@given(data=st.data())
def test_many_hostile_agents(parent: SupervisorProcess, data: st.DataObject) -> None:
    attack(parent.directory, data)
    is_well(parent)


@pytest.mark.parametrize("message", NOT_MESSAGES)
def test_what_is_not_a_message_ends_the_connection_only(parent: SupervisorProcess, message: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(PATIENCE)
        with socket_path(parent.directory / "supervisor.sock") as path:
            wire.connect(path)
        wire.sendall(frame(message))
        with contextlib.suppress(ConnectionResetError):
            while wire.recv(1 << 16):
                pass
    is_well(parent)


def test_an_order_of_an_older_epoch_is_not_obeyed(tmp_path: Path) -> None:
    with supervisor(tmp_path / "executor") as process:
        client = process.start()
        client.launch(shell("exec sleep 600"), 1, epoch=7)
        client.wait_started(1)
        # Replayed by somebody who has recorded them: a stop, a start, a signal.
        client.send(Stops(epoch=6, stops=(Stop(1, 0),)))
        client.launch(shell("touch started"), 2, epoch=6)
        client.send(Signal(epoch=6, attempt=1, number=9))
        client.launch(Run(job=2, command=("/bin/true",)), 3, epoch=7)
        client.wait_ended(3)
        assert client.ended.keys() == {3}
        assert not (process.directory / "attempts/2").exists()
        client.stop(1, 0, epoch=7)
        client.wait_ended(1)
