"""A center with 110,000 jobs: its memory while they wait and when they are over, and its start after a kill.

A process of its own for each measurement, with the committer of the center and executors that are inputs.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result
from cress.center.committing.committer import Committer
from cress.center.committing.memory import give_back
from cress.center.keeping.recovery import load_machine, restored
from cress.center.leader.mover import Mover
from cress.center.process.clock import Clock
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import NodeJoined, Reported, Submit
from cress.model.job import Job
from cress.model.node import Node
from cress.model.reports import Cause, Ended, Started, Usage
from cress.model.run import Run
from cress.store.sqlite import SqliteStore

JOBS = int(os.environ.get("BENCHMARK_JOBS", "110000"))
TOGETHER, NODES, CORES = 1_000, 20, 500
# Seconds until the last ends are forgotten.
FORGOTTEN = 11


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        memory = _measured("life", folder)
        empty = memory["empty"]
        yield Result("memory of an empty center", empty, "MB")
        yield Result(f"memory with {JOBS:,} jobs, {memory['running']:,.0f} of them running", memory["alive"], "MB")
        name = f"memory when {JOBS:,} jobs are over"
        yield Result(name, memory["over"], "MB", 1.5 * empty, note=f"{memory['over'] / empty:.2f} × empty")
        before = _measured("with collection", folder)
        after = _measured("start", folder)
        yield Result("reads the state with garbage collection on", before["load"], "s", note="for comparison")
        yield Result("reads the state", after["load"], "s", note=f"{before['load'] / after['load']:.2f} × faster")
        yield Result(f"start after a kill among {JOBS:,} jobs", after["start"], "s", 5)


def _measured(what: str, folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.restarts", what, str(folder)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _resident() -> float:
    """Return the resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def _life(folder: Path) -> dict[str, float]:
    data = folder / "life"
    data.mkdir()
    committer = Committer(SqliteStore(data / "cress.db"), CenterSettings(data=data))
    await committer.start()
    for number in range(NODES):
        node = Node(name=f"n{number}", capacity=(CORES * 1000, 2**49, 2**40, 2**40, 2**40, 2**30, 2**30))
        await committer.submit(NodeJoined(node=node, boot="b"))
    gc.collect()
    found = {"empty": _resident()}
    job = Job(id=0, group="", request=(1000, 2**20, 0, 0, 0, 0, 0), name="job", user="ann")
    for first in range(0, JOBS, TOGETHER):
        numbers = range(first, min(JOBS, first + TOGETHER))
        runs = [Run(job=0, command=("/bin/true", str(each)), environment=(("A", "x" * 100),)) for each in numbers]
        await committer.submit(Submit(jobs=(job,) * len(numbers)), runs)
    machine = committer.machine
    utc = committer.clock.utc()
    for attempt in list(machine.attempts.values()):
        committer.post(Reported(node=attempt.node, reports=(Started(attempt=attempt.id, at=utc, pid=7),)))
    await committer.submit(Reported(node="n0", reports=()))
    found |= {"alive": _resident(), "running": len(machine.attempts)}
    shutil.copytree(data, folder / "killed")
    while machine.jobs:
        await _end_all(committer)
    mover = Mover(committer)
    while await mover.move():
        pass
    await asyncio.sleep(FORGOTTEN)
    while machine.ended:
        await committer.submit(Reported(node="n0", reports=()))
    gc.collect()
    give_back()
    found["over"] = _resident()
    await committer.stop()
    return found


async def _end_all(committer: Committer) -> None:
    """End all that runs."""
    utc = committer.clock.utc()
    ends: dict[str, list[Ended]] = {}
    for each in committer.machine.attempts.values():
        end = Ended(attempt=each.id, cause=Cause.EXITED, code=0, started=utc, at=utc, usage=Usage(1000, 2**20))
        ends.setdefault(each.node, []).append(end)
    for node, reports in ends.items():
        await committer.submit(Reported(node=node, reports=tuple(reports)))


async def _start(folder: Path, *, collection: bool) -> dict[str, float]:
    data = folder / f"start {collection}"
    shutil.copytree(folder / "killed", data)
    settings = CenterSettings(data=data)
    begin = time.perf_counter()
    store = SqliteStore(data / "cress.db")
    opened = time.perf_counter()
    if collection:
        restored(store.load(), settings)
        return {"load": time.perf_counter() - opened}
    load_machine(store, settings, Clock())
    load = time.perf_counter() - opened
    gc.collect()
    again = time.perf_counter()
    committer = Committer(store, settings)
    await committer.start()
    return {"load": load, "start": time.perf_counter() - again + opened - begin}


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    story = _life(folder) if what == "life" else _start(folder, collection=what != "start")
    print(json.dumps(asyncio.run(story)), flush=True)
    # The rest would only be freed.
    os._exit(0)
