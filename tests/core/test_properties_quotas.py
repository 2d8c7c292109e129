"""With constant demand every group comes to its quota, on every level of a tree, and then nobody is preempted any
more.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from cress.core.groups.guarantees import charge_of_tasks
from cress.core.jobs import GroupState
from cress.core.scheduler import Scheduler
from cress.core.victims_by_kind import rights_of
from cress.model.decisions import Preempt
from cress.model.events import Event, GroupsApplied, JobSubmitted, NodeAdded, Outcome, TaskEnded
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from tests.core.test_undone import OPTIONS

GIB = 2**30
KINDS = ("A100", "T4")
SORTS = ("cores", "wide cores", "vectors", "kinds")
# Until then demand comes; nobody is preempted after QUIET.
COME, QUIET, END = 1200 * SECOND, 4000 * SECOND, 6000 * SECOND


class Constant:
    """A random world: endless tasks, quotas that sum to the cluster, groups in a tree of up to four levels."""

    def __init__(self, seed: int, sort: str, *, mixed: bool = False) -> None:
        self.rng = Random(f"{seed} {sort}")
        self.sort = sort
        self.dimensions = Dimensions(("gpu",)) if sort == "kinds" else Dimensions()
        accounting = "dominant" if sort in ("vectors", "kinds") else "cpu"
        # With ``mixed``: any policies and options.
        self.mixed = Random(f"mixed {seed} {sort}") if mixed else None
        self.core = Scheduler(self.dimensions, Options(preemption="on", accounting=accounting, **self._options()))
        self.now = 0
        # When the tasks end that were told to stop.
        self.stopping: dict[int, int] = {}
        self.preempted: list[int] = []
        self.coming: list[tuple[int, Job]] = []
        quotas = [self.rng.choice((1, 2, 3, 5, 10, 12, 20)) for _ in range(self.rng.randint(2, 8))]
        if self.rng.random() < 0.4:
            quotas = [self.rng.choice((5, 10, 20))] * len(quotas)
        groups = tuple(map(self._mixed, self._tree(quotas)))
        self.observe([GroupsApplied(groups), *self._nodes(sum(quotas))])
        for name in self.rng.sample([f"g{i}" for i in range(len(quotas))], self.rng.randint(1, len(quotas))):
            self._ask(name)
        self.coming.sort(key=lambda each: (each[0], each[1].id))

    def _options(self) -> dict[str, Any]:
        rng = self.mixed
        if rng is None:
            return {}
        return {
            "drain_after": rng.choice([1, 60, 600]) * SECOND,
            "behind_blocked": rng.choice(["reserve", "quota_only"]),
            "order": rng.choice(["share", "urgency", "deadline"]),
            "max_per_round": rng.choice([0.1, 1.0]),
        }

    def _mixed(self, group: Group) -> Group:
        rng = self.mixed
        if rng is None:
            return group
        chosen = {key: rng.choice(values) for key, values in OPTIONS.items() if rng.random() < 0.2}
        return msgspec.structs.replace(
            group,
            policy=rng.choice(list(SchedPolicy)),
            options=tuple(chosen.items()),
            preempt_priority=rng.choice([0, 0, 0, -5, 5]),
            weight=rng.choice([1, 1, 3]),
        )

    def _quota(self, size: int) -> Quota:
        if self.sort == "vectors":
            return Quota(amounts=(("cpu", 1000 * size), ("memory", size * GIB)))
        if self.sort == "kinds":
            return Quota(amounts=(("cpu", 1000 * size), *((f"gpu({kind})", 500 * size) for kind in KINDS)))
        return Quota(scalar=1000 * size)

    def _tree(self, quotas: list[int]) -> tuple[Group, ...]:
        sizes = {f"g{i}": size for i, size in enumerate(quotas)}
        groups = {name: Group(name=name, quota=self._quota(size)) for name, size in sizes.items()}
        for level in range(self.rng.randint(0, 3)):
            free = [name for name, each in groups.items() if not each.parent]
            self.rng.shuffle(free)
            while len(free) > 1 and self.rng.random() < 0.8:
                inside = [free.pop() for _ in range(min(len(free), self.rng.randint(1, 3)))]
                outer = f"in{level}{len(groups)}"
                sizes[outer] = sum(sizes[name] for name in inside)
                groups[outer] = Group(name=outer, quota=self._quota(sizes[outer]))
                groups.update({name: msgspec.structs.replace(groups[name], parent=outer) for name in inside})
        return tuple(groups.values())

    def _nodes(self, total: int) -> list[Event]:
        if self.sort == "kinds":
            # As many cores and devices as the quotas together, half of the devices of each kind.
            return [NodeAdded(self._node(f"{kind}-{i}", kind)) for kind in KINDS for i in range(total)]
        size = total if self.sort == "wide cores" else self.rng.choice((4, 10, total))
        sizes = [size] * (total // size) + [total % size] * bool(total % size)
        vectors = [self.dimensions.vector(cpu=1000 * size, memory=size * GIB) for size in sizes]
        return [NodeAdded(Node(name=f"n{i}", capacity=each)) for i, each in enumerate(vectors)]

    def _node(self, name: str, kind: str) -> Node:
        capacity = self.dimensions.vector(cpu=500, gpu=500)
        return Node(name=name, capacity=capacity, attributes=(("GPUModel", kind),))

    def _ask(self, name: str) -> None:
        at = self.rng.choice((0, 50, 300, 900)) * SECOND
        for _ in range(self.rng.randint(1, 2)):
            cores = self.rng.choice((1, 1, 2, 3, 4)) if self.sort == "wide cores" else 1
            gang = self.sort == "wide cores" and self.rng.random() < 0.3
            request = self.dimensions.vector(cpu=1000 * cores, memory=cores * GIB * (self.sort == "vectors"))
            requirement = ""
            if self.sort == "kinds":
                request = self.dimensions.vector(gpu=500)
                requirement = self.rng.choice(("", *(f'GPUModel = "{kind}"' for kind in KINDS)))
            for _ in range(20 if gang else 1):
                job = Job(
                    id=len(self.coming) + 1,
                    group=name,
                    request=request,
                    requirement=requirement,
                    tasks=3 if gang else 10_000,
                    gang=gang,
                )
                self.coming.append((at, job))

    def observe(self, events: list[Event]) -> None:
        self.core.observe(self.now, events)
        more = True
        while more:
            decided = self.core.decide(self.now)
            more = decided.more
            for each in decided.items:
                if isinstance(each, Preempt):
                    self.stopping[each.attempt] = self.now + each.grace
                    self.preempted.append(self.now)

    def play(self) -> None:
        """Let time pass until nothing more happens."""
        while self.now < END:
            wakeup = self.core.next_wakeup()
            moments = [*self.stopping.values(), *(at for at, _ in self.coming[:1])]
            moments += [] if wakeup is None else [wakeup]
            if not moments:
                return
            self.now = max(self.now, min(moments))
            events: list[Event] = []
            while self.coming and self.coming[0][0] <= self.now:
                events.append(JobSubmitted(self.coming.pop(0)[1]))
            ended = [attempt for attempt, at in self.stopping.items() if at <= self.now]
            for attempt in ended:
                del self.stopping[attempt]
            self.observe([*events, *(TaskEnded(attempt, Outcome.PREEMPTED) for attempt in ended)])

    def without_their_quota(self) -> list[GroupState]:
        """The groups that wait with less than nine tenths of their quota, and would stay within it with one unit
        more.
        """
        return [group for group in self.core.groups if len(group.policy) and self._lacks(group)]

    def _lacks(self, group: GroupState) -> bool:
        job = group.policy.head()
        assert job is not None
        if self.core.groups.kinds:
            rights = rights_of(self.core.books, job, 1, to_quota=True)
            open_to = self.core.groups.kinds.open_to(job.shape)
            return any(taker.group is group and bool((right.nodes & open_to).any()) for taker, right in rights)
        charge = charge_of_tasks(job, job.shape.size, self.core.cluster)
        return group.needs_preemption() and group.may_take(charge, to_quota=True)


def _play(seed: int, sort: str, *, mixed: bool = False) -> Constant:
    world = Constant(seed, sort, mixed=mixed)
    world.play()
    assert world.core.validate() == []
    late = [at for at in world.preempted if at > QUIET]
    assert not late, f"world {seed} of {sort}: {len(late)} preemptions long after anything changed"
    return world


@pytest.mark.parametrize("first", [0, 12])
@pytest.mark.parametrize("sort", SORTS)
def test_with_constant_demand_every_group_has_its_quota_and_preemption_ends(sort: str, first: int) -> None:
    preempted = 0
    # With quotas per kind a world takes a second.
    for seed in range(first, first + (4 if sort == "kinds" else 12)):
        world = _play(seed, sort)
        preempted += len(world.preempted)
        if sort != "wide cores":
            # Wide units may find no room that nobody is guaranteed.
            assert world.without_their_quota() == [], f"world {seed} of {sort}"
    assert preempted > 5


@pytest.mark.long
@pytest.mark.parametrize("sort", SORTS)
def test_of_a_thousand_worlds_with_constant_demand_none_keeps_a_group_from_its_quota(sort: str) -> None:
    for seed in range(1000, 1250):
        world = _play(seed, sort)
        assert sort == "wide cores" or world.without_their_quota() == [], f"world {seed} of {sort}"


@pytest.mark.parametrize("sort", ["cores", "vectors"])
def test_so_it_is_with_any_policies_and_options(sort: str) -> None:
    for seed in range(6):
        assert _play(seed, sort, mixed=True).without_their_quota() == [], f"world {seed} of {sort}"


def test_a_group_comes_to_its_quota_of_a_kind_while_other_kinds_have_room_that_it_may_not_keep() -> None:
    """Two groups waited for each other: each could have taken back what the other one would start on the other kind."""
    assert _play(3, "kinds", mixed=True).without_their_quota() == []


@pytest.mark.long
@pytest.mark.parametrize("sort", SORTS)
def test_so_it_is_in_a_thousand_worlds_with_any_policies_and_options(sort: str) -> None:
    for seed in range(1000, 1250):
        world = _play(seed, sort, mixed=True)
        assert sort == "wide cores" or world.without_their_quota() == [], f"world {seed} of {sort}"
