"""Dask on leases, with real centers, executors and Dask processes (docs/dask.md)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("distributed")

import distributed
from distributed import Client as Dask

from cress import Client
from cress.client import LeaseView
from cress.client.config import NoCenter
from cress.client.errors import Refused
from cress.model.errors import InputError
from tests.system.cluster import PATIENCE, Cluster, wait_until
from tests.system.dask_cluster import begin, dask, noted, pids, runs, told_by


@pytest.fixture(scope="module")
def lending() -> Iterator[Cluster]:
    """Two nodes of 2 cores, for tests that leave nothing running."""
    cluster = Cluster()
    try:
        begin(cluster, "lending=on", "reclaim_grace=1s").close()
        yield cluster
    finally:
        cluster.stop()


def test_a_computation_from_scale_to_close(lending: Cluster) -> None:
    with Client(data=lending.data) as client, dask(lending, name="etl") as cluster:
        assert cluster.workload.startswith("etl-")
        cluster.scale(2)
        with Dask(cluster) as work:
            work.wait_for_workers(2, timeout=PATIENCE)
            assert sum(work.gather(work.map(lambda number: number**2, range(50)))) == sum(n * n for n in range(50))
            held = client.leases.list(workload=cluster.workload)
            assert sorted((each.name, each.state) for each in held) == [("etl-0", "held"), ("etl-1", "held")]
    with Client(data=lending.data) as client:
        assert client.leases.list(workload=cluster.workload) == []
    assert pids("etl-") == []


def test_a_cluster_without_a_worker_says_what_it_waits_for(
    lending: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cress.client.waiting.TELL_AFTER", 0.5)
    with Client(data=lending.data) as client:
        blocker = client.submit({"command": ["sleep", "600"], "resource": "<2, 64M>", "tasks": 2})
        wait_until(lambda: sum(len(client.http.node(each.name).tasks) for each in client.nodes()) == 2, "full nodes")
        with dask(lending, name="late") as cluster:
            cluster.scale(2)
            told = lambda: [each.message for each in caplog.records if each.name == "cress.integrations.dask.cluster"]  # noqa: E731
            try:
                wait_until(told, "the warning")
                (sentence,) = told()
            finally:
                blocker.cancel()
        assert re.match(r"late: no worker runs yet: late-\d waits for a lease: no node has enough free", sentence)
        blocker.wait(PATIENCE)


def test_what_is_held_moves_when_the_cluster_shrinks(lending: Cluster) -> None:
    path = lending.folder / "shrinks"
    with dask(lending) as cluster:
        cluster.scale(2)
        with Dask(cluster) as work:
            work.wait_for_workers(2, timeout=PATIENCE)
            futures = work.map(noted, [str(path)] * 8, [0.01] * 8, range(8), pure=False)
            distributed.wait(futures)
            cluster.scale(jobs=1)
            wait_until(lambda: len(pids(cluster.name)) == 1, "the end of one worker")
            assert work.gather(futures) == [n * n for n in range(8)]
    assert runs(path) == Counter(range(8))


def test_another_worker_comes_for_one_that_is_killed(lending: Cluster) -> None:
    path = lending.folder / "killed"
    with dask(lending) as cluster:
        cluster.scale(2)
        with Dask(cluster) as work:
            work.wait_for_workers(2, timeout=PATIENCE)
            futures = work.map(noted, [str(path)] * 8, [0.01] * 8, range(8), pure=False)
            distributed.wait(futures)
            victim = next(iter(cluster.scheduler.workers.values()))
            lost = len(victim.has_what)
            os.kill(pids(str(victim.name))[0], signal.SIGKILL)
            wait_until(lambda: "is over: " in told_by(cluster), "the end of its lease")
            assert work.gather(futures) == [n * n for n in range(8)]
            work.wait_for_workers(2, timeout=PATIENCE)
            wait_until(lambda: len(pids(cluster.name)) == 2, "two workers")
    assert sum(runs(path).values()) == 8 + lost


def test_several_workers_in_a_lease_and_asyncio(lending: Cluster) -> None:
    async def story() -> tuple[list[str], int]:
        async with dask(lending, cores=2, memory="600MiB", processes=2, name="two", asynchronous=True) as cluster:
            cluster.adapt(minimum=1, maximum=3, interval="100ms")
            async with Dask(cluster, asynchronous=True) as work:
                await work.wait_for_workers(2, timeout=PATIENCE)
                total = await work.submit(sum, range(10))
                names = sorted(str(each["name"]) for each in cluster.scheduler_info["workers"].values())
                return names, total

    assert asyncio.run(story()) == (["two-0-0", "two-0-1"], 45)
    assert pids("two-") == []


def test_what_workers_without_tasks_leave_idle_is_lent_and_taken_back(lending: Cluster) -> None:
    def lease() -> LeaseView:
        (found,) = client.leases.list(workload=cluster.workload)
        return found

    ask = {"cores": 2, "memory": "1500MiB", "requirement": "Nodes in (n1)", "lend_after": "300ms"}
    with Client(data=lending.data) as client, dask(lending, **ask) as cluster:
        cluster.scale(1)
        with Dask(cluster) as work:
            work.wait_for_workers(1, timeout=PATIENCE)
            batch = client.submit(
                {
                    "command": ["sleep", "60"],
                    "resource": "<1.5, 64M>",
                    "requirement": "Nodes in (n1)",
                    "time_limit": "90s",
                }
            )
            wait_until(lambda: batch.state() == "running", "the loan")
            assert [each.job for each in lease().lent] == [batch.id]
            assert f"{batch.id}.0" in lending.cress("leases", "--columns", "lent-to").stdout
            assert work.submit(lambda: 6 * 7).result(timeout=PATIENCE) == 42
            busy = work.submit(time.sleep, 3)
            wait_until(lambda: lease().uses == lease().holds, "what was lent is back")
            wait_until(lambda: batch.state() == "waiting", "the borrower waits again")
            busy.result(timeout=PATIENCE)
            wait_until(lambda: batch.state() == "running", "it borrows again")
        batch.cancel()


@pytest.mark.parametrize(
    ("ask", "error", "sentence"),
    [
        ({"group": "nope"}, Refused, "there is no group 'nope'"),
        ({"memory": "100GB"}, Refused, "one task is larger than every node"),
        ({"memory": "much"}, InputError, "'much' cannot be read"),
        ({"cores": 0}, InputError, "0 cores"),
        ({"lend_after": "soon"}, InputError, "lend_after: 'soon' cannot be read"),
        ({"lend_after": -1}, InputError, "lend_after: -1 cannot be read"),
        ({"processes": 2}, InputError, "2 processes have 1 cores"),
        ({"job_extra": {"tasks": 3}}, InputError, "the cluster itself sets tasks"),
        ({"prioritty": 3}, InputError, "a cluster has no key 'prioritty' .*priority"),
        ({"requirement": "Kernel >"}, Refused, "requirement"),
        ({"data": "/nowhere"}, NoCenter, "/nowhere"),
    ],
)
def test_a_mistake_is_one_error_at_once(
    lending: Cluster, ask: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        dask(lending, **ask)

    async def story() -> None:
        async with dask(lending, asynchronous=True, **ask):
            pass

    with pytest.raises(error, match=sentence):
        asyncio.run(story())


def test_a_minimum_above_the_maximum(lending: Cluster) -> None:
    with dask(lending) as cluster:
        with pytest.raises(InputError, match="minimum of 3 workers is more than the maximum of 2"):
            cluster.adapt(minimum=3, maximum=2)
        with pytest.raises(InputError, match="less than nothing"):
            cluster.scale(-1)


def test_workers_that_cannot_start_are_given_up(lending: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.integrations.dask.cluster.FIRST_PAUSE", 0.01)
    with dask(lending, python="/bin/false") as cluster:
        cluster.scale(1)
        wait_until(lambda: "no more leases are asked for" in told_by(cluster), "the end of all tries")
        assert cluster.plan == set()


def test_without_the_extra() -> None:
    code = "import sys; sys.modules['distributed'] = None; from cress.integrations.dask import CressCluster"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-1] == (
        "ImportError: CressCluster needs Dask, and there is no module distributed: pip install 'cress[dask]'"
    )
