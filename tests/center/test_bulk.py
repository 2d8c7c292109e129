"""The second connection of an executor: when it is asked for, what goes over it, and who may open it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from cress.center.connections.bulk import LEAST_CHUNK, MOST_CHUNK, BulkWire, ChunkSize, Pace
from cress.center.connections.executor_wire import Wire
from cress.protocol import messages
from cress.protocol.messages import Bulk, LogData, OpenBulk, ReadLog
from tests.center.program import PATIENCE, Center, Executor, SealedWire


class Second(SealedWire):
    """A second connection, of the executor of a node."""

    def __init__(self, center: Center, name: str, ticket: str) -> None:
        super().__init__(center)
        self.send(Bulk(name=name, ticket=ticket))

    def answer(self, text: bytes) -> None:
        question = self.receive()
        assert isinstance(question, ReadLog)
        self.send(LogData(id=question.id, data=text[question.offset :], over=True))


@contextlib.contextmanager
def asked(center: Center, job: int) -> Iterator[Future[str]]:
    """A reader of the log of a job, who waits."""
    answer: Future[str] = Future()

    def read() -> None:
        try:
            with center.client() as calls:
                found = calls.get(f"/v1/jobs/{job}/logs")
            answer.set_result(found.text if found.status_code == 200 else f"{found.status_code} {found.text}")
        except BaseException as error:  # noqa: BLE001 – it belongs to the test
            answer.set_exception(error)

    thread = threading.Thread(target=read)
    thread.start()
    yield answer
    thread.join()


@pytest.fixture
def executor(center: Center) -> Iterator[Executor]:
    with center.executor(bulk=True, protocol=messages.PROTOCOL) as found:
        yield found


def running(center: Center, executor: Executor) -> int:
    job = center.submit()
    (launch,) = executor.launches()
    executor.started(launch.attempt)
    return job


def ticket_of(executor: Executor) -> str:
    """The ticket with which the center asks for a second connection."""
    order = executor.receive()
    assert isinstance(order, OpenBulk)
    return order.ticket


def test_logs_go_over_the_second_connection_which_stays_open(center: Center, executor: Executor) -> None:
    job = running(center, executor)
    with asked(center, job) as answer:
        ticket = ticket_of(executor)
        with Second(center, "n1", ticket) as second:
            second.answer(b"first\n")
            assert answer.result(PATIENCE) == "first\n"
            with asked(center, job) as again:
                second.answer(b"second\n")
                assert again.result(PATIENCE) == "second\n"
            # The first connection goes on beside it.
            center.submit()
            (launch,) = executor.launches()
            executor.started(launch.attempt)
            assert executor.ended(launch.attempt).attempts == (launch.attempt,)


def test_a_second_connection_that_is_lost_is_asked_for_again(center: Center, executor: Executor) -> None:
    job = running(center, executor)
    with asked(center, job) as answer:
        for _ in range(2):  # a request is repeated once
            with Second(center, "n1", ticket_of(executor)) as second:
                assert isinstance(second.receive(), ReadLog)
        assert answer.result(PATIENCE).startswith("503 ")
        assert "the connection for bulk data is gone" in answer.result()
    with asked(center, job) as answer:
        with Second(center, "n1", ticket_of(executor)) as second:
            assert isinstance(second.receive(), ReadLog)
        with Second(center, "n1", ticket_of(executor)) as second:
            second.answer(b"there\n")
            assert answer.result(PATIENCE) == "there\n"


def test_nobody_uses_a_second_connection_that_is_being_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed once nobody has used it for a while, however often its owner is quiet; then nobody may use it."""
    monkeypatch.setattr("cress.center.connections.bulk.IDLE", 0.2)
    events: list[str] = []

    class Owner:
        is_quiet = True

        def heard(self, message: object) -> None:
            raise AssertionError(message)

        def closed(self, bulk: BulkWire, why: str) -> None:
            events.append(f"closed {why!r}")
            # A request for the next one comes meanwhile.
            self.is_quiet = False

    class SlowWire:
        def __init__(self) -> None:
            self.over = asyncio.Event()

        async def receive(self) -> bytes:
            await self.over.wait()
            raise ConnectionClosedOK(None, None)

        async def send(self, message: bytes) -> None:
            events.append("sent")

        async def close(self, code: int, reason: str) -> None:
            events.append(f"closing {reason!r}")
            self.over.set()

    async def story() -> str:
        bulk = BulkWire(cast("Wire", SlowWire()), lambda _: None, Owner())
        serving = asyncio.create_task(bulk.serve())
        for _ in range(5):
            await asyncio.sleep(0.08)
            bulk.put(ReadLog(id=1, attempt=1, stream="stdout", offset=0, limit=1, wait=0))
        return await serving

    assert asyncio.run(story()) == ""
    assert events == [*["sent"] * 5, "closed ''", "closing 'idle'", "closing ''"]


def test_without_a_second_connection_logs_go_over_the_first(center: Center, executor: Executor) -> None:
    job = running(center, executor)
    with asked(center, job) as answer:
        assert isinstance(executor.receive(), OpenBulk)  # which is not obeyed
        executor.answer_logs(b"late\n", over=True)
        assert answer.result(PATIENCE) == "late\n"
    with asked(center, job) as answer:
        executor.answer_logs(b"at once\n", over=True)
        assert answer.result(PATIENCE) == "at once\n"


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_second_connection_needs_the_ticket_of_its_session(center: Center, executor: Executor, name: str) -> None:
    with asked(center, running(center, executor)) as answer:
        ticket = ticket_of(executor)
        wrong = "0" * 32 if name == "n1" else ticket
        with (
            Second(center, name, wrong) as second,
            pytest.raises(ConnectionClosed, match="no session of this executor"),
        ):
            second.receive()
        with Second(center, "n1", ticket) as second:
            second.answer(b"mine\n")
            assert answer.result(PATIENCE) == "mine\n"


def test_the_second_connection_ends_with_the_first(center: Center) -> None:
    with (
        center.executor(bulk=True, protocol=messages.PROTOCOL) as executor,
        asked(center, running(center, executor)) as answer,
    ):
        ticket = ticket_of(executor)
        with Second(center, "n1", ticket) as second:
            assert isinstance(second.receive(), ReadLog)
            executor.wire.close()
            assert answer.result(PATIENCE).startswith("503 ")
            with pytest.raises(ConnectionClosed):
                second.receive()


def test_parts_are_small_over_a_slow_link_and_grow_over_a_fast_one() -> None:
    chunk = ChunkSize()
    for _ in range(5):
        chunk.answered(chunk.now, 0.01)
    assert chunk.now == MOST_CHUNK
    chunk.answered(100, 5.0)  # it came late because there was nothing before
    assert chunk.now == MOST_CHUNK
    for _ in range(10):
        chunk.answered(chunk.now, 3.0)
    assert chunk.now == LEAST_CHUNK
    chunk.answered(chunk.now, 0.5)
    assert chunk.now == LEAST_CHUNK
    chunk.answered(chunk.now, 0.01)
    chunk.answered(0, 0.0)
    assert chunk.now == LEAST_CHUNK


def test_all_readers_together_have_one_pace() -> None:
    async def read() -> float:
        pace, loop = Pace(rate=1e6, burst=1e4), asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(pace.passed(20_000) for _ in range(10)))
        return loop.time() - begun

    assert 0.15 < asyncio.run(read()) < 5
