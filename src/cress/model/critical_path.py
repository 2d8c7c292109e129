"""Critical path of a dag: what the time limits of later steps leave for a step (design note 0023)."""

from __future__ import annotations

from collections.abc import Sequence

from cress.model.job import Condition, Job


def longest_behind(jobs: Sequence[Job]) -> list[int]:
    """Return of each job of a submit the longest chain of time limits behind it, in its own dag (µs); 0 for other jobs.

    A step without a time limit counts nothing, and so does one that runs only if the step before it failed.
    """
    behind: list[list[int]] = [[] for _ in jobs]
    open_ = [0] * len(jobs)
    for place, job in enumerate(jobs):
        for before in _before(jobs, job):
            behind[before].append(place)
            open_[before] += 1
    longest = [0] * len(jobs)
    free = [place for place, count in enumerate(open_) if not count]
    while free:
        place = free.pop()
        whole = longest[place] + _length(jobs[place])
        for before in _before(jobs, jobs[place]):
            longest[before] = max(longest[before], whole)
            open_[before] -= 1
            if not open_[before]:
                free.append(before)
    return longest


def _before(jobs: Sequence[Job], job: Job) -> list[int]:
    """Return the places of the steps of the same dag that must end before a step, for whatever reason but their failure."""
    if not job.family:
        return []
    places = [-number - 1 for number, condition in job.after if number < 0 and condition is not Condition.FAILED]
    return [place for place in places if jobs[place].family == job.family]


def _length(job: Job) -> int:
    """Return how long a step takes by its time limit: so many times as its tasks run one after another."""
    if job.time_limit is None:
        return 0
    return job.time_limit * (-(-job.tasks // job.max_running) if job.max_running else 1)
