"""Functions on the cluster: ``Client.map`` with real tasks, which are killed, and a center that is."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cress
from cress.client import packing
from cress.client.errors import CannotSend, RemoteError, RemoteTraceback, TaskDied
from tests.system.cluster import Cluster, wait_until

PATIENCE = 120.0
SMALL: dict[str, Any] = {"resource": "<0.5, 256M>", "backoff": "0.1s"}


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Path]:
    """Where calls are kept; nothing is left there."""
    folder = tmp_path / "spool"
    yield folder
    assert not folder.exists() or list(folder.iterdir()) == []


def wait_for(path: Path) -> str:
    """Used by tasks: wait until a file is there."""
    while not path.exists():
        time.sleep(0.02)
    return path.name


def test_results_are_in_the_order_of_the_items(center: cress.Client, spool: Path) -> None:
    factor = 3
    with center.map(lambda x: x * factor, (x for x in range(100)), chunk=9, spool=spool, **SMALL) as results:
        assert len(results) == 100
        assert [oct(folder.stat().st_mode & 0o777) for folder in spool.iterdir()] == ["0o700"]
        assert list(results) == [3 * x for x in range(100)]
        assert results.job is not None
        assert results.job.wait(PATIENCE).tasks.total == 12
        assert results.job.view().name == "lambda"


def test_several_iterables_none_and_no_chunk(center: cress.Client, spool: Path) -> None:
    assert list(center.map(pow, [2, 3, 4], itertools.count(), spool=spool, **SMALL)) == [1, 3, 16]
    assert list(center.map(abs, [], spool=spool)) == []
    with pytest.raises(ValueError, match="1 or more"):
        center.map(abs, [1], chunk=0, spool=spool)


def test_results_come_as_their_chunks_end(center: cress.Client, tmp_path: Path, spool: Path) -> None:
    def held(number: int) -> int:
        if number == 0:
            wait_for(tmp_path / "go")
        return number

    with center.map(held, range(3), chunk=1, spool=spool, **SMALL) as results:
        found = results.as_completed()
        assert {next(found), next(found)} == {(1, 1), (2, 2)}
        (tmp_path / "go").touch()
        assert list(found) == [(0, 0)]


def test_large_arrays_go_and_come_back(center: cress.Client, spool: Path) -> None:
    arrays = [np.full(2_000_000, number, dtype=np.float64) for number in range(3)]
    sums = list(center.map(lambda array: array * 2, arrays, chunk=1, spool=spool, resource="<1, 512M>"))
    assert [float(each[-1]) for each in sums] == [0.0, 2.0, 4.0]


def test_the_spool_may_be_any_address(center: cress.Client, spool: Path) -> None:
    spool.mkdir()
    assert list(center.map(abs, [-1, -2], spool=f"file://{spool}", **SMALL)) == [1, 2]


# --- what goes wrong in a function ------------------------------------------------------------------------------------


class Odd(Exception):
    """Cannot be made again from what it was made of."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def test_an_exception_comes_back_with_the_traceback_of_the_task(center: cress.Client, spool: Path) -> None:
    def inner(x: int) -> float:
        return 1 / x

    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        list(center.map(lambda x: inner(x) + 1, [1, 0, 2], chunk=2, spool=spool, **SMALL))
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in inner\n" in str(caught.value.__cause__)
    assert "worker.py" not in str(caught.value.__cause__)


def test_exceptions_as_results(center: cress.Client, spool: Path) -> None:
    def wrong(x: int) -> Any:
        match x:
            case 0:
                raise KeyError("zero")
            case 1:
                raise Odd("one", "two")
            case 2:
                return threading.Lock()
            case 3:
                sys.exit(7)
        return x

    found = list(center.map(wrong, range(5), return_exceptions=True, chunk=5, spool=spool, **SMALL))
    assert [type(each) for each in found] == [KeyError, RemoteError, TypeError, SystemExit, int]
    assert str(found[1]) == "tests.client.test_functions.Odd: one and two"
    assert str(found[2]).startswith("the result, of type lock, cannot be sent back: cannot pickle")


