"""People who keep services, databases and cron jobs, and run dags; when all is well again these must be as they want
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cress.lifecycle.inputs import Cancel, Hold, Scale, Submit, Update
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.family import Cron, Dag, Database, FamilySpec, Missed, Overlap, Service
from cress.model.job import Condition, Job, JobType
from cress.model.run import Run
from cress.model.times import MILLISECOND, MINUTE, SECOND
from tests.faults.people import NO_SUCH_PROGRAM, Person, Question
from tests.faults.world import Violation

if TYPE_CHECKING:
    from cress.shell.center.effects import Reply
    from tests.faults.cluster import Cluster

# How long (virtual time) families may take to be what is wanted once nothing goes wrong any more.
PATIENCE = 600 * SECOND

SERVE, WORK = ("serve",), ("work",)


class Owner(Person):
    """Somebody with families. Every submit has a key: nothing is left that nobody knows of."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.families: dict[int, Job] = {}
        self.changes = cluster.world.random.randint(2, 8)
        self.last_words: list[Hold | Update] | None = None
        self.calm_since: int | None = None
        self.behind_others = 0
        super().__init__(cluster, number)
        self.name = f"owner {number}"

    def _act(self) -> None:
        random = self.world.random
        if self.submits and (not self.families or self.world.chance(0.5)):
            self.submits -= 1
            jobs, runs = self._family()
            key = jobs[0].name
            self.cluster.truth.once.update(job.name for job in jobs)
            self._ask(Submit(jobs=jobs, key=key, digest="the same"), runs, again=True)
        elif self.changes and self.families:
            self.changes -= 1
            number = random.choice(list(self.families))
            self._change(number, self.families[number])
        elif self.last_words is None:
            self._begin_end()
        elif self.last_words:
            word = self.last_words.pop()
            runs = (self._run(self.families[word.job], SERVE),) if isinstance(word, Update) else ()
            self._ask(word, runs, again=True)
        elif self.families:
            self._wait()
        else:
            self.done = True

    # --- what they want --------------------------------------------------------------------------------------

    def _family(self) -> tuple[tuple[Job, ...], tuple[Run, ...]]:
        random, cluster = self.world.random, self.cluster
        kinds = ["cron", "dag", "dag"] + ["service", "database"] * 2 * (cluster.room > 0)
        kind = random.choice(kinds)
        if kind == "dag":
            return self._dag()
        ready_after = random.choice((0, SECOND, 3 * SECOND))
        tasks = 1
        plan: FamilySpec
        if kind == "cron":
            plan = Cron(
                when=random.choice(("* * * * *", "*/2 * * * *")),
                overlap=random.choice(list(Overlap)),
                missed=random.choice(list(Missed)),
            )
        else:
            tasks = random.randint(1, cluster.room)
            cluster.room -= tasks
            shape = Service if kind == "service" else Database
            plan = shape(ready_after=ready_after, update_timeout=20 * SECOND)
            if isinstance(plan, Database):
                plan = msgspec.structs.replace(plan, move_after=random.choice((5, 30, 300)) * SECOND)
        job = self._plain(JobType(kind), tasks)
        job = msgspec.structs.replace(job, plan=plan)
        return (job,), (self._run(job, WORK if kind == "cron" else SERVE),)

    def _plain(self, kind: JobType, tasks: int = 1) -> Job:
        self.cluster.jobs_made += 1
        return Job(
            id=0,
            name=f"{self.name}'s {self.cluster.jobs_made}",
            user=self.name.replace(" ", ""),
            type=kind,
            group="",
            tasks=tasks,
            request=self.cluster.dimensions.vector(cpu=1000, memory=2**28),
            backoff=self.world.between(SECOND // 10, 3 * SECOND),
        )

    def _dag(self) -> tuple[tuple[Job, ...], tuple[Run, ...]]:
        random = self.world.random
        count = random.randint(1, 5)
        whole = self._plain(JobType.DAG)
        whole = msgspec.structs.replace(whole, plan=Dag(steps=tuple(f"s{i}" for i in range(count))))
        jobs = [whole]
        for i in range(count):
            before = random.sample(range(i), min(i, random.choice((0, 1, 1, 2))))
            after = tuple((-(each + 2), random.choice((Condition.OK, *Condition))) for each in before)
            step = self._plain(JobType.BATCH, random.choice((1, 1, 2)))
            jobs.append(msgspec.structs.replace(step, family=-1, after=after, retries=random.choice((0, 0, 1))))
        return tuple(jobs), tuple(self._run(job, WORK) for job in jobs)

    def _run(self, job: Job, command: tuple[str, ...]) -> Run:
        grace = self.world.between(MILLISECOND, 2 * SECOND)
        return Run(job=0, command=command, name=job.name, tasks=job.tasks, stop_grace=grace, type=job.type)

    def _change(self, number: int, job: Job) -> None:
        random = self.world.random
        what = random.choice(("scale", "update", "update", "bad update", "hold", "release", "cancel"))
        kept = isinstance(job.plan, Service | Database)
        if what == "scale" and kept:
            self._ask(Scale(job=number, tasks=random.randint(1, job.tasks)), (), again=True)
        elif "update" in what and not isinstance(job.plan, Dag):
            command = (SERVE if what == "update" else NO_SUCH_PROGRAM) if kept else WORK
            self._ask(Update(job=number, spec=job), (self._run(job, command),), again=True)
        elif what in ("hold", "release"):
            self._ask(Hold(job=number, held=what == "hold"), (), again=True)
        elif what == "cancel" and self.world.chance(0.5):
            self._cancel(number)
        else:
            self._next()

    def _cancel(self, number: int) -> None:
        del self.families[number]
        self._ask(Cancel(job=number), (), again=True)

    # --- what they must get ----------------------------------------------------------------------------------

    def _begin_end(self) -> None:
        """All is wanted, and in a version that works."""
        self.last_words = []
        for number, job in self.families.items():
            self.last_words.append(Hold(job=number, held=False))
            if isinstance(job.plan, Service | Database):
                self.last_words.append(Update(job=number, spec=job))
        self._next()

    def _wait(self) -> None:
        """Look now and then whether everything is as it should be; then it is not needed any more."""
        center, world = self.cluster.center, self.world
        if self.cluster.disturbed:
            self.calm_since = None
        elif self.calm_since is None:
            self.calm_since = world.now
        machine = center.machine if center is not None and not center.problem else None
        if self.calm_since is not None and machine is not None:
            wrong = [found for number in self.families if (found := self._wrong(machine, number))]
            least = 2 * MINUTE if any(isinstance(job.plan, Cron) for job in self.families.values()) else 0
            if not wrong and world.now - self.calm_since >= least:
                self._cancel(next(iter(self.families)))
                return
            # What is replaced queues behind the jobs that came before.
            if any(live.job.family not in self.families for live in machine.jobs.values()):
                self.behind_others = world.now
            if world.now - max(self.calm_since, self.behind_others) > PATIENCE:
                raise Violation("; ".join(wrong))
        world.after(SECOND, self, self._act)

    def _wrong(self, machine: Machine, number: int) -> str:
        """What a family lacks; empty if it is as it is wanted."""
        family = machine.families.get(number)
        if family is None:
            return "" if isinstance(self.families[number].plan, Dag) else f"family {number} is gone"
        if not isinstance(family.job.plan, Service | Database):
            return ""
        kind = family.job.type.value
        if sorted(family.members) != list(range(family.job.tasks)):
            return f"{kind} {number} wants {family.job.tasks} tasks, and has {sorted(family.members)}"
        for index, member in family.members.items():
            attempts = list(machine.jobs[member].attempts.values())
            if [bool(each.started) and not each.halted for each in attempts] != [True]:
                return f"task {index} of {kind} {number} does not run"
            if machine.jobs[member].template != family.template:
                return f"task {index} of {kind} {number} is of an old version"
        return ""

    def _heard(self, question: Question, reply: Reply) -> None:
        if question is self.question and isinstance(reply, tuple) and not isinstance(reply, InputError):
            what = question.what
            if isinstance(what, Submit):
                self.families |= {id: job for id, job in zip(reply, what.jobs, strict=True) if job.plan is not None}
        super()._heard(question, reply)
