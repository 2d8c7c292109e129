"""A command in a task between a person and an executor: the windows of both sides, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cress.center.connections.commands import MOST_INPUT, Overrun, RunningCommand
from cress.protocol.execution import ExecStart
from cress.protocol.messages import EXEC_INPUT, EXEC_OUTPUT, Exec, ExecData, ExecInput, ExecOver, ExecSize
from tests.waiting import PATIENCE


class Command:
    """A command with number 7, what it has sent to its executor, and whether it is forgotten."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.forgotten: list[int] = []
        start = ExecStart(command=("sh",), environment={"A": "b"}, terminal=(24, 80))
        self.it = RunningCommand(7, 3, start, user="root", send=self.sent.append, forget=self.forgotten.append)
        assert self.sent == [Exec(id=7, attempt=3, command=("sh",), environment=(("A", "b"),), terminal=(24, 80))]
        self.sent.clear()

    def said(self) -> list[Any]:
        """What it has sent since the last look."""
        sent = list(self.sent)
        self.sent.clear()
        return sent

    def news(self, count: int) -> list[ExecData | ExecOver]:
        """The next messages for the person."""

        async def read() -> list[ExecData | ExecOver]:
            return [await self.it.news() for _ in range(count)]

        return asyncio.run(asyncio.wait_for(read(), PATIENCE))


def test_output_comes_in_its_order_and_what_is_read_is_told_once() -> None:
    command = Command()
    parts: list[ExecData | ExecOver] = [
        ExecData(id=7, data=b"one"),
        ExecData(id=7, data=b"two!"),
        ExecOver(id=7, code=3),
    ]
    for part in parts:
        command.it.told(part)
    assert command.news(3) == parts
    command.it.taken(5)
    command.it.taken(100)
    command.it.taken(-1)
    assert command.said() == [ExecInput(id=7, taken=5), ExecInput(id=7, taken=2)]
    command.it.close()
    assert (command.said(), command.forgotten, command.it.broken) == ([], [7], False)


@pytest.mark.parametrize("more", [0, 1])
def test_an_executor_that_sends_more_than_it_was_asked_for_is_not_heard(more: int) -> None:
    command = Command()
    for part in (b"x" * EXEC_OUTPUT, b"x" * (EXEC_OUTPUT + more)):
        command.it.told(ExecData(id=7, data=part))
    second = command.news(2)[1]
    assert command.it.broken == bool(more)
    if more:
        assert second == ExecOver(id=7, why="the executor sends more than it was asked for")
    else:
        assert isinstance(second, ExecData)


def test_input_waits_for_room_and_its_end_comes_last_and_once() -> None:
    command = Command()
    command.it.feed(b"a" * EXEC_INPUT + b"bcd")
    command.it.end()
    assert command.said() == [ExecInput(id=7, data=b"a" * EXEC_INPUT)]
    command.it.told(ExecData(id=7, taken=2))
    assert command.said() == [ExecInput(id=7, data=b"bc")]
    command.it.told(ExecData(id=7, data=b"out"))
    assert command.said() == []
    command.it.told(ExecData(id=7, taken=5))
    assert command.said() == [ExecInput(id=7, data=b"d", over=True)]
    command.it.told(ExecData(id=7, taken=1))
    assert command.said() == []
    command.it.resize(30, 100)
    assert command.said() == [ExecSize(id=7, rows=30, columns=100)]


def test_a_person_who_sends_more_than_the_window_is_told() -> None:
    command = Command()
    command.it.feed(b"x" * MOST_INPUT)
    with pytest.raises(Overrun, match=f"more than {MOST_INPUT} bytes"):
        command.it.feed(b"x")
    other = Command()
    other.it.feed(b"x" * MOST_INPUT)
    other.it.told(ExecData(id=7, taken=10))
    other.it.feed(b"x" * 10)
    with pytest.raises(Overrun):
        other.it.feed(b"x")


@pytest.mark.parametrize("is_over", [False, True])
def test_a_lost_connection_ends_the_command(*, is_over: bool) -> None:
    command = Command()
    over = [ExecOver(id=7, code=0)] if is_over else []
    for message in over:
        command.it.told(message)
    command.it.lost("node n1 is away")
    assert command.news(len(over) + 1) == [*over, ExecOver(id=7, why="node n1 is away")]
    assert command.it.broken == (not is_over)
    command.it.close()
    assert command.said() == ([] if is_over else [ExecOver(id=7)])


def test_a_person_who_waits_gets_each_message_when_it_comes() -> None:
    async def story() -> None:
        command = Command()
        for text in (b"one", b"two"):
            waiting = asyncio.create_task(command.it.news())
            await asyncio.sleep(0)
            assert not waiting.done()
            command.it.told(ExecData(id=7, data=text))
            assert await asyncio.wait_for(waiting, PATIENCE) == ExecData(id=7, data=text)

    asyncio.run(story())
