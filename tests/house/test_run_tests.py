"""How the tests run: the processes of the two pools, and budgets of tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.budget import Budget, Spent
from tests.longest_first import longest_first


@pytest.mark.parametrize(
    ("names", "processes", "order"),
    [
        ("abcdef", 2, "cab" + "fde"),
        ("abcdefg", 3, "ca" + "fb" + "deg"),
        ("ab", 1, "ab"),
        ("", 4, ""),
        ("cf", 4, "cf"),
    ],
)
def test_each_process_begins_with_its_part_of_the_longest_tests(names: str, processes: int, order: str) -> None:
    assert "".join(names[place] for place in longest_first(names, "cf", processes)) == order


def outcome(profile: str, marks: tuple[str, ...], spent: Spent) -> str:
    """Return the outcome of a test that passed and took this, in a run with this profile of hypothesis."""
    budget = Budget()
    budget._spent = spent
    config = SimpleNamespace(getoption={"--hypothesis-profile": profile}.get)
    marker = {mark: mark for mark in marks}.get
    item: Any = SimpleNamespace(nodeid="tests/x.py::test", get_closest_marker=marker, config=config)
    call: Any = SimpleNamespace(when="call")
    report: Any = SimpleNamespace(outcome="passed", passed=True, user_properties=[])
    hook = budget.pytest_runtest_makereport(item, call)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    return str(report.outcome)


@pytest.mark.parametrize(
    ("profile", "marks", "expected"),
    [
        ("", (), "failed"),
        ("shrink", (), "failed"),
        ("", ("long",), "passed"),
        ("long", (), "passed"),
        ("long", ("long",), "passed"),
    ],
)
def test_only_a_push_has_budgets(profile: str, marks: tuple[str, ...], expected: str) -> None:
    assert outcome(profile, marks, Spent(1e6, 1e6)) == expected
    assert outcome(profile, marks, Spent(0.1, 0.1)) == "passed"
