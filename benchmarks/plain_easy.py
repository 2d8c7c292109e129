"""EASY backfilling in plain Python: the reference for the cost of simulating logs. It counts processors, no more.

    python -m benchmarks.plain_easy LOG.swf.gz

A short program that reads a log with ``split``, keeps queue and running jobs in lists and a heap, and prints the means.
Its starts are those of ``cress simulate --events one-by-one``.
"""

from __future__ import annotations

import gzip
import sys
from bisect import insort
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple


class PlainJob(NamedTuple):
    """A line of a log; times in seconds."""

    submit: int
    run: int
    processors: int
    limit: int


def read(path: str) -> tuple[list[PlainJob], int]:
    """Return the jobs of a log, and its processors."""
    jobs, processors = [], 0
    with gzip.open(path, "rt") if path.endswith(".gz") else Path(path).open() as file:
        for line in file:
            if line.startswith(";"):
                if line[1:].strip().startswith("MaxProcs:"):
                    processors = int(line.split(":")[1].split()[0])
                continue
            cells = line.split()
            if len(cells) < 18:
                continue
            run, used, asked, limit = int(cells[3]), int(cells[4]), int(cells[7]), int(cells[8])
            count = asked if asked > 0 else used
            if run >= 0 and count > 0:
                limit = run if limit <= 0 else limit
                jobs.append(PlainJob(int(cells[1]), min(run, limit), count, limit))
    jobs.sort(key=lambda job: job.submit)
    return jobs, processors or max(job.processors for job in jobs)


def easy(jobs: Sequence[PlainJob], processors: int) -> list[int]:  # noqa: C901, a plain program stays in one piece
    """Return the start of each job, by the rules of ``--events one-by-one``."""
    starts = [-1] * len(jobs)
    queue: list[int] = []
    ends: list[tuple[int, int, int]] = []  # heap of (end, number of the start, job)
    planned: list[tuple[int, int]] = []  # sorted (planned end, job) of the jobs that hold processors
    free, count, position = processors, 0, 0

    def start(i: int) -> None:
        nonlocal free, count
        job = jobs[i]
        starts[i] = now
        free -= job.processors
        count += 1
        heappush(ends, (now + job.run, count, i))
        insort(planned, (now + job.limit, i))

    def give_back() -> None:
        nonlocal free
        while planned and planned[0][0] <= now:
            free += jobs[planned.pop(0)[1]].processors

    def decide() -> None:
        nonlocal queue
        begun = 0
        while begun < len(queue) and jobs[queue[begun]].processors <= free:
            start(queue[begun])
            begun += 1
        del queue[:begun]
        if len(queue) < 2 or not free:
            return
        need, gained, reserved, place = jobs[queue[0]].processors, free, 0, 0
        while gained < need:
            reserved = planned[place][0]
            while place < len(planned) and planned[place][0] == reserved:
                gained += jobs[planned[place][1]].processors
                place += 1
        extra = gained - need
        left = queue[:1]
        for i in queue[1:]:
            job = jobs[i]
            if job.processors <= free and now + job.limit <= reserved:
                start(i)
            elif job.processors <= free and job.processors <= extra:
                extra -= job.processors
                start(i)
            else:
                left.append(i)
        queue = left

    while position < len(jobs) or ends:
        now = ends[0][0] if ends else jobs[position].submit
        if position < len(jobs):
            now = min(now, jobs[position].submit)
        give_back()
        while position < len(jobs) and jobs[position].submit == now:
            queue.append(position)
            if jobs[position].processors <= free:
                decide()
                give_back()
            position += 1
        while ends and ends[0][0] == now:
            _, _, i = heappop(ends)
            held = (starts[i] + jobs[i].limit, i)
            if held in planned:
                planned.remove(held)
                free += jobs[i].processors
            decide()
            give_back()
    return starts


def main() -> None:
    """Simulate a log and print the means."""
    jobs, processors = read(sys.argv[1])
    starts = easy(jobs, processors)
    waits = [start - job.submit for start, job in zip(starts, jobs, strict=True)]
    slowdowns = [max(1.0, (wait + job.run) / max(job.run, 10)) for wait, job in zip(waits, jobs, strict=True)]
    print(f"{len(jobs)} jobs, {processors} processors")
    print(f"mean wait {sum(waits) / len(waits):.2f} s, mean bounded slowdown {sum(slowdowns) / len(slowdowns):.4f}")


if __name__ == "__main__":
    main()
