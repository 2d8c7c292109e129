"""What always holds, over random histories of a small cluster with forgetful connections."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.inputs import (
    Cancel,
    ChangeJobs,
    Configure,
    Declare,
    Drain,
    Hold,
    Input,
    NodeJoined,
    NodeLeft,
    Reported,
    Requeue,
    Restarted,
    Submit,
)
from cress.lifecycle.machine import Machine
from cress.lifecycle.replay import replay
from cress.model.changeable import CHANGEABLE
from cress.model.events import GroupsApplied, LoadSeen, NodeCordoned, PortsSeen
from cress.model.job import Condition, Job, JobPart
from cress.model.node import Load
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause, Report
from cress.model.times import SECOND
from cress.model.vectors import parse_vector
from tests.examples import examples
from tests.lifecycle.builders import DIMENSIONS, World, ended, group, job, node, started

NODES = ("n1", "n2")
OPTIONS = Options(
    grace=SECOND,
    cooling=2 * SECOND,
    cooling_above_quota=4 * SECOND,
    max_per_round=0.5,
    start_failures=4,
    start_backoff=SECOND // 2,
    backoff_most=8 * SECOND,
)


class Executors:
    """What really runs: attempts by node, ends that nobody has heard of, and who is connected."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.running: dict[str, set[int]] = {name: set() for name in NODES}
        self.known: dict[str, dict[int, Report]] = {name: {} for name in NODES}
        self.stopped: dict[str, set[int]] = {name: set() for name in NODES}
        self.connected: set[str] = set()
        # How likely it is that a program cannot be started there.
        self.broken = {name: random.choice([0.0, 0.0, 0.2, 1.0]) for name in NODES}
        self.keyed: dict[str, tuple[Submit, tuple[int, ...]]] = {}
        self.ports: dict[int, tuple[int, ...]] = {}
        # Ports that somebody has who is not a task; whether he is seen is another matter.
        self.strangers: dict[str, set[int]] = {name: set() for name in NODES}

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
            if self.random.random() < self.broken[launch.node]:
                self.known[launch.node][launch.attempt] = ended(launch.attempt, None, Cause.NOT_STARTED, ran=False)
                continue
            taken = self.strangers[launch.node].intersection(launch.ports)
            if taken:
                end = ended(launch.attempt, None, Cause.PORT, ran=False)
                self.known[launch.node][launch.attempt] = msgspec.structs.replace(end, port=min(taken))
                seen["port"] += 1
                continue
            used = {port for attempt in self.running[launch.node] for port in self.ports[attempt]}
            assert not used.intersection(launch.ports), f"a port of {launch} is given twice"
            self.ports[launch.attempt] = launch.ports
            self.running[launch.node].add(launch.attempt)
            self.known[launch.node][launch.attempt] = started(launch.attempt)
        for halt in world.last.halts:
            if halt.node in self.connected:
                self.stopped[halt.node].add(halt.attempt)
                if halt.attempt in self.running[halt.node]:
                    self.end(halt.node, halt.attempt, -15, Cause.STOPPED)
                else:
                    self.known[halt.node].setdefault(halt.attempt, ended(halt.attempt, None, Cause.STOPPED, ran=False))

    def _key(self, machine: Machine, attempt: int) -> tuple[int, int] | None:
        live = machine.attempts.get(attempt)
        return None if live is None else (live.job, live.task)

    def end(self, name: str, attempt: int, code: int, cause: Cause) -> None:
        self.running[name].discard(attempt)
        self.known[name][attempt] = ended(attempt, code, cause)

    def some_end(self, name: str) -> None:
        for attempt in sorted(self.running[name]):
            if self.random.random() < 0.5:
                code = self.random.choice([0, 0, 1, 1])
                self.end(name, attempt, code, Cause.EXITED)

    def next_input(self, world: World) -> Input:
        random = self.random
        name = random.choice(NODES)
        roll = random.random()
        some_job = random.randrange(1, world.machine.next_job + 1)
        if roll < 0.3:
            return self.submit(world)
        if roll < 0.36:
            return Cancel(job=some_job)
        if roll < 0.45:
            held = random.random() < 0.4
            return Hold(job=some_job, held=held, by="eve") if roll < 0.43 else self.change(some_job)
        if roll < 0.48:
            return Drain(name=name, deadline=random.choice([0, SECOND, 3 * SECOND, None]), reason="disk")
        if roll < 0.53:
            return NodeCordoned(name=name, cordoned=random.random() < 0.2)
        if roll < 0.56 and name in self.connected:
            self.strangers[name] = set(random.sample((80, 20_000, 20_001), random.randint(0, 2)))
            return self.look(name)
        if 0.559 <= roll < 0.563:
            return Declare(dimensions=(random.choice(("gpu", "fpga", "slots")),))
        if 0.563 <= roll < 0.58:
            return LoadSeen(name=name, load=Load(cpu=random.choice((0, 850, 1000)), free_memory=2**40))
        if roll < 0.6 and name in self.connected:
            self.connected.discard(name)
            return NodeLeft(name=name)
        if roll < 0.62:
            self.connected.clear()
            return Restarted(epoch=world.machine.epoch + 1)
        if roll < 0.65:
            # The jobs of the group that is removed go to the other one.
            names = random.choice([("a", "b"), ("a",), ("b",)])
            moves = tuple((each, names[0]) for each in ("a", "b") if each not in names)
            if roll < 0.63:
                changed = random.choice(
                    (
                        {"grace": SECOND},
                        {"drain_after": SECOND},
                        {"preempt_below": 0.5},
                        {"node_order": "best_fit"},
                        {"node_order": "balance"},
                    )
                )
                options = dataclasses.replace(world.machine.core.options, **changed)
                groups = tuple(group(each, 4) for each in names)
                return Configure(options=options, licences=(("x", 1),), groups=groups, moves=moves, by="eve")
            return GroupsApplied(groups=tuple(group(each, 4) for each in names), moves=moves)
        if name not in self.connected:
            self.connected.add(name)
            known = tuple(self.known[name].values())
            return NodeJoined(node=node(name), boot="b", reports=known, ports=self.look(name).ports)
        self.some_end(name)
        reports = [report for report in self.known[name].values() if random.random() < 0.9]
        return Reported(node=name, reports=tuple(reports))

    def change(self, number: int) -> Input:
        """A change of a job, or an order to let its tasks wait again; often one that is refused."""
        random = self.random
        if random.random() < 0.2:
            return Requeue(jobs=(number,), hold=random.random() < 0.3, by="eve")
        values = {
            "priority": random.randint(-5, 5),
            "time_limit": random.choice((None, SECOND, 100 * SECOND)),
            "max_running": random.choice((0, 1, 2)),
            "retries": random.randint(0, 3),
            "group": random.choice(("a", "b")),
            "resource": parse_vector(random.choice(("<1, 1G>", "<2, 1G>")), DIMENSIONS),
            "requirement": random.choice(("", 'Name = "n1"', 'f(x) = (Waittime > 1s) && Name = "n2"')),
            "labels": random.choice(((), (("tier", "web"),))),
        }
        keys = tuple(random.sample(sorted(values), random.choice((1, 1, 2))))
        fields = {CHANGEABLE[key].field: values[key] for key in keys}
        return ChangeJobs(jobs=(number,), values=msgspec.structs.replace(job(), **fields), keys=keys, by="eve")

    def look(self, name: str) -> PortsSeen:
        """What can be seen of the strangers on a node."""
        return PortsSeen(
            name=name, ports=tuple(port for port in sorted(self.strangers[name]) if self.random.random() < 0.6)
        )

    def submit(self, world: World) -> Submit:
        """One to three jobs, some after others; now and then a submit that was sent before."""
        random = self.random
        if self.keyed and random.random() < 0.2:
            return self.keyed[random.choice(sorted(self.keyed))][0]
        count = random.choice([1, 1, 2, 3])
        jobs = tuple(self.some_job(world, place, count) for place in range(count))
        known = tuple((number, record.state) for number, record in sorted(world.over.items()))
        key = f"key {len(self.keyed)}" if random.random() < 0.3 else ""
        submit = Submit(jobs=jobs, known=known, key=key, digest=key)
        if key:
            self.keyed[key] = (submit, ())
        return submit

    def some_job(self, world: World, place: int, count: int) -> Job:
        random = self.random
        tasks = random.randint(1, 5)
        after: dict[int, Condition] = {}
        for _ in range(random.choice([0, 0, 1, 2])):
            # Mostly in the order of the submit, sometimes in a circle; or a job of an earlier one.
            others = [-other - 1 for other in range(count) if other < place or random.random() < 0.1]
            others += random.sample(range(1, world.machine.next_job), min(2, world.machine.next_job - 1))
            if others:
                after[random.choice(others)] = random.choice([Condition.OK, Condition.ANY, Condition.FAILED])
        made = job(
            tasks,
            cpus=random.randint(1, 3),
            group=random.choice([each.name for each in world.machine.core.groups.configured]),
            gang=tasks * 3 <= 6 and random.random() < 0.4,
            retries=random.choice([0, 0, 1, 3]),
            backoff=random.choice([0, SECOND, 3 * SECOND]),
            hold=random.random() < 0.1,
            after=tuple(after.items()),
            ports=random.choice(((), (), (("web", 80),), (("a", 0),), (("a", 0), ("b", 0)))),
        )
        if not made.gang or tasks == 1 or random.random() < 0.5:
            return made
        # A gang whose first task asks for one core only.
        less = parse_vector("<1, 1G>", DIMENSIONS)
        parts = (
            JobPart(name="first", tasks=1, request=less),
            JobPart(name="rest", tasks=tasks - 1, request=made.request),
        )
        return msgspec.structs.replace(made, parts=parts, request=less)

    def remember(self, world: World, each: Input) -> None:
        """A submit that was sent before is answered as before."""
        reply = world.last.replies[0]
        if isinstance(each, Submit) and each.key:
            if not isinstance(reply, tuple):
                del self.keyed[each.key]
                return
            before = self.keyed[each.key][1]
            assert before in ((), reply), f"{each.key}: {before}, then {reply}"
            assert bool(before) == bool(world.last.repeated)
            self.keyed[each.key] = (each, reply)


