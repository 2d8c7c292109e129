"""People who submit jobs, cancel some, and try again when they get no answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from cress.lifecycle.inputs import Cancel, Hold, Input, Submit
from cress.model.errors import InputError
from cress.model.job import Condition, Job, OnPartition
from cress.model.run import Run
from cress.model.times import MILLISECOND, SECOND
from tests.faults.world import Mortal

if TYPE_CHECKING:
    from cress.shell.center.effects import Reply
    from tests.faults.cluster import Cluster

TIMEOUT = 8 * SECOND
NO_SUCH_PROGRAM = ("no-such-program",)


class Question:
    """A call, and how often it was tried; ``again``: it may be sent again when nobody knows what became of it."""

    def __init__(self, what: Input, runs: tuple[Run, ...], again: bool) -> None:
        self.what = what
        self.runs = runs
        self.again = again
        self.tries = 0


class Person(Mortal):
    """Somebody with a list of things to do, one after the other."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster.world, f"person {number}")
        self.cluster = cluster
        self.submits = self.world.random.randint(2, 5)
        self.jobs: list[int] = []
        self.on_hold: list[int] = []
        self.question: Question | None = None  # the one that is open
        self.done = False
        self._next()

    def _next(self) -> None:
        self.world.after(self.world.between(SECOND // 20, self.cluster.pause), self, self._act)

    def _act(self) -> None:
        random = self.world.random
        if self.jobs and self.world.chance(0.25):
            unwanted = random.choice(self.jobs)
            self.jobs.remove(unwanted)
            self._ask(Cancel(job=unwanted), (), again=True)
        elif self.on_hold:
            self._ask(Hold(job=self.on_hold.pop(), held=False), (), again=True)
        elif self.jobs and self.world.chance(0.1):
            self.on_hold.append(random.choice(self.jobs))
            self._ask(Hold(job=self.on_hold[-1], held=True), (), again=True)
        elif self.submits:
            self.submits -= 1
            jobs: list[Job] = []
            runs: list[Run] = []
            for _ in range(random.choice((1, 1, 1, 2))):
                job, run = self._job()
                if jobs and self.cluster.wishes:
                    # Where the first one runs, at least in the beginning.
                    clause = f'JobDependency = "{jobs[0].name}" && f(x) = (Waittime > 20s)'
                    requirement = " && ".join(filter(None, (job.requirement, clause)))
                    job = msgspec.structs.replace(job, group=jobs[0].group, requirement=requirement)
                jobs.append(job)
                runs.append(run)
            # With a key a submit may be sent again and again; without one it is sent once.
            key = jobs[0].name if self.world.chance(0.6) else ""
            if key:
                self.cluster.truth.once.update(job.name for job in jobs)
            submit = Submit(jobs=tuple(jobs), known=(), key=key, digest="the same" if key else "")
            self._ask(submit, tuple(runs), again=bool(key))
        else:
            self.done = True

    def _job(self) -> tuple[Job, Run]:
        random = self.world.random
        self.cluster.jobs_made += 1
        name = f"{self.name}'s {self.cluster.jobs_made}"
        largest = max(node.cpus for node in self.cluster.nodes)
        cores = 1 if self.cluster.owned else min(largest, random.choice((1, 1, 1, 2, 2, 3)))
        tasks = random.choice((1, 1, 1, 2, 3, 5))
        limit = self.world.between(SECOND // 10, 30 * SECOND) if self.world.chance(0.2) else None
        hold = self.world.chance(0.05)
        keep = OnPartition.KEEP if self.world.chance(0.2) else OnPartition.STOP
        job = Job(
            id=0,
            name=name,
            user=self.name.replace(" ", ""),
            group=random.choice(("", "a", "b")),
            request=self.cluster.dimensions.vector(cpu=1000 * cores, memory=2**28),
            tasks=tasks,
            # A gang could wait for ever for the room of services.
            gang=self.world.chance(0.3) and cores * tasks <= largest and not self.cluster.owned,
            priority=random.choice((0, 0, 5)),
            time_limit=limit,
            on_partition=keep,
            retries=random.choice((0, 0, 0, 1, 3)),
            backoff=self.world.between(SECOND // 10, 5 * SECOND),
            hold=hold,
            after=self._after(),
            job_failure=not self.world.chance(0.05),
        )
        if self.cluster.wishes:
            job = msgspec.structs.replace(job, **self._wishes(job))
        job = msgspec.structs.replace(job, **self.cluster.outside.wishes(job))
        command = NO_SUCH_PROGRAM if self.world.chance(0.05) else ("work",)
        grace = self.world.between(MILLISECOND, 2 * SECOND)
        run = Run(job=0, command=command, name=name, tasks=tasks, time_limit=limit, stop_grace=grace, on_partition=keep)
        return job, run

    def _wishes(self, job: Job) -> dict[str, Any]:
        """What the job says about its nodes: nothing that keeps it waiting for ever."""
        random = self.world.random
        clauses = []
        if self.world.chance(0.1):
            clauses.append(f'Rack = "r{random.randint(0, 2)}" && f(x) = (Waittime > {random.randint(1, 8)}s)')
        if self.world.chance(0.1):
            clauses.append("IdleCPU >= 2 && f(x) = (Waittime > 3s || ClusterLoad > 50%)")
        if job.tasks > 1 and self.world.chance(0.2):
            clauses.append("NetworkAdjacent = True && f(x) = (Waittime > 5s)")
        fixed = () if job.gang else (("", 80),)
        return {
            "requirement": " && ".join(clauses),
            "rank": random.choice(("", "", "IdleCPU", "0.5 * CPU + 2 * (JobDependency = nobody)")),
            "ports": random.choice(((), (), (), fixed, (("a", 0),), (("a", 0), ("b", 0)))),
            "max_per_node": 0 if job.gang else random.choice((0, 0, 0, 1, 2)),
            "application": random.choice(("", "", "shop")),
        }

    def _after(self) -> tuple[tuple[int, Condition], ...]:
        if not self.jobs or self.world.chance(0.8):
            return ()
        return ((self.world.random.choice(self.jobs), self.world.random.choice(list(Condition))),)

    # --- asking ----------------------------------------------------------------------------------------------

    def _ask(self, what: Input, runs: tuple[Run, ...], *, again: bool) -> None:
        """Send a call; without an answer it is sent ``again``, if that does no harm."""
        self.question = Question(what, runs, again)
        self.say("asks", _words(what))
        self._send(self.question)

    def _send(self, question: Question) -> None:
        if question is not self.question:
            return
        question.tries += 1
        world = self.world
        if not (self.cluster.loses_calls and world.chance(0.05)):
            world.after(world.moment(), self, self._arrive, question, question.tries)
        world.after(TIMEOUT, self, self._timeout, question, question.tries)

    def _arrive(self, question: Question, number: int) -> None:
        center, lost = self.cluster.reach(self.name)
        refused = partial(self._refused, question, number)
        if lost:
            return
        if center is None:
            refused("nobody listens")
            return
        what = question.what
        if isinstance(what, Submit):
            # The shell looks up what is over.
            finished = self.cluster.store.finished_jobs
            after = [id for job in what.jobs for id, _ in job.after if id in finished]
            what = msgspec.structs.replace(what, known=tuple((id, finished[id].state) for id in after))
        center.submit(what, question.runs, partial(self._answer, question), refused)

    def _timeout(self, question: Question, number: int) -> None:
        if question is not self.question or number != question.tries:
            return
        if question.again:
            self._send(question)
        else:
            # Nobody knows whether it was taken; asking again could submit it twice.
            self._finish()

    def _refused(self, question: Question, number: int, sentence: str) -> None:
        """Nothing was changed, and the person knows it: a little later, again."""
        if question is self.question and number == question.tries:
            question.tries += 1  # this try is not waited for any more
            self.world.after(SECOND, self, self._send, question)

    def _answer(self, question: Question, reply: Reply) -> None:
        if self.cluster.loses_calls and self.world.chance(0.05):
            return
        self.world.after(self.world.moment(), self, self._heard, question, reply)

    def _heard(self, question: Question, reply: Reply) -> None:
        if question is not self.question:
            return
        what = question.what
        truth = self.cluster.truth
        if isinstance(reply, InputError):
            self.say("is refused:", reply.what)
        elif isinstance(what, Submit):
            assert reply is not None
            for job, id in zip(what.jobs, reply, strict=True):
                truth.acknowledged(id, job.name)
                if job.hold:
                    self.on_hold.append(id)
            self.jobs += reply
            self.say("has jobs", list(reply))
        elif isinstance(what, Cancel):
            truth.cancelled.add(what.job)
        self._finish()

    def _finish(self) -> None:
        self.question = None
        self._next()


def _words(what: Input) -> str:
    if isinstance(what, Submit):
        return "submit " + ", ".join(f"{job.tasks} × {job.request[0] // 1000} cores" for job in what.jobs)
    if isinstance(what, Cancel):
        return f"cancel {what.job}"
    return type(what).__name__
