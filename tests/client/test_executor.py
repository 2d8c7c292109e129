"""``cress.Executor`` as an executor of ``concurrent.futures``."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, as_completed, wait
from pathlib import Path
from typing import Any

import pytest

import cress
from cress.client.errors import CannotSend, RemoteTraceback
from tests.system.cluster import Cluster, wait_until

PATIENCE = 120.0
SMALL: dict[str, Any] = {"resource": "<0.5, 256M>", "backoff": "0.1s"}


def wait_for(path: Path) -> str:
    """Used by tasks: wait until a file is there."""
    while not path.exists():
        time.sleep(0.02)
    return path.name


@pytest.fixture
def make(center: cress.Client, tmp_path: Path) -> Iterator[Callable[..., cress.Executor]]:
    """Makes executors that are shut down at the end and leave nothing in their spool."""
    made: list[cress.Executor] = []

    def one(**keys: Any) -> cress.Executor:
        made.append(cress.Executor(center, spool=tmp_path / "spool", **{**SMALL, **keys}))
        return made[-1]

    yield one
    for executor in made:
        executor.shutdown()
    assert list(tmp_path.glob("spool/*")) == []


Make = Callable[..., cress.Executor]


def test_it_is_an_executor(make: Make) -> None:
    executor = make()
    assert isinstance(executor, Executor)
    future = executor.submit(lambda *given, **named: (given, named), 1, 2, three=3)
    assert isinstance(future, Future)
    assert future.result(PATIENCE) == ((1, 2), {"three": 3})
    assert list(executor.map(pow, [2, 3], [5, 2], timeout=PATIENCE)) == [32, 9]


def test_what_a_call_raises(make: Make) -> None:
    empty: dict[str, int] = {}
    future = make().submit(lambda: empty["key"])
    error = future.exception(PATIENCE)
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert 'lambda: empty["key"]' in str(error.__cause__)


def test_many_small_calls_are_few_jobs(make: Make, center: cress.Client) -> None:
    before = center.jobs(limit=1)[0].id if center.jobs(limit=1) else 0
    executor = make()
    offset = 1
    calls = [executor.submit(lambda x: x + offset, number) for number in range(400)]
    assert sum(future.result() for future in as_completed(calls, PATIENCE)) == sum(range(1, 401))
    # A loaded machine may take its time between two submits, but never so long for each.
    assert center.jobs(limit=1)[0].id - before < 20


def test_each_call_sees_what_was_so_when_it_was_submitted(make: Make) -> None:
    executor = make()
    calls = []
    number = 0

    def told() -> int:
        return number

    for now in range(5):
        number = now
        calls += [executor.submit(told)]
    assert [call.result(PATIENCE) for call in calls] == [0, 1, 2, 3, 4]


def test_what_cannot_be_sent_is_said_by_submit(make: Make) -> None:
    lock: Any = threading.Lock()
    executor = make()
    with pytest.raises(
        CannotSend, match=r"argument 2 of function divmod, <unlocked .*>, cannot be sent: cannot pickle"
    ):
        executor.submit(divmod, 1, lock)
    with pytest.raises(CannotSend, match=r"argument key of function sorted"):
        executor.submit(sorted, [], key=lock)
    with pytest.raises(CannotSend, match=r"its variable lock of the function around it"):
        executor.submit(lambda: lock)


def test_a_call_can_be_cancelled_until_its_task_begins(make: Make, tmp_path: Path) -> None:
    # There is room for one at a time.
    executor = make(resource="<8, 256M>", chunk=1)
    go = tmp_path / "go"
    first = executor.submit(wait_for, go)
    wait_until(first.running, "the first call running")
    assert not first.cancel()
    others = [executor.submit(lambda x: (tmp_path / f"ran{x}").touch(), number) for number in range(3)]
    assert others[1].cancel()
    assert others[1].cancelled()
    go.touch()
    assert first.result(PATIENCE) == "go"
    done, _ = wait(others, PATIENCE)
    assert done == set(others)
    with pytest.raises(CancelledError):
        others[1].result()
    assert sorted(path.name for path in tmp_path.glob("ran*")) == ["ran0", "ran2"]


def test_shutdown_takes_no_more_and_may_cancel_what_has_not_begun(make: Make, tmp_path: Path) -> None:
    executor = make(resource="<8, 256M>", chunk=1)
    first = executor.submit(wait_for, tmp_path / "go")
    wait_until(first.running, "the first call running")
    second = executor.submit(wait_for, tmp_path / "never")
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    assert second.cancelled()
    (tmp_path / "go").touch()
    assert first.result(PATIENCE) == "go"


def test_an_executor_that_was_never_used(make: Make) -> None:
    with make() as executor:
        pass
    executor.shutdown()


def test_asyncio_can_use_it(make: Make) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        executor = make()
        return await asyncio.gather(*(loop.run_in_executor(executor, abs, -number) for number in range(10)))

    assert asyncio.run(main()) == list(range(10))


def test_a_center_that_is_killed_in_the_middle(own: Cluster, tmp_path: Path) -> None:
    with (
        cress.Client(data=own.data, patience=PATIENCE) as client,
        cress.Executor(client, spool=tmp_path / "spool", **SMALL) as executor,
    ):
        first = executor.submit(wait_for, tmp_path / "go")
        wait_until(first.running, "the first call running")
        own.kill_center()
        second = executor.submit(abs, -1)
        time.sleep(0.2)
        (tmp_path / "go").touch()
        own.start_center()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == ("go", 1)
