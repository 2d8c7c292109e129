"""A stand-in for all executors of a copy of the machine: programs start at once, and end when they are expected to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from cress.core.answers.forward import end_of_run
from cress.core.jobs import Attempt, JobEntry
from cress.core.openings import EndsBy
from cress.lifecycle.effects import Halt, Launch
from cress.lifecycle.inputs import Input, Reported
from cress.lifecycle.machine import Machine
from cress.model.estimates import RunEstimate
from cress.model.job import JobType
from cress.model.reports import Cause, Checked, Ended, Report, Started
from cress.model.times import NEVER

# The exit code after SIGTERM, and the process of a program that runs nowhere.
SIGNALLED, PID = -15, 1


class StandIn:
    """The running attempts of a machine with their ends (µs, the machine's clock).

    A run takes its mean estimate, and ends as in a run forward of the scheduler (``end_of_run``). Every run that is not
    stopped succeeds.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._estimates: dict[int, RunEstimate] = {}
        self._ends: list[tuple[int, int]] = []
        # The present end of each; an earlier entry in the heap is void.
        self.due: dict[int, int] = {}

    def take_over(self) -> list[Input]:
        """Take over all attempts of the machine; return the reports that are due at once."""
        machine, found = self._machine, list[Input]()
        for attempt in machine.attempts.values():
            entry = machine.core.attempts[attempt.id]
            self._set(attempt.id, self._end_of(entry))
            if attempt.halted or entry.stopping:
                self._stop(attempt.id, self._grace(attempt.job, attempt.grace))
            elif not attempt.started:
                found += self._begun(attempt.id, attempt.job, attempt.node)
        return found

    def carry_out(self, launches: Iterable[Launch], halts: Iterable[Halt]) -> list[Input]:
        """Carry out the orders of a step; return the reports that are due at once."""
        found: list[Input] = []
        for launch in launches:
            entry = self._machine.core.attempts.get(launch.attempt)
            if entry is not None:
                self._set(launch.attempt, self._end_of(entry))
                found += self._begun(launch.attempt, launch.job, launch.node)
        for halt in halts:
            self._stop(halt.attempt, self._grace(halt.job, halt.grace))
        return found

    def next_end(self) -> int:
        """Return the time of the next end; NEVER if no running task has a known one."""
        ends = self._ends
        while ends and self.due.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else NEVER

    def reports(self, now: int) -> Iterator[Input]:
        """Yield the reports of the attempts that end by ``now``, and forget these."""
        machine = self._machine
        offset = machine.utc - machine.now
        while self.next_end() <= now:
            number = heappop(self._ends)[1]
            del self.due[number]
            attempt = machine.attempts.get(number)
            if attempt is None:
                continue
            stopped = bool(attempt.halted) or machine.core.attempts[number].stopping
            yield _report(
                attempt.node,
                Ended(
                    attempt=number,
                    cause=Cause.STOPPED if stopped else Cause.EXITED,
                    code=SIGNALLED if stopped else 0,
                    started=attempt.started or attempt.placed,
                    at=now + offset,
                ),
            )

    def forget(self, number: int) -> None:
        """Forget an attempt that has ended in another way, such as one that was lost with its node."""
        self.due.pop(number, None)

    def expected_end(self, attempts: Iterable[int]) -> int | None:
        """Return the last end of these attempts; ``None`` if one of them has none."""
        ends = [self.due.get(number, NEVER) for number in attempts]
        return max(ends) if ends and max(ends) < NEVER else None

    def _set(self, number: int, end: int) -> None:
        self.due[number] = end
        if end < NEVER:
            heappush(self._ends, (end, number))

    def _stop(self, number: int, grace: int) -> None:
        """Let an attempt end after its grace, or before if it does so by itself."""
        end = self._machine.now + max(1, grace)
        if number in self.due and end < self.due[number]:
            self._set(number, end)

    def _grace(self, job: int, grace: int | None) -> int:
        live = self._machine.jobs.get(job)
        return (0 if live is None else live.job.stop_grace) if grace is None else grace

    def _begun(self, number: int, job: int, node: str) -> Iterator[Input]:
        """Yield the report that a program runs; nobody waits for that of a batch job, unless tasks are being moved."""
        live = self._machine.jobs[job]
        if live.kept is None and not self._machine.tables.rounds:
            return
        yield _report(node, Started(attempt=number, at=self._machine.utc, pid=PID))
        if live.kept is not None and live.kept.checked:
            yield _report(node, Checked(attempt=number, at=self._machine.utc, ready=True))

    def _end_of(self, attempt: Attempt) -> int:
        return end_of_run(attempt, self._estimate(attempt.job), EndsBy.MEAN, self._machine.now)

    def _estimate(self, job: JobEntry) -> RunEstimate | None:
        """Return the estimate of a job; groups that work without estimates get those of the same history."""
        number = job.job.id
        if job.estimate is not None:
            return job.estimate
        if job.job.type is not JobType.BATCH or job.job.is_lease:
            return None
        if number not in self._estimates:
            self._estimates[number] = self._machine.estimator.expected(job.job)
        return self._estimates[number]


def _report(node: str, report: Report) -> Reported:
    return Reported(node=node, reports=(report,))
