"""What a container costs: from the call of the runtime to the running program, and until nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.result import Result
from cress.executor.runtimes import linux
from cress.executor.runtimes.base import Runtime, Spawn, announced
from cress.executor.runtimes.choose import find
from cress.executor.runtimes.engines import ENGINES
from cress.executor.runtimes.process import ProcessRuntime
from cress.model.run import Run

TIMES = 40
LIMITS = (("cpu", 1000), ("memory", 64 * 2**20))


def results() -> Iterator[Result]:
    """A process, and a container with each engine that works here; from a process as small as a supervisor."""
    child = subprocess.run([sys.executable, "-m", "benchmarks.containers"], stdout=subprocess.PIPE, check=True)
    for each in json.loads(child.stdout):
        yield Result(**each)


def _results() -> Iterator[Result]:
    home = Path(tempfile.mkdtemp(prefix="cress-")).resolve()
    (home / "attempts").mkdir()
    linux.be_subreaper()
    try:
        yield from _measured("process", ProcessRuntime("bench", os.environ), home)
        for engine in ENGINES:
            found = find("bench", os.environ, home, engines=[engine])
            if found.container is None:
                yield Result(f"container, {engine.name}: {found.why}", 0, "ms")
                continue
            try:
                yield from _measured(f"container, {engine.name}", found.container, home)
            finally:
                found.container.cgroups.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _measured(name: str, runtime: Runtime, home: Path) -> Iterator[Result]:
    started, gone = [], []
    run = Run(job=1, command=("sleep", "1000"), limits=LIMITS)
    for attempt in range(1, TIMES + 1):
        begin = time.perf_counter()
        pid, fd = runtime.spawn(Spawn(attempt, 0, run, os.fsencode(home / "attempts" / str(attempt))))
        os.set_blocking(fd, True)
        told = b""
        while data := os.read(fd, 4096):
            told += data
        os.close(fd)
        started.append(1000 * (time.perf_counter() - begin))
        program = announced(told)[0] or pid
        begin = time.perf_counter()
        while runtime.signal(attempt, program, 9) or runtime.clear(attempt) is None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
        gone.append(1000 * (time.perf_counter() - begin))
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    yield Result(f"{name}: start, median of {TIMES}", statistics.median(started), "ms")
    yield Result(f"{name}: until nothing is left, median", statistics.median(gone), "ms")


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in _results()]))
