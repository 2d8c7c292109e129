"""Think times: jobs that their user submits some time after the end of an earlier job.

Logs in the Standard Workload Format have them (columns 17 and 18). Such a job is submitted when its think time after
the last end of its predecessors is over, and not before the submit time of the log. A job that comes after one of these
is submitted later as well: nobody can name a job that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from cress.model.times import NEVER
from cress.simulator.dependencies import in_order
from cress.simulator.workload import Workload


class LaterSubmissions:
    """The jobs of a run that are submitted after the end of other jobs, by position.

    ``jobs`` are the positions that are submitted at all. A predecessor that is not among them does not delay a job.
    """

    def __init__(self, workload: Workload, jobs: Sequence[int]) -> None:
        self._submit: list[int] = workload.submit.tolist()
        self._think: list[int] = [] if workload.think is None else workload.think.tolist()
        self._open: dict[int, set[int]] = {}
        self._behind: dict[int, list[int]] = {}
        # Time and position of the jobs whose predecessors have ended.
        self._due: list[tuple[int, int]] = []
        if workload.think is None or workload.after is None or not workload.think.any():
            return
        submitted = set(jobs)
        for i in in_order(workload.after, workload.ids):
            before = {first for first, _ in workload.after[i]} & submitted
            if i in submitted and before and (self._think[i] or not before.isdisjoint(self._open)):
                self._open[i] = before
                for first in before:
                    self._behind.setdefault(first, []).append(i)

    def __contains__(self, position: int) -> bool:
        return position in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def next(self) -> int:
        """Return the time of the next of these submissions that is known; NEVER if none is."""
        return self._due[0][0] if self._due else NEVER

    def ended(self, position: int, now: int) -> None:
        """Note that a job has ended, in any way; jobs behind it come to their think times."""
        for i in self._behind.pop(position, ()):
            self._open[i].discard(position)
            if not self._open[i]:
                heappush(self._due, (max(self._submit[i], now + self._think[i]), i))

    def among(self, on_time: list[int], now: int) -> list[int]:
        """Return all jobs that are submitted now, those ``on_time`` and these, in the order of the file."""
        if not self._due or self._due[0][0] > now:
            return on_time
        found = [*on_time]
        while self._due and self._due[0][0] <= now:
            found.append(heappop(self._due)[1])
            del self._open[found[-1]]
        return sorted(found)