class Holder:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def method(self, _: int) -> None:
        pass


def closure() -> Callable[[int], object]:
    held = threading.Lock()
    return lambda x: (x, held)


@pytest.mark.parametrize(
    ("function", "items", "sentence"),
    [
        (abs, [1, 2, threading.Lock()], r"item 2, <unlocked _thread.lock .*>, cannot be sent: cannot pickle"),
        (
            closure(),
            [1],
            r"function closure.<locals>.<lambda> cannot be sent: its variable held of the function around",
        ),
        (Holder().method, [1], r"function Holder.method cannot be sent: its object, <.*Holder.*: cannot pickle"),
    ],
    ids=["item", "closure", "method"],
)
def test_what_cannot_be_sent_is_named_at_once(
    center: cress.Client, spool: Path, function: Callable[..., Any], items: list[Any], sentence: str
) -> None:
    before = center.jobs(limit=1)
    with pytest.raises(CannotSend, match=sentence):
        center.map(function, items, spool=spool)
    assert [job.id for job in center.jobs(limit=1)] == [job.id for job in before]


def test_another_python_is_told(center: cress.Client, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = packing._head("map")
    monkeypatch.setattr(packing, "_head", lambda kind: {**head, "kind": kind, "python": [3, 8]})
    mine = ".".join(map(str, sys.version_info[:2]))
    with pytest.raises(RemoteError, match=rf"sent by Python 3\.8 and .* is Python {mine}: python= must be one of 3\.8"):
        list(center.map(abs, [1], spool=spool, **SMALL))


def test_a_module_that_tasks_do_not_have(center: cress.Client, spool: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("def f(x): return x")
    sys.path.append(str(tmp_path))
    try:
        from gone import f  # type: ignore[import-not-found]

        assert list(center.map(f, [1], spool=spool, **SMALL)) == [1]
        sys.path.remove(str(tmp_path))
        with pytest.raises(
            RemoteError, match="cannot be loaded by the task: ModuleNotFoundError: No module named 'gone'"
        ):
            list(center.map(f, [1], spool=spool, **SMALL))
    finally:
        sys.modules.pop("gone", None)


# --- what goes wrong around it ----------------------------------------------------------------------------------------


def test_a_task_that_is_killed_runs_again_and_results_stay_right(
    center: cress.Client, tmp_path: Path, spool: Path
) -> None:
    def dies_once(x: int) -> int:
        mark = tmp_path / f"died{x}"
        if x % 5 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    assert list(center.map(dies_once, range(12), chunk=2, spool=spool, **SMALL)) == list(range(12))
    assert len(list(tmp_path.glob("died*"))) == 3


def test_a_task_that_always_dies_is_told_and_others_are_not_lost(center: cress.Client, spool: Path) -> None:
    def dies(x: int) -> int:
        if x == 1:
            os.write(2, b"no more memory for me\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    found = list(center.map(dies, range(3), chunk=1, return_exceptions=True, spool=spool, retries=1, **SMALL))
    assert (found[0], found[2]) == (0, 2)
    assert isinstance(found[1], TaskDied)
    assert "task 1 was ended by signal 9 on n1\n  no more memory for me" in str(found[1])


def test_a_python_that_is_not_there(center: cress.Client, spool: Path) -> None:
    with pytest.raises(TaskDied, match="/nonexistent/python"):
        list(center.map(abs, [1], python="/nonexistent/python", spool=spool, **SMALL))


def test_a_job_that_somebody_cancels(center: cress.Client, tmp_path: Path, spool: Path) -> None:
    results = center.map(wait_for, [tmp_path / "never"], spool=spool, **SMALL)
    assert results.job is not None
    results.job.cancel()
    with pytest.raises(TaskDied, match=r"job \d+ \(wait-for\) cancelled"):
        next(results)


def test_results_are_not_lost_with_a_center_that_is_killed(own: Cluster, tmp_path: Path, spool: Path) -> None:
    def held(x: int) -> int:
        if x >= 4:
            wait_for(tmp_path / "go")
        return x

    with cress.Client(data=own.data, patience=PATIENCE) as client:
        results = client.map(held, range(8), chunk=1, spool=spool, **SMALL)
        assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
        own.kill_center()
        threading.Timer(0.5, own.start_center).start()
        (tmp_path / "go").touch()
        assert list(results) == list(range(4, 8))
        assert results.job is not None
        assert results.job.wait(PATIENCE).state == "succeeded"


def test_who_leaves_early_cancels_the_rest(center: cress.Client, tmp_path: Path, spool: Path) -> None:
    with center.map(lambda x: x or wait_for(tmp_path / "never"), [1, 0, 0], chunk=1, spool=spool, **SMALL) as results:
        assert next(results) == 1
    assert results.job is not None
    assert results.job.wait(PATIENCE).state == "cancelled"
    collected = center.map(wait_for, [tmp_path / "never"], spool=spool, **SMALL)
    job = collected.job
    del collected
    assert job is not None
    assert job.wait(PATIENCE).state == "cancelled"


SCRIPT = """
    import os, sys, time
    import cress

    class Point:
        def __init__(self, x): self.x = x
        def __eq__(self, other): return type(other) is Point and other.x == self.x

    def moved(point, by=1):
        return Point(point.x + by)

    def slow(x):
        time.sleep(600)

    client = cress.Client()
    assert list(client.map(moved, [Point(1), Point(2)], resource="<0.5, 256M>")) == [Point(2), Point(3)]
    with cress.Executor(client, resource="<0.5, 256M>") as executor:
        assert executor.submit(moved, Point(1), by=5).result() == Point(6)
    if sys.argv[1] == "map":
        results = client.map(slow, range(3), resource="<0.5, 256M>", chunk=1, name="interrupted-map")
        print("waiting", flush=True)
        list(results)
    elif sys.argv[1] == "executor":
        with cress.Executor(client, resource="<0.5, 256M>", chunk=1, name="interrupted-executor") as executor:
            future = executor.submit(slow, 1)
            while not future.running():
                time.sleep(0.01)
            print("waiting", flush=True)
            future.result()
    elif sys.argv[1] == "forgotten":
        executor = cress.Executor(client, resource="<0.5, 256M>", name="interrupted-forgotten")
        future = executor.submit(slow, 1)
        while not future.running():
            time.sleep(0.01)
        print("waiting", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("how", ["map", "executor", "forgotten"])
def test_functions_of_a_script_and_ctrl_c(cluster: Cluster, center: cress.Client, tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    with subprocess.Popen(
        [sys.executable, str(script), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**cluster.environment, "XDG_CACHE_HOME": str(tmp_path)},
        text=True,
        # A shell that runs the tests in the background ignores Ctrl-C, and so would the script.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n", process.communicate()[1]
            process.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in process.communicate(timeout=PATIENCE)[1]
        finally:
            process.kill()
    (job,) = center.jobs(name=f"interrupted-{how}")
    assert center.job(job.id).wait(PATIENCE).state == "cancelled"
    wait_until(lambda: list((tmp_path / "cress" / "calls").iterdir()) == [], "an empty spool")


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_the_same_for_asyncio(cluster: Cluster, tmp_path: Path, spool: Path) -> None:
    async def main() -> None:
        async with cress.AsyncClient(data=cluster.data) as client:
            results = await client.map(lambda x: x + 1, range(20), chunk=3, spool=spool, **SMALL)
            assert [result async for result in results] == list(range(1, 21))
            results = await client.map(abs, [-1, -2], chunk=1, spool=spool, **SMALL)
            assert {pair async for pair in results.as_completed()} == {(0, 1), (1, 2)}
            with pytest.raises(ZeroDivisionError):
                [each async for each in await client.map(lambda x: 1 / x, [0], spool=spool, **SMALL)]
            async with await client.map(wait_for, [tmp_path / "never"], spool=spool, **SMALL) as waiting:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(waiting), 0.3)
            assert waiting.job is not None
            assert (await waiting.job.wait(PATIENCE)).state == "cancelled"

    asyncio.run(main())


def test_a_task_that_does_not_find_its_data_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cress.client.worker", str(tmp_path / "nowhere")]
    done = subprocess.run(
        command, env={**os.environ, "CRESS_TASK_INDEX": "0"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"cress: there is no {tmp_path}/nowhere on this node: "
        "spool= must be a folder that all nodes share, or an address\n"
    )


def test_a_worker_loads_little() -> None:
    code = "import sys, cress.client.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "cress.client.frames" in loaded
    assert {"msgspec", "httpx", "asyncio", "cloudpickle", "fsspec", "cress.client.blocking.http"}.isdisjoint(loaded)


# --- waiting in silence -----------------------------------------------------------------------------------------------


@pytest.fixture
def busy(own: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[cress.Client]:
    """A client of a cluster that has no room; who waits is told soon."""
    monkeypatch.setattr("cress.client.waiting.TELL_AFTER", 0.3)
    with cress.Client(data=own.data) as client:
        blocker = client.submit(cress.Job("sleep 600", name="blocker", resource="<8, 1G>"))
        wait_until(lambda: blocker.state() == "running", "the blocker running")
        yield client


NO_ROOM = "waits: no node has enough free; of 1 node 1 lacks cpu"
BEHIND = "waits: the policy of group default puts job {} first"


def test_a_map_without_room_says_so_and_has_an_end(busy: cress.Client, spool: Path, caplog: Any) -> None:
    results = busy.map(abs, [-1, -2], chunk=1, timeout=1.5, spool=spool)
    assert results.job is not None
    id = results.job.id
    with pytest.raises(TimeoutError) as caught:
        list(results)
    assert str(caught.value).startswith(f"job {id} (abs) is waiting: no node has enough free")
    assert str(caught.value).endswith("; 0 of 2 tasks have results after 1.5 s, and it is cancelled")
    assert caplog.messages == [f"job {id} (abs) {NO_ROOM}"]
    assert {record.name for record in caplog.records} == {"cress"}
    assert busy.job(id).wait(PATIENCE).state == "cancelled"
    # What is there in time is not lost.
    busy.job(id - 1).cancel()
    assert list(busy.map(abs, [-1, -2], chunk=1, timeout=PATIENCE, spool=spool, **SMALL)) == [1, 2]


def test_all_that_waits_says_so(busy: cress.Client, own: Cluster, spool: Path, caplog: Any) -> None:
    job = busy.submit(cress.Job("echo hello", name="late", resource="<1>"))
    told = f"job {job.id} (late) {NO_ROOM}"
    with pytest.raises(TimeoutError, match=r"\(late\) is waiting after 1 s: no node has enough free"):
        job.result(timeout=1)
    with pytest.raises(TimeoutError, match=r"1 jobs are not over after 1 s; the first of them, .* is waiting: no node"):
        list(busy.as_completed([job], timeout=1))
    assert caplog.messages == [told] * 2
    caplog.clear()

    async def main() -> None:
        async with cress.AsyncClient(data=own.data) as client:
            with pytest.raises(TimeoutError, match="is waiting after 1 s: no node"):
                await (await client.job(job.id)).wait(timeout=1)
            with pytest.raises(TimeoutError, match=r"\(abs\) is waiting: the policy of group default puts"):
                async for _ in await client.map(abs, [-1], timeout=1, spool=spool):
                    pass

    asyncio.run(main())
    assert caplog.messages == [told, f"job {job.id + 1} (abs) {BEHIND.format(job.id)}"]
    caplog.clear()
    with cress.Executor(busy, spool=spool) as executor:
        future = executor.submit(abs, -3)
        with pytest.raises(TimeoutError):
            future.result(timeout=2)
        lines = job.logs(follow=True)
        threading.Timer(1, lambda: busy.job(job.id - 1).cancel()).start()
        assert list(lines) == ["hello"]
        assert future.result(timeout=PATIENCE) == 3
    assert sorted(caplog.messages) == sorted([f"job {job.id + 2} (calls) {BEHIND.format(job.id)}", told])
