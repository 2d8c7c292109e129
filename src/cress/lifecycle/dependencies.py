"""Jobs that come after others: which conditions are open, and what becomes of a job when one is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cress.lifecycle import families
from cress.lifecycle.conditions import holds, never
from cress.lifecycle.family import Family
from cress.lifecycle.jobs import cancel
from cress.lifecycle.live import LiveJob
from cress.model.errors import InputError
from cress.model.events import JobAfter
from cress.model.job import Job
from cress.model.records import JobState

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def check(machine: Machine, jobs: Sequence[Job], known: Mapping[int, JobState]) -> None:
    """Raise ``InputError`` if jobs of a submit come after jobs that nobody knows, or after themselves."""
    for i, job in enumerate(jobs):
        numbers = [number for number, _ in job.after]
        for number in numbers:
            if numbers.count(number) > 1:
                what = f"job {number}" if number > 0 else f"the job {jobs[-number - 1].name or -number}"
                raise _error(jobs, i, f"{what} is named twice", "one condition for each job")
            if number in machine.jobs or number in machine.families or number in known or 0 < -number <= len(jobs):
                continue
            raise _error(jobs, i, f"there is no job {number}", "an id that `cress jobs` shows")
    loop = _loop(jobs)
    if loop:
        names = " → ".join(jobs[i].name or f"job {i + 1}" for i in loop)
        what = "it comes after itself" if len(loop) == 2 else f"these jobs come after each other: {names}"
        raise _error(jobs, loop[0], what, "an order in which they can run")


def _error(jobs: Sequence[Job], i: int, what: str, hint: str) -> InputError:
    return InputError(what, hint=hint, field="after" if len(jobs) == 1 else f"jobs[{i}].after")


def _loop(jobs: Sequence[Job]) -> list[int]:
    """Places of jobs of one submit that come after each other in a circle, the first one again at the end."""
    before = [[-number - 1 for number, _ in job.after if number < 0] for job in jobs]
    left = [len(each) for each in before]
    behind: list[list[int]] = [[] for _ in jobs]
    for i, each in enumerate(before):
        for first in each:
            behind[first].append(i)
    free = [i for i, count in enumerate(left) if not count]
    while free:
        for i in behind[free.pop()]:
            left[i] -= 1
            if not left[i]:
                free.append(i)
    stuck = next((i for i, count in enumerate(left) if count), None)
    if stuck is None:
        return []
    # Whoever is stuck is behind somebody who is: going back leads round a circle at last.
    path: list[int] = []
    while stuck not in path:
        path.append(stuck)
        stuck = next(first for first in before[stuck] if left[first])
    return [*path[path.index(stuck) :], stuck]


def enter(machine: Machine, job: LiveJob | Family, known: Mapping[int, JobState]) -> None:
    """A job that is being accepted, behind others: its open conditions, and the reason if one is void already."""
    for number, condition in job.job.after:
        state = None if number in machine.jobs or number in machine.families else known.get(number)
        if state is None:
            job.unmet.append((number, condition))
            machine.behind.setdefault(number, []).append(job.job.id)
        elif not holds(condition, state):
            job.reason = job.reason or never(number, condition, state)


def settle(machine: Machine) -> None:
    """Tell those that come after the jobs that are over, and those that come after these."""
    while machine.over:
        number, state = machine.over.popleft()
        for each in machine.behind.pop(number, ()):
            if each in machine.families:
                _settle_family(machine, machine.families[each], number, state)
                continue
            job = machine.jobs.get(each)
            if job is None or job.ending:
                continue
            condition = dict(job.unmet)[number]
            if holds(condition, state):
                job.unmet.remove((number, condition))
                machine.observe(JobAfter(each, behind(job)))
            else:
                cancel(machine, each, never(number, condition, state))


def _settle_family(machine: Machine, family: Family, number: int, state: JobState) -> None:
    if family.cancelling:
        return
    condition = dict(family.unmet)[number]
    if not holds(condition, state):
        families.cancel(machine, family, never(number, condition, state))
        return
    family.unmet.remove((number, condition))
    if not family.unmet:
        families.begin(machine, family)


def behind(job: LiveJob) -> int | None:
    """The job that it waits for first."""
    return job.unmet[0][0] if job.unmet else None
