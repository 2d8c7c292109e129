"""Who gives way where a portal has no more room."""

from __future__ import annotations

import pytest

from cress.portal.shares import gives_way


@pytest.mark.parametrize(
    ("owners", "gives"),
    [
        ({"a": "ann"}, "a"),
        ({"a": "ann", "b1": "bob", "b2": "bob"}, "b1"),
        ({"b1": "bob", "a1": "ann", "a2": "ann", "a3": "ann", "b2": "bob"}, "a1"),
        ({"a1": "ann", "b1": "bob", "b2": "bob", "a2": "ann"}, "a1"),
    ],
    ids=["the only one", "of who has most", "the first of these", "of equals the first"],
)
def test_who_has_most_gives_way_with_the_first(owners: dict[str, str], gives: str) -> None:
    assert gives_way(owners) == gives
