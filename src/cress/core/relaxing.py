"""Jobs whose clauses change sides: the times at which waiting turns them, and those that follow the load (E §3.3)."""

from __future__ import annotations

from heapq import heappop, heappush

from cress.core.jobs import JobState
from cress.model.times import NEVER


class Relaxing:
    """Which waiting jobs have to be looked at, and when. An entry counts as long as it is the job's ``relaxes_at``."""

    def __init__(self) -> None:
        self._times: list[tuple[int, int]] = []
        self._by_time: dict[int, JobState] = {}
        self.by_load: dict[int, JobState] = {}

    def note(self, job: JobState, now: int) -> None:
        """The job waits since ``job.since``, with the clauses ``job.soft`` of this moment."""
        asked = job.asked()
        if not asked:
            self.leave(job)
            return
        change = min(each.next_change(now - job.since) for each in asked)
        time = NEVER if change >= NEVER else job.since + change
        number = job.job.id
        if time < NEVER and time != job.relaxes_at:
            heappush(self._times, (time, number))
            self._by_time[number] = job
        job.relaxes_at = time
        if any(each.by_load for each in asked):
            self.by_load[number] = job
        else:
            self.by_load.pop(number, None)

    def leave(self, job: JobState) -> None:
        """Nothing of the job waits for a place any more."""
        job.relaxes_at = NEVER
        self._by_time.pop(job.job.id, None)
        self.by_load.pop(job.job.id, None)

    def due(self, now: int) -> list[JobState]:
        """The jobs whose time has come, by time and id; their entries are gone."""
        found = []
        while self.next() <= now:
            found.append(self._by_time[heappop(self._times)[1]])
            found[-1].relaxes_at = NEVER
        return found

    def next(self) -> int:
        """The earliest time at which a clause of a waiting job changes sides; NEVER if none does by itself."""
        while self._times:
            time, number = self._times[0]
            job = self._by_time.get(number)
            if job is not None and job.relaxes_at == time:
                return time
            heappop(self._times)
        return NEVER
