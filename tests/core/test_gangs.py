"""Room for gangs with limits per node and rack: whatever is chosen first, the rest finds a place."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.gang_rules import GangRules, Limit, Rule, Within
from cress.core.placing.gangs import GangRoom, ruled_rooms
from cress.core.placing.together import MOST_DOMAINS, Asked, Levels, ways_in
from cress.core.tables.domains import Domains


def racks_of(names: str, *pairs: str) -> Domains:
    """A node in each of the racks that the letters name; pairs of letters are neighbours."""
    return Domains(names, {(pair[0], pair[1]): 1 for pair in pairs})


def room_for(
    racks: Domains, copies: list[int], size: int, per_rack: int = 0, adjacent: bool = False, used: tuple[int, ...] = ()
) -> GangRoom | None:
    rules: list[Rule] = [Limit(racks, per_rack, outside=True)] if per_rack else []
    rules += [Within(racks, used, adjacent=True)] if adjacent else []
    return next(ruled_rooms(GangRules(tuple(rules)), size, np.array(copies)), None)


def test_bounds_per_rack_close_the_other_nodes_of_the_rack() -> None:
    room = room_for(racks_of("aab"), [2, 2, 1], 2, per_rack=2)
    assert room is not None
    assert room.total == 3
    room.take(1)
    assert room.closed().tolist() == [False, False, False]
    room.take(0)
    assert room.closed().tolist() == [True, True, False]
    assert room.first(1) == [(2, 1)]
    assert room.first(2) is None


def test_an_adjacent_gang_goes_to_one_rack_if_that_holds_it() -> None:
    room = room_for(racks_of("aabb", "ab"), [3, 3, 2, 1], 3, adjacent=True)
    assert room is not None
    assert room.first(3) == [(2, 2), (3, 1)]


def test_an_adjacent_gang_stays_near_what_it_belongs_with() -> None:
    room = room_for(racks_of("abc", "ab"), [2, 2, 9], 3, adjacent=True, used=(1,))
    assert room is not None
    assert room.first(3) == [(0, 2), (1, 1)]
    assert room_for(racks_of("abc", "ab"), [2, 0, 9], 3, adjacent=True, used=(1,)) is None


def test_of_many_racks_that_hold_a_gang_only_some_are_tried() -> None:
    """Each may be asked about at length, for example whether its group may have it there."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    kind = Asked(np.array([1]), 2, np.zeros(0, np.int64))
    copies = np.full((len(letters), 1), 2)
    room = Levels([kind], [copies[:, 0]], copies, GangRules((Within(Domains(letters), ()),)))
    assert len(list(ways_in(room))) == MOST_DOMAINS


cases = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from("abc"), min_size=n, max_size=n).map("".join),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.sampled_from(["ab", "bc", "ac"]), unique=True),
        st.integers(0, 4),
        st.integers(1, 6),
        st.booleans(),
        st.randoms(use_true_random=False),
    )
)


@given(cases)
def test_whatever_is_chosen_all_tasks_find_a_place_and_every_bound_holds(case) -> None:  # type: ignore[no-untyped-def]
    names, copies, pairs, per_rack, size, adjacent, random = case
    racks = racks_of(names, *pairs)
    room = room_for(racks, copies, size, per_rack, adjacent=adjacent)
    if room is None:
        return
    first = room.first(size)
    assert first is not None
    assert sum(count for _, count in first) == size
    chosen: list[int] = []
    for _ in range(size):
        f = random.choice([f for f, closed in enumerate(room.closed().tolist()) if not closed])
        room.take(f)
        chosen.append(f)
    for nodes in (chosen, [f for f, count in first for _ in range(count)]):
        in_use = {names[f] for f in nodes}
        assert all(nodes.count(f) <= copies[f] for f in range(len(names)))
        assert not per_rack or all(sum(names[f] == rack for f in nodes) <= per_rack for rack in in_use)
        if adjacent:
            assert all(racks.index[a] in racks.near[racks.index[b]] for a, b in combinations(sorted(in_use), 2))


@given(cases)
def test_room_is_found_whenever_some_choice_would_do(case) -> None:  # type: ignore[no-untyped-def]
    names, copies, pairs, per_rack, size, adjacent, _ = case
    racks = racks_of(names, *pairs)

    def sets() -> list[set[str]]:
        every = sorted(set(names))
        if not adjacent:
            return [set(every)]
        some = [set(each) for k in range(1, len(every) + 1) for each in combinations(every, k)]
        return [
            each for each in some if all(racks.index[a] in racks.near[racks.index[b]] for a, b in combinations(each, 2))
        ]

    def holds(each: set[str]) -> int:
        sums = [sum(c for c, name in zip(copies, names, strict=True) if name == rack) for rack in each]
        return sum(min(total, per_rack) if per_rack else total for total in sums)

    possible = max(holds(each) for each in sets()) >= size
    assert (room_for(racks, copies, size, per_rack, adjacent=adjacent) is not None) == possible
