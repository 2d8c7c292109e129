"""Services and databases on a small cluster: what tests say to them, and what they look at."""

from __future__ import annotations

from typing import Any

from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input, Reported, Scale, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError
from cress.model.family import Database, Service
from cress.model.job import Job, JobType
from cress.model.options import Options
from cress.model.reports import Cause, Checked, Ended
from cress.model.times import SECOND
from tests.lifecycle.builders import UTC_AT_START, World, ended, job, started


def service(tasks: int = 1, name: str = "web", *, cpus: int = 1, **more: Any) -> Job:
    """A service; keys of its plan are told from those of the job."""
    plan = {key: more.pop(key) for key in list(more) if key in Service.__struct_fields__}
    return job(tasks, cpus=cpus, name=name, type=JobType.SERVICE, plan=Service(**plan), **more)


def database(tasks: int = 1, name: str = "db", *, cpus: int = 1, **more: Any) -> Job:
    """A database."""
    plan = {key: more.pop(key) for key in list(more) if key in Database.__struct_fields__}
    return job(tasks, cpus=cpus, name=name, type=JobType.DATABASE, plan=Database(**plan), **more)


class Site(World):
    """A cluster whose executors obey at once: what is launched runs, what is halted ends. ``obey`` asks them to."""

    def __init__(self, *nodes: str, cpus: int = 4, options: Options | None = None) -> None:
        super().__init__(options)
        self.running: dict[int, str] = {}
        self.ready: set[int] = set()
        for name in nodes:
            self.join(name, cpus)

    def step(self, *inputs: Input, after: int = 1000) -> StepResult:
        step = super().step(*inputs, after=after)
        twin = Machine.restore(self.machine.export())
        assert twin.export() == self.machine.export()
        self.machine = twin
        return step

    def begin(self, each: Job) -> int:
        """Submit a family and let its tasks run; its id."""
        (number,) = self.submit(each)
        self.obey()
        return number

    def obey(self) -> None:
        """Everything that should run does, everything that was halted ends, until nothing new is said."""
        for _ in range(100):
            words: list[Input] = []
            for attempt in self.machine.attempts.values():
                if not self.machine.nodes[attempt.node].connected:
                    continue
                if attempt.halted:
                    words.append(Reported(node=attempt.node, reports=(ended(attempt.id, -15, Cause.STOPPED),)))
                elif not attempt.started:
                    words.append(Reported(node=attempt.node, reports=(started(attempt.id),)))
            if not words:
                return
            self.step(*words)
        raise AssertionError("it never comes to rest")

    def members(self, number: int) -> dict[int, LiveJob]:
        """The members of a family by index."""
        return {index: self.machine.jobs[each] for index, each in self.machine.families[number].members.items()}

    def attempt(self, number: int, index: int) -> LiveAttempt:
        """The attempt of a task, which has one."""
        (attempt,) = self.members(number)[index].attempts.values()
        return attempt

    def nodes(self, number: int) -> dict[int, str]:
        """Where the tasks of a family run, by index."""
        return {
            index: attempt.node
            for index, member in sorted(self.members(number).items())
            for attempt in member.attempts.values()
        }

    def up(self, number: int) -> list[int]:
        """The indices that are ready."""
        return sorted(
            index
            for index, member in self.members(number).items()
            for attempt in member.attempts.values()
            if attempt.ready_at is not None and not attempt.halted
        )

    def check(self, number: int, *indices: int, ready: bool = True, alive: bool = True, why: str = "") -> None:
        """What the checks of tasks say."""
        for index in indices:
            attempt = self.attempt(number, index)
            report = Checked(attempt=attempt.id, at=UTC_AT_START + self.now, ready=ready, alive=alive, why=why)
            self.report(attempt.node, report)
        self.obey()

    def die(
        self, number: int, index: int, code: int | None = 1, cause: Cause = Cause.EXITED, error: str = ""
    ) -> StepResult:
        """A task ends."""
        attempt = self.attempt(number, index)
        ran = cause not in (Cause.NOT_STARTED, Cause.PORT, Cause.NODE)
        end = Ended(
            attempt=attempt.id,
            cause=cause,
            code=code if ran else None,
            started=attempt.started if ran else 0,
            at=UTC_AT_START + self.now,
            error=error,
        )
        return self.report(attempt.node, end)

    def sleep(self, time: int) -> None:
        """Time passes, with all that it brings; what comes of it is obeyed."""
        until = self.now + time
        for _ in range(1000):
            wakeup = self.machine.next_wakeup()
            if wakeup is None or wakeup > until:
                break
            self.step(after=max(0, wakeup - self.now))
            self.obey()
        else:
            raise AssertionError("it never comes to rest")
        self.step(after=max(0, until - self.now))
        self.obey()

    def update(self, number: int, spec: Job, *, same: bool = False) -> int:
        """An update, which must be accepted; the id of the new run."""
        template = self.machine.families[number].template if same else 0
        reply = self.step(Update(job=number, spec=spec, same_as=template)).replies[0]
        assert isinstance(reply, tuple), reply
        self.obey()
        return reply[0]

    def scale(self, number: int, tasks: int) -> None:
        reply = self.step(Scale(job=number, tasks=tasks)).replies[0]
        assert not isinstance(reply, InputError), reply
        self.obey()

    def versions(self, number: int) -> list[int]:
        """The templates of the members, by index."""
        return [member.template for _, member in sorted(self.members(number).items())]


def waits_for_restart(site: Site, number: int, index: int = 0) -> float:
    """How many seconds it is until a task that ended is started again."""
    before = site.now
    for _ in range(100):
        member = site.members(number).get(index)
        if member is not None and member.attempts:
            break
        site.wake()
    site.obey()
    return round((site.now - before) / SECOND, 1)
