"""A machine whose steps are recorded in event files, as a center does: with restarts, new files and damage."""

from __future__ import annotations

from pathlib import Path

from cress.center.keeping.event_log import EventLog
from cress.lifecycle.effects import StepResult
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import Cancel, Input, NodeDead, NodeJoined, NodeLeft, Reported, Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import decode_record, encode_record, record_of
from cress.model.events import GroupsApplied
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Cause, Ended, Started
from cress.model.times import SECOND
from tests.lifecycle.builders import DIMENSIONS, group, job, node

UTC = 1_700_000_000 * SECOND


class Recorder:
    """A cluster in virtual time; ``at`` is its time in seconds since its beginning."""

    def __init__(self, folder: Path, options: Options | None = None, *, nodes: int = 2, cpus: int = 4) -> None:
        self.folder = folder
        self.machine = Machine(DIMENSIONS, options or Options())
        self.log = EventLog(folder / "events")
        self.records: list[bytes] = []
        self.now = 0
        self.log.open(0, [], self.machine.export, UTC)
        self._base, self._behind = self.machine.export(), list[bytes]()
        # The number of records, and that of those in the snapshot from which a center would go on.
        self.number = self.loaded = 0
        self.step(Restarted(epoch=1), *(NodeJoined(node=node(f"n{i}", cpus), boot="b") for i in range(1, nodes + 1)))
        self.step(GroupsApplied(groups=(group("ads", 4), group("web", 4)), by="root"))

    def step(self, *inputs: Input, after: float = 1.0) -> StepResult:
        """Take a step ``after`` seconds later, and all that follow at once."""
        self.now += round(after * SECOND)
        first = step = self._step(*inputs, *self._stopped(inputs))
        while step.more:
            step = self._step()
            first.replies += step.replies
        return first

    def _stopped(self, inputs: tuple[Input, ...]) -> list[Input]:
        """Return the reports of attempts that were told to stop earlier."""
        gone = {one.name for one in inputs if isinstance(one, NodeLeft)}
        told = {report.attempt for one in inputs if isinstance(one, Reported) for report in one.reports}
        at = UTC + self.now
        return [
            Reported(
                node=one.node,
                reports=(Ended(attempt=one.id, cause=Cause.STOPPED, code=-15, started=one.placed, at=at),),
            )
            for one in self.machine.attempts.values()
            if one.halted and one.node not in gone and one.id not in told and self.machine.nodes[one.node].connected
        ]

    def _step(self, *inputs: Input) -> StepResult:
        utc = UTC + self.now
        step = self.machine.step(self.now, utc, inputs)
        record = encode_record(record_of(self.now, utc, inputs, step.facts))
        self._behind.append(record)
        self.number += 1
        self.log.append(record)
        return step

    def submit(self, *jobs: Job, after: float = 1.0) -> list[int]:
        """Submit jobs; return their ids."""
        reply = self.step(Submit(jobs=jobs), after=after).replies[0]
        assert isinstance(reply, tuple), reply
        return list(reply)

    def end(self, number: int, code: int = 0, *, after: float = 1.0) -> None:
        """Let all running tasks of a job end."""
        at = UTC + self.now + round(after * SECOND)
        attempts = list(self.machine.jobs[number].attempts.values())
        told = [
            Reported(
                node=one.node,
                reports=(
                    Started(attempt=one.id, at=one.placed, pid=7),
                    Ended(attempt=one.id, cause=Cause.EXITED, code=code, started=one.placed, at=at),
                ),
            )
            for one in attempts
        ]
        self.step(*told, after=after)

    def cancel(self, number: int, by: str = "ann") -> None:
        """Cancel a job."""
        self.step(Cancel(job=number, by=by))

    def lose(self, name: str, after: float = 1.0) -> None:
        """Lose a node."""
        self.step(NodeLeft(name=name), NodeDead(name=name), after=after)

    def join(self, name: str, cpus: int = 4, after: float = 1.0) -> None:
        """Let a node join."""
        self.step(NodeJoined(node=node(name, cpus), boot="c"), after=after)

    def read_again(self) -> None:
        """Go on with the stored state, as a center does after a failure: nothing that was foreseen is left."""
        follower = Follower.restore(self._base)
        for data in self._behind:
            follower.apply(decode_record(data))
        self.machine = follower.machine()

    def restart(self) -> None:
        """Kill the center and start it again; its nodes come back."""
        names = [name for name, known in self.machine.nodes.items() if known.connected]
        self.read_again()
        self.step(Restarted(epoch=self.machine.general.epoch + 1, loaded=self.loaded))
        reports = {name: [one for one in self.machine.attempts.values() if one.node == name] for name in names}
        self.step(
            *(
                NodeJoined(
                    node=self.machine.nodes[name].node,
                    boot="b",
                    reports=tuple(Started(attempt=one.id, at=one.placed, pid=7) for one in reports[name]),
                )
                for name in names
            )
        )

    def snapshot(self) -> None:
        """Store a snapshot, from which a center goes on, and no new event file."""
        self._base, self._behind, self.loaded = self.machine.export(), [], self.number

    def new_file(self) -> None:
        """Begin a new event file with the state of now."""
        self.log.begin(self.machine.export(), UTC + self.now)

    def close(self) -> Path:
        """Close the log; return the data directory."""
        self.log.sync()
        self.log.close()
        return self.folder


def busy_day(folder: Path, *, files: int = 2) -> Path:
    """Record a day with waiting, preemption, a failure, a cancellation, a lost node and a restart."""
    it = Recorder(folder)
    (long,) = it.submit(job(8, group="ads", name="long", time_limit=600 * SECOND))
    (web,) = it.submit(job(2, group="web", name="page", user="bob", time_limit=60 * SECOND))
    it.step(after=5)
    it.step(after=35)
    it.end(web, after=15)
    if files > 1:
        it.new_file()
    it.step()
    (gang,) = it.submit(job(2, group="web", name="gang", user="bob", gang=True, time_limit=100 * SECOND))
    it.step(after=20)
    it.step(after=5)
    it.restart()
    (dropped,) = it.submit(job(1, cpus=4, group="ads", name="dropped"))
    it.cancel(dropped)
    it.step(after=30)
    for number in (gang, long):
        if number in it.machine.jobs and it.machine.jobs[number].attempts:
            it.end(number, after=10)
    it.lose("n2", after=100)
    (last,) = it.submit(job(1, group="web", name="last"))
    it.end(last, 3, after=20)
    it.join("n2", after=100)
    it.step(after=1)
    return it.close()
