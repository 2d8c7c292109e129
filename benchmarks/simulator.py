"""Whole commands of the simulator: real logs where ``CRESS_TRACES`` points to them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result

CRESS = str(Path(sys.executable).parent / "cress")


def command(*arguments: str, times: int = 3) -> tuple[float, float]:
    """Return the shortest wall time in seconds, start-up included, and the peak memory in MB, of ``cress`` with ``arguments``."""
    best = float("inf")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as out:
            begin = time.perf_counter()
            words = [out if word == "OUT" else word for word in arguments]
            quiet = subprocess.DEVNULL
            subprocess.run([CRESS, *words], check=True, stdout=quiet, stderr=quiet)
            best = min(best, time.perf_counter() - begin)
    # The largest child so far: commands run from the smallest to the largest.
    return best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def results() -> Iterator[Result]:
    """Yield the figures of the simulator as they are measured."""
    yield Result("cress --help", command("--help")[0], "s", 0.3)
    traces = os.environ.get("CRESS_TRACES")
    if traces:
        for log, goal in (("KTH-SP2", 2.0), ("SDSC-SP2", 3.0)):
            path = str(Path(traces) / "swf" / f"{log}.swf.gz")
            words = ("simulate", path, "--policy", "BackFill", "--events", "one-by-one", "--out", "OUT")
            spent, memory = command(*words)
            yield Result(f"simulate {log}, EASY, whole command", spent, "s", goal)
            yield Result(f"simulate {log}, peak memory", memory, "MB", 300)
    else:
        print("no real logs: set CRESS_TRACES to the folder that holds swf/", file=sys.stderr)
