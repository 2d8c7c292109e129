"""Costs that do not depend on the machine: how many calls of functions a piece of work makes.

Python counts them (cProfile). The same work makes the same calls everywhere, however busy the machine is, and work that
grows shows as calls. What a compiled kernel does inside counts as one call.
"""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
from collections.abc import Callable
from pathlib import Path


def calls_of(work: Callable[[], object]) -> int:
    """Do the work; return the number of calls in it."""
    return _total(_counted(work))


def system_calls_of(work: Callable[[], object]) -> int:
    """Do the work; return how many calls in it were functions of the operating system, such as those of ``os``."""
    return _of_system(_counted(work))


def _counted(work: Callable[[], object]) -> pstats.Stats:
    gc.collect()
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return pstats.Stats(profile, stream=io.StringIO())


def calls_in(path: Path) -> int:
    """Return the number of calls of a program that was run by ``python -m cProfile -o PATH``."""
    return _total(pstats.Stats(str(path), stream=io.StringIO()))


def system_calls_in(path: Path) -> int:
    """Return how many of them were functions of the operating system."""
    return _of_system(pstats.Stats(str(path), stream=io.StringIO()))


def _of_system(stats: pstats.Stats) -> int:
    found = stats.stats.items()  # type: ignore[attr-defined]
    return sum(of[1] for (_, _, name), of in found if "posix." in name or " io.open" in name)


def _total(stats: pstats.Stats) -> int:
    return int(stats.total_calls)  # type: ignore[attr-defined]
