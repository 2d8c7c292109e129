"""The reference: ``posix_spawn`` of ``/bin/true``, one after the other, by a small process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from benchmarks.peers import Array


def spawned(tasks: int) -> float:
    """Return the seconds for so many programs, each waited for before the next."""
    begin = time.perf_counter()
    for _ in range(tasks):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return time.perf_counter() - begin


def starts(times: int) -> list[float]:
    """Return the sorted seconds of so many single starts, from the call to the moment at which the program runs."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        # It returns when the new process has executed its program.
        pid = os.posix_spawn("/bin/true", ["true"], {})
        found.append(time.perf_counter() - begin)
        os.waitpid(pid, 0)
    return sorted(found)


@contextlib.contextmanager
def peer() -> Iterator[Array]:
    """Yield the plain loop."""
    yield spawned
