"""Rules for all tasks of a gang hold with parts too: spread, distance, racks, starts in part (design note 0046)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from random import Random

import pytest

from cress.model.errors import InputError
from cress.model.events import Outcome
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.test_advance_reservations import NOON, keep, reservation

ZONES = {"a": "ab", "b": "abc", "c": "bc"}


def zones_of(world: World, name: str) -> dict[str, int]:
    """How many tasks of a job run in each zone; nodes are named by zone and number."""
    return dict(sorted(Counter(where[0] for where in world.nodes_of(name)).items()))


def in_zones(*zones: str, cpu: int = 4) -> World:
    return with_nodes({f"{zone}{i}": cpu for i, zone in enumerate(zones)})


def with_nodes(sizes: dict[str, int], policy: str = "FIFO", *, check: bool = True) -> World:
    """Nodes with these cores, each in the zone and rack with which its name begins; rack b is near the others."""
    there = [node(name).cpu(cpu).where(Zone=name[0]).rack(name[0]) for name, cpu in sizes.items()]
    world = World(group("default", 100, policy), nodes=there, node_order="first", check=check)
    return world.neighbours("a b", "b c")


def train(clause: str = "", *, driver: float = 2, workers: float = 1, tasks: int = 3) -> JobBuilder:
    parts = job("driver").cpu(driver), job("workers").cpu(workers).tasks(tasks)
    return job("train").parts(*(each.requires(clause) if clause else each for each in parts)).limit("1h")


def test_parts_spread_together() -> None:
    world = in_zones("a", "a", "b")
    world.submit(train("spread(Zone)")).decide()
    assert zones_of(world, "train") == {"a": 2, "b": 2}


def test_parts_that_fit_into_one_zone_each_still_spread_over_both() -> None:
    """Each part alone would be uneven."""
    world = World(
        group("default", 100),
        nodes=[node("a").cpu(2).memory("64G").where(Zone="a"), node("b").cpu(16).memory("2G").where(Zone="b")],
    )
    parts = job("large").cpu(1).memory("16G").tasks(2), job("wide").cpu(4).memory("1G").tasks(2)
    world.submit(job("train").parts(*(each.requires("spread(Zone)") for each in parts))).decide()
    assert sorted(world.nodes_of("train")) == ["a", "a", "b", "b"]


def test_parts_share_the_zones_by_their_shares() -> None:
    world = in_zones("a", "a", "b")
    world.submit(train('spread(Zone, "a=75%, b=25%")')).decide()
    assert zones_of(world, "train") == {"a": 3, "b": 1}


def test_parts_keep_apart() -> None:
    world = in_zones("a", "a", "b", "c")
    world.submit(train('away_from("self", Zone)', tasks=2)).decide()
    assert zones_of(world, "train") == {"a": 1, "b": 1, "c": 1}
    world = in_zones("a", "a", "b", "b")
    world.submit(train('away_from("self", Zone)', tasks=2)).decide()
    assert world.veto("train").never


def test_parts_stay_near_each_other() -> None:
    world = in_zones("a", "b", "b")
    world.submit(train('near("self", Zone)', workers=2)).decide()
    assert zones_of(world, "train") == {"b": 4}


def test_parts_are_in_neighbouring_racks() -> None:
    world = in_zones("a", "c", "b")
    world.submit(train("NetworkAdjacent = True", driver=4, workers=2, tasks=2)).decide()
    assert zones_of(world, "train") in ({"a": 1, "b": 2}, {"b": 1, "c": 2}, {"a": 2, "b": 1}, {"b": 2, "c": 1})
    world = in_zones("a", "c")
    world.submit(train("NetworkAdjacent = True", driver=4, workers=2, tasks=2)).decide()
    assert world.veto("train").never


def test_a_limit_of_tasks_in_one_rack_counts_all_parts() -> None:
    world = in_zones("a", "b", cpu=16)
    world.submit(train(tasks=4).spread(per_rack=3)).decide()
    assert sorted(zones_of(world, "train").values()) == [2, 3]
    world = in_zones("a", "b", cpu=16)
    world.submit(train(tasks=4).spread(per_rack=2)).decide()
    assert world.veto("train").never


def test_one_part_may_be_near_another_job() -> None:
    world = in_zones("a", "b")
    world.run(job("db").cpu(1).labelled(tier="db").requires('Zone = "b"'))
    parts = job("driver").cpu(1).requires('near("tier=db", Zone)'), job("workers").cpu(1).tasks(3)
    world.submit(job("train").parts(*parts)).decide()
    by_task = {start.task: start.node[0] for start in world.starts if start.job == "train"}
    assert by_task[0] == "b"
    assert len(by_task) == 4


def test_only_some_parts_cannot_spread() -> None:
    world = in_zones("a", "b")
    parts = job("driver").cpu(1), job("workers").cpu(1).tasks(3).requires("spread(Zone)")
    with pytest.raises(InputError, match=r"spread\(Zone\) is about all tasks of a gang, and only some parts have it"):
        world.submit(job("train").parts(*parts))


# --- starts in part ----------------------------------------------------------------------------------------------


def test_a_gang_with_parts_starts_in_part_after_a_while() -> None:
    """The first parts first: the driver and one worker, then each worker by itself."""
    clause = "IssueAsWhole = 2 && f(x) = (Waittime >= 60s)"
    world = World(group("default", 100), nodes=nodes(2, cpu=4))
    world.run(job("other").cpu(4))
    world.submit(train(clause, driver=2, workers=2, tasks=3)).decide()
    assert world.nodes_of("train") == []
    world.wait(60)
    world.decide()
    assert [start.task for start in world.starts if start.job == "train"] == [0, 1]
    assert [attempt.amounts[0] for attempt in world.core.jobs[world.ids["train"]].attempts.values()] == [2000, 2000]
    world.finish("other")
    assert sorted(start.task for start in world.starts if start.job == "train") == [0, 1, 2, 3]


def test_a_start_in_part_keeps_the_rules_of_the_whole() -> None:
    clause = "spread(Zone) && IssueAsWhole = 2 && f(x) = (Waittime >= 60s)"
    world = in_zones("a", "b", cpu=3)
    world.run(job("other").cpu(2).requires('Zone = "b"'))
    world.submit(train(clause, driver=1, workers=1, tasks=3)).decide()
    world.wait(60)
    world.decide()
    assert zones_of(world, "train") == {"a": 2, "b": 1}
    world.finish("other")
    assert zones_of(world, "train") == {"a": 2, "b": 2}


# --- room that is made or kept -------------------------------------------------------------------------------------


def test_victims_for_parts_lie_in_the_zones_over_which_they_spread() -> None:
    world = World(
        group("a", 8),
        group("b", 8),
        nodes=[node(f"{zone}{i}").cpu(4).where(Zone=zone) for zone in "ab" for i in "12"],
    )
    world.run(job("theirs").cpu(1).tasks(16).group("b"))
    world.submit(train("spread(Zone)", driver=2, workers=2).group("a")).decide()
    world.yield_victims()
    assert zones_of(world, "train") == {"a": 2, "b": 2}


def test_a_place_is_kept_for_parts_where_they_keep_their_rules() -> None:
    world = with_nodes({"a0": 4, "a1": 4, "b0": 4, "b1": 4}, "BackFill")
    world.run(job("x").cpu(4).tasks(2).limit("2h").requires('Zone = "b"'))
    world.submit(train('away_from("self", Zone)', tasks=1)).decide()
    world.submit(job("long").cpu(4).limit("9h"), job("longer").cpu(4).limit("9h")).decide()
    assert world.veto("train").until == 2 * 3600 * 1_000_000
    assert zones_of(world, "long") == {"a": 1}
    assert world.nodes_of("longer") == []
    world.wait(7200)
    world.finish("x")
    assert zones_of(world, "train") == {"a": 1, "b": 1}


def test_parts_start_inside_the_reservation_of_their_group() -> None:
    """Each with its own request, on the reserved nodes, although these are kept free for others."""
    world = World(group("a", 100), group("b", 100), nodes=nodes(3, cpu=4)).set_clock(NOON)
    keep(world, reservation("course", "12:00", "22:00", "n1", "n2", group="a"))
    world.decide()
    world.submit(train(driver=3, workers=2, tasks=2).group("a").limit("1h")).decide()
    assert sorted(world.nodes_of("train")) in (["n1", "n2", "n2"], ["n1", "n1", "n2"])
    held = [attempt.amounts[0] for attempt in world.core.attempts.values()]
    assert sorted(held) == [2000, 2000, 3000]


def test_a_lost_task_restarts_all_parts_by_the_rules() -> None:
    world = in_zones("a", "b", "b")
    world.submit(train("spread(Zone)")).decide()
    world.finish("train", outcome=Outcome.FAILED, again=True)
    world.decide()
    assert len(world.starts) == 8
    assert zones_of(world, "train") == {"a": 2, "b": 2}


# --- against every way that there is -------------------------------------------------------------------------------


def spread(zones: list[str], there: set[str]) -> bool:
    counts = [zones.count(zone) for zone in there]
    return all(count <= min(counts) + 1 for count in counts if count)


RULES: dict[str, Callable[[list[str], set[str]], bool]] = {
    "spread(Zone)": spread,
    'away_from("self", Zone)': lambda zones, there: len(set(zones)) == len(zones),  # noqa: ARG005
    'near("self", Zone)': lambda zones, there: len(set(zones)) == 1,  # noqa: ARG005
    "within(Zone)": lambda zones, there: len(set(zones)) == 1,  # noqa: ARG005
    "NetworkAdjacent = True": lambda zones, there: all(x in ZONES[y] for x in zones for y in zones),  # noqa: ARG005
    "MaxPerRack = 2": lambda zones, there: max(map(zones.count, zones)) <= 2,  # noqa: ARG005
}


def ways(sizes: dict[str, int], kinds: list[tuple[int, int]]) -> Iterator[list[str]]:
    """Every way to put tasks (cores, number) of some kinds on nodes of these cores."""
    if not kinds:
        yield []
        return
    (cpu, count), *rest = kinds
    for places in combinations_with_replacement(sizes, count):
        left = {name: size - cpu * places.count(name) for name, size in sizes.items()}
        if min(left.values()) >= 0:
            for others in ways(left, rest):
                yield [*places, *others]


@pytest.mark.parametrize("rule", RULES)
def test_of_small_placements_by_a_rule_few_are_missed(rule: str) -> None:
    """None is found that breaks the rule, and hardly any is missed."""
    rng = Random(5)
    found = missed = 0
    for _ in range(120):
        sizes = {f"{rng.choice('abc')}{i}": rng.randint(1, 7) for i in range(rng.randint(2, 5))}
        kinds = [(rng.randint(1, 2), rng.randint(1, 3)), (rng.randint(3, 5), rng.randint(1, 2))]
        there = {name[0] for name in sizes}
        possible = any(RULES[rule]([name[0] for name in way], there) for way in ways(sizes, kinds))
        world = with_nodes(sizes, check=False)
        parts = [job(f"p{i}").cpu(cpu).tasks(count) for i, (cpu, count) in enumerate(kinds)]
        if "Max" in rule:
            gang = job("g").parts(*parts).spread(per_rack=2)
        else:
            gang = job("g").parts(*(part.requires(rule) for part in parts))
        world.submit(gang).decide()
        placed = [where[0] for where in world.nodes_of("g")]
        assert len(placed) in (0, kinds[0][1] + kinds[1][1])
        if placed:
            assert possible
            assert RULES[rule](placed, there), f"{placed} of {sizes} breaks {rule}"
        found += bool(placed)
        missed += possible and not placed
    assert found > 20
    assert missed <= found // 20, f"{missed} of {found + missed}"
