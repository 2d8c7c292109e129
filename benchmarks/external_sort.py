"""A sort of more than fits into memory, as a task does it on its disk: ``python external_sort.py MEGABYTES REPORT``.

Runs of random numbers are sorted and written to ``$CRESS_DISK``, then merged into one file there; all of it past the
page cache, so that it is the disk that is waited for. The report has when it began and ended (seconds since the epoch)
and where it worked.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MB = 2**20
# What is in memory of a run that is being made, and of each run while they are merged; the block of one write.
RUN, CHUNK = 8 * MB, MB
# Sums of so much of each number stay small.
MASK = np.uint64(2**32 - 1)

Numbers = NDArray[np.uint64]


class Direct:
    """A file that is read and written in whole blocks, past the page cache."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        self._block = mmap.mmap(-1, CHUNK)  # where the kernel can fetch it: at the start of a page
        self._at = 0

    def write(self, numbers: Numbers) -> None:
        """Append numbers; as many as fill whole blocks."""
        data = numbers.tobytes()
        for begin in range(0, len(data), CHUNK):
            self._block[:] = data[begin : begin + CHUNK]
            os.pwrite(self._fd, self._block, self._at)
            self._at += CHUNK

    def read(self, at: int) -> Numbers:
        """The block at this offset; empty at the end."""
        size = os.preadv(self._fd, [self._block], at)
        return np.frombuffer(self._block[:size], dtype=np.uint64).copy()


def sort(folder: Path, size: int) -> None:
    """Sort ``size`` bytes of random numbers; checks that they are in order and all there."""
    rng = np.random.default_rng(os.getpid())
    runs: list[Direct] = []
    total = 0
    for number in range(size // RUN):
        values = rng.integers(0, 2**63, RUN // 8, dtype=np.uint64)
        total += int((values & MASK).sum())
        values.sort()
        runs.append(Direct(folder / f"run{number}"))
        runs[-1].write(values)
    merged = total_of_merged(runs, Direct(folder / "sorted"))
    assert merged == (total, size // 8), "something was lost"


def total_of_merged(runs: list[Direct], out: Direct) -> tuple[int, int]:
    """Merge runs: whatever is not above the last number in memory of any run is next.

    The sum, and how many they are.
    """
    offsets = [0] * len(runs)
    heads = [np.empty(0, dtype=np.uint64) for _ in runs]
    waiting = np.empty(0, dtype=np.uint64)
    last, total, count = np.uint64(0), 0, 0
    while True:
        for i, run in enumerate(runs):
            if not len(heads[i]) and offsets[i] < RUN:
                heads[i] = run.read(offsets[i])
                offsets[i] += CHUNK
        alive = [head for head in heads if len(head)]
        if not alive:
            break
        bound = min(head[-1] for head in alive)
        cuts = [int(np.searchsorted(head, bound, side="right")) for head in heads]
        taken = np.concatenate([head[:cut] for head, cut in zip(heads, cuts, strict=True)])
        taken.sort()
        assert taken[0] >= last
        last, total, count = taken[-1], total + int((taken & MASK).sum()), count + len(taken)
        heads = [head[cut:] for head, cut in zip(heads, cuts, strict=True)]
        waiting = np.concatenate([waiting, taken])
        whole = len(waiting) * 8 // CHUNK * CHUNK // 8
        out.write(waiting[:whole])
        waiting = waiting[whole:]
    assert not len(waiting)
    return total, count


def main() -> None:
    """Sort, and report."""
    size, report = int(sys.argv[1]) * MB, Path(sys.argv[2])
    folder = Path(os.environ["CRESS_DISK"])
    begin = time.time()
    sort(folder, size)
    told = {"began": begin, "ended": time.time(), "disk": os.environ["CRESS_DEVICES_DISK"]}
    (report / f"{os.environ['CRESS_ATTEMPT']}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
