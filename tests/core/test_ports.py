"""Ports: fixed and dynamic ones of attempts, those of strangers, and a plain account of who has which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.tables.ports import DYNAMIC, PortTable
from cress.model.node import DYNAMIC_PORTS

NODE = np.array([0])


def give(ports: PortTable, f: int, wanted: Sequence[int]) -> tuple[int, ...]:
    """Choose ports of a node and take them."""
    got = ports.choose(f, wanted)
    ports.take(f, got)
    return got


def ports(first: int = 100, last: int = 104, seen: tuple[int, ...] = (), given: tuple[int, ...] = ()) -> PortTable:
    """The ports of node 0."""
    made = PortTable()
    made.set_range(0, (first, last))
    made.see(0, seen)
    made.take(0, given)
    return made


@pytest.mark.parametrize(
    ("seen", "given", "but", "free"),
    [
        pytest.param((), (), (), 5, id="nobody has any"),
        pytest.param((100, 7), (104, 80), (), 3, id="some are taken, others are outside of the range"),
        pytest.param((), (), (102, 80), 4, id="a fixed port of the same task"),
        pytest.param((102,), (), (102,), 4, id="a fixed port that is taken anyway"),
        pytest.param((102,), (102,), (), 4, id="a stranger and an attempt on one port"),
        pytest.param((100, 101), (102, 103, 104), (), 0, id="all are taken"),
    ],
)
def test_how_many_dynamic_ports_are_free(
    seen: tuple[int, ...], given: tuple[int, ...], but: tuple[int, ...], free: int
) -> None:
    assert ports(seen=seen, given=given).dynamic(NODE, but).tolist() == [free]


def test_dynamic_ports_are_the_lowest_free_ones_in_the_order_of_the_job() -> None:
    made = ports(seen=(100,), given=(102,))
    assert give(made, 0, (DYNAMIC, 80, DYNAMIC)) == (101, 80, 103)
    assert made.given(0) == (80, 101, 102, 103)
    made.give_back(0, (101,))
    assert give(made, 0, (DYNAMIC,)) == (101,)


def test_a_fixed_port_of_the_same_task_is_not_its_dynamic_one() -> None:
    assert give(ports(), 0, (DYNAMIC, 100)) == (101, 100)


def test_what_strangers_do_is_replaced_as_a_whole_and_forgotten_with_the_node() -> None:
    made = ports(seen=(80, 81))
    made.see(0, (82,))
    assert made.is_free(0, 80)
    assert not made.is_free(0, 82)
    made.forget(0)
    assert made.is_free(0, 82)


def test_nodes_have_their_own_ports() -> None:
    made = ports()
    made.set_range(20, DYNAMIC_PORTS)
    give(made, 0, (80,))
    assert made.taken(np.array([0, 20]), 80).tolist() == [True, False]
    assert give(made, 20, (DYNAMIC,)) == (DYNAMIC_PORTS[0],)


def test_an_empty_node_has_all_its_ports() -> None:
    made = ports(seen=(80, 100), given=(101,))
    assert made.dynamic_when_empty(NODE).tolist() == [5]
    assert made.dynamic_when_empty(NODE, (100, 80)).tolist() == [4]


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
            wanted = [port for port in value if port]
            free = [p for p in range(1, 9) if made.is_free(0, p)]
            dynamic = [p for p in free if 3 <= p <= 7 and p not in wanted]
            assert made.dynamic(NODE, wanted).tolist() == [len(dynamic)]
            if (
                len(set(wanted)) == len(wanted)
                and set(wanted) <= set(free)
                and len(dynamic) + len(wanted) >= len(value)
            ):
                before = made.seen(0)
                got = give(made, 0, value)
                assert not {*busy, *before} & set(got)
                assert all(mine in (asked, mine * (asked == DYNAMIC)) for mine, asked in zip(got, value, strict=True))
                assert all(3 <= mine <= 7 for mine, asked in zip(got, value, strict=True) if asked == DYNAMIC)
                alive.append(got)
        assert made.given(0) == tuple(sorted(port for got in alive for port in got))
