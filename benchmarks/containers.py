"""What a container costs: from the call of the runtime to the running program, and until nothing of it is left.

The reference is crun by itself, run from a shell with a container of its own kind: a static program that ends at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
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
from cress.executor.runtimes import launcher, linux
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


def bare_crun(home: Path) -> tuple[float, float] | None:
    """Return milliseconds of a container of crun alone, start to removal: the median by the clock, and of processor."""
    program = launcher.find(home, lambda _: None).program
    crun = shutil.which("crun")
    if crun is None or not program:
        return None
    home.mkdir(exist_ok=True)
    bundle = home / "bare"
    (bundle / "root").mkdir(parents=True)
    shutil.copy(program, bundle / "root/program")
    subprocess.run([crun, "spec", "--bundle", str(bundle)], check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": ["/program"]}
    config["root"] = {"path": "root", "readonly": True}
    config["linux"]["namespaces"] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
    config["linux"].pop("resources", None)
    config["mounts"] = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
    (bundle / "config.json").write_text(json.dumps(config))
    # crun refuses hosts with control groups of both versions, so they are hidden, as Cress does.
    script = (
        f"mount -t tmpfs none /sys/fs/cgroup; for i in $(seq {TIMES}); do date +%s%N; "
        f"crun --root {bundle}/state --cgroup-manager=disabled run --bundle {bundle} bare$i; done; date +%s%N"
    )
    inside = [shutil.which("unshare") or "unshare", "--mount", "/bin/sh", "-c", script]
    before = processor()
    ran = subprocess.run(inside, capture_output=True, text=True, check=False)
    spent = (processor() - before) / TIMES
    moments = [int(word) for word in ran.stdout.split() if word.isdigit()]
    if len(moments) != TIMES + 1 or "launcher" not in ran.stderr:
        return None
    return statistics.median(later - sooner for sooner, later in itertools.pairwise(moments)) / 1e6, spent


def processor() -> float:
    """Return the milliseconds of processor of this process, and of its children that have ended."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return 1000 * sum(part.ru_utime + part.ru_stime for part in parts)


def _results() -> Iterator[Result]:
    home = Path(tempfile.mkdtemp(prefix="cress-")).resolve()
    (home / "attempts").mkdir()
    linux.be_subreaper()
    try:
        plain = bare_crun(home)
        if plain is not None:
            yield Result("crun alone: start to end", plain[0], "ms")
            yield Result("crun alone: processor", plain[1], "ms")
        yield from _measured("process, by fork", ProcessRuntime("bench", os.environ), home)
        starter = launcher.find(home, lambda _: None)
        yield from _measured("process", ProcessRuntime("bench", os.environ, starter), home, starter)
        for engine in ENGINES:
            found = find("bench", os.environ, home, engines=[engine], launcher=starter)
            if found.container is None:
                yield Result(f"container, {engine.name}: {found.why}", 0, "ms")
                continue
            spent: list[float] = []
            try:
                for result in _measured(f"container, {engine.name}", found.container, home, starter):
                    yield result
                    spent.append(result.value)
                # Measured once more: the machine may have become slower or quicker since the first time.
                if engine.name == "crun" and plain is not None and (again := bare_crun(home / "again")) is not None:
                    rate = (plain[0] + again[0]) / 2 / (spent[0] + spent[1])
                    yield Result("container, crun: rate, of crun alone", rate, "×", 0.5, at_least=True)
                    rate = (plain[1] + again[1]) / 2 / spent[2]
                    yield Result("container, crun: processor, as a rate of crun alone", rate, "×", 0.5, at_least=True)
            finally:
                found.container.cgroups.close()
        starter.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


# Each attempt has a number of its own.
_next = [1]


def _measured(name: str, runtime: Runtime, home: Path, starter: launcher.Launcher | None = None) -> Iterator[Result]:
    started, gone = [], []
    before = processor()
    run = Run(job=1, command=("sleep", "1000"), limits=LIMITS)
    for attempt in range(_next[0], _next[0] + TIMES):
        begin = time.perf_counter()
        pid, fd = runtime.spawn(Spawn(attempt, 0, run, os.fsencode(home / "attempts" / str(attempt))))
        if not pid and starter is not None:
            ((pid, _),) = starter.answers()
        os.set_blocking(fd, True)
        told = b""
        while data := os.read(fd, 4096):
            told += data
        os.close(fd)
        started.append(1000 * (time.perf_counter() - begin))
        program = announced(told)[0] or pid
        begin = time.perf_counter()
        while runtime.signal(attempt, program, 9) or runtime.clear(attempt) is None:
            # A supervisor sleeps until a child ends; to look all the time would slow down what is measured.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
        gone.append(1000 * (time.perf_counter() - begin))
    _next[0] += TIMES
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    yield Result(f"{name}: start, median of {TIMES}", statistics.median(started), "ms")
    yield Result(f"{name}: until nothing is left, median", statistics.median(gone), "ms")
    yield Result(f"{name}: processor", (processor() - before) / TIMES, "ms")


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in _results()]))
