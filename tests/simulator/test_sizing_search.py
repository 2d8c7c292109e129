"""The search for the least size, against trying every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.simulator.sizing.search import OutOfReach, Search
from tests.examples import examples


def search(passing: set[int], guess: int, *, most: int = 40, beyond: int = 2) -> tuple[int, list[int]]:
    """What is found where these sizes pass, and the sizes that were tried, in their order."""
    tried: list[int] = []

    def passes(size: int) -> bool:
        tried.append(size)
        return size in passing

    return Search(passes, lambda _size: False, most=most, beyond=beyond).run(guess), tried


@given(least=st.integers(1, 40), guess=st.integers(-3, 60))
@examples(20)
def test_where_more_always_helps_it_is_the_least(least: int, guess: int) -> None:
    found, tried = search(set(range(least, 41)), guess)
    assert found == least
    assert len(tried) == len(set(tried)), "no size is simulated twice"


@given(passing=st.sets(st.integers(1, 30)), guess=st.integers(1, 40), beyond=st.integers(0, 3))
@examples(50)
def test_where_it_does_not_the_sizes_beyond_pass_too_and_the_one_below_fails(
    passing: set[int], guess: int, beyond: int
) -> None:
    passing |= set(range(31, 41))
    found, _ = search(passing, guess, beyond=beyond)
    assert passing >= set(range(found, min(found + beyond, 40) + 1))
    assert found == 1 or found - 1 not in passing


def test_a_size_that_passes_by_chance_is_not_taken() -> None:
    assert search({7, *range(12, 41)}, 7)[0] == 12
    assert search({7, *range(12, 41)}, 20, beyond=0)[0] in (7, 12)


def test_it_takes_few_simulations() -> None:
    found, tried = search(set(range(617, 5001)), 600, most=5000)
    assert found == 617
    assert len(tried) <= 12


def test_it_says_when_no_size_passes() -> None:
    with pytest.raises(OutOfReach) as error:
        search(set(), 5)
    assert error.value.size == 40
    hopeless = Search(lambda _size: False, lambda size: size > 15)
    with pytest.raises(OutOfReach) as error:
        hopeless.run(10)
    assert 15 < error.value.size < 30
