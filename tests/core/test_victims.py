"""The node chosen by compiled code against the plain path, and a gang's earliest slot against a plain scan."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from cress.core.jobs import JobState
from cress.core.preemption import _Search
from tests.core.builders import World, group, job, nodes

SEEDS = range(300)


def _crowd(random_: random.Random, *, vectors: bool, preemptive: str) -> World:
    """A cluster crowded by two groups far above their quotas, and a third one with nothing."""

    def quota(n: int) -> int | str:
        return f"<{n},{2 * n}G>" if vectors else n

    count = random_.randint(2, 6)
    world = World(
        group("a", quota(random_.randint(1, 6))), group("b", quota(random_.randint(1, 6))),
        group("new", quota(40)).preemptive(preemptive), nodes=nodes(count, cpu=8, memory="16G"),
        accounting="dominant" if vectors else "cpu",
    )  # fmt: skip
    for i in range(random_.randint(count, 6 * count)):
        cores, memory = random_.choice((1, 2, 4, 6)), random_.choice(("1G", "2G", "4G", "9G"))
        old = job(f"j{i}").cpu(cores).memory(memory).group(random_.choice("ab")).priority(random_.randint(0, 3))
        world.submit(old.limit(random_.randint(60, 900))).decide()
        world.wait(random_.choice((0, 1, 5)))
    return world


def _search(world: World, unit: JobState) -> _Search | None:
    core = world.core
    takers = [each for each in core.groups if each is not unit.group and each.can_be_preempted()]
    takers.sort(key=lambda each: (-each.excess(), each.name))
    search = _Search(unit, core.cluster, core.timeline, core.claims, core.leaving.values())
    return search if takers and search.look_at(takers, core.now) else None


def _waiting(world: World, random_: random.Random, size: int = 1) -> JobState:
    unit = job("unit").cpu(random_.choice((2, 5, 8))).memory(random_.choice(("1G", "8G", "16G"))).group("new")
    world.submit(unit.limit(100) if size == 1 else unit.tasks(size).gang().limit(100))
    state = world.state("unit")
    assert isinstance(state, JobState)
    return state


@pytest.mark.parametrize("preemptive", ["LowPriorityFirst", "MostRecentFirst"])
@pytest.mark.parametrize("vectors", [False, True])
def test_the_compiled_choice_is_the_plain_one(preemptive: str, vectors: bool) -> None:
    came_to: Counter[str] = Counter()
    for seed in SEEDS[:80]:
        random_ = random.Random(seed)
        world = _crowd(random_, vectors=vectors, preemptive=preemptive)
        unit = _waiting(world, random_)
        search = _search(world, unit)
        if search is None:
            continue
        compiled = search.best()
        search._name_victims(None)
        plain = search._cheapest({}, [])
        if plain is None or not plain[0]:
            assert compiled is None
            came_to["none"] += 1
            continue
        assert compiled is not None
        assert compiled.nodes == [(plain[1], 1)]
        assert [each.id for each in compiled.attempts] == [each.id for one in plain[0] for each in one.attempts]
        came_to["found"] += 1
    assert came_to["found"] > 20, came_to
    assert came_to["none"], came_to


def test_where_small_victims_use_up_what_a_group_can_spare_the_largest_goes() -> None:
    world = World(group("old", 4), group("new", 4), nodes=nodes(1, cpu=8, memory="16G"))
    world.submit(job("big").cpu(4).memory("8G").group("old").priority(5)).decide()
    world.submit(job("small").cpu(1).memory("1G").tasks(4).group("old").priority(0)).decide()
    world.submit(job("unit").cpu(1).memory("12G").group("new"))
    search = _search(world, world.state("unit"))
    assert search is not None
    compiled = search.best()
    search._name_victims(None)
    plain = search._cheapest({}, [])
    assert compiled is not None
    assert plain is not None
    assert [each.job for each in compiled.attempts] == [world.state("big")]
    assert [each.job for one in plain[0] for each in one.attempts] == [world.state("big")]


def _greedy(world: World, unit: JobState, t: int) -> list[tuple[int, int]] | None:
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
    for seed in SEEDS[:100]:
        random_ = random.Random(seed)
        world = _crowd(random_, vectors=False, preemptive="LowPriorityFirst")
        unit = _waiting(world, random_, size=random_.randint(2, 5))
        core = world.core
        # Without bookings: what is kept for other blocked units is not what is looked at here.
        core.reservations.forget()
        if core.claims:
            continue
        slot = core.timeline.earliest(unit.shape, unit.limit, core.now)
        ends = sorted({max(each.start + each.job.limit, core.now + 1) for each in core.attempts.values()})
        times = [core.now, *ends]
        expected = next(((t, found) for t in times if (found := _greedy(world, unit, t)) is not None), None)
        assert (None if slot is None else (slot.start, slot.nodes)) == expected
        later += slot is not None and slot.start > core.now
    assert later > 10, "most had to wait for an end"
