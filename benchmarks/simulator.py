"""Whole commands of the simulator: real logs where ``CRESS_TRACES`` points to them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.result import Result
from cress.core.run_history import RunHistory
from cress.model.times import SECOND

CRESS = str(Path(sys.executable).parent / "cress")
# Users have compiled bytecode, whatever the shell that measures says.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PLAIN = (sys.executable, "-m", "benchmarks.plain_easy")


def command(
    *arguments: str, times: int = 3, program: tuple[str, ...] = (CRESS,), check: bool = True
) -> tuple[float, float]:
    """Return the shortest wall time in seconds, start-up included, and the peak memory in MB, of ``cress`` with
    ``arguments``.
    """
    best = float("inf")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as out:
            begin = time.perf_counter()
            words = [out if word == "OUT" else word for word in arguments]
            quiet = subprocess.DEVNULL
            subprocess.run([*program, *words], check=check, stdout=quiet, stderr=quiet, env=ENVIRONMENT)
            best = min(best, time.perf_counter() - begin)
    # The largest child so far: commands run from the smallest to the largest.
    return best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


# Mean bounded slowdown that is the goal, and the longest wait (s) under EASY, as published.
GOALS = {"KTH-SP2": (45.8, 262_194), "SDSC-SP2": (56.8, 459_740)}


def processor_time(*arguments: str, times: int = 5, program: tuple[str, ...] = (CRESS,), check: bool = True) -> float:
    """Return the median processor time in seconds, start-up included, of ``cress`` with ``arguments``."""
    found = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command(*arguments, times=1, program=program, check=check)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(found)


def starts() -> Iterator[Result]:
    """Yield the processor time of short commands, beside the import of their library. No center answers them."""
    python = (sys.executable, "-c")
    with tempfile.TemporaryDirectory() as nowhere:
        library = processor_time("import typer", program=python)
        yield Result("import of the library of the command line, processor time (reference)", library, "s")
        for words, program, goal in (
            (("--help",), (CRESS,), 1.5),
            (("jobs", "--data", nowhere), (CRESS,), 3.0),
            (("submit", "--data", nowhere, "--", "true"), (CRESS,), 4.0),
            (("squeue",), (sys.executable, "-m", "cress.cli.slurm"), 3.0),
        ):
            spent = processor_time(*words, program=program, check=False)
            yield Result(f"{'cress ' * (program[0] == CRESS)}{words[0]} / that import", spent / library, "", goal)


# One job: what is left is the time to start.
ONE_JOB = "; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 -1 -1 -1 -1 -1 -1\n"


def beside_plain(path: str, log: str) -> Iterator[Result]:
    """Yield what EASY costs on a log, in processor time of whole commands beside a plain Python EASY that counts
    processors.
    """
    words = ("--policy", "BackFill", "--events", "one-by-one", "--out", "OUT")
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one.swf"
        one.write_text(ONE_JOB)
        begin = processor_time("simulate", str(one), *words)
        plain_begin = processor_time(str(one), program=PLAIN)
    plain = processor_time(path, program=PLAIN)
    whole = processor_time("simulate", path, *words)
    yield Result("simulate, start-up (a log of one job), processor time", begin, "s", 1.0)
    yield Result(f"{log}, EASY in plain Python, processor time (reference)", plain, "s")
    yield Result(f"simulate {log}, EASY / plain Python, processor time", whole / plain, "", 3.0)
    yield Result(f"simulate {log}, the same without start-up", (whole - begin) / (plain - plain_begin), "", 3.0)


def predicted(path: str, log: str) -> Iterator[Result]:
    """Yield what BackFill/predicted brings and costs on a log, in processor time against EASY in the same minutes."""
    words = ("simulate", path, "--events", "one-by-one", "--policy", "BackFill/predicted")
    cost = processor_time(*words, "--out", "OUT", times=3)
    easy = processor_time(*words[:-1], "BackFill", "--out", "OUT")
    yield Result(f"simulate {log}, predicted / EASY, processor time", cost / easy, "", 1.3)
    # An option that changes no start of these logs, but is more than the loops of processor logs know.
    scheduled = processor_time(*words[:-1], "BackFill", "--option", "backfill_depth=1000000", "--out", "OUT", times=3)
    yield Result(f"simulate {log}, predicted / EASY by the scheduler, processor time", cost / scheduled, "", 1.3)
    with tempfile.TemporaryDirectory() as out:
        said = subprocess.run([CRESS, *words, "--out", out, "--json"], check=True, capture_output=True).stdout
    (found,) = json.loads(said)
    slowdown, wait = GOALS[log]
    yield Result(f"{log}, predicted: mean bounded slowdown", found["bounded_slowdown_mean"], "", slowdown)
    yield Result(f"{log}, predicted / EASY: longest wait", found["wait_max_s"] / wait, "", 1.25)


def estimates() -> Iterator[Result]:
    """Yield the time of one estimate from a full history."""
    history = RunHistory()
    for age in range(100):
        history.add(("ada", "train", "lab"), (age % 3,), 3600 * SECOND, age * 7_919 % 3600 * SECOND)
    # Compiled code is loaded with the first one.
    history.estimate(("ada", "train", "lab"), (0,), 3600 * SECOND)
    count = 20_000
    begin = time.perf_counter()
    for number in range(count):
        history.estimate(("ada", "train", "lab"), (number % 3,), 3600 * SECOND)
    spent = (time.perf_counter() - begin) / count
    begin = time.perf_counter()
    for number in range(count):
        history.add(("ada", "train", "lab"), (number % 3,), 3600 * SECOND, number * 7_919 % 3600 * SECOND)
    learned = (time.perf_counter() - begin) / count
    begin = time.perf_counter()
    for _ in range(count):
        sorted(range(21))
    yield Result("one sort of 21 numbers (reference)", (time.perf_counter() - begin) / count * 1e6, "µs")
    yield Result("one estimate from 20 runs", spent * 1e6, "µs", 20)
    yield Result("one run learned", learned * 1e6, "µs", 20)


def results() -> Iterator[Result]:
    """Yield the figures of the simulator as they are measured."""
    yield Result("cress --help", command("--help")[0], "s", 0.3)
    yield from starts()
    yield from estimates()
    traces = os.environ.get("CRESS_TRACES")
    if traces:
        for log, goal in (("KTH-SP2", 2.0), ("SDSC-SP2", 3.0)):
            path = str(Path(traces) / "swf" / f"{log}.swf.gz")
            words = ("simulate", path, "--policy", "BackFill", "--events", "one-by-one", "--out", "OUT")
            spent, memory = command(*words)
            yield Result(f"simulate {log}, EASY, whole command", spent, "s", goal)
            yield Result(f"simulate {log}, peak memory", memory, "MB", 300)
            yield from beside_plain(path, log)
            yield from predicted(path, log)
    else:
        print("no real logs: set CRESS_TRACES to the folder that holds swf/", file=sys.stderr)
