"""Python functions as tasks: ``Client.map`` and ``Executor`` on a local cluster of as many places as the machine has
cores.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path

from benchmarks.result import Result
from cress.cli.local import LocalCluster, LocalSetup
from cress.client.blocking.client import Client
from cress.client.executor import Executor

ITEMS, CHUNKS, SINGLES = 10_000, 100, 10


def results() -> Iterator[Result]:
    """All figures of functions, as they are measured."""
    data = Path(tempfile.mkdtemp(prefix="cress-"))
    cores = os.cpu_count() or 1
    cluster = LocalCluster(LocalSetup(data=data, resource=f"<{cores}, 64G>"), lambda text: print(text, file=sys.stderr))
    try:
        cluster.start()
        with Client(data=data) as client:
            yield from _map(client, data / "spool", cores)
            yield from _executor(client, data / "spool")
    finally:
        cluster.stop()
        shutil.rmtree(data, ignore_errors=True)


def _map(client: Client, spool: Path, cores: int) -> Iterator[Result]:
    single = sorted(_timed(client, spool, 1, 1) for _ in range(SINGLES))[SINGLES // 2]
    yield Result("map of one trivial function, end to end, median", 1000 * single, "ms", 500)
    best = min(_timed(client, spool, ITEMS, None) for _ in range(3))
    yield Result("map of 10,000 trivial functions", ITEMS / best, "calls/s", 1_000, at_least=True)
    # A process of Python with cloudpickle for each: what a chunk costs, to be divided by the work in it.
    spent = _timed(client, spool, CHUNKS, 1)
    note = f"{cores} cores"
    yield Result(
        "map, one call to a chunk: what a chunk costs", 1000 * spent * cores / CHUNKS, "core ms", 200, note=note
    )


def _timed(client: Client, spool: Path, items: int, chunk: int | None) -> float:
    begin = time.perf_counter()
    assert sum(client.map(lambda x: x + 1, range(items), chunk=chunk, spool=spool)) == items * (items + 1) // 2
    return time.perf_counter() - begin


def _executor(client: Client, spool: Path) -> Iterator[Result]:
    begin = time.perf_counter()
    with Executor(client, spool=spool) as executor:
        calls = [executor.submit(lambda x: x + 1, number) for number in range(ITEMS)]
        submitted = time.perf_counter() - begin
        assert sum(future.result() for future in as_completed(calls)) == ITEMS * (ITEMS + 1) // 2
    spent = time.perf_counter() - begin
    yield Result(
        "10,000 submits to an Executor, until all are taken", ITEMS / submitted, "calls/s", 2_000, at_least=True
    )
    yield Result("10,000 submits to an Executor, end to end", ITEMS / spent, "calls/s", 500, at_least=True)
