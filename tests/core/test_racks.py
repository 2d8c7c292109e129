"""Domains near each other: which of them an adjacent gang goes to; a search through all sets is the oracle."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.tables.domains import Domains

Pairs = tuple[tuple[str, str], ...]
RING: Pairs = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
ALL: Pairs = tuple(combinations("abcd", 2))


def racks(names: str, pairs: Pairs = ()) -> Domains:
    """One node in each of the racks, which are called by letters; ``.`` is none."""
    distances = {(min(pair), max(pair)): 1 for pair in pairs}
    return Domains((None if name == "." else name for name in names), distances)


def names_of(made: Domains, chosen: list[int] | None) -> str | None:
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
    assert names_of(made, made.adjacent((*room, 0), size, [made.index[name] for name in used])) == chosen, story


def test_neighbours_are_near_each_other_in_both_directions_and_farther_ones_are_not() -> None:
    made = Domains("abc", {("a", "b"): 1, ("a", "c"): 2})
    assert made.near == [{0, 1}, {0, 1}, {2}, {3}]
    assert made.near_all([0]) == {0, 1}
    assert made.near_all([0, 2]) == set()
    assert made.near_all([]) == {0, 1, 2, 3}


@given(st.lists(st.sampled_from(["a", "A", "b", "c", "", None, True, 7]), max_size=9))
def test_domains_grow_as_if_all_nodes_had_been_there(values: list[Any]) -> None:
    grown = Domains(())
    for value in values:
        grown = grown.with_node(value)
    whole = Domains(values)
    assert (grown.names, grown.index, grown.of.tolist()) == (whole.names, whole.index, whole.of.tolist())


def test_nodes_without_a_rack_are_near_each_other_only() -> None:
    made = racks("..a")
    assert made.of.tolist() == [1, 1, 0]
    assert made.adjacent((1, 4), 3) == [1]
    assert made.adjacent((1, 4), 5) is None


def best_of_all(made: Domains, room: list[int], size: int, used: list[int]) -> list[int] | None:
    """The fewest racks that hold it, of these the most in use, of these the least left over, of these the first."""
    near = [r for r in range(len(made)) if all(r in made.near[other] for other in used) and room[r]]
    for count in range(1, len(near) + 1):
        fitting = [
            (len(set(some) - set(used)), sum(room[r] for r in some), list(some))
            for some in combinations(near, count)
            if sum(room[r] for r in some) >= size and all(a in made.near[b] for a, b in combinations(some, 2))
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
    best, chosen = best_of_all(made, room, size, used), made.adjacent((*room, 0), size, used)
    if best is None:
        assert chosen is None
        return
    assert chosen is not None
    if len(best) <= 2:
        assert chosen == best
    else:
        assert len(chosen) >= len(best)
        assert sum(room[r] for r in chosen) >= size
        assert all(a in made.near[b] for a, b in combinations(chosen, 2))
        assert set(chosen) <= made.near_all(used)
