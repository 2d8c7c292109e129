"""Counters of a center since its start, for ``/metrics``: steps, commits, and what became of jobs and tasks.

They are plain numbers: counting costs less than a microsecond, and the library that writes them for Prometheus is
loaded by the first scrape only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping

from cress.lifecycle.effects import DeadlineAtRisk, DeadlineMissed, StepResult
from cress.lifecycle.machine import Machine
from cress.model.records import JobRecord
from cress.model.times import SECOND

# Upper bounds of the buckets in seconds: of work of the center, and of waits.
WORK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
WAITS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)


class Histogram:
    """Observed times in seconds: their number by bucket, without the smaller ones, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one has no upper bound
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a time."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


class Counters:
    """Counts of what a center has done and seen since its start. Groups that are gone keep their counts."""

    def __init__(self) -> None:
        self.steps, self.commits = Histogram(WORK), Histogram(WORK)
        self.commits_failed = 0
        self.dispatch = Histogram(WORK)
        self.waits: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(WAITS))  # by group
        self.jobs_submitted: Counter[str] = Counter()  # by group
        self.jobs_ended: Counter[tuple[str, str]] = Counter()  # by group and state
        self.attempts_ended: Counter[tuple[str, str]] = Counter()  # by group and outcome
        self.deadlines_missed: Counter[str] = Counter()  # by group
        self.deadlines_at_risk: Counter[str] = Counter()  # by group
        self.notifications: Counter[str] = Counter()  # by what became of them: sent, failed, dropped

    def stepped(self, machine: Machine, step: StepResult) -> None:
        """Count the results of a step that is stored."""
        ended = {record.id: record for record in step.jobs}
        for record in step.jobs:
            self.jobs_ended[record.group, record.state.value] += 1
        for reply in step.replies:
            if isinstance(reply, tuple):
                for number in reply:
                    self.jobs_submitted[_group(machine, ended, number)] += 1
        for attempt in step.attempts:
            self.attempts_ended[_group(machine, ended, attempt.job), attempt.outcome.value] += 1
        over = {attempt.attempt: attempt for attempt in step.attempts if attempt.attempt in step.started}
        for number in step.started:
            attempt_now = machine.attempts.get(number) or over.get(number)
            if attempt_now is None or not attempt_now.started:
                continue
            # The clock of the executor may be behind.
            self.dispatch.observe(max(0, attempt_now.started - attempt_now.placed) / SECOND)
            job = machine.jobs.get(attempt_now.job) or ended.get(attempt_now.job)
            # Only the first start of a job: later ones tell of retries, and of tasks that wait for each other.
            if job is not None and job.started == attempt_now.started:
                waited = max(0, job.started - job.submitted)
                self.waits[_group(machine, ended, attempt_now.job)].observe(waited / SECOND)
        for notice in step.notices:
            if isinstance(notice, DeadlineMissed):
                self.deadlines_missed[notice.group] += 1
            elif isinstance(notice, DeadlineAtRisk):
                self.deadlines_at_risk[notice.group] += 1


def _group(machine: Machine, ended: Mapping[int, JobRecord], number: int) -> str:
    """Return the group of a job; empty if it is not known any more."""
    if number in ended:
        return ended[number].group
    known = machine.core.jobs.get(number)
    if known is not None:
        return known.group.name
    family = machine.families.get(number)
    return family.job.group if family is not None else ""
