"""How fast tasks are started, beside a plain loop of ``posix_spawn`` and other programs in the same run.

The machine may be busy, so what counts are ratios. All take turns, and each ratio is the median over the rounds of what
was measured one after the other.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.live import CRESS, live_cluster
from benchmarks.peers import Array, Missing, Peer, bare, hyperqueue, slurm
from benchmarks.result import Result
from cress.client import Client
from cress.executor import processes

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "5"))
# Tasks of an array: HyperQueue looks once a second whether it is over. Slurm starts 60 to 75 in a second.
TASKS = int(os.environ.get("BENCHMARK_TASKS", "4000"))
FEW = TASKS // 40
SINGLES = 200
_SUPERVISOR = "cress.executor.supervisor"
# The goals: of the rate of the plain loop, of the rates of the peers; of the time of a bare start, of the median.
OF_BARE, OF_PEERS = 0.6, {"HyperQueue": (hyperqueue.peer, TASKS, 1.5), "Slurm": (slurm.peer, FEW, 10.0)}
OF_START, OF_MEDIAN = 3.0, 4.0


def results() -> Iterator[Result]:
    """The rates of arrays by ``cress submit --wait`` and by the peers, then the latency of single tasks."""
    rates: dict[str, list[float]] = {}
    told: list[str] = []
    # One cluster at a time: each would take processor time from the others, even at rest.
    with live_cluster() as (data, client):
        run = _submitted(data)
        run(64)
        for _ in range(ROUNDS):
            rates.setdefault("posix_spawn", []).append(TASKS / bare.spawned(TASKS))
            rates.setdefault("Cress", []).append(TASKS / run(TASKS))
        shares = list(_processor(run))
        latency = list(_latency(client))
    ours = statistics.median(c / b for c, b in zip(rates["Cress"], rates["posix_spawn"], strict=True))
    yield Result("posix_spawn of /bin/true, one after the other", statistics.median(rates["posix_spawn"]), "tasks/s")
    yield Result(f"array of {TASKS:,} × /bin/true, `cress submit --wait`", statistics.median(rates["Cress"]), "tasks/s")
    yield Result("Cress, of the rate of posix_spawn", ours, "×", OF_BARE, at_least=True)
    yield from shares
    for name, (peer, tasks, goal) in OF_PEERS.items():
        try:
            rate, ratio = _of_peer(peer, tasks)
        except Missing as why:
            told.append(str(why))
            continue
        yield Result(f"array of {tasks:,} × /bin/true, {name}", rate, "tasks/s")
        yield Result(f"{name}, of the rate of posix_spawn", ratio, "×")
        yield Result(f"Cress, of the rate of {name}", ours / ratio, "×", goal, at_least=True)
    yield from latency
    for reason in told:
        print(f"not measured: {reason}")


def _processor(run: Array) -> Iterator[Result]:
    """The processor time of a task in the whole cluster, and in its supervisors alone: other load changes it little."""
    before, began = _spent(), os.times()
    run(TASKS)
    after = _spent()
    plain = os.times()
    bare.spawned(TASKS)
    reference = sum(os.times()[:4]) - sum(plain[:4])
    command = sum(plain[2:4]) - sum(began[2:4])  # of `cress submit`, which has ended
    whole = sum(after.values()) - sum(before.values()) + command
    own = sum(after[pid] - before.get(pid, 0.0) for pid in after if processes.runs_module(pid, _SUPERVISOR))
    yield Result("processor time of a task, posix_spawn and program", 1000 * reference / TASKS, "ms")
    yield Result("processor time of a task, whole cluster and program", 1000 * whole / TASKS, "ms")
    yield Result("processor time of a task, its supervisor and program", 1000 * own / TASKS, "ms")
    yield Result("processor time of a task, of posix_spawn", whole / reference, "×")


def _spent() -> dict[int, float]:
    """Return the seconds of processor that each process below this one has taken, with children that have ended."""
    found = {}
    for pid in processes.descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def _of_peer(peer: Peer, tasks: int) -> tuple[float, float]:
    """Return the median rate of a peer, and its ratio to the plain loop beside it."""
    rates, ratios = [], []
    with peer() as run:
        run(64)
        for _ in range(ROUNDS):
            reference = TASKS / bare.spawned(TASKS)
            rates.append(tasks / run(tasks))
            ratios.append(rates[-1] / reference)
    return statistics.median(rates), statistics.median(ratios)


def _submitted(data: Path) -> Array:
    """Return the function that runs an array by the command, whose own start is part of the time."""

    def run(tasks: int) -> float:
        with tempfile.TemporaryDirectory(prefix="cress-") as folder:
            job = Path(folder, "job.yaml")
            job.write_text(f"command: [/bin/true]\nresource: <1, 64M>\ntasks: {tasks}\n")
            begin = time.perf_counter()
            words = ("submit", "--wait", "--data", str(data), str(job))
            subprocess.run([*CRESS, *words], check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - begin

    return run


def _latency(client: Client) -> Iterator[Result]:
    """From just before the call to the moment at which the supervisor saw the program running; bare starts between."""
    spent, plain = [], []
    for number in range(-10, SINGLES):
        plain += bare.starts(1)
        begin = time.time()
        job = client.submit([{"command": ["/bin/true"], "resource": "<1, 64M>"}]).jobs[0].id
        client.job(job, wait=120)
        started = client.tasks(job).tasks[0].attempts[0].started
        assert started is not None
        if number >= 0:
            spent.append(started - begin)
    spent.sort()
    middle, reference = statistics.median(spent), statistics.median(plain)
    yield Result("bare start by posix_spawn, median", 1000 * reference, "ms")
    yield Result("submit to start, idle cluster, median", 1000 * middle, "ms")
    yield Result("submit to start, of a bare start", middle / reference, "×", OF_START)
    yield Result("submit to start, p99 of the median", spent[len(spent) * 99 // 100] / middle, "×", OF_MEDIAN)
