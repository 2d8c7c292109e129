"""One node is only one node: each message of an executor, and what it could do beyond its own node.

The rows of the table in docs/security.md name these tests.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

import tests.center.test_one_node as here
from cress.model.node import Device, Load
from cress.model.reports import Cause, Ended, Started, Usage
from cress.protocol import messages
from cress.protocol.messages import (
    MOST_STRANGERS,
    PROTOCOL,
    AskMaterial,
    Beat,
    Bulk,
    Data,
    ExecData,
    ExecOver,
    FileList,
    FromAgent,
    HiddenProcess,
    LogData,
    Material,
    Ports,
    ReadLog,
    Refused,
    Reports,
    Strangers,
    Term,
    Welcome,
)
from cress.protocol.messages import Load as LoadSeen
from tests.center.program import PATIENCE, Center, Executor, SealedWire, eventually

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("one-node") / "data", forked=True) as made:
        yield made


class Victim:
    """An honest node whose only task runs, for a job of its own."""

    def __init__(self, center: Center) -> None:
        self.center = center
        self.name = f"v{secrets.token_hex(4)}"
        self.executor = center.executor(self.name)
        self.job = center.submit(name=self.name, requirement=f'Name = "{self.name}"')
        (self.attempt,) = [launch.attempt for launch in self.executor.launches()]
        self.executor.started(self.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{self.job}")["tasks"]["running"] == 1)

    def still_runs(self) -> bool:
        tasks = self.center.get(f"/v1/jobs/{self.job}/tasks")["tasks"]
        assert [task["attempts"][-1]["node"] for task in tasks] == [self.name]
        return bool(self.center.get(f"/v1/jobs/{self.job}")["tasks"]["running"] == 1)

    def is_heard(self) -> bool:
        """Its session goes on: a sign of life is answered."""
        self.executor.send(Beat(sent=time.time_ns() // 1000))
        while not isinstance(self.executor.receive(), Term):
            pass
        return bool(self.center.get(f"/v1/nodes/{self.name}")["state"] == "up")


@pytest.fixture(scope="module")
def victim(center: Center) -> Iterator[Victim]:
    made = Victim(center)
    with made.executor:
        yield made


@pytest.fixture
def liar(center: Center) -> Iterator[Executor]:
    with center.executor(f"liar{secrets.token_hex(4)}", protocol=PROTOCOL) as made:
        yield made


def answered(executor: Executor) -> None:
    """Return when everything that an executor has sent is read."""
    executor.send(Beat(sent=1))
    while not isinstance(executor.receive(), Term):
        pass


@pytest.mark.parametrize("proof", [b"", b"x" * 32], ids=["without a proof", "with a wrong one"])
def test_hello_a_foreign_epoch(center: Center, victim: Victim, proof: bytes) -> None:
    for ahead in (1, 1_000, 2**47):
        with center.executor("n-epoch", epoch=victim.executor.epoch + ahead, witness=proof) as rival:
            assert isinstance(rival.first, Refused)
            assert "without the proof of a center" in rival.first.what
    assert victim.is_heard()
    assert center.get("/v1/centers")["centers"][0]["leads"]
    # It takes jobs as before.
    assert center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"], "hold": True}]}).status_code == 201


def test_hello_the_name_of_another_node(center: Center, victim: Victim) -> None:
    with center.executor(victim.name, boot="another") as rival:
        assert isinstance(rival.first, Refused)
        assert f"a node of the name '{victim.name}' is connected already" in rival.first.what
    assert victim.is_heard()


def test_hello_reports_about_attempts_of_another_node(center: Center, victim: Victim) -> None:
    ended = Ended(attempt=victim.attempt, cause=Cause.EXITED, code=1, started=1, at=2)
    with center.executor("n-reports", reports=(ended,)) as rival:
        assert isinstance(rival.first, Welcome)
    assert victim.still_runs()


def test_hello_kinds_of_resources_for_which_no_room_is_left(center: Center) -> None:
    kinds = [f"odd{number}" for number in range(17)]
    devices = tuple(Device(kind=kind, id="0") for kind in kinds)
    for _ in range(3):
        with center.executor("n-kinds", devices=devices) as greedy:
            assert isinstance(greedy.first, Welcome)
            assert [kind for kind in greedy.first.kinds if kind in kinds] == kinds[:6]
    with center.executor("n-gpus", devices=(Device(kind="gpu", id="0"),)) as honest:
        assert isinstance(honest.first, Welcome)
        assert "gpu" in honest.first.kinds


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("data", ("/d",) * 5_000, "`array` of length <= 4000 - at `$.data`"),
        ("boot", "b" * 5_000_000, "`str` of length <= 1024 - at `$.boot`"),
        ("attributes", {f"a{number}": 1 for number in range(2_000)}, "`object` of length <= 1024 - at `$.attributes`"),
        ("reports", (Started(attempt=1, at=1, pid=1),) * 50_001, "`array` of length <= 50000 - at `$.reports`"),
        ("witness", b"x" * 257, "`bytes` of length <= 256 - at `$.witness`"),
    ],
)
def test_hello_a_message_without_bounds(center: Center, field: str, value: Any, told: str) -> None:
    with center.executor("n-large", **{field: value}) as large:
        assert isinstance(large.first, Refused)
        assert told in large.first.what
        assert large.first.permanent
    with center.executor("n-huge") as huge:
        huge.send(Data(data=("/" + "d" * 60_000,) * 150))
        with pytest.raises(ConnectionClosed, match="exceeds limit of 8388608 bytes"):
            huge.receive()


def test_hello_a_large_one_right_after_the_proof(center: Center) -> None:
    """Found beside a busy center: both had arrived when the limit of unproven connections was lifted."""
    for _ in range(5):
        with center.executor("n-full", unlimited=("x" * 50_000,) * 10) as full:
            assert isinstance(full.first, Welcome)


def test_bulk_the_connection_of_another_node(center: Center, victim: Victim) -> None:
    with SealedWire(center) as rival:
        rival.send(Bulk(name=victim.name, ticket="0" * 32))
        with pytest.raises(ConnectionClosed, match="no session of this executor has such a ticket"):
            rival.wire.recv(PATIENCE)


def test_beat_terms_of_its_own_tasks_only(liar: Executor, victim: Victim) -> None:
    for sent in (0, 2**53):
        liar.send(Beat(sent=sent))
        term = liar.receive()
        assert isinstance(term, Term)
        assert term.sent == sent
    assert victim.is_heard()


def test_reports_about_attempts_of_another_node(liar: Executor, victim: Victim) -> None:
    ended = Ended(attempt=victim.attempt, cause=Cause.EXITED, code=1, started=1, at=2)
    liar.send(Reports(reports=(ended, Started(attempt=victim.attempt, at=1, pid=1))))
    answered(liar)
    assert victim.still_runs()


def test_reports_that_another_node_leaves(liar: Executor, victim: Victim) -> None:
    liar.send(Reports(reports=(), leaving=True))
    # Its own tasks get no more terms.
    liar.send(Beat(sent=1))
    assert victim.is_heard()


def test_reports_times_usage_and_texts_that_cannot_be_true(center: Center) -> None:
    with center.executor("n-times") as node:
        job = center.submit(name="times", requirement='Name = "n-times"')
        (launch,) = node.launches()
        ended = Ended(
            attempt=launch.attempt,
            cause=Cause.EXITED,
            code=1,
            started=1,
            at=2**53,
            error="e" * 60_000,
            usage=Usage(2**53, 2**62),
        )
        node.send(Reports(reports=(ended,)))
        node.durable()
        attempt = center.get(f"/v1/jobs/{job}/tasks")["tasks"][0]["attempts"][-1]
    assert attempt["ended"] < time.time() + 700
    assert 0 < attempt["ended"] - attempt["started"] < 800
    assert attempt["cpu"] < 800 * 4_096
    assert len(attempt["error"]) < 3_000


def test_ports_load_and_data_of_its_own_node_only(center: Center, liar: Executor, victim: Victim) -> None:
    before = center.get(f"/v1/nodes/{victim.name}")
    liar.send(Ports(ports=tuple(range(20_000, 30_000))))
    liar.send(LoadSeen(load=Load(cpu=1_000, memory=1_000, network=1_000, disk=1_000, free_memory=2**60)))
    liar.send(Data(data=("/data/of/others",)))
    answered(liar)
    after = center.get(f"/v1/nodes/{victim.name}")
    assert {key: after[key] for key in before if key != "heard"} == {
        key: before[key] for key in before if key != "heard"
    }


def test_strangers_of_its_own_node_only(center: Center, victim: Victim) -> None:
    name = f"liar{secrets.token_hex(4)}"
    with center.executor(name, protocol=PROTOCOL) as liar:
        strangers_are_shown(center, liar, name, victim)


def strangers_are_shown(center: Center, liar: Executor, name: str, victim: Victim) -> None:
    strangers: tuple[HiddenProcess, ...] = ()
    for first in (1, 1_000, 2_000):
        strangers = tuple(HiddenProcess(pid, 1, "sleep", "it hides") for pid in range(first, first + MOST_STRANGERS))
        liar.send(Strangers(processes=strangers))
    answered(liar)
    assert center.get(f"/v1/nodes/{victim.name}")["strangers"] == []
    assert len(center.get(f"/v1/nodes/{name}")["strangers"]) == MOST_STRANGERS
    told = eventually(lambda: _told_of(center, name) if _told_of(center, name) >= MOST_STRANGERS else 0)
    # A bound of each minute, and a new one may have begun meanwhile.
    assert told <= 2 * MOST_STRANGERS
    with pytest.raises(msgspec.ValidationError):
        messages.decode_from_agent(messages.encode(Strangers(processes=(*strangers, strangers[0]))))


def _told_of(center: Center, node: str) -> int:
    """How many strangers on a node became events."""
    lines = center.http.get("/v1/events?after=0&follow=false").text.splitlines()
    return sum("node.stranger" in line and node in line for line in lines)


@pytest.mark.parametrize(
    "message",
    [
        LogData(id=1, data=b"forged", over=True),
        FileList(id=1, error="forged"),
        ExecData(id=1, data=b"forged"),
        ExecOver(id=1, code=0),
    ],
    ids=lambda message: type(message).__name__,
)
def test_answers_to_requests_to_another_node(center: Center, liar: Executor, victim: Victim, message: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(center.http.get, f"/v1/jobs/{victim.job}/logs")
        question = victim.executor.receive()
        assert isinstance(question, ReadLog)
        # The numbers of requests begin with 1 on each connection.
        for number in range(1, question.id + 1):
            liar.send(msgspec.structs.replace(message, id=number))
        answered(liar)
        victim.executor.send(LogData(id=question.id, data=b"genuine", over=True))
        assert answer.result(PATIENCE).content == b"genuine"


def test_ask_material_of_another_node(liar: Executor, victim: Victim) -> None:
    liar.send(AskMaterial(epoch=liar.epoch, attempts=(victim.attempt,)))
    answer = liar.receive()
    assert isinstance(answer, Material)
    assert answer.refused


def test_the_page_has_a_row_with_a_test_for_each_message() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## What an executor may send\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert named == {message.__name__ for message in FromAgent.__args__}
    for row in rows:
        for test in re.findall(r"`(test_\w+)`", row[-1]):
            assert hasattr(here, test), test
        assert "`test_" in row[-1], row
