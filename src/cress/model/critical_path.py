"""Critical path of a dag: the time that later steps, by limits or estimates, leave for a step (design note 0023)."""

from __future__ import annotations

from collections.abc import Sequence

from cress.model.job import Condition, Job
from cress.model.times import NEVER


def longest_behind(jobs: Sequence[Job], lengths: Sequence[int] | None = None) -> list[int]:
    """Return for each job of a submit the length of the longest chain behind it in its dag, in µs; 0 for other jobs.

    ``lengths`` are the lengths of the jobs, by default from their time limits. Then a step without a limit counts as 0.
    A step that runs only after a failure never counts.
    """
    return longest_chains(
        [_before(jobs, job) for job in jobs], list(map(_length, jobs)) if lengths is None else lengths
    )


def longest_chains(before: Sequence[Sequence[int]], lengths: Sequence[int]) -> list[int]:
    """Return the length of the longest chain behind each place; ``before`` has, for each place, those that must end
    first.

    The graph must have no cycle.
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
    """Return the places of the steps of the same dag that must end before a step, except those that must fail."""
    if not job.family:
        return []
    places = [-number - 1 for number, condition in job.after if number < 0 and condition is not Condition.FAILED]
    return [place for place in places if jobs[place].family == job.family]


def _length(job: Job) -> int:
    """Return the duration of a step in µs: its time limit, once for each of its tasks that run one after another."""
    if job.time_limit is None:
        return 0
    return job.time_limit * (-(-job.tasks // job.max_running) if job.max_running else 1)
