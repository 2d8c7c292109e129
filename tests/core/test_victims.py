"""The search for victims against the plain one, and a gang's earliest slot against a plain scan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cress.core.groups.lenders import Taker
from cress.core.jobs import JobEntry, Rights
from cress.core.making_room.evictions import _next_in_turn
from cress.core.preemption import find_eviction
from cress.model.events import Outcome
from cress.model.job import JobType
from tests.core.builders import JobBuilder, World, group, job, nodes
from tests.core.plain_victims import PlainSearch
from tests.examples import usual

SEEDS = range(300)


def _old(random_: random.Random, name: str, *, kinds: bool) -> JobBuilder:
    """Something that runs: a task, or with ``kinds`` also a gang, a service with a minimum, a database."""
    cores, memory = random_.choice((1, 2, 4, 6)), random_.choice(("1G", "2G", "4G", "9G"))
    old = job(name).cpu(cores).memory(memory).group(random_.choice("ab")).priority(random_.randint(0, 3))
    old = old.limit(random_.randint(60, 900))
    match random_.randint(0, 9) if kinds else 9:
        case 0 | 1:
            return old.tasks(random_.randint(1, 4)).gang()
        case 2 | 3:
            number = random_.randint(1, 4)
            return old.tasks(number).type(JobType.SERVICE, minimum=random_.randint(0, number))
        case 4:
            return old.type(JobType.DATABASE)
        case _:
            return old


def _crowd(seed: int, *, vectors: bool, preemptive: str, kinds: bool = False) -> tuple[World, random.Random]:
    """A cluster crowded by two groups far above their quotas, and a third one with nothing; and what draws on.

    On a push, the invariants of every fifth crowd are checked after every call, those of the others once it is there:
    the search is what is tried here.
    """
    random_ = random.Random(seed)

    def quota(n: int) -> int | str:
        return f"<{n},{2 * n}G>" if vectors else n

    count = random_.randint(2, 6)
    # In one accounting groups may have other measures than their neighbours.
    mixed: int | str = random_.randint(1, 3) if vectors and kinds else quota(random_.randint(1, 6))
    world = World(
        group("a", quota(random_.randint(1, 6))).with_options(min_runtime=random_.choice(("0s", "3s"))),
        group("b", mixed), group("new", quota(40)).preemptive(preemptive),
        nodes=nodes(count, cpu=8, memory="16G"), accounting="dominant" if vectors else "cpu",
        check=usual(seed % 5 == 0, True),
    )  # fmt: skip
    for i in range(random_.randint(count, 6 * count)):
        world.submit(_old(random_, f"j{i}", kinds=kinds)).decide()
        world.wait(random_.choice((0, 1, 5)))
        if kinds and world.running and random_.random() < 0.2:
            # Leases are used again; gangs and services lose tasks one by one.
            world.end([random_.choice(list(world.running.values()))], Outcome.SUCCEEDED).decide()
    assert world.core.validate() == []
    return world, random_


def _waiting(world: World, random_: random.Random, size: int = 1, name: str = "unit") -> JobEntry:
    unit = job(name).cpu(random_.choice((2, 5, 8))).memory(random_.choice(("1G", "8G", "16G"))).group("new")
    world.submit(unit.limit(100) if size == 1 else unit.tasks(size).gang().limit(100))
    state = world.state(name)
    assert isinstance(state, JobEntry)
    return state


def _compare(world: World, unit: JobEntry, excluded: frozenset[int] = frozenset()) -> str:
    """Hold the core's plan against the plain one, which knows no reservations; what it came to."""
    world.core.books.reservations.forget()
    got = find_eviction(world.core.books, unit, [Taker(unit.group, to_quota=False)])
    expected = PlainSearch(world.core, unit, excluded).plan()
    if expected is None:
        assert got is None
        return "none"
    assert got is not None
    assert got.nodes == expected[1]
    assert [each.id for each in got.attempts] == [each.id for each in expected[0]]
    return "together" if any(each.job.job.gang for each in got.attempts) else "found"


@pytest.mark.parametrize("preemptive", ["LowPriorityFirst", "MostRecentFirst"])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("kinds", [False, True], ids=["tasks", "all kinds"])
@pytest.mark.parametrize("size", [1, 3])
def test_the_search_finds_what_the_plain_one_finds(preemptive: str, vectors: bool, kinds: bool, size: int) -> None:
    came_to: Counter[str] = Counter()
    for seed in SEEDS[: usual(25, 60)]:
        world, random_ = _crowd(seed, vectors=vectors, preemptive=preemptive, kinds=kinds)
        came_to[_compare(world, _waiting(world, random_, size))] += 1
        # Once more beside what was told to stop, and the claims on what that frees.
        world.decide()
        came_to[_compare(world, _waiting(world, random_, size, "another"))] += 1
    assert came_to["found"] > usual(0, 4), came_to
    assert came_to["none"] > usual(0, 4), came_to
    assert bool(came_to["together"]) == kinds, came_to


