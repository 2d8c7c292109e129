"""What always holds, over random histories of a small cluster with forgetful connections."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.inputs import (
    ApplyGroups,
    Cancel,
    Input,
    NodeJoined,
    NodeLeft,
    Record,
    Reported,
    Restarted,
    Submit,
    decode_record,
    encode_record,
)
from cress.lifecycle.machine import Machine
from cress.model.options import Options
from cress.model.reports import Cause, Report
from cress.model.times import SECOND
from tests.lifecycle.builders import World, ended, group, job, node, started

NODES = ("n1", "n2")
OPTIONS = Options(grace=SECOND, cooling=2 * SECOND, cooling_above_quota=4 * SECOND, max_per_round=0.5)


class Executors:
    """What really runs: attempts by node, ends that nobody has heard of, and who is connected."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.running: dict[str, set[int]] = {name: set() for name in NODES}
        self.known: dict[str, dict[int, Report]] = {name: {} for name in NODES}
        self.stopped: dict[str, set[int]] = {name: set() for name in NODES}
        self.connected: set[str] = set()

    def obey(self, world: World) -> None:
        """Orders reach those who are connected; the others never hear of them."""
        machine = world.machine
        for launch in world.last.launches:
            if launch.node not in self.connected or launch.attempt in self.known[launch.node]:
                continue
            if launch.attempt in self.stopped[launch.node]:
                continue
            key = (launch.job, launch.task)
            others = [a for name in NODES for a in self.running[name] if self._key(machine, a) == key]
            assert not others, f"task {key} runs twice"
            self.running[launch.node].add(launch.attempt)
            self.known[launch.node][launch.attempt] = started(launch.attempt)
        for halt in world.last.halts:
            if halt.node in self.connected:
                self.stopped[halt.node].add(halt.attempt)
                if halt.attempt in self.running[halt.node]:
                    self._end(halt.node, halt.attempt, -15, Cause.STOPPED)
                else:
                    self.known[halt.node].setdefault(halt.attempt, ended(halt.attempt, None, Cause.STOPPED, ran=False))

    def _key(self, machine: Machine, attempt: int) -> tuple[int, int] | None:
        live = machine.attempts.get(attempt)
        return None if live is None else (live.job, live.task)

    def _end(self, name: str, attempt: int, code: int, cause: Cause) -> None:
        self.running[name].discard(attempt)
        self.known[name][attempt] = ended(attempt, code, cause)

    def some_end(self, name: str) -> None:
        for attempt in sorted(self.running[name]):
            if self.random.random() < 0.5:
                code = self.random.choice([0, 0, 1])
                self._end(name, attempt, code, Cause.EXITED)

    def next_input(self, world: World) -> Input:
        random = self.random
        name = random.choice(NODES)
        roll = random.random()
        if roll < 0.3:
            return Submit(jobs=(job(random.randint(1, 5), cpus=random.randint(1, 3), group=random.choice(["a", "b"])),))
        if roll < 0.4:
            return Cancel(job=random.randrange(1, world.machine.next_job + 1))
        if roll < 0.5 and name in self.connected:
            self.connected.discard(name)
            return NodeLeft(name=name)
        if roll < 0.53:
            self.connected.clear()
            return Restarted(epoch=world.machine.epoch + 1)
        if name not in self.connected:
            self.connected.add(name)
            return NodeJoined(node=node(name), boot="b", reports=tuple(self.known[name].values()))
        self.some_end(name)
        reports = [report for report in self.known[name].values() if random.random() < 0.9]
        return Reported(node=name, reports=tuple(reports))


@given(seed=st.integers(0, 10_000), cut=st.integers(1, 60))
def test_histories(seed: int, cut: int) -> None:
    """No task runs twice; a restored machine and a replayed log say the same; in the end everything is over."""
    random = Random(seed)
    world = World(OPTIONS)
    world.step(ApplyGroups(groups=(group("a", 4), group("b", 4))))
    executors = Executors(random)
    twin: Machine | None = None
    for number in range(60):
        if number == cut:
            twin = Machine.restore(world.machine.export())
            world.machine, twin = twin, world.machine
        said = len(world.said)
        world.step(executors.next_input(world), after=random.randint(1, SECOND))
        if twin is not None:
            for step in world.said[said:]:
                twin.step(*step)
            assert twin.export() == world.machine.export()
        executors.obey(world)
    replayed = Machine.restore(Machine(world.machine.core.dimensions, OPTIONS).export())
    for now, utc, inputs in world.said:
        record = decode_record(encode_record(Record(now, utc, inputs)))
        replayed.step(record.now, record.utc, record.inputs)
    assert replayed.export() == world.machine.export()
    settle(world, executors)


def settle(world: World, executors: Executors) -> None:
    """With everyone connected and everything reported, all jobs come to an end."""
    for name in NODES:
        if name not in executors.connected:
            executors.connected.add(name)
            world.join(name, reports=tuple(executors.known[name].values()))
            executors.obey(world)
    for _ in range(200):
        if not world.machine.jobs:
            break
        for name in NODES:
            for attempt in sorted(executors.running[name]):
                executors._end(name, attempt, 0, Cause.EXITED)
            world.step(Reported(node=name, reports=tuple(executors.known[name].values())), after=SECOND)
            executors.obey(world)
    assert not world.machine.jobs
    assert not world.machine.attempts
    assert not any(executors.running.values())
