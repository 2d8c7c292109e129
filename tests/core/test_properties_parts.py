"""What always holds of gangs with parts: all or nothing, within what nodes have, and no worse than plain gangs where
these would do.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.group import SchedPolicy
from tests.core.builders import JobBuilder, World, group, job, node
from tests.core.settings import CONSTRAINED, EVERYTHING, PLACED, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player
from tests.core.test_facts import Followed
from tests.examples import examples

KINDS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "everything": ({"parts": "some"}, EVERYTHING),
    "constrained": ({"parts": "some", "constrained": True}, CONSTRAINED),
    "placed": ({"parts": "some", "constrained": True, "placed": True}, PLACED),
    "selective": ({"parts": "some", "selective": True}, CONSTRAINED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_stories_with_parts_keep_every_invariant(kind: str) -> None:
    """The account of a story holds that all tasks of a gang start in one answer or none, and that no node gives more
    than it has.
    """
    fixed, weights = KINDS[kind]

    @examples(3)
    @given(setting=settings_of_any_kind(**fixed, order="share"), story=operations(weights))
    def plays(setting: Setting, story: list[Operation]) -> None:
        Player(setting).play(story)

    plays()


@examples(4)
@given(
    setting=st.one_of(
        settings_of_any_kind(parts="some"), settings_of_any_kind(parts="some", policies=(SchedPolicy.BACKFILL,))
    ),
    story=operations(EVERYTHING),
    later=operations(EVERYTHING, 10, 30),
)
def test_restored_at_any_moment_it_goes_on_alike(
    setting: Setting, story: list[Operation], later: list[Operation]
) -> None:
    player = Player(setting, check=False).play(story)
    player.twins.append(player.core.clone())
    player.play(later)


@examples(4)
@given(setting=settings_of_any_kind(parts="some"), story=operations(EVERYTHING))
def test_a_follower_is_in_the_same_state(setting: Setting, story: list[Operation]) -> None:
    Followed(setting).play(story)


@examples(5)
@given(setting=settings_of_any_kind(), story=operations(EVERYTHING))
def test_parts_that_ask_for_the_same_decide_as_plain_gangs(setting: Setting, story: list[Operation]) -> None:
    from dataclasses import replace

    plain = Player(setting, check=False).play(story)
    parts = Player(replace(setting, parts="alike"), check=False).play(story)
    assert parts.answers == plain.answers


def exists(sizes: list[int], kinds: list[tuple[int, int]]) -> bool:
    """Whether nodes of these cores hold so many tasks (cores, number) of two kinds: every way is tried."""
    (one, first), (two, second) = kinds
    for ways in product(*(range(size // one + 1) for size in sizes)):
        if (
            sum(ways) >= first
            and sum((size - one * way) // two for size, way in zip(sizes, ways, strict=True)) >= second
        ):
            return True
    return False


@pytest.mark.parametrize("within", [False, True])
def test_of_small_placements_that_exist_few_are_missed(within: bool) -> None:
    """Which kind gets which nodes is a packing problem: the ways that are tried find nearly all there are, and no
    others.
    """
    rng = Random(3)
    found = missed = 0
    for _ in range(150):
        sizes = [rng.randint(1, 8) for _ in range(rng.randint(1, 4) * (1 + within))]
        kinds = [(rng.randint(1, 3), rng.randint(1, 4)), (rng.randint(2, 5), rng.randint(1, 3))]
        if kinds[0][0] == kinds[1][0]:
            continue
        zones = [rng.choice("ab") if within else "a" for _ in sizes]
        there = [node(f"n{i}").cpu(size).where(Zone=zones[i]) for i, size in enumerate(sizes)]
        world = World(group("all", 100), nodes=there, check=False)
        parts = [job(f"p{i}").cpu(each).tasks(count) for i, (each, count) in enumerate(kinds)]
        world.submit(job("g").parts(*(each.requires("within(Zone)") if within else each for each in parts))).decide()
        started = len(world.starts)
        assert started in (0, kinds[0][1] + kinds[1][1])
        assert len({zones[int(start.node[1:])] for start in world.starts}) <= 1
        if any(exists([size for size, at in zip(sizes, zones, strict=True) if at == zone], kinds) for zone in "ab"):
            found += bool(started)
            missed += not started
        else:
            assert not started
    assert found > 40
    assert missed <= found // 50, f"{missed} of {found + missed}"


def starts_of(head: JobBuilder, before: list[JobBuilder], behind: list[JobBuilder], sizes: list[int]) -> float:
    """The time at which the head starts, where every task runs as long as its limit."""
    world = World(
        group("all", 100, policy="BackFill"),
        nodes=[node(f"n{i}").cpu(size) for i, size in enumerate(sizes)],
        check=False,
    )
    world.submit(*before).decide()
    world.submit(head).decide()
    world.submit(*behind).decide()
    limits = {each.name: dict(each.rest)["time_limit"] for each in (*before, head, *behind)}
    for _ in range(200):
        if head.name in world.started():
            return next(start.at for start in world.starts if start.job == head.name)
        ends = [
            (int(start.at * 1_000_000) + limits[start.job], start)
            for start in world.starts
            if any(each.job == world.ids[start.job] and each.task == start.task for each in world.running.values())
        ]
        time = min(end for end, _ in ends)
        world.now = time
        due = {(world.ids[start.job], start.task) for end, start in ends if end == time}
        from cress.model.events import Outcome

        world.end([each for each in world.running.values() if (each.job, each.task) in due], Outcome.SUCCEEDED).decide()
    raise AssertionError("the head never started")


@examples(10)
@given(seed=st.integers(0, 2**20))
def test_backfill_never_delays_a_gang_with_parts(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.randint(3, 8) for _ in range(rng.randint(2, 4))]

    def some(prefix: str, count: int) -> list[JobBuilder]:
        return [
            job(f"{prefix}{i}").cpu(rng.randint(1, 3)).tasks(rng.randint(1, 2)).limit(rng.choice((1, 3, 7, 20)))
            for i in range(count)
        ]

    before, behind = some("before", 5), some("behind", 8)
    head = job("head").parts(job("a").cpu(rng.randint(2, 3)), job("b").cpu(1).tasks(rng.randint(1, 3))).limit(5)
    assert starts_of(head, before, behind, sizes) <= starts_of(head, before, [], sizes)
