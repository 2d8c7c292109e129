"""Ports: fixed and dynamic ones of attempts, those of strangers, and a plain account of who has which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.ports import DYNAMIC, Ports
from cress.model.node import DYNAMIC_PORTS

FIRST = DYNAMIC_PORTS[0]


def ports(first: int = 100, last: int = 104, seen: tuple[int, ...] = (), given: tuple[int, ...] = ()) -> Ports:
    """The ports of node 0."""
    made = Ports()
    made.set_range(0, (first, last))
    made.see(0, seen)
    made.take(0, given)
    return made


@pytest.mark.parametrize(
    ("story", "wanted", "seen", "given", "copies"),
    [
        ("no ports at all", (), (), (), 9),
        ("a fixed port", (80,), (), (), 1),
        ("a fixed port that an attempt has", (80,), (), (80,), 0),
        ("a fixed port that a stranger hears", (80,), (80,), (), 0),
        ("one of two is taken", (80, 443), (), (443,), 0),
        ("the same fixed port twice", (80, 80), (), (), 0),
        ("dynamic ports", (DYNAMIC,), (), (), 5),
        ("dynamic ports, some taken", (DYNAMIC,), (100, 7), (104, 80), 3),
        ("two dynamic ports for each", (DYNAMIC, DYNAMIC), (), (), 2),
        ("more dynamic ports than there are", (DYNAMIC,) * 6, (), (), 0),
        ("a fixed port inside the range is no dynamic one", (102, *[DYNAMIC] * 5), (), (), 0),
        ("a fixed port outside of it does no harm", (80, *[DYNAMIC] * 5), (), (), 1),
    ],
)
def test_how_many_tasks_a_node_has_ports_for(
    story: str, wanted: tuple[int, ...], seen: tuple[int, ...], given: tuple[int, ...], copies: int
) -> None:
    assert ports(seen=seen, given=given).copies(0, wanted, 9) == copies, story


def test_dynamic_ports_are_the_lowest_free_ones_in_the_order_of_the_job() -> None:
    made = ports(seen=(100,), given=(102,))
    assert made.give(0, (DYNAMIC, 80, DYNAMIC)) == (101, 80, 103)
    assert made.given(0) == (80, 101, 102, 103)
    made.give_back(0, (101,))
    assert made.give(0, (DYNAMIC,)) == (101,)


def test_a_fixed_port_of_the_same_task_is_not_its_dynamic_one() -> None:
    assert ports().give(0, (DYNAMIC, 100)) == (101, 100)


def test_what_strangers_do_is_replaced_as_a_whole_and_forgotten_with_the_node() -> None:
    made = ports(seen=(80, 81))
    made.see(0, (82,))
    assert made.is_free(0, 80)
    assert not made.is_free(0, 82)
    made.forget(0)
    assert made.is_free(0, 82)


def test_nodes_have_their_own_ports_and_the_usual_range_unless_told() -> None:
    made = ports()
    made.give(0, (80,))
    assert made.is_free(1, 80)
    assert made.give(1, (DYNAMIC,)) == (FIRST,)


def test_an_empty_node_has_all_its_ports() -> None:
    made = ports(seen=(80, 100), given=(101,))
    assert made.copies_when_empty(0, (80,), 9) == 1
    assert made.copies_when_empty(0, (DYNAMIC,), 9) == 5
    assert made.copies_when_empty(0, (80, 80), 9) == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("give"), st.lists(st.integers(0, 6), max_size=4)),
            st.tuples(st.just("end"), st.integers(0, 9)),
            st.tuples(st.just("see"), st.lists(st.integers(1, 8), max_size=4)),
        ),
        max_size=40,
    )
)
def test_no_port_is_given_twice_and_all_are_given_back(story: list[tuple[str, object]]) -> None:
    made = ports(3, 7)
    alive: list[tuple[int, ...]] = []
    for what, value in story:
        busy = [port for got in alive for port in got]
        if what == "see" and isinstance(value, list):
            made.see(0, value)
        elif what == "end" and isinstance(value, int) and alive:
            made.give_back(0, alive.pop(value % len(alive)))
        elif what == "give" and isinstance(value, list):
            if made.copies(0, value, 1):
                before = made.seen(0)
                got = made.give(0, value)
                assert not {*busy, *before} & set(got)
                assert all(mine in (asked, mine * (asked == DYNAMIC)) for mine, asked in zip(got, value, strict=True))
                assert all(3 <= mine <= 7 for mine, asked in zip(got, value, strict=True) if asked == DYNAMIC)
                alive.append(got)
            else:
                free = [p for p in range(1, 9) if made.is_free(0, p)]
                fixed = [port for port in value if port]
                dynamic = [p for p in free if 3 <= p <= 7 and p not in fixed]
                assert (
                    len(set(fixed)) < len(fixed) or set(fixed) - set(free) or len(dynamic) < len(value) - len(fixed)
                ), f"{value} could have been given"
        assert made.given(0) == tuple(sorted(port for got in alive for port in got))
