"""What always holds of services and databases, over random histories of a small cluster that loses orders and nodes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cress.lifecycle.inputs import Hold, Input, NodeDead, NodeJoined, NodeLeft, Reported, Restarted, Scale, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.model.family import Service
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Cause, Checked, Ended, Report
from cress.model.times import MINUTE, SECOND
from tests.examples import examples
from tests.lifecycle.builders import UTC_AT_START, World, ended, node, started
from tests.lifecycle.kept import database, service

NODES = ("n1", "n2", "n3")
OPTIONS = Options(start_backoff=SECOND, backoff_most=10 * SECOND, start_rest_most=10 * SECOND)
TIMEOUT = 20 * SECOND

# What the histories came by.
seen: Counter[str] = Counter()


class Cluster:
    """What really runs, and whose task it is; ``bad`` are the versions (templates) whose tasks never get ready."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.world = World(OPTIONS, followed=True)
        self.running: dict[int, tuple[str, int, int]] = {}
        self.ends: dict[str, dict[int, Ended]] = {name: {} for name in NODES}
        self.connected: set[str] = set()
        self.bad: set[int] = set()
        # Indices that updates took out, and those that had nothing to lose and won, by family.
        self.taken: dict[int, set[int]] = {}
        self.freed: dict[int, set[int]] = {}

    @property
    def machine(self) -> Machine:
        return self.world.machine

    def step(self, *inputs: Input, after: int = 1000) -> None:
        """A step, what must hold after it, and the orders that come of it, of which some are lost."""
        before = {
            (number, index): (member, bool(self.machine.jobs[member].attempts))
            for number, family in self.machine.families.items()
            for index, member in family.members.items()
            if not self.machine.jobs[member].ending
        }
        self.world.step(*inputs, after=after)
        for (number, index), (member, had) in before.items():
            self._watch(number, index, member, had=had)
        for number, family in self.machine.families.items():
            self._check(number, family)
        for launch in self.world.last.launches:
            known = launch.attempt in self.running or launch.attempt in self.ends[launch.node]
            if launch.node in self.connected and not known and self.random.random() < 0.95:
                self._start(launch.attempt, launch.node, launch.job)
        for halt in self.world.last.halts:
            if halt.node in self.connected and self.random.random() < 0.95:
                self.end(halt.node, halt.attempt, -15, Cause.STOPPED)

    def _start(self, attempt: int, where: str, member: int) -> None:
        job = self.machine.jobs.get(member)
        if job is None:
            return
        task = (job.job.family, job.index)
        others = [each for each, (_, *whose) in self.running.items() if tuple(whose) == task]
        assert not others, f"task {task} runs twice"
        self.running[attempt] = (where, *task)

    def _watch(self, number: int, index: int, member: int, *, had: bool) -> None:
        """Who was taken out by an update."""
        family = self.machine.families.get(number)
        job = self.machine.jobs.get(member) or self.world.over.get(member)
        if family is None or job is None or job.reason != "replaced by a new version":
            return
        (self.taken if had else self.freed).setdefault(number, set()).add(index)

    def _check(self, number: int, family: Family) -> None:
        if not isinstance(family.state, ReplicaState) or family.cancelling:
            return
        up = self.up(family)
        taken, freed = self.taken.get(number, set()), self.freed.get(number, set())
        taken -= {index for index in taken if index in up or index >= family.job.tasks}
        most = family.job.plan.max_unavailable if isinstance(family.job.plan, Service) else 1
        won = len((freed | set(family.state.gained)) & up)
        assert len(taken - freed - set(family.state.parked)) <= most + won, f"{taken} of {number} are out at once"
        seen["updating"] += bool(taken)
        seen["returned"] += bool(family.state.failed)
        seen["freed"] += bool(freed)

    def up(self, family: Family) -> set[int]:
        """The indices that are ready."""
        found = set()
        for index, number in family.members.items():
            member = self.machine.jobs[number]
            if any(each.ready_at is not None and not each.halted for each in member.attempts.values()):
                found.add(index)
        return found

    def end(self, where: str, attempt: int, code: int | None, cause: Cause) -> None:
        """An attempt is over, or was never started."""
        ran = self.running.pop(attempt, None) is not None
        self.ends[where].setdefault(attempt, ended(attempt, code if ran else None, cause, ran=ran))

    def reports(self, where: str, share: float = 1.0) -> tuple[Report, ...]:
        """What an executor says: all that it knows, or a part of it; how its tasks are."""
        found: list[Report] = []
        for attempt, (at, family, _) in self.running.items():
            if at == where and self.random.random() < share:
                live = self.machine.attempts.get(attempt)
                version = self.machine.jobs[live.job].template if live is not None else 0
                well = version not in self.bad and family in self.machine.families
                found += [
                    started(attempt),
                    Checked(
                        attempt=attempt, at=UTC_AT_START + self.world.now, ready=well and self.random.random() < 0.9
                    ),
                ]
        return (*found, *(each for each in self.ends[where].values() if self.random.random() < share))

    def something(self) -> list[Input]:
        """What happens next."""
        random, roll = self.random, self.random.random()
        where = random.choice(NODES)
        families = [number for number, family in self.machine.families.items() if not family.cancelling]
        if where not in self.connected and roll < 0.5:
            self.connected.add(where)
            return [NodeJoined(node=node(where, 12), boot="b", reports=self.reports(where))]
        if roll < 0.06 and where in self.connected:
            self.connected.discard(where)
            return [NodeLeft(name=where)]
        if roll < 0.1 and where in self.machine.nodes and where not in self.connected:
            for attempt in [each for each, (at, *_) in self.running.items() if at == where]:
                del self.running[attempt]
            self.ends[where].clear()
            return [NodeDead(name=where, forget=random.random() < 0.3)]
        if roll < 0.12:
            self.connected.clear()
            return [Restarted(epoch=self.machine.epoch + 1)]
        if families and roll < 0.2:
            return [Scale(job=random.choice(families), tasks=random.randint(0, 5))]
        if families and roll < 0.24:
            return [Hold(job=random.choice(families), held=random.random() < 0.3, by="eve")]
        if families and roll < 0.34:
            number = random.choice(families)
            if random.random() < 0.4:
                self.bad.add(self.machine.next_job)
            return [Update(job=number, spec=self.changed(number))]
        for attempt, (at, *_) in list(self.running.items()):
            if random.random() < 0.1:
                self.end(at, attempt, random.choice([0, 1, 1]), Cause.EXITED)
        return [Reported(node=each, reports=self.reports(each, 0.7)) for each in sorted(self.connected)]

    def changed(self, number: int) -> Job:
        """A new version, with other settings now and then; ``max_unavailable`` stays, or what is out is no measure."""
        family = self.machine.families[number]
        plan = family.job.plan
        make = service if isinstance(plan, Service) else database
        more: dict[str, Any] = {"max_unavailable": plan.max_unavailable} if isinstance(plan, Service) else {}
        return make(
            family.job.tasks,
            checked=True,
            update_timeout=TIMEOUT,
            backoff=SECOND,
            priority=self.random.randint(0, 5),
            **more,
        )


