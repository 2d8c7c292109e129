"""HyperQueue: a server and a worker by its Python package. Without a journal, as here, its jobs are not durable."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.peers import PLACE, SLOTS, Array, Missing


@contextlib.contextmanager
def peer() -> Iterator[Array]:
    """Run a cluster with one worker; yield a function that runs arrays on it."""
    if not (PLACE / "hyperqueue").is_dir():
        raise Missing("HyperQueue was not fetched (sh benchmarks/peers/fetch.sh)")
    sys.path.insert(0, str(PLACE / "hyperqueue"))
    try:
        hyperqueue = importlib.import_module("hyperqueue")
        cluster_module = importlib.import_module("hyperqueue.cluster")
    except ImportError as error:
        raise Missing(f"HyperQueue cannot be loaded: {error}") from error
    finally:
        sys.path.pop(0)
    with tempfile.TemporaryDirectory(prefix="hq-") as folder, hyperqueue.LocalCluster() as cluster:
        cluster.start_worker(cluster_module.WorkerConfig(cores=SLOTS))
        client = cluster.client()

        def run(tasks: int) -> float:
            # Each task writes its output to files of its own, as those of Cress do.
            job = hyperqueue.Job(default_workdir=folder)
            for number in range(tasks):
                job.program(["/bin/true"], stdout=f"{folder}/{number}.out", stderr=f"{folder}/{number}.err")
            begin = time.perf_counter()
            # Its bar of progress is for people.
            with contextlib.redirect_stderr(io.StringIO()):
                client.wait_for_jobs([client.submit(job)])
            return time.perf_counter() - begin

        yield run
