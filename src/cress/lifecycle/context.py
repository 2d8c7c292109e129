"""The context of handlers: the tables, the scheduler, and the results of the step under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from cress.core.estimator import Estimator
from cress.core.outlook import Behind
from cress.core.scheduler import Scheduler
from cress.lifecycle.effects import StepResult
from cress.lifecycle.facts import CoreFact
from cress.lifecycle.notices import Noticed
from cress.lifecycle.tables.family_rows import Family, ReplicaState, key_of, needs_name
from cress.lifecycle.tables.group_load import GroupLoad
from cress.lifecycle.tables.replica_index import ReplicaIndex
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.tables import General, Tables
from cress.lifecycle.tables.terms import Terms
from cress.lifecycle.tables.timers import Timers
from cress.lifecycle.tables.user_load import UserLoad
from cress.model.distances import Distance
from cress.model.estimates import RunEstimate
from cress.model.events import Event, JobSubmitted
from cress.model.job import Condition, Job, JobType
from cress.model.outlook import Outlook
from cress.model.records import JobRecord, JobState


class Unsettled(msgspec.Struct):
    """Changes of the step under way that still have consequences.

    ``over`` are jobs that ended and whose dependents have not been told; ``tasks`` are tasks that will not run again
    and for which tasks of other jobs wait, by job, and whether they succeeded; ``gone`` are ended members of families;
    ``touched`` are changed families; ``asked`` are steps of dags whose condition is to be decided. ``members`` is the
    number of members of services that this step has made or cancelled, ``looks`` the number of forecasts for deadlines.
    """

    over: deque[tuple[int, JobState]] = msgspec.field(default_factory=deque)
    tasks: deque[tuple[int, Sequence[int], bool]] = msgspec.field(default_factory=deque)
    gone: deque[tuple[LiveJob | Family, JobRecord]] = msgspec.field(default_factory=deque)
    touched: dict[int, None] = {}
    asked: deque[int] = msgspec.field(default_factory=deque)
    members: int = 0
    looks: int = 0


class Context:
    """The tables, the scheduler, the effects of the step under way, and indices derived from the tables.

    Times: ``now`` is the shell's clock, which never goes back; ``utc`` is the wall clock, used for display and quota
    timetables; both in µs. Indices: ``attempts_on`` by node; ``behind`` has the dependents of unfinished jobs,
    ``behind_tasks`` those whose tasks depend on single tasks;
    ``awaiting`` are the jobs that wait for something outside, not only for a time;
    ``named`` the unfinished families by group and name; ``replica_indices`` the status of replicas; ``homes``, by node,
    the databases with a task bound to it (and some that have none there any more).
    """

    def __init__(self, tables: Tables, core: Scheduler) -> None:
        self.tables = tables
        self.core = core
        self.now = 0
        self.utc = 0
        # The number of steps, the present one included; true while one is under way.
        self.steps = 0
        self.in_step = False
        # True if deciding was cut short.
        self.more = False
        # True if the step comes from a log without facts, and must be decided as at that time.
        self.as_version_5 = False
        # True if changes of the configuration are stored as revisions: since version 6.5.
        self.keeps_revisions = True
        # True if the reason of a preemption is stored with its rule: since version 6.11.
        self.keeps_rules = True
        self.out = StepResult()
        self.unsettled = Unsettled()
        self.noticed = Noticed()
        # The events and decisions of the scheduler in this step.
        self.told: list[CoreFact] = []
        self.jobs = tables.jobs
        self.families = tables.families
        self.attempts = tables.attempts
        self.nodes = tables.nodes
        self.answers = tables.answers
        self.ended = tables.ended
        self.terms = Terms(tables.granted, tables.lost_at)
        self.timers = Timers(tables.timers)
        # Jobs whose tasks are leases.
        self.leases: dict[int, LiveJob] = {}
        # Jobs that were submitted inside leases, by the request of the lease; the inner keys are an ordered set.
        self.inside: dict[int, dict[int, None]] = {}
        self.attempts_on: dict[str, dict[int, LiveAttempt]] = {}
        self.behind: dict[int, list[int]] = {}
        self.behind_tasks: dict[int, list[int]] = {}
        self.awaiting: dict[int, None] = {}
        self.named: dict[tuple[str, str], int] = {}
        self.replica_indices: dict[int, ReplicaIndex] = {}
        self.homes: dict[str, set[int]] = {}
        self.user_load = UserLoad()
        self.group_load = GroupLoad()
        # Learned from runs so far; it is not part of the state, since estimates are facts.
        self.estimator = Estimator(self._settled)

    @property
    def general(self) -> General:
        """The single row of general values."""
        return self.tables.general[0]

    @property
    def next_job(self) -> int:
        """The id of the next job."""
        return self.general.next_job

    @property
    def epoch(self) -> int:
        """The epoch of the leader."""
        return self.general.epoch

    @property
    def neighbours(self) -> tuple[tuple[str, str], ...]:
        """The pairs of racks that are neighbours."""
        return self.general.neighbours

    @property
    def distances(self) -> tuple[Distance, ...]:
        """The distances between values of attributes."""
        return self.general.distances

    def take_id(self, count: int = 1) -> int:
        """Reserve ``count`` new job ids; return the first."""
        first = self.general.next_job
        self.general.next_job = first + count
        return first

    def observe(self, *events: Event, checked: bool = False) -> None:
        """Tell the scheduler what happened; ``checked``: these events were checked in this step."""
        self.core.observe(self.now, events, checked=checked)
        self.told += events

    def submitted(self, job: Job, behind: int | None) -> JobSubmitted:
        """Return the event of an accepted job, with an estimate if its group uses estimates."""
        # A lease lasts until it is returned.
        wanted = self.core.needs_estimate(job) and not job.is_lease
        by_task = bool(job.after) and any(how is Condition.TASKS for _, how in self.jobs[job.id].unmet)
        return JobSubmitted(job, behind, self.estimator.submitted(job) if wanted else None, by_task)

    def expected(self, job: Job) -> RunEstimate | None:
        """Return the estimate that a job would get now; ``None`` if its group does not use estimates."""
        return self.estimator.expected(job) if self.core.needs_estimate(job) else None

    def foreseen(self, job: Job, behind: Behind | None = None) -> Outlook | None:
        """Return the forecast for a job before its submission, for a step within its dag.

        ``None`` if it has no deadline.
        """
        return self.core.foreseen(job, self.expected(job), behind) if job.deadline else None

    def ran(self, job: Job, run: int) -> None:
        """Note that a task of a job ran for ``run`` µs until its end or failure, and update the estimates of its user's
        waiting jobs.
        """
        if job.type is JobType.BATCH and not job.is_lease:
            self.observe(*self.estimator.ended(job, run))

    def _settled(self, jobs: Iterable[int]) -> list[int]:
        # The present scheduler: a change of options may have replaced it.
        return self.core.settled(jobs)

    # --- indices ---------------------------------------------------------------------------------------------

    def enter(self, job: LiveJob) -> None:
        """Enter an unfinished job in the indices."""
        assert job.job.id not in self.jobs, f"there are two jobs {job.job.id}"
        assert 0 < job.job.id <= self.next_job, f"job {job.job.id} is beyond the next id, {self.next_job}"
        self.jobs[job.job.id] = job
        if job.job.is_lease:
            self.leases[job.job.id] = job
        if job.job.inside is not None:
            self.inside.setdefault(job.job.inside[0], {})[job.job.id] = None
        self.user_load.add(job.job)
        self.group_load.add(job.job)

    def leave(self, job: LiveJob) -> None:
        """Remove an ended job from the indices."""
        del self.jobs[job.job.id]
        self.leases.pop(job.job.id, None)
        if job.job.inside is not None:
            others = self.inside[job.job.inside[0]]
            del others[job.job.id]
            if not others:
                del self.inside[job.job.inside[0]]
        self.user_load.add(job.job, -1)
        self.group_load.add(job.job, -1)

    def link(self, attempt: LiveAttempt) -> None:
        """Enter an attempt in the indices by job and by node."""
        job = self.jobs[attempt.job]
        assert job.waiting > 0, f"attempt {attempt.id} is of job {attempt.job}, of which no task waits"
        job.attempts[attempt.id] = attempt
        self.attempts_on.setdefault(attempt.node, {})[attempt.id] = attempt

    def remove(self, attempt: LiveAttempt) -> None:
        """Remove an attempt that ended from its table and the indices."""
        del self.attempts[attempt.id]
        job = self.jobs[attempt.job]
        del job.attempts[attempt.id]
        here = self.attempts_on[attempt.node]
        del here[attempt.id]
        if not here:
            del self.attempts_on[attempt.node]

    def on_node(self, name: str) -> list[LiveAttempt]:
        """Return the attempts on a node, in order."""
        return list(self.attempts_on.get(name, {}).values())

    def rebuild(self) -> None:
        """Rebuild the indices from the tables."""
        for job in self.jobs.values():
            job.attempts.clear()
            self.user_load.add(job.job)
            self.group_load.add(job.job)
        for family in self.families.values():
            self.group_load.add(family.job)
        self.leases = {number: job for number, job in self.jobs.items() if job.job.is_lease}
        self.inside = {}
        for number, job in self.jobs.items():
            if job.job.inside is not None:
                self.inside.setdefault(job.job.inside[0], {})[number] = None
        for attempt in self.attempts.values():
            self.link(attempt)
        waiting: list[LiveJob | Family] = [*self.jobs.values(), *self.families.values()]
        for follower in sorted(waiting, key=lambda entry: entry.job.id):
            for condition in follower.unmet:
                self.stay_behind(follower.job.id, condition)
        self.awaiting = {
            number: None for number, job in self.jobs.items() if job.awaits_since is not None and job.awaits_outside
        }
        self.named = self.by_name()
        for number, family in self.families.items():
            if isinstance(family.state, ReplicaState):
                for name in family.state.nodes.values():
                    self.homes.setdefault(name, set()).add(number)

    def stay_behind(self, number: int, condition: tuple[int, Condition]) -> None:
        """Note that a job has this open condition."""
        first, how = condition
        self.behind.setdefault(first, []).append(number)
        if how is Condition.TASKS:
            self.behind_tasks.setdefault(first, []).append(number)

    def by_name(self) -> dict[tuple[str, str], int]:
        """Return the ids of unfinished services, databases and cron jobs with a name, by group and name."""
        return {
            key_of(family.job): number
            for number, family in self.families.items()
            if needs_name(family.job) and not family.cancelling
        }