def history(seed: int, cut: int) -> None:
    """Eighty random inputs; after ``cut`` of them a second machine goes on from the state of the first."""
    random = Random(seed)
    cluster = Cluster(random)
    jobs = (
        service(
            random.randint(1, 5),
            checked=True,
            backoff=SECOND,
            update_timeout=TIMEOUT,
            max_unavailable=random.choice([1, 2]),
        ),
        database(random.randint(1, 3), checked=True, backoff=SECOND, update_timeout=TIMEOUT, move_after=MINUTE),
    )
    numbers = cluster.world.submit(*jobs)
    twin: Machine | None = None
    for count in range(80):
        if count == cut:
            twin = Machine.restore(cluster.machine.export())
            cluster.world.machine, twin = twin, cluster.machine
        said = len(cluster.world.said)
        cluster.step(*cluster.something(), after=random.randint(1, 10 * SECOND))
        if twin is not None:
            for each in cluster.world.said[said:]:
                twin.step(*each)
            assert twin.export() == cluster.machine.export()
    quiet(cluster)
    for number in numbers:
        family = cluster.machine.families[number]
        state = family.state
        assert isinstance(state, ReplicaState)
        if family.template in cluster.bad:
            # A bad version stays only where there was none before it that was good.
            assert state.good is None or not family.job.tasks
            continue
        assert is_whole(cluster, family), cluster.machine.reason(number)
        seen["good"] += state.good is not None and state.good.template == family.template


def is_whole(cluster: Cluster, family: Family) -> bool:
    """Whether it has exactly the tasks that are wanted, all ready and of its newest version."""
    wanted = set(range(family.job.tasks))
    versions = {cluster.machine.jobs[each].template for each in family.members.values()}
    return family.members.keys() == wanted == cluster.up(family) and versions <= {family.template}


def quiet(cluster: Cluster) -> None:
    """Everyone is there, nothing is lost any more, nothing fails, and time passes."""
    random = cluster.random
    for name in NODES:
        if name not in cluster.connected:
            cluster.connected.add(name)
            cluster.step(NodeJoined(node=node(name, 12), boot="b", reports=cluster.reports(name)))
    cluster.step(*(Hold(job=number, held=False) for number in cluster.machine.families))
    random.random = lambda: 0.5  # type: ignore[method-assign]  # no order is lost, no task falls ill
    calm = 0
    for _ in range(60):
        calm = calm + 1 if all(is_whole(cluster, each) for each in cluster.machine.families.values()) else 0
        if calm == 3:
            return
        for name in NODES:
            # Orders that were lost are given again when the node joins again.
            cluster.step(NodeLeft(name=name))
            cluster.step(NodeJoined(node=node(name, 12), boot="b", reports=cluster.reports(name)), after=4 * SECOND)


_SEEDS, _CUTS = st.integers(0, 100_000), st.integers(1, 80)


@examples(3)
@given(seed=_SEEDS, cut=_CUTS)
def test_histories(seed: int, cut: int) -> None:
    """No task runs twice; updates take out as many as they may; in the end all is as it is wanted."""
    history(seed, cut)


@pytest.mark.long
def test_many_histories() -> None:
    @settings(max_examples=200)
    @given(seed=_SEEDS, cut=_CUTS)
    def check(seed: int, cut: int) -> None:
        history(seed, cut)

    check()
    missing = {"updating", "returned", "good", "freed"} - {name for name, count in seen.items() if count}
    assert not missing, f"no history came by {missing}"
