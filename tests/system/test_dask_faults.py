"""Dask on leases whose nodes are taken back, and with kills of worker, center and Dask scheduler (docs/dask.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from distributed import Client as Dask

from cress import Client
from tests.budget import slowness_now
from tests.system.cluster import PATIENCE, Cluster, wait_until
from tests.system.dask_cluster import ROOT, begin, dask, noted, pids, runs, told_by

GROUPS = "Name: dask\nResourceQuota: 1\n\nName: batch\nResourceQuota: 3\n"
TAKING = ("min_runtime=0s", "cooling=1s", "cooling_above_quota=1s", "grace=10s")


@pytest.fixture(scope="module")
def taking() -> Iterator[Cluster]:
    """Two nodes of 2 cores, of which a group may take three back; tests leave nothing running."""
    cluster = Cluster()
    try:
        begin(cluster, *TAKING, groups=GROUPS).close()
        yield cluster
    finally:
        cluster.stop()


def again(path: Path) -> int:
    """The number of runs beyond the first of each key."""
    return sum(runs(path).values()) - len(runs(path))


def states(client: Client, workload: str) -> Counter[str]:
    return Counter(each.state for each in client.leases.list(workload=workload))


def test_a_group_takes_its_nodes_back_in_the_middle_of_a_computation(taking: Cluster) -> None:
    path, count = taking.folder / "taken", 60
    with Client(data=taking.data) as client, dask(taking, group="dask") as cluster, Dask(cluster) as work:
        cluster.adapt(minimum=0, maximum=4, interval="200ms", target_duration="1s", wait_count=20)
        futures = work.map(noted, [str(path)] * count, [0.25] * count, range(count), pure=False)
        wait_until(lambda: states(client, cluster.workload)["held"] == 4, "four leases")
        wait_until(lambda: path.exists() and len(runs(path)) >= 10, "the beginning")
        batch = client.submit({"command": ["sleep", "2"], "tasks": 2, "resource": "<1, 64M>", "group": "batch"})
        batch.result(timeout=PATIENCE)
        attempts = [each for task in batch.tasks() for each in task.attempts]
        assert len(attempts) == 2, "it had its nodes until its end"
        assert work.gather(futures) == [number * number for number in range(count)]
        told = told_by(cluster)
        taken = told.count("is taken: preempted for job")
        assert taken == 2, told
        # What they had in memory has moved; at most the task that ran in each was begun again.
        assert again(path) <= taken, told


def test_a_place_that_was_taken_is_asked_for_again(taking: Cluster) -> None:
    """Its only worker: nobody could take its data, so what was computed there is computed again."""
    path = taking.folder / "asked"
    where = {"requirement": "Nodes in (n1)"}
    with (
        Client(data=taking.data) as client,
        dask(taking, group="dask", cores=2, stop_grace="1s", **where) as cluster,
        Dask(cluster) as work,
    ):
        cluster.scale(1)
        first = work.submit(noted, str(path), 0.01, 0, pure=False)
        assert first.result(timeout=PATIENCE) == 0
        (before,) = client.leases.list(workload=cluster.workload)
        batch = client.submit({"command": ["sleep", "1"], "resource": "<2, 64M>", "group": "batch", **where})
        batch.result(timeout=PATIENCE)
        second = work.submit(noted, str(path), 0.01, 1, pure=False)
        assert work.gather([first, second]) == [0, 1]
        told = told_by(cluster)
        assert "waits for a lease again" in told, told
        (after,) = client.leases.list(workload=cluster.workload)
        assert (after.id, runs(path)[1]) == (before.id, 1)
        assert after.attempt != before.attempt
    assert pids(cluster.name) == []


@pytest.mark.long
def test_a_worker_and_the_center_are_killed(bare: Cluster) -> None:
    path, count = bare.folder / "runs", 40
    with begin(bare) as client, dask(bare, term="30s") as cluster, Dask(cluster) as work:
        cluster.scale(3)
        work.wait_for_workers(3, timeout=PATIENCE)
        futures = work.map(noted, [str(path)] * count, [0.2] * count, range(count), pure=False)
        wait_until(lambda: path.exists() and len(runs(path)) >= 8, "the beginning")
        done = {future.key for future in futures if future.status == "finished"}
        victim = cluster.scheduler.workers[next(iter(cluster.scheduler.workers))]
        lost = len({each.key for each in victim.has_what} | set(victim.processing))
        os.kill(pids(str(victim.name))[0], signal.SIGKILL)
        bare.kill_center()
        wait_until(
            lambda: len([each for each in futures if each.status == "finished"]) > len(done), "work without a center"
        )
        bare.start_center()
        assert work.gather(futures) == [number * number for number in range(count)]
        # What it had in memory, what ran there, and what had been sent to it.
        assert again(path) <= lost + 2
        work.wait_for_workers(3, timeout=PATIENCE)
        wait_until(lambda: states(client, cluster.workload)["held"] == 3, "three leases")
        assert "is over: " in told_by(cluster)
        # Without a center it ends all the same: the workers know that their scheduler is gone.
        bare.kill_center()
        begun = time.monotonic()
    assert time.monotonic() - begun < 25 * slowness_now().wall
    wait_until(lambda: pids(cluster.name) == [], "the end of all workers", 10)


SCRIPT = """
import sys, time
from tests.system.dask_cluster import dask
from distributed import Client
class Place:
    data, folder = sys.argv[1], sys.argv[2]
if __name__ == "__main__":
    cluster = dask(Place, name="killed", group="dask", term="4s", death_timeout="2s")
    cluster.scale(jobs=5)
    work = Client(cluster)
    work.wait_for_workers(4)
    slow = work.map(time.sleep, [600] * 4, pure=False)
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_dask_scheduler_that_is_killed_leaves_nothing_running(taking: Cluster) -> None:
    with Client(data=taking.data) as client:
        # None is left of other tests.
        wait_until(lambda: client.leases.list() == [], "an idle cluster")
        words = [sys.executable, "-c", SCRIPT, str(taking.data), str(taking.folder)]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "up\n"
            assert Counter(each.state for each in client.leases.list()) == {"held": 4, "waiting": 1}
            program.kill()
        # Workers whose scheduler is gone leave at once, and the lease that waits ends with its term.
        begun = time.monotonic()
        wait_until(lambda: pids("killed-") == [] and client.leases.list() == [], "the end of all leases")
        assert time.monotonic() - begun < 15 * slowness_now().wall
