"""The live cluster: real center, executors and processes on this machine, through the public client."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.result import Result
from cress.client import Client, ClientError, JobView, NoCenter, NotFound, connect

CRESS = (sys.executable, "-m", "cress")
TRUE = {"command": ["/bin/true"], "resource": "<1, 64M>"}
SINGLES, ARRAY, MILLION = 200, 1_000, 1_000_000
THREADS = 32


def results() -> Iterator[Result]:
    """All figures of the live cluster, as they are measured."""
    with live_cluster() as (data, client):
        yield from tasks(client)
        yield from _command(data)
        yield from _million(client)
    from benchmarks import load

    yield from load.results()


@contextlib.contextmanager
def live_cluster(store: str = "") -> Iterator[tuple[Path, Client]]:
    """Run a cluster with two nodes of 32 slots; yield its data directory and a client.

    ``store``: the address of a shared one.
    """
    data = Path(tempfile.mkdtemp(prefix="cress-"))
    told = subprocess.run([*CRESS, "up", "-h"], capture_output=True, text=True, check=True).stdout
    # As releases before 0.2 call it.
    resource = "--node-resource" if "--node-resource" in told else "--resource"
    words = ("up", "--data", str(data), "--executors", "2", resource, "<32, 64G>", "--port", "0")
    environment = {**os.environ, **({"CRESS_STORE": store} if store else {})}
    cluster = subprocess.Popen([*CRESS, *words], stdout=subprocess.DEVNULL, env=environment)
    try:
        with _client(data, cluster) as client:
            yield data, client
    finally:
        cluster.terminate()
        cluster.wait()
        shutil.rmtree(data, ignore_errors=True)


def tasks(client: Client) -> Iterator[Result]:
    """The figures of short tasks: latency, throughput, submits."""
    yield from _latency(client)
    yield from _throughput(client)
    yield from _submits(client)


def _client(data: Path, cluster: subprocess.Popen[bytes]) -> Client:
    """Return a client of the cluster once both nodes are there."""
    while cluster.poll() is None:
        try:
            client = connect(data)
            if len(client.nodes()) == 2:
                return client
            client.close()
        except (NoCenter, ClientError):
            pass
        time.sleep(0.1)
    raise SystemExit("the cluster did not start")


def _latency(client: Client) -> Iterator[Result]:
    """From just before the call to the moment at which the supervisor saw the program running."""
    spent = []
    for number in range(-10, SINGLES):
        begin = time.time()
        job = client.submit([TRUE]).jobs[0].id
        _end_of(client, job)
        started = client.tasks(job).tasks[0].attempts[0].started
        assert started is not None
        if number >= 0:
            spent.append(1000 * (started - begin))
    spent.sort()
    yield Result("submit to process started, idle cluster, median", spent[len(spent) // 2], "ms", 10)
    yield Result("submit to process started, idle cluster, p99", spent[len(spent) * 99 // 100], "ms", 30)


def _end_of(client: Client, job: int) -> JobView:
    """Wait for a job; releases before 0.2 did not find one for a moment while it moved into the history."""
    for _ in range(50):
        try:
            return client.job(job, wait=120)
        except NotFound:
            time.sleep(0.01)
    return client.job(job)


def _throughput(client: Client) -> Iterator[Result]:
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        job = client.submit([{**TRUE, "tasks": ARRAY}]).jobs[0].id
        view = _end_of(client, job)
        assert view.state == "succeeded", view
        best = max(best, ARRAY / (time.perf_counter() - begin))
    yield Result("array of 1,000 × /bin/true, 64 slots, end to end", best, "tasks/s", 500, at_least=True)


def _submits(client: Client) -> Iterator[Result]:
    """Each is a call of its own, stored durably before it is answered."""
    best = 0.0
    for _ in range(3):
        with ThreadPoolExecutor(THREADS) as threads:
            begin = time.perf_counter()
            ids = list(threads.map(lambda _: client.submit([TRUE]).jobs[0].id, range(ARRAY)))
            best = max(best, ARRAY / (time.perf_counter() - begin))
        for job in ids:
            _end_of(client, job)
    name = f"1,000 separate submits, one client, {THREADS} threads"
    yield Result(name, best, "submits/s", 500, at_least=True)


def _command(data: Path) -> Iterator[Result]:
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([*CRESS, "jobs", "--data", str(data)], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - begin)
    yield Result("cress jobs, whole command", best, "s", 0.5)


def _million(client: Client) -> Iterator[Result]:
    """With no room for it: what is measured is taking it in."""
    for name in ("node1", "node2"):
        client.cordon(name, "measuring")
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        job = client.submit([{**TRUE, "tasks": MILLION}]).jobs[0].id
        best = min(best, time.perf_counter() - begin)
        client.cancel(job)
    yield Result("submit an array of 1,000,000 tasks", 1000 * best, "ms", 100)