@pytest.mark.parametrize("size", [1, 3])
def test_the_search_leaves_out_nodes_that_clauses_exclude(size: int) -> None:
    came_to: Counter[str] = Counter()
    for seed in SEEDS[:40]:
        world, random_ = _crowd(seed, vectors=False, preemptive="LowPriorityFirst")
        unit = _waiting(world, random_, size)
        count = world.core.cluster.node_count
        places = random_.sample(range(count), random_.randint(1, count - 1))
        world.apart()
        world.core.books.matching.exclude(unit.shape, np.array(places), np.ones(len(places), np.int8))
        came_to[_compare(world, unit, frozenset(places))] += 1
    assert came_to["found"] > 4, came_to
    assert came_to["none"] > 4, came_to


def test_the_search_knows_groups_and_charges_that_changed() -> None:
    world = World(group("b", 1), group("new", 8), nodes=nodes(2, cpu=8), accounting="dominant")
    world.submit(job("old").cpu(2).tasks(8).group("b")).decide()
    world.submit(job("unit").group("new"))
    assert _compare(world, world.state("unit")) == "found"
    # Another group stands in front by name, the measures are others, the jobs have moved.
    world.apply(group("a", "<1>"), group("new", 8), moves={"b": "a"})
    assert _compare(world, world.state("unit")) == "found"
    world.apply(group("a", "<15>"), group("new", 8))
    assert _compare(world, world.state("unit")) == "none"


def test_where_small_victims_use_up_what_a_group_can_spare_the_largest_goes() -> None:
    world = World(group("old", 4), group("new", 4), nodes=nodes(1, cpu=8, memory="16G"))
    world.submit(job("big").cpu(4).memory("8G").group("old").priority(5)).decide()
    world.submit(job("small").cpu(1).memory("1G").tasks(4).group("old").priority(0)).decide()
    world.submit(job("unit").cpu(1).memory("12G").group("new"))
    assert _compare(world, world.state("unit")) == "found"
    unit = world.state("unit")
    plan = find_eviction(world.core.books, unit, [Taker(unit.group, to_quota=False)])
    assert plan is not None
    assert [each.job for each in plan.attempts] == [world.state("big")]


def _greedy(world: World, unit: JobEntry, t: int) -> list[tuple[int, int]] | None:
    """Copies of the gang per node at time ``t``, as many as fit in the order of the nodes, if they are enough."""
    core, missing, chosen = world.core, unit.shape.size, []
    for f in range(core.cluster.node_count):
        held = [each.job.shape.request for each in core.attempts.values() if each.node == f]
        ended = [
            each.job.shape.request
            for each in core.attempts.values()
            if each.node == f and t > core.now and each.start + each.job.limit <= t
        ]
        copies = missing
        for k, asked in enumerate(unit.shape.request):
            if asked:
                free = core.cluster.capacity_of(f)[k] - sum(r[k] for r in held) + sum(r[k] for r in ended)
                copies = min(copies, free // asked)
        if copies > 0:
            chosen.append((f, copies))
            missing -= copies
    return None if missing else chosen


def test_the_earliest_slot_of_a_gang_is_the_first_time_at_which_all_copies_fit() -> None:
    later = 0
    for seed in SEEDS[: usual(40, 100)]:
        world, random_ = _crowd(seed, vectors=False, preemptive="LowPriorityFirst")
        unit = _waiting(world, random_, size=random_.randint(2, 5))
        core = world.core
        # Without bookings: what is kept for other blocked units is not what is looked at here.
        core.books.reservations.forget()
        if core.claims:
            continue
        slot = core.books.timeline.earliest(unit.shape, unit.limit, core.now)
        ends = sorted({max(each.start + each.job.limit, core.now + 1) for each in core.attempts.values()})
        times = [core.now, *ends]
        expected = next(((t, found) for t in times if (found := _greedy(world, unit, t)) is not None), None)
        assert (None if slot is None else (slot.start, slot.nodes)) == expected
        later += slot is not None and slot.start > core.now
    assert later > 10, "most had to wait for an end"


def test_the_units_of_a_later_group_are_looked_for_one_by_one_and_only_then_is_it_held() -> None:
    later: Any = SimpleNamespace(held_to=Rights.ANY)

    def next_of(_: Any) -> Iterator[str]:
        assert later.held_to is Rights.ABOVE
        yield "first"
        raise AssertionError("the first one is enough")

    gates: Any = SimpleNamespace(next_of=next_of)
    units: Iterator[Any] = _next_in_turn(gates, later)
    assert next(units) == "first"
    assert later.held_to is Rights.ANY
