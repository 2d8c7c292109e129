"""The start material of tasks that use other jobs, without a center."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cress.center.connections.start_materials import Starting
from cress.center.connections.used_jobs import UsedJobs
from cress.lifecycle.name_service import Place
from cress.model.errors import InputError
from cress.model.jobfile.values import uses
from cress.model.run import Run


def place(task: int = 0, address: str = "h", ports: tuple[tuple[str, int], ...] = (("p", 7),)) -> Place:
    return Place(
        job=1, name="db", group="lab", task=task, attempt=1, node="n", rack="", address=address, ports=ports, since=1
    )


class Names:
    """A feed whose table has these places after so many waits."""

    def __init__(self, places: list[Place], after: int, waits: dict[int, str]) -> None:
        self.left = after
        self.waits = waits
        self.table = SimpleNamespace(
            revision=0, places=lambda _, group: places if not self.left and group == "lab" else []
        )

    async def wait(self, _name: str, _revision: object, seconds: float) -> None:
        self.left = max(0, self.left - 1)
        # What the start waits for is told meanwhile.
        assert self.waits[5].startswith("task 0 has its place on n1 and starts when a task of db is ready; if none")
        await asyncio.sleep(min(seconds, 0.001))


def given(places: list[Place], *, after: int = 0, patience: float = 5.0) -> dict[str, bytes]:
    run = Run(job=1, command=("x",), uses=("db",))
    attempt = cast("Any", SimpleNamespace(id=5, task=0, node="n1"))
    starting = Starting(attempt, cast("Any", SimpleNamespace(job=SimpleNamespace(group="lab"))), run)
    waits: dict[int, str] = {}
    names = cast("Any", Names(places, after, waits))
    try:
        return asyncio.run(UsedJobs(names, waits, patience).provide(starting)).environment
    finally:
        assert not waits


def test_the_addresses() -> None:
    first = place()
    assert given([first]) == {"CRESS_SERVICE_DB": b"h:7", "CRESS_SERVICE_DB_ALL": b"h:7"}
    assert given([first, place(1, "::1"), place(2, "k", ())], after=3) == {
        "CRESS_SERVICE_DB": b"h:7",
        "CRESS_SERVICE_DB_ALL": b"h:7,[::1]:7,k",
    }
    with pytest.raises(InputError, match=r"no task of db in group lab was ready within 0.01 s"):
        given([first], after=1_000, patience=0.01)


def test_names_in_a_job_file() -> None:
    assert uses("db") == uses(["db", "db"]) == ("db",)
    with pytest.raises(InputError, match="a-b and a_b have the same variable CRESS_SERVICE_A_B"):
        uses(["a-b", "a_b"])
    with pytest.raises(InputError, match="21 names are too many"):
        uses([f"n{number}" for number in range(21)])
