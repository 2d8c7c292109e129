"""Racks: who is near whom, and which racks an adjacent gang goes to; a search through all sets is the oracle."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.tables.racks import Pairs, Racks

RING: Pairs = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
ALL: Pairs = tuple(combinations("abcd", 2))


def racks(names: str, pairs: Pairs = ()) -> Racks:
    """One node in each of the racks, which are called by letters."""
    made = Racks()
    made.set_neighbours(pairs)
    for f, name in enumerate(names):
        made.put(f, name)
    return made


def names_of(made: Racks, chosen: list[int] | None) -> str | None:
    return None if chosen is None else "".join(made.names[r] for r in chosen)


@pytest.mark.parametrize(
    ("story", "pairs", "room", "size", "used", "chosen"),
    [
        ("the tightest rack that holds it", RING, (9, 5, 4, 6), 4, "", "c"),
        ("the first named of two as tight", RING, (9, 4, 4, 6), 4, "", "b"),
        ("one rack, although two would leave less over", ALL, (2, 2, 9, 1), 4, "", "c"),
        ("two neighbours with least left over", RING, (3, 2, 3, 3), 5, "", "ab"),
        ("not two that are no neighbours", RING, (3, 1, 3, 1), 5, "", None),
        ("two racks before three", ALL, (2, 2, 3, 3), 6, "", "cd"),
        ("three that are neighbours pairwise", ALL, (2, 2, 2, 2), 6, "", "abc"),
        ("all four", ALL, (2, 2, 2, 2), 8, "", "abcd"),
        ("too little everywhere", ALL, (2, 2, 2, 2), 9, "", None),
        ("no neighbours at all", (), (2, 2, 2, 2), 3, "", None),
        ("near what runs in a", RING, (1, 1, 9, 2), 2, "a", "d"),
        ("near what runs in a and b", RING, (1, 1, 9, 9), 2, "ab", "ab"),
        ("what runs is far apart already", RING, (9, 9, 9, 9), 1, "ac", "b"),
        ("nothing is near what runs", (("a", "b"),), (9, 9, 9, 9), 1, "ac", None),
        ("empty racks are never chosen", ALL, (0, 0, 0, 1), 1, "", "d"),
    ],
)
def test_racks_of_an_adjacent_gang(
    story: str, pairs: Pairs, room: tuple[int, ...], size: int, used: str, chosen: str | None
) -> None:
    made = racks("abcd", pairs)
    assert names_of(made, made.choose(room, size, [made.index[name] for name in used])) == chosen, story


def test_nodes_of_one_rack_are_counted_together_up_to_its_cap() -> None:
    made = racks("abab")
    assert made.room(np.array([1, 2, 3, 4])) == [4, 6]
    assert made.room(np.array([1, 2, 3, 4]), 5) == [4, 5]


def test_neighbours_may_be_told_before_or_after_the_racks() -> None:
    before, after = racks("ab", (("b", "a"),)), racks("ab")
    after.set_neighbours((("b", "a"),))
    assert before.near(0, 1)
    assert after.near(1, 0)
    after.set_neighbours(())
    assert not after.near(0, 1)
    assert after.near(0, 0)


def test_a_node_moves_to_another_rack() -> None:
    made = racks("ab")
    made.put(0, "b")
    assert made.rack_of(0) == made.rack_of(1)
    assert made.room(np.array([1, 1])) == [0, 2]


def test_nodes_without_a_rack_share_one() -> None:
    made = Racks()
    made.put(0, "")
    made.put(1, "")
    assert made.near(made.rack_of(0), made.rack_of(1))


def best_of_all(made: Racks, room: list[int], size: int, used: list[int]) -> list[int] | None:
    """The fewest racks that hold it, of these the most in use, of these the least left over, of these the first."""
    near = [r for r in range(len(made)) if all(made.near(r, other) for other in used) and room[r]]
    for count in range(1, len(near) + 1):
        fitting = [
            (len(set(some) - set(used)), sum(room[r] for r in some), list(some))
            for some in combinations(near, count)
            if sum(room[r] for r in some) >= size and all(made.near(a, b) for a, b in combinations(some, 2))
        ]
        if fitting:
            return min(fitting)[2]
    return None


@given(
    pairs=st.lists(st.sampled_from(list(combinations("abcdefg", 2))), unique=True, max_size=21),
    room=st.lists(st.integers(0, 6), min_size=7, max_size=7),
    size=st.integers(1, 20),
    used=st.lists(st.integers(0, 6), unique=True, max_size=2),
)
def test_the_choice_is_the_best_of_all_up_to_two_racks_and_found_whenever_there_is_one(
    pairs: list[tuple[str, str]], room: list[int], size: int, used: list[int]
) -> None:
    made = racks("abcdefg", tuple(pairs))
    best, chosen = best_of_all(made, room, size, used), made.choose(room, size, used)
    if best is None:
        assert chosen is None
        return
    assert chosen is not None
    if len(best) <= 2:
        assert chosen == best
    else:
        assert len(chosen) >= len(best)
        assert sum(room[r] for r in chosen) >= size
        assert all(made.near(a, b) for a, b in combinations(chosen, 2))
        assert set(chosen) <= made.near_all(used)
