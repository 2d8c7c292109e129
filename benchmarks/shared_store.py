"""The store in ZooKeeper: commits beside a large snapshot, and how large its tree is when many jobs come and go."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.live import CRESS, TRUE
from benchmarks.result import Result
from cress.client import Client, ClientError, NoCenter, connect
from cress.store.base import Batch, StateSnapshot
from cress.store.opening import connected
from cress.store.replicated import ReplicatedStore
from tests.ports import free_ports
from tests.servers.zookeeper import Ensemble, is_missing

# Bytes of a state that cannot be compressed.
STATE = 20 * 2**20
# Jobs that come and go, and those of one call.
JOBS, TOGETHER = int(os.environ.get("BENCHMARK_JOBS", "100_000")), 1_000


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    if why := is_missing():
        print(why, file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="cress-") as name, closing(Ensemble(Path(name) / "zk", 3)) as servers:
        yield from _snapshot(f"zookeeper://{servers.hosts}/snapshot", Path(name) / "replica.db")
        yield from _tree(servers.hosts, Path(name) / "center")


def _snapshot(address: str, place: Path) -> Iterator[Result]:
    """Commits beside the snapshot of a large state."""
    with closing(ReplicatedStore(connected(address), place)) as store:

        def commits(go_on: Callable[[], bool]) -> float:
            """Commit one after the other; return the time of the slowest of a hundred, in ms."""
            spent = []
            while go_on():
                begin = time.perf_counter()
                store.commit(Batch(records=[b"x" * 500]), 1)
                spent.append(1000 * (time.perf_counter() - begin))
            return sorted(spent)[len(spent) * 99 // 100]

        counting = iter(range(500))
        quiet = commits(lambda: next(counting, None) is not None)
        yield Result("ZooKeeper: a commit, p99", quiet, "ms")
        snapshot = StateSnapshot(1, os.urandom(STATE))
        with ThreadPoolExecutor(1) as thread:
            upload = thread.submit(store.upload, snapshot)
            beside = commits(lambda: not upload.done())
        yield Result(f"ZooKeeper: a commit beside the upload of a snapshot of {STATE >> 20} MB, p99", beside, "ms")
        begin = time.perf_counter()
        store.snapshot(snapshot, 1, upload.result())
        yield Result("ZooKeeper: the commit that announces it", 1000 * (time.perf_counter() - begin), "ms")


def _tree(hosts: str, data: Path) -> Iterator[Result]:
    """The size of the tree while jobs are submitted and cancelled: the largest one, and the one at the end."""
    data.mkdir(mode=0o700)
    api, executors = free_ports(2)
    words = ("center", "--data", str(data), "--port", str(api), "--executor-port", str(executors))
    center = subprocess.Popen([*CRESS, *words, "--store", f"zookeeper://{hosts}/cress?session=20"])
    client, zookeeper = _connected(data, center), KazooClient(hosts)
    zookeeper.start()
    try:
        sizes, begin = [], time.monotonic()
        for done in range(0, JOBS, TOGETHER):
            made = client.submit([TRUE] * TOGETHER)
            client.cancel_jobs([each.id for each in made.jobs])
            if done % (10 * TOGETHER) == 0:
                sizes.append(_size(zookeeper, "/cress"))
        spent = time.monotonic() - begin
        sizes.append(_size(zookeeper, "/cress"))
        about = f"{JOBS:,} jobs submitted and cancelled"
        yield Result(f"ZooKeeper: {about}, in calls of {TOGETHER:,}", JOBS / spent, "jobs/s")
        yield Result(f"ZooKeeper: nodes of the tree, {about}, at most", max(each[0] for each in sizes), "nodes")
        yield Result(f"ZooKeeper: bytes of the tree, {about}, at most", max(each[1] for each in sizes) / 1e6, "MB")
        yield Result("ZooKeeper: bytes of the tree at the end", sizes[-1][1] / 1e6, "MB")
    finally:
        center.terminate()
        center.wait()
        zookeeper.stop()
        zookeeper.close()


def _connected(data: Path, center: subprocess.Popen[bytes]) -> Client:
    while center.poll() is None:
        try:
            client = connect(data)
            client.state()
        except (ClientError, NoCenter):
            time.sleep(0.1)
        else:
            return client
    raise RuntimeError("the center has ended")


def _size(zookeeper: KazooClient, path: str) -> tuple[int, int]:
    """Return the nodes of a tree, and the bytes that they have; some may go meanwhile."""
    try:
        _, stat = zookeeper.get(path)
        found = [_size(zookeeper, f"{path}/{name}") for name in zookeeper.get_children(path)]
    except NoNodeError:
        return 0, 0
    return 1 + sum(nodes for nodes, _ in found), stat.data_length + sum(size for _, size in found)
