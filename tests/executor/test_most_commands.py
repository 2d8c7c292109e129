"""Commands in the tasks of a node: how many run at a time, of all users together."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cress.executor.exec.commands import Execs
from cress.executor.exec.helper_process import HelperProcess
from cress.protocol.messages import Exec, ExecOver, FromAgent
from tests.waiting import PATIENCE


def test_a_command_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.executor.exec.commands.MOST", 2)

    async def story() -> list[FromAgent]:
        sent: list[FromAgent] = []
        all_sent = asyncio.Event()

        async def send(message: FromAgent) -> None:
            sent.append(message)
            if len(sent) == 3:
                all_sent.set()

        # Attempts 0 and 1 do not run, so their commands end at once; they count until then.
        execs = Execs(cast("HelperProcess", None), {0: 0, 1: 0, 2: 1}.__getitem__, send)
        for number in range(3):
            execs.obey(Exec(id=number, attempt=number, command=("cat",), environment=()))
        await asyncio.wait_for(all_sent.wait(), PATIENCE)
        return sent

    ends = [message for message in asyncio.run(story()) if isinstance(message, ExecOver)]
    assert {end.id: end.why for end in ends} == {
        0: "the task is not running on its node",
        1: "the task is not running on its node",
        2: "2 commands are running in tasks of this node, which is the limit",
    }
