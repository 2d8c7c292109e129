"""What really happened, whatever anybody believes; and the rules that it has to follow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cress.lifecycle.effects import Launch, StepResult
from cress.lifecycle.jobs.conditions import holds
from cress.lifecycle.machine import Machine
from cress.lifecycle.node_membership import DEAD, SILENT
from cress.lifecycle.tables.family_rows import CronState, Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.events import Outcome
from cress.model.family import Cron, Database, Overlap
from cress.model.job import Condition, JobType
from cress.model.records import AttemptRecord, JobRecord, JobState
from tests.faults.given import Given
from tests.faults.world import Violation, World

if TYPE_CHECKING:
    from tests.faults.host import Host, Process
    from tests.faults.store import SimulatedStore

Key = tuple[int, int]  # job, task


class Truth:
    """Sees every process of every task, every acknowledgement, every state of the center."""

    def __init__(self, world: World, given: Given) -> None:
        self.world = world
        self.alive: dict[Key, list[Process]] = {}
        self.started_attempts: dict[int, Key] = {}
        self.where: dict[int, str] = {}  # nodes by attempt
        self.cores: dict[int, int] = {}  # by attempt
        self.given = given
        self.ports: dict[int, tuple[int, ...]] = {}  # by attempt
        self.spread: dict[int, tuple[int, int]] = {}  # by attempt: its job, how many of it may run on one node, 0: any
        self.capacity: dict[str, int] = {}  # cores by node
        self.codes: dict[int, int] = {}  # how the first process of an attempt ended, by itself or not
        self.seen_codes: dict[int, int] = {}  # of those, what its supervisor saw
        self.excused: set[int] = set()  # attempts whose ends may be unknown: their computer lost its power
        self.submitted: dict[int, str] = {}  # acknowledged jobs: names
        self.once: set[str] = set()  # names of jobs that were submitted with a key
        self.open: set[int] = set()  # of those, the ones not seen finished yet
        self.cancelled: set[int] = set()  # acknowledged cancels
        self.starts = 0
        self.store: SimulatedStore
        self.calm = False  # nothing goes wrong any more: what is to stay, stays
        self.after: dict[int, tuple[tuple[int, Condition], ...]] = {}  # by attempt
        self.one_of: dict[int, str] = {}  # by attempt: what of which only one may be alive
        self.lives: dict[str, list[Process]] = {}  # of these
        # By cron job: moment of its last run, number of runs, whether one is owed.
        self.moments: dict[int, tuple[int, int, bool]] = {}

    def decided(self, launch: Launch, live: LiveJob, families: dict[int, Family]) -> None:
        """The center has chosen a node for an attempt."""
        job = live.job
        self.given.decided(launch, job)
        self.after[launch.attempt] = job.after
        family = families.get(job.family)
        plan = family.job.plan if family is not None else None
        self.one_of.pop(launch.attempt, None)
        if isinstance(plan, Database):
            self.one_of[launch.attempt] = f"task {live.index} of database {job.family}"
        elif isinstance(plan, Cron) and plan.overlap is not Overlap.ALLOW:
            self.one_of[launch.attempt] = f"a run of cron job {job.family}"
        # An attempt of the same number may have been decided before, and never stored.
        self.cores[launch.attempt] = job.request[0] // 1000
        self.ports[launch.attempt] = launch.ports
        self.spread[launch.attempt] = (launch.job, job.max_per_node)
        for (_, wanted), port in zip(job.ports, launch.ports, strict=True):
            if wanted not in (0, port) or not port:
                raise Violation(f"attempt {launch.attempt} wants port {wanted}, and is given {port}")

    def check_twin(self, step: StepResult, twins: StepResult) -> None:
        """A machine that was restored from an export decides the same, devices and all."""
        for name in ("launches", "halts"):
            ours, theirs = getattr(step, name), getattr(twins, name)
            if ours != theirs:
                raise Violation(f"restored, the center would order {theirs}, not {ours}")

    # --- processes -------------------------------------------------------------------------------------------

    def started(self, process: Process) -> None:
        """A process of a task begins."""
        key = process.key
        alive = self.alive[key] = [each for each in self.alive.get(key, ()) if not each.gone]
        for other in alive:
            if other.attempt != process.attempt:
                raise Violation(
                    f"task {key} runs twice at once: attempt {other.attempt} on {other.host.name}, "
                    f"and attempt {process.attempt} begins on {process.host.name}"
                )
        alive.append(process)
        self._check_alone(process)
        if process.leader:
            self._check_order(process)
            if process.attempt in self.started_attempts:
                raise Violation(f"attempt {process.attempt} starts a second time, on {process.host.name}")
            self.started_attempts[process.attempt] = key
            self.where[process.attempt] = process.host.name
            self.starts += 1
            self._check_capacity(process.host)
            on_node = {each.attempt for each in process.host.processes.values()}
            everywhere = {each.attempt for lives in self.alive.values() for each in lives if not each.gone}
            self.given.begun(process.attempt, on_node, everywhere)

    def _check_alone(self, process: Process) -> None:
        """One life of a database task at a time, on whatever computers; one run of a cron job that does not allow
        more.
        """
        what = self.one_of.get(process.attempt)
        if what is None:
            return
        alive = self.lives[what] = [each for each in self.lives.get(what, ()) if not each.gone]
        for other in alive:
            # The tasks of one run are alive together.
            if other.key[0] != process.key[0]:
                raise Violation(
                    f"{what} has two lives: attempt {other.attempt} on {other.host.name}, "
                    f"and attempt {process.attempt} begins on {process.host.name}"
                )
        alive.append(process)

    def _check_order(self, process: Process) -> None:
        """What it comes after is over as it wanted, and that is stored."""
        for first, condition in self.after.get(process.attempt, ()):
            record = self.store.finished_jobs.get(first)
            if condition is Condition.TASKS and self._succeeded(first, process.key[1]):
                continue
            if record is None or not holds(condition, record.state):
                how = "not over" if record is None else record.state.value
                raise Violation(
                    f"job {process.key[0]} begins after job {first} ({condition.value} is wanted), which is {how}"
                )

    def _succeeded(self, job: int, task: int) -> bool:
        ends = (end for end in self.store.finished.values() if (end.job, end.task) == (job, task))
        return any(end.outcome is Outcome.SUCCEEDED for end in ends)

    def _check_moments(self, families: dict[int, Family]) -> None:
        """A cron job makes one run for a moment, and never goes back to an earlier one."""
        for number, family in families.items():
            clock = family.state
            if not isinstance(clock, CronState):
                continue
            last, runs, owed = self.moments.get(number, (0, 0, False))
            made, moved = clock.runs - runs, clock.last > last
            # What was owed from the time when it was held may be made in one step with a run that comes on time.
            if clock.last < last or not moved <= made <= moved + owed:
                raise Violation(f"cron job {number} made {made} runs from moment {last} to {clock.last}")
            self.moments[number] = (clock.last, clock.runs, bool(clock.owed))

    def _check_capacity(self, host: Host) -> None:
        attempts = {each.attempt for each in host.processes.values()}
        used = sum(self.cores[attempt] for attempt in attempts)
        if used > self.capacity[host.name]:
            raise Violation(f"{host.name} has {self.capacity[host.name]} cores, {used} run there: {sorted(attempts)}")
        taken = Counter(port for attempt in attempts for port in self.ports.get(attempt, ()))
        together = Counter(self.spread[attempt] for attempt in attempts if attempt in self.spread)
        for port, count in taken.items():
            if count > 1:
                raise Violation(f"port {port} of {host.name} is given to {count} attempts: {sorted(attempts)}")
        for (job, most), count in together.items():
            if most and count > most:
                raise Violation(f"{count} tasks of job {job} run on {host.name}, at most {most} may")

    def exited(self, process: Process, code: int) -> None:
        """The first process of an attempt is gone."""
        self.codes[process.attempt] = code

    def seen(self, codes: dict[int, int]) -> None:
        """Supervisors have written down how these ended."""
        self.seen_codes.update(codes)

    def power_lost(self, host: Host) -> None:
        """What was not told yet about attempts of this computer may never be."""
        self.excused |= {attempt for attempt, where in self.where.items() if where == host.name}

    def _must_be_known(self, record: AttemptRecord) -> bool:
        """Whether the end of an attempt that was written down has to reach the center."""
        return record.attempt not in self.excused and record.error not in (SILENT, DEAD)

    # --- what people were told -------------------------------------------------------------------------------

    def acknowledged(self, job: int, name: str) -> None:
        """A submit was answered with this id; the names of jobs are all different."""
        if self.submitted.get(job, name) != name:
            raise Violation(f"job {job} was given to {self.submitted[job]} and to {name}")
        self.submitted[job] = name
        self.open.add(job)

    # --- what the center believes ----------------------------------------------------------------------------

    def check_center(self, machine: Machine, store: SimulatedStore, *, thoroughly: bool) -> None:
        """Nothing acknowledged is lost; the machine is in order."""
        self._check_moments(machine.families)
        for job in list(self.open):
            if job in store.finished_jobs:
                self.open.discard(job)
                name = store.finished_jobs[job].name
            elif job in machine.jobs:
                live = machine.jobs[job]
                name = live.job.name
                if job in self.cancelled and not live.ending:
                    raise Violation(f"the cancel of job {job} was acknowledged, and is forgotten")
            elif job in machine.families:
                family = machine.families[job]
                name = family.job.name
                if job in self.cancelled and not family.cancelling:
                    raise Violation(f"the cancel of family {job} was acknowledged, and is forgotten")
            else:
                raise Violation(f"job {job} was acknowledged, and is not known")
            if name != self.submitted[job]:
                raise Violation(f"job {job} was acknowledged as {self.submitted[job]}, and is {name}")
        if not thoroughly:
            return
        broken = machine.validate()
        if broken:
            raise Violation("; ".join(broken))
        if machine.next_wakeup() == machine.now:
            return  # it has not come to an end yet
        for number, live in machine.jobs.items():
            if live.waiting and machine.core.veto(number) is None:
                raise Violation(f"job {number} waits, and there is no reason for it")

    # --- in the end ------------------------------------------------------------------------------------------

    def check_end(self, store: SimulatedStore) -> None:
        """Every job is over, and what is stored of it is what happened."""
        for number, name in self.submitted.items():
            if number not in store.finished_jobs:
                raise Violation(f"job {number} ({name}) was acknowledged, and is not among the finished ones")
        for name, count in Counter(each.name for each in store.finished_jobs.values() if not each.family).items():
            if count > 1 and name in self.once:
                raise Violation(f"{name} was submitted once, and there are {count} jobs of it")
        for attempt in self.started_attempts:
            if attempt not in store.finished:
                raise Violation(f"attempt {attempt} ran, and nothing is known of it")
        for record in store.finished.values():
            self._check_attempt(record, store.finished_jobs.get(record.job))
        final = Counter((record.job, record.task) for record in store.finished.values() if record.final)
        for key, count in final.items():
            if count > 1:
                raise Violation(f"task {key} is over {count} times")
        good = Counter(each.job for each in store.finished.values() if each.outcome is Outcome.SUCCEEDED)
        for job in store.finished_jobs.values():
            if job.type == JobType.BATCH.value:
                self._check_job(job, good[job.id])

    def _check_attempt(self, record: AttemptRecord, job: JobRecord | None) -> None:
        # The only task of a member of a service or database is known to its node by its place in the family.
        kept = job is not None and job.type in (JobType.SERVICE.value, JobType.DATABASE.value)
        attempt, key = record.attempt, (record.job, job.index if job is not None and kept else record.task)
        if self.started_attempts.get(attempt, key) != key:
            raise Violation(f"attempt {attempt} was of task {self.started_attempts[attempt]}, not of {key}")
        code = self.codes.get(attempt)
        if record.outcome is Outcome.SUCCEEDED:
            if code != 0:
                raise Violation(f"attempt {attempt} is called a success; its code: {code}")
        elif self.seen_codes.get(attempt) == 0 and record.code is None and self._must_be_known(record):
            raise Violation(f"attempt {attempt} ended well, and is called {record.outcome.value}")

    def _check_job(self, job: JobRecord, good: int) -> None:
        if job.succeeded + job.failed + job.cancelled != job.tasks or job.succeeded != good:
            raise Violation(f"job {job.id} has {job.tasks} tasks, {good} of them succeeded, and it says: {job}")
        if job.id in self.cancelled and job.cancelled and job.state is not JobState.CANCELLED:
            raise Violation(f"job {job.id} was cancelled, and is {job.state}")
