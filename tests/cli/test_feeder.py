"""Standard input of `cress run`: the thread that passes it on ends without a traceback if the command is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self, cast

from cress.cli.standard_input import Feeder, StandardInput
from cress.client import Client, Unavailable


def test_the_command_is_over_while_it_asks_whether_the_task_is() -> None:
    rings: list[str] = []

    class Command:
        """The connection of the command that fills the pipe breaks off."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Iterator[object]:
            raise Unavailable("the connection for bulk data is gone")

        def send(self, _: bytes) -> bool:
            return False

    class ClosedClient:
        def exec(self, *_: object) -> Command:
            return Command()

        def task(self, *_: object) -> object:
            raise RuntimeError("Cannot send a request, as the client has been closed.")

    feeder = Feeder(cast("Client", ClosedClient()), 1, StandardInput(b"data"), lambda: rings.append("rung"))
    feeder._feed()
    assert rings == ["rung"]
    assert feeder.problem() == "Cannot send a request, as the client has been closed."
