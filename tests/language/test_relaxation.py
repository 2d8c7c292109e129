"""When a hard clause turns soft, to the microsecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.parser import parse_requirement
from cress.language.relaxation import Relaxation
from cress.model.times import SECOND


def relaxation(text: str) -> Relaxation:
    found = parse_requirement(f"a && f(x) = {text}").clauses[0].relaxation
    assert found is not None
    return found


# The waiting times (µs) at which it turns soft and hard in turn, with the load at 0.5.
CHANGES = {
    "(Waittime > 15s)": [15 * SECOND + 1],
    "(Waittime >= 15s)": [15 * SECOND],
    "(15 < Waittime)": [15 * SECOND + 1],
    "(Waittime > 1ms && Waittime <= 2ms)": [1001, 2001],
    "(Waittime = 10us)": [10, 11],
    "(Waittime != 10us)": [0, 10, 11],
    "(! (Waittime < 10us))": [10],
    "(Waittime > 1h30m || Waittime >= 5min)": [300 * SECOND],
    "True": [0],
    "False": [],
    "(Waittime >= 0)": [0],
    "(Waittime > 10us && Waittime < 5us)": [],
    "(Waittime > 15s || ClusterLoad < 60%)": [0],
    "(Waittime > 15us && ClusterLoad < 60%)": [16],
    "(ClusterLoad = 0.5)": [0],
    "(80% > ClusterLoad)": [0],
    "(80% < ClusterLoad)": [],
}


@pytest.mark.parametrize(("text", "changes"), CHANGES.items())
def test_when_it_changes(text: str, changes: list[int]) -> None:
    found = relaxation(text)
    soft = False
    for before, at in zip([-1, *changes], [*changes, None], strict=True):
        assert found.holds(max(before, 0), 0.5) is (soft if before >= 0 or not changes or changes[0] else True)
        if at is not None and at > 0:
            assert found.holds(at - 1, 0.5) is soft
            soft = not soft
            assert found.holds(at, 0.5) is soft
        elif at == 0:
            soft = True
    if not found.by_load:
        times, at = [0] if found.holds(0, 0.5) else [], 0
        while (after := found.next_change(at)) is not None:
            times.append(after)
            at = after
        assert times == changes


def test_with_the_load_every_limit_of_time_is_one_at_which_it_may_change() -> None:
    found = relaxation("(Waittime > 15us && ClusterLoad < 60% || Waittime >= 40us)")
    assert found.by_load
    assert [found.next_change(at) for at in (0, 15, 16, 39, 40)] == [16, 16, 40, 40, None]
    assert [found.holds(20, load) for load in (0.0, 0.59, 0.6, 1.0)] == [True, True, False, False]


_atoms = st.builds(
    lambda operator, at, turned: f"{at}us {operator} Waittime" if turned else f"Waittime {operator} {at}us",
    st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
    st.integers(0, 30),
    st.booleans(),
) | st.sampled_from(("ClusterLoad > 50%", "ClusterLoad <= 0.5", "True"))
_texts = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda all_of: "(" + " && ".join(all_of) + ")"),
        st.lists(inner, min_size=2, max_size=3).map(lambda any_of: "(" + " || ".join(any_of) + ")"),
        inner.map(lambda each: f"! ({each})"),
    ),
    max_leaves=5,
)


@given(_texts, st.integers(0, 32))
def test_between_two_changes_nothing_changes_and_without_the_load_something_does_there(text: str, waited: int) -> None:
    found = relaxation(f"({text})")
    after = found.next_change(waited)
    for load in (0.0, 0.5, 0.7):
        same = {found.holds(at, load) for at in range(waited, 40 if after is None else after)}
        assert len(same) == 1
    if after is not None and not found.by_load:
        assert found.holds(after, 0.0) is not found.holds(waited, 0.0)
