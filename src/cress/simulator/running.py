"""Running attempts: a heap of their ends, and columns with every attempt of a run."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from cress.model.times import NEVER
from cress.simulator.attempts import Attempts, How


class Running:
    """The attempts that run, and those that ran. Times are microseconds of the trace.

    ``place`` has the position in the columns of each running attempt. An entry of the heap is valid while it equals the
    attempt's ``end``: an attempt that is stopped gets another entry, and the old one stays until it reaches the top.
    ``stopped`` has, by position, the way in which a stopped attempt ends.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.place: dict[int, int] = {}
        self.job: list[int] = []
        self.task: list[int] = []
        self.node: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.how: list[int] = []
        self.stopped: dict[int, How] = {}

    def begin(self, attempt: int, job: int, task: int, node: int, now: int, end: int) -> int:
        """Start a task that ends by itself at ``end`` (``NEVER``: it runs until it is stopped). Return its position."""
        position = self.place[attempt] = len(self.job)
        self.job.append(job)
        self.task.append(task)
        self.node.append(node)
        self.start.append(now)
        self.end.append(end)
        self.how.append(How.RUNNING)
        if end < NEVER:
            heappush(self.heap, (end, attempt))
        return position

    def stop(self, attempt: int, end: int, how: How) -> None:
        """Stop an attempt, so that it ends at ``end``.

        It ends earlier if its own end or an earlier stop comes first.
        """
        position = self.place.get(attempt)
        if position is None:
            return
        if end < self.end[position]:
            self.end[position] = end
            self.stopped[position] = how
            heappush(self.heap, (end, attempt))
        else:
            self.stopped.setdefault(position, how)

    def finish(self, attempt: int, now: int, how: How) -> int:
        """End an attempt; return its position."""
        position = self.place.pop(attempt)
        self.end[position] = now
        self.how[position] = how
        return position

    def next_end(self) -> int:
        """Return the earliest end; NEVER if no running attempt has one."""
        heap, place, ends = self.heap, self.place, self.end
        while heap:
            end, attempt = heap[0]
            position = place.get(attempt)
            if position is not None and ends[position] == end:
                return end
            heappop(heap)
        return NEVER

    def is_valid(self, end: int, attempt: int) -> bool:
        """Return whether this entry of the heap is valid: its attempt runs and ends then."""
        position = self.place.get(attempt)
        return position is not None and self.end[position] == end

    def on_node(self, node: int) -> list[int]:
        """Return the attempts that run on a node, in the order of their starts."""
        return [attempt for attempt, position in self.place.items() if self.node[position] == node]

    def attempts(self, now: int) -> Attempts:
        """Return all attempts; those that still run end ``now``."""
        for position in self.place.values():
            self.end[position] = now
        columns = (self.job, self.task, self.node, self.start, self.end, self.how)
        names = ("job", "task", "node", "start", "end", "how")
        return Attempts(**{name: np.array(column, dtype=np.int64) for name, column in zip(names, columns, strict=True)})
