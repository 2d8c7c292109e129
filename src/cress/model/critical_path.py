"""Critical path of a dag.

What the time limits, or the estimates, of later steps leave for a step (design note 0023).
"""

from __future__ import annotations

from collections.abc import Sequence

from cress.model.job import Condition, Job
from cress.model.times import NEVER


def longest_behind(jobs: Sequence[Job], lengths: Sequence[int] | None = None) -> list[int]:
    """Return of each job of a submit the longest chain behind it, in its own dag (µs).

    0 for other jobs. ``lengths`` are those of the jobs, by default their limits.

    A step without a time limit counts nothing then, and never one that runs only if the step before it failed.
    """
    return longest_chains(
        [_before(jobs, job) for job in jobs], list(map(_length, jobs)) if lengths is None else lengths
    )


def longest_chains(before: Sequence[Sequence[int]], lengths: Sequence[int]) -> list[int]:
    """Return the length of the longest chain behind each place, if those at the places ``before`` each one end first.

    There is no circle.
    """
    behind: list[list[int]] = [[] for _ in lengths]
    open_ = [0] * len(lengths)
    for place, those in enumerate(before):
        for first in those:
            behind[first].append(place)
            open_[first] += 1
    longest = [0] * len(lengths)
    free = [place for place, count in enumerate(open_) if not count]
    while free:
        place = free.pop()
        whole = min(NEVER, longest[place] + lengths[place])
        for first in before[place]:
            longest[first] = max(longest[first], whole)
            open_[first] -= 1
            if not open_[first]:
                free.append(first)
    return longest


def _before(jobs: Sequence[Job], job: Job) -> list[int]:
    """Return the places of the steps of the same dag that must end before a step, for whatever reason but their
    failure.
    """
    if not job.family:
        return []
    places = [-number - 1 for number, condition in job.after if number < 0 and condition is not Condition.FAILED]
    return [place for place in places if jobs[place].family == job.family]


def _length(job: Job) -> int:
    """Return how long a step takes by its time limit: so many times as its tasks run one after another."""
    if job.time_limit is None:
        return 0
    return job.time_limit * (-(-job.tasks // job.max_running) if job.max_running else 1)