# What the histories came by.
seen: Counter[str] = Counter()


def under_way(machine: Machine) -> set[str]:
    """What is under way, of the things that a state must not forget."""
    return {
        name
        for name, there in {
            "backoff": bool(machine.core.books.later),
            "hold": any(job.held for job in machine.jobs.values()),
            "after": bool(machine.behind),
            "task to task": bool(machine.behind_tasks),
            "rest": any(kind == "rest" for kind, _ in machine.timers.times),
            "drain": any(kind == "drain" for kind, _ in machine.timers.times),
            "answers": bool(machine.answers),
        }.items()
        if there
    }


def test_histories() -> None:
    """No task runs twice; a restored machine and a replayed log say the same; in the end everything is over."""

    @examples(12)
    @given(seed=st.integers(0, 100_000), cut=st.integers(1, 60))
    def check(seed: int, cut: int) -> None:
        history(seed, cut)

    check()


def test_some_histories_come_by_everything() -> None:
    for each in (77, 92):
        history(each, 30)
    missing = {"backoff", "hold", "after", "rest", "drain", "answers", "never started", "never", "port"} - seen.keys()
    assert not missing, f"no history came by {missing}"
    assert seen["declared"], "no history declared a dimension"


class TaskToTask(Executors):
    """Jobs of a few tasks each, many of which wait for single tasks."""

    made: tuple[Job, ...] = ()

    def some_job(self, world: World, place: int, count: int) -> Job:
        made = super().some_job(world, place, count)
        firsts = {-other: job for other, job in enumerate(self.made[:place], 1)}
        self.made = (*self.made[:place], made)
        newest = world.machine.jobs.get(max(world.machine.jobs, default=0))
        if newest is not None:
            firsts[newest.job.id] = newest.job
        fitting = [number for number, job in firsts.items() if not job.gang and job.tasks >= made.tasks]
        if made.gang or not fitting:
            return made
        first = self.random.choice(fitting)
        others = tuple(pair for pair in made.after if pair[0] != first)
        return msgspec.structs.replace(made, after=(*others, (first, Condition.TASKS)))


