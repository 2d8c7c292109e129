"""The jobs and attempts of a course one by one, for a report as of a simulation."""

from __future__ import annotations

from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveJob
from cress.model.course import CourseAttempt, CourseDetails, CourseJob
from cress.model.events import Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.records import AttemptRecord

_HOW = {Outcome.SUCCEEDED: "finished", Outcome.PREEMPTED: "preempted", Outcome.LOST: "lost"}


class CourseLog:
    """The jobs that a course has seen, and their attempts in the order in which they began."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._jobs: dict[int, LiveJob] = dict(machine.jobs)
        # Job, task, node and start by attempt; ends and how, once they are over.
        self._began: dict[int, tuple[int, int, str, int]] = {}
        self._ended: dict[int, tuple[int, str]] = {}

    def began(self, number: int) -> None:
        """Note an attempt that runs."""
        attempt = self._machine.attempts.get(number)
        if attempt is not None and number not in self._began:
            self._began[number] = attempt.job, attempt.task, attempt.node, attempt.started or attempt.placed
            self._jobs.setdefault(attempt.job, self._machine.jobs[attempt.job])

    def ended(self, record: AttemptRecord) -> None:
        """Note the end of an attempt."""
        self._ended[record.attempt] = record.ended, _HOW.get(record.outcome, "stopped")

    def details(self, begin: int) -> CourseDetails:
        """Return all jobs and attempts of the course, which began at ``begin`` (µs since the epoch)."""
        machine = self._machine
        jobs = {number: live for number, live in (self._jobs | machine.jobs).items() if not live.job.is_lease}
        position = {number: i for i, number in enumerate(jobs)}
        until = machine.utc
        running = (until, "running")
        attempts = tuple(
            CourseAttempt(position[job], task, node, start, *self._ended.get(number, running))
            for number, (job, task, node, start) in self._began.items()
            if job in position
        )
        cluster, k = machine.core.cluster, len(machine.core.dimensions.names)
        return CourseDetails(
            begin=begin,
            until=until,
            dimensions=machine.core.dimensions.custom,
            nodes={name: cluster.capacity_of(f)[:k] for name, f in cluster.index.items()},
            jobs=tuple(
                CourseJob(
                    job=number,
                    group=live.job.group or DEFAULT_GROUP,
                    user=live.job.user,
                    submitted=live.submitted,
                    tasks=live.job.tasks,
                    request=machine.core.dimensions.padded(live.job.mean_request),
                    gang=live.job.gang,
                    priority=live.job.priority,
                    limit=live.job.time_limit,
                    deadline=live.job.deadline,
                )
                for number, live in jobs.items()
            ),
            attempts=attempts,
        )
