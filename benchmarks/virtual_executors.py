"""Tens of thousands of executors in virtual time: the center's own loop and sessions, without sockets, processes and a
disk.

The messages are encoded and decoded as on the wire, and only the work of the center is measured: the agents are a heap
of what they do next.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.result import Result
from cress.lifecycle.inputs import Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Cause, Ended, Started
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol import messages
from cress.protocol.messages import OLDEST, PROTOCOL, Beat, Hello, Launches, Reports, Welcome
from cress.shell.center.commit import CommitLoop, InputCall, Opened
from cress.shell.center.effects import AnswerCaller, Close, Commit, Effect, Send, Session
from cress.shell.center.events import Events
from cress.shell.center.session import Sessions

COUNT = int(os.environ.get("BENCHMARK_VIRTUAL", "20000"))
# Virtual seconds in which all connect, in which nothing but beats happens, and in which tasks come.
JOIN, QUIET, BUSY = 20, 60, 20
PER_SECOND, TOGETHER = 500, 50
# What a commit takes, in virtual microseconds, and how long a task runs.
COMMIT, TASK = 3_000, 2 * SECOND
UTC = 1_700_000_000 * SECOND


class _World:
    """A center and its agents. ``spent`` is the processor time of the center, in seconds."""

    def __init__(self, count: int) -> None:
        self.now = 10 * SECOND
        self.spent = 0.0
        self.count = count
        self.epoch = 0
        self.dice = random.Random(1)
        self._order = itertools.count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._agents: dict[Session, int] = {}
        self.terms: list[int] = [0] * count
        self.ended = 0
        self.begin(Machine(Dimensions(), Options()))

    def begin(self, machine: Machine) -> None:
        """Begin an epoch with a machine; the connections of the one before are gone."""
        self.epoch += 1
        self.loop = CommitLoop(lambda _: None, lambda *_: b"")
        self.sessions = Sessions(self.loop, "virtual")
        self._agents.clear()
        machine.step(self.now, UTC + self.now, (Restarted(epoch=self.epoch),))
        opened = Opened(
            machine=machine,
            events=Events(),
            records=[],
            number=0,
            epoch=self.epoch,
            cluster="c1",
            snapshot_size=1,
            log_size=0,
            log_count=0,
        )
        self._carry_out(self.loop.began(opened))

    # --- time -------------------------------------------------------------------------------------------------------

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._due, (self.now + delay, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        end = self.now + round(seconds * SECOND)
        while self.now < end:
            self.now = min(end, self.now + COMMIT)
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            self._center(self._work)

    def _work(self) -> Sequence[Effect]:
        work = self.loop.next(self.now, UTC + self.now)
        return self.loop.committed() if isinstance(work, Commit) else ()

    def _center(self, work: Callable[[], Sequence[Effect]]) -> None:
        """Have the center do something, and carry out what follows."""
        begin = time.process_time()
        effects = work()
        sent = [(each.session, messages.encode(each.message)) for each in effects if isinstance(each, Send)]
        self.spent += time.process_time() - begin
        for session, data in sent:
            if session in self._agents:
                self._heard(session, self._agents[session], messages.decode_from_center(data))
        self._carry_out(effects)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for each in effects:
            assert not isinstance(each, Close), effects
            if isinstance(each, AnswerCaller):
                assert not isinstance(each.reply, Exception), each.reply

    # --- agents -----------------------------------------------------------------------------------------------------

    def connect(self, agent: int) -> None:
        """Have an agent register."""
        session = Session(has_sent_token=False)
        self._agents[session] = agent
        hello = messages.encode(
            Hello(
                version=messages.VERSION,
                name=f"x{agent}",
                resource="<8, 8G>",
                boot="b",
                bound=True,
                protocol=PROTOCOL,
                oldest=OLDEST,
                sent=self.now,
                attributes={"os": "x"},
            )
        )
        self._center(lambda: self.sessions.hello(session, messages.decode_from_agent(hello), self.now))

    def _send(self, session: Session, message: messages.FromAgent) -> None:
        if session not in self._agents:
            return
        data = messages.encode(message)
        self._center(lambda: self.sessions.received(session, messages.decode_from_agent(data), self.now))

    def _heard(self, session: Session, agent: int, message: messages.FromCenter) -> None:
        if isinstance(message, Welcome):
            self.terms[agent] = self.epoch
            self.after(self.dice.randrange(message.term // 3), lambda: self._beat(session, message.term // 3))
        elif isinstance(message, Launches):
            attempts = [launch.attempt for launch in message.launches]
            begun = UTC + self.now
            self.after(COMMIT, lambda: self._send(session, _started(attempts, begun)))
            self.after(TASK, lambda: self._send(session, _ended(attempts, begun)))
            self.ended += len(attempts)

    def _beat(self, session: Session, pause: int) -> None:
        if session in self._agents:
            self._send(session, Beat(sent=self.now))
            self.after(pause, lambda: self._beat(session, pause))

    def submit(self, tasks: int) -> None:
        """Submit an array of short tasks."""
        job = Job(id=0, group="", request=(1000, 0, 0, 0, 0, 0, 0), user="ann", tasks=tasks)
        self._center(lambda: self._posted(job))

    def _posted(self, job: Job) -> Sequence[Effect]:
        self.loop.post(InputCall(Submit(jobs=(job,)), [Run(job=0, command=("true",))]))
        return ()


def _started(attempts: Sequence[int], at: int) -> Reports:
    return Reports(reports=tuple(Started(attempt=each, at=at, pid=1) for each in attempts))


def _ended(attempts: Sequence[int], at: int) -> Reports:
    over = (Ended(attempt=each, cause=Cause.EXITED, code=0, started=at, at=at + TASK) for each in attempts)
    return Reports(reports=tuple(over))


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    before = _megabytes()
    world = _World(COUNT)
    about = f"{COUNT:,} executors in virtual time: "

    def phase(seconds: float) -> float:
        """Let time pass; return the processor time of the center in it."""
        spent = world.spent
        world.run(seconds)
        return world.spent - spent

    for agent in range(COUNT):
        world.after(agent * JOIN * SECOND // COUNT, lambda agent=agent: world.connect(agent))  # type: ignore[misc]
    spent = phase(JOIN + 1)
    assert len(world.loop.joined) == COUNT
    yield Result(f"{about}all registered, of a core", spent, "s")
    yield Result(f"{about}memory of the center and its agents", _megabytes() - before, "MB")
    yield Result(f"{about}beats, share of a core", phase(QUIET) / QUIET, "cores", 1)
    for number in range(BUSY * PER_SECOND // TOGETHER):
        world.after(number * SECOND * TOGETHER // PER_SECOND, lambda: world.submit(TOGETHER))
    yield Result(f"{about}{PER_SECOND} starts/s, share of a core", phase(BUSY) / BUSY, "cores", 1)
    world.run(5)
    assert world.ended == BUSY * PER_SECOND
    assert not world.loop.machine.attempts
    stored = world.loop.machine.export()
    begin = time.process_time()
    machine = Machine.restore(stored)
    world.begin(machine)
    taken = time.process_time() - begin
    for agent in range(COUNT):
        world.after(world.dice.randrange(10 * SECOND), lambda agent=agent: world.connect(agent))  # type: ignore[misc]
    spent = phase(11)
    assert world.terms == [world.epoch] * COUNT
    yield Result(f"{about}state loaded by another center", taken, "s")
    yield Result(f"{about}all back there, of a core", spent, "s")


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
