"""One measured figure and the goal that it is held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """``value`` in ``unit``; ``goal`` is the least (``at_least``) or the most that it should be, ``None`` if none is
    set.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, ``None`` without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def ratio(self) -> float | None:
        """How many times better than the goal."""
        if self.goal is None or not self.value:
            return None
        return self.value / self.goal if self.at_least else self.goal / self.value

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        return {**asdict(self), "met": self.met, "ratio": self.ratio}


def best_of(times: int, work: Callable[[], int]) -> tuple[float, int]:
    """The shortest of several runs in seconds of processor time of this thread, and what ``work`` counted in it."""
    best, count = float("inf"), 0
    for _ in range(times):
        start = time.thread_time()
        done = work()
        spent = time.thread_time() - start
        if spent / max(done, 1) < best:
            best, count = spent / max(done, 1), done
    return best * count, count