def test_histories_of_jobs_whose_tasks_wait_for_single_tasks() -> None:
    before = seen.pop("task to task", None)
    for each in (1, 2):
        history(each, 30, kind=TaskToTask)
    assert seen["task to task"], before


def history(seed: int, cut: int, options: Options = OPTIONS, kind: type[Executors] = Executors) -> None:
    """Sixty random inputs; after ``cut`` of them a second machine goes on from the state of the first."""
    random = Random(seed)
    world = World(options, followed=True)
    world.step(GroupsApplied(groups=(group("a", 4), group("b", 4))))
    executors = kind(random)
    twin: Machine | None = None
    for number in range(60):
        if number == cut:
            seen.update(under_way(world.machine))
            twin = Machine.restore(world.machine.export())
            assert twin.export() == world.machine.export()
            learn(twin, world.machine)
            world.machine, twin = twin, world.machine
        said = len(world.said)
        each = executors.next_input(world)
        world.step(each, after=random.randint(1, 2 * SECOND))
        executors.remember(world, each)
        seen["declared"] += isinstance(each, Declare) and not world.last.repeated
        if twin is not None:
            for step in world.said[said:]:
                twin.step(*step)
            assert twin.export() == world.machine.export()
            assert twin.next_wakeup() == world.machine.next_wakeup()
        executors.obey(world)
    settle(world, executors)
    replayed = Machine.restore(Machine(DIMENSIONS, options).export())
    assert replay(replayed, world.records) is None
    assert replayed.export() == world.machine.export()


