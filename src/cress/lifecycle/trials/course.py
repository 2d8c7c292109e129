"""The course of a cluster: its machine forward in virtual time, until all jobs that wait now have ended.

Nothing new is submitted: cron jobs make no runs. Nodes stay as they are, except for what is already known, such as
the end of a drain; measured loads keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import DRAIN, MEASURED, MOMENT, RISK, TERM
from cress.lifecycle.trials.course_log import CourseLog
from cress.lifecycle.trials.stand_in import StandIn
from cress.model.course import Course, GroupCourse, JobCourse, Stopped
from cress.model.decisions import Preempt
from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job, JobType
from cress.model.records import AttemptRecord, JobRecord
from cress.model.times import DAY, NEVER

# Timers for what only the world outside could do in time: load reports, renewals of leases, cron jobs, and looks at
# forecasts that nobody reads.
_OUTSIDE = frozenset({MEASURED, TERM, MOMENT, RISK})
# The time (µs) after the last start or end after which waiting jobs will not start by the clock alone.
IDLE = 7 * DAY
# Outcomes of tasks that begin again.
_AGAIN = frozenset({Outcome.PREEMPTED, Outcome.LOST})


class _Tracked:
    """The course of one job so far; moments in µs since the epoch."""

    def __init__(self, live: LiveJob, *, waited: bool) -> None:
        self.job = live.job
        self.submitted = live.submitted
        self.waited = waited
        self.start: int | None = None
        self.end: int | None = None
        self.nodes: dict[str, int] = {}


class CourseRun:
    """One run of a machine forward. It consumes ``machine``, a copy.

    ``patient`` is asked before each step, and ends the run by False.
    """

    def __init__(self, machine: Machine, patient: Callable[[], bool]) -> None:
        self._machine = machine
        self._patient = patient
        self._stand_in = StandIn(machine)
        self._jobs: dict[int, _Tracked] = {}
        # Jobs that waited at the beginning or were stopped, and have neither ended nor lost their chance of an end.
        self._open: set[int] = set()
        self._stopped: list[Stopped] = []
        self._preempted_for: dict[int, int] = {}
        # Why attempts were told to stop, as in ``LiveAttempt.halted``.
        self._why: dict[int, str] = {}
        # Resource × µs by group, and the amounts, starts and groups of the running attempts.
        self._work: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self._running: dict[int, tuple[str, tuple[int, ...], int]] = {}
        self._moved = 0
        # The jobs and families that the change submits.
        self._new: set[int] = set()
        # The reasons of families at the beginning, and of jobs that have ended; jobs that ended at once.
        self._reasons: dict[int, str] = {}
        self._over: list[JobRecord] = []
        self.log = CourseLog(machine)

    def begin(self, now: int, utc: int, change: Sequence[Input] = ()) -> list[tuple[int, ...] | None]:
        """Bring the machine to the present, apply a change, and decide; return the replies to the change.

        Raises ``InputError`` if the machine refuses a part of the change.
        """
        machine = self._machine
        for kind, name in [key for key in machine.timers.times if key[0] in _OUTSIDE]:
            machine.timers.drop(kind, name)
        self._begin, self._moved = utc, now
        machine.now, machine.utc = max(machine.now, now), utc
        self._note_running()
        for number, live in machine.jobs.items():
            self._track(number, live, waited=live.waiting > 0)
        due = self._stand_in.take_over()
        first = machine.step(machine.now, utc, [*due, *change])
        replies = first.replies[len(due) :]
        for reply in replies:
            if isinstance(reply, InputError):
                raise reply
        for number, live in machine.jobs.items():
            # Jobs of the change wait from now on, even if they have started by now.
            if number not in self._jobs:
                self._track(number, live, waited=True)
        self._settle(first)
        self._new = {number for reply in replies if isinstance(reply, tuple) for number in reply}
        # A cron job says now when it runs next; later it would tell of a run that comes after the course.
        self._reasons |= {number: machine.reason(number) for number in self._new & machine.families.keys()}
        self._over = [job for job in first.jobs if job.id in self._new and job.type != JobType.DAG.value]
        return [reply for reply in replies if not isinstance(reply, InputError)]

    def run(self, *, details: bool = False) -> Course:
        """Run until all jobs that waited have ended, nothing can happen any more, or ``patient`` says no.

        With ``details`` the course has its jobs and attempts.
        """
        machine, stand_in, finished = self._machine, self._stand_in, True
        while self._open or self._drains:
            if not self._patient():
                finished = False
                break
            wake = machine.next_wakeup()
            now = min(stand_in.next_end(), NEVER if wake is None else max(wake, machine.now))
            if now >= NEVER or (now > self._moved + IDLE and stand_in.next_end() >= NEVER):
                break
            self._step(now, [*stand_in.reports(now)])
        course = self._result(finished=finished)
        return replace(course, details=self.log.details(self._begin)) if details else course

    @property
    def _drains(self) -> bool:
        """True if the deadline of a drain is still to come, which may stop tasks although nothing waits."""
        return any(kind == DRAIN for kind, _ in self._machine.timers.times)

    # --- steps ------------------------------------------------------------------------------------------------

    def _step(self, now: int, inputs: Sequence[Input]) -> None:
        machine = self._machine
        # A machine that wants to be woken now has decided nothing else; time goes on in any case.
        now = now if inputs or machine.more else max(now, machine.now + 1)
        self._settle(machine.step(now, machine.utc + now - machine.now, inputs))

    def _settle(self, step: StepResult) -> None:
        """Carry out the orders of a step, and those of the steps that follow at the same moment."""
        machine = self._machine
        while True:
            self._note(step)
            reports = self._stand_in.carry_out(step.launches, step.halts)
            if not reports and not step.more:
                return
            step = machine.step(machine.now, machine.utc, reports)

    def _note(self, step: StepResult) -> None:
        machine, utc = self._machine, self._machine.utc
        for fact in machine.told:
            if isinstance(fact, Preempt):
                self._preempted_for[fact.attempt] = fact.by
        for record in step.attempts:
            self._attempt_over(record)
            self.log.ended(record)
        for halt in step.halts:
            if halt.attempt in machine.attempts:
                self._why[halt.attempt] = machine.attempts[halt.attempt].halted
                self._reopen(halt.job)
        for launch in step.launches:
            self._moved = machine.now
            self._note_start(launch.attempt)
            self.log.began(launch.attempt)
            tracked = self._jobs.get(launch.job)
            if tracked is not None and tracked.start in (None, utc):
                tracked.start = utc
                tracked.nodes[launch.node] = tracked.nodes.get(launch.node, 0) + 1
        for job in step.jobs:
            self._moved = machine.now
            self._open.discard(job.id)
            self._reasons[job.id] = job.reason
            if job.id in self._jobs:
                self._jobs[job.id].end = job.ended

    def _attempt_over(self, record: AttemptRecord) -> None:
        group, amounts, start = self._running.pop(record.attempt, ("", (), 0))
        self._stand_in.forget(record.attempt)
        if group:
            self._add(group, amounts, self._machine.now - start)
        tracked = self._jobs.get(record.job)
        if tracked is not None and record.outcome in _AGAIN and not record.final:
            # It waits anew.
            self._reopen(record.job)
            by = self._preempted_for.pop(record.attempt, 0)
            lost = record.outcome is Outcome.LOST
            why = "lost" if lost else "preempted" if by else self._why.pop(record.attempt, "") or "stopped"
            self._stopped.append(
                Stopped(
                    record.job, tracked.job.name, tracked.job.group or DEFAULT_GROUP, record.task, record.node,
                    record.ended, why, by, max(0, record.ended - (record.started or record.placed)),
                )
            )  # fmt: skip

    # --- what is counted --------------------------------------------------------------------------------------

    def _track(self, number: int, live: LiveJob, *, waited: bool) -> None:
        self._jobs[number] = _Tracked(live, waited=waited)
        if waited:
            self._reopen(number)

    def _reopen(self, number: int) -> None:
        """Let the course go on until a job has ended, if it ends by itself and may start."""
        live = self._machine.jobs.get(number)
        if live is not None and not live.held and live.kept is None and not live.job.is_lease:
            self._open.add(number)

    def _note_running(self) -> None:
        machine = self._machine
        for number, attempt in machine.core.attempts.items():
            self.log.began(number)
            self._running[number] = attempt.job.group.name, attempt.amounts, machine.now

    def _note_start(self, number: int) -> None:
        attempt = self._machine.core.attempts.get(number)
        if attempt is None:
            return
        self._running[number] = attempt.job.group.name, attempt.amounts, self._machine.now
        job = attempt.job
        if not job.waiting and all(self._stand_in.due.get(other, 0) >= NEVER for other in job.attempts):
            self._open.discard(job.job.id)

    def _add(self, group: str, amounts: tuple[int, ...], time: int) -> None:
        work = np.array(amounts, np.float64) * time
        known = self._work.get(group)
        self._work[group] = work if known is None or len(known) != len(work) else known + work

    # --- results ----------------------------------------------------------------------------------------------

    def _reason(self, number: int, job: Job, start: int | None) -> str:
        """Return why a job of the change has not started; only real runs hand on values for conditions."""
        if number not in self._new or start is not None:
            return ""
        if number in self._machine.jobs:
            return self._machine.reason(number)
        if job.when:
            return f"it starts only if {job.when}, which is not foreseen"
        return self._reasons.get(number, "")

    def _whole(self, number: int, family: Family) -> JobCourse:
        """Return the course of a service or database that the change submits: the first starts of its tasks."""
        members = [tracked for tracked in self._jobs.values() if tracked.job.family == number]
        nodes: dict[str, int] = {}
        for tracked in members:
            for node, tasks in tracked.nodes.items():
                nodes[node] = nodes.get(node, 0) + tasks
        starts = [tracked.start for tracked in members if tracked.start is not None]
        job = family.job
        return JobCourse(
            number, job.name, job.group or DEFAULT_GROUP, family.submitted, job.deadline, waited=False,
            start=min(starts, default=None), nodes=tuple(nodes.items()),
            reason=self._reason(number, job, min(starts, default=None)),
        )  # fmt: skip

    def _result(self, *, finished: bool) -> Course:
        machine = self._machine
        for group, amounts, start in self._running.values():
            self._add(group, amounts, machine.now - start)
        offset = machine.utc - machine.now
        jobs = []
        for number, tracked in self._jobs.items():
            end = tracked.end
            live = machine.jobs.get(number)
            if end is None and live is not None and not live.waiting:
                expected = self._stand_in.expected_end(live.attempts)
                end = None if expected is None else expected + offset
            job = tracked.job
            jobs.append(
                JobCourse(
                    number, job.name, job.group or DEFAULT_GROUP, tracked.submitted, job.deadline, tracked.waited,
                    tracked.start, end, tuple(tracked.nodes.items()), self._reason(number, job, tracked.start),
                )
            )  # fmt: skip
        span = max(1, machine.utc - self._begin)
        capacity = np.array(machine.core.cluster.capacity(), np.float64) * span
        # A stopped task is told by its group.
        counts: dict[str, int] = {}
        for stopped in self._stopped:
            counts[stopped.group] = counts.get(stopped.group, 0) + 1
        by_group: dict[str, list[JobCourse]] = {group.name: [] for group in machine.core.groups}
        for course in jobs:
            by_group.setdefault(course.group, []).append(course)
        none = np.zeros(len(capacity))
        shares = {name: _share(self._work.get(name, none), capacity) for name in by_group}
        groups = tuple(
            _group(name, of, float(shares[name].max(initial=0.0)), counts.get(name, 0), machine.utc)
            for name, of in by_group.items()
        )
        # A submitted service or database is told as one job. Its tasks are jobs, so it counts nowhere else.
        jobs += (self._whole(number, family) for number, family in machine.families.items() if number in self._new)
        jobs += (
            JobCourse(
                job.id, job.name, job.group or DEFAULT_GROUP, job.submitted, 0, waited=False, reason=job.reason
            )
            for job in self._over
        )  # fmt: skip
        used = sum(shares.values(), none)
        names = machine.core.dimensions.names
        return Course(
            begin=self._begin,
            until=machine.utc,
            finished=finished,
            unending=len(self._open) if finished else 0,
            use={name: round(float(used[k]), 6) for k, name in enumerate(names) if capacity[k]},
            total=_group("", jobs, float(used.max(initial=0.0)), len(self._stopped), machine.utc),
            groups=groups,
            jobs=tuple(jobs),
            stopped=tuple(self._stopped),
        )


def _share(
    work: np.ndarray[tuple[int], np.dtype[np.float64]], capacity: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the used shares of the resources; a change may have added some."""
    work = np.concatenate((work, np.zeros(max(0, len(capacity) - len(work)))))
    return np.divide(work, capacity, out=np.zeros(len(capacity)), where=capacity > 0)


def _group(name: str, jobs: list[JobCourse], share: float, stopped: int, utc: int) -> GroupCourse:
    waits = [job.start - job.submitted for job in jobs if job.waited and job.start is not None]
    return GroupCourse(
        group=name,
        waited=sum(job.waited for job in jobs),
        started=len(waits),
        mean_wait=sum(waits) // len(waits) if waits else 0,
        longest_wait=max(waits, default=0),
        share=round(share, 6),
        missed=sum(job.deadline > 0 and (utc if job.end is None else job.end) > job.deadline for job in jobs),
        stopped=stopped,
    )
