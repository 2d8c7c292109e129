"""Checks of a whole state that are too dear for every call: every few of them, and the last one at the end of the test.

What is wrong in a state mostly stays wrong, so the last one shows it. A long run checks each of them, and so does
``CRESS_CHECK=1``, which finds the first call after which something is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.examples import usual

# On a push, each of so many states is checked. Odd: calls that tell the core something take turns with calls that let
# it decide.
EVERY = 5

# What has not been checked in its last state, and how to.
_unchecked: dict[object, Callable[[], None]] = {}


def is_checked(call: int) -> bool:
    """Return whether the state after a call is checked, by the number of the call in its story, from 1 on."""
    return call % (int(os.environ.get("CRESS_CHECK", "0")) or usual(EVERY, 1)) == 0


def check_now_or_later(owner: object, call: int, check: Callable[[], None]) -> None:
    """Check the state of ``owner`` after a call now, or at the end unless there is another call."""
    if is_checked(call):
        _unchecked.pop(owner, None)
        check()
    else:
        _unchecked[owner] = check


def check_the_rest() -> None:
    """Check the last states so far: at the end of a test, and before it makes another world."""
    while _unchecked:
        _, check = _unchecked.popitem()
        check()


@pytest.fixture(autouse=True)
def last_states_are_checked() -> Iterator[None]:
    """Check at the end of a test what it left unchecked."""
    _unchecked.clear()
    yield
    check_the_rest()