def learn(one: Machine, other: Machine) -> None:
    """Let one machine know of earlier runs what another one does: that is not of its state, since estimates are
    facts.
    """
    known = {name: value for name, value in vars(other.estimator).items() if name != "_settled"}
    vars(one.estimator).update(copy.deepcopy(known))


def settle(world: World, executors: Executors) -> None:
    """With everyone connected, everything released and everything reported, all jobs come to an end."""
    for name in NODES:
        if name not in executors.connected:
            executors.connected.add(name)
            world.join(name, reports=tuple(executors.known[name].values()))
            executors.obey(world)
    executors.broken = dict.fromkeys(NODES, 0.0)
    for name in NODES:
        executors.strangers[name].clear()
        world.step(executors.look(name))
        executors.obey(world)
        world.step(NodeCordoned(name=name, cordoned=False))
        executors.obey(world)
    for number in [number for number, live in world.machine.jobs.items() if live.held and not live.ending]:
        world.hold(number, held=False)
        executors.obey(world)
    for name in world.machine.nodes:
        world.step(LoadSeen(name=name, load=None))
        executors.obey(world)
    for _ in range(400):
        if not world.machine.jobs:
            break
        for name in NODES:
            for attempt in sorted(executors.running[name]):
                executors.end(name, attempt, 0, Cause.EXITED)
            # A port that was taken counts as taken until its node says otherwise.
            word = Reported(node=name, reports=tuple(executors.known[name].values()))
            world.step(word, executors.look(name), after=SECOND)
            executors.obey(world)
            if world.machine.nodes[name].rest and not world.machine.timers.get("rest", name):
                # What nobody had heard of has closed it: somebody looks at it again.
                world.step(NodeCordoned(name=name, cordoned=False))
                executors.obey(world)
    assert not world.machine.jobs, [world.machine.reason(number) for number in world.machine.jobs]
    assert not world.machine.attempts
    assert not world.machine.behind
    assert not any(executors.running.values())
    assert sorted(world.over) == list(range(1, world.machine.next_job)), "a job has no record, or two"
    for record in world.over.values():
        seen["never started"] += record.reason.startswith("a program of it could not") and record.failed > 1
        seen["never"] += record.reason.startswith("dependency failed")
        assert record.succeeded + record.failed + record.cancelled == record.tasks
        assert (record.state is JobState.SUCCEEDED) == (record.succeeded == record.tasks)
