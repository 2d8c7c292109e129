"""How the tests run: the processes of the two pools, and budgets of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tests.budget import Budget, Spent
from tools.run_tests import computing_workers


@pytest.mark.parametrize(
    ("arguments", "processors", "workers"),
    [
        (["-m", "not long"], 2, 1),
        (["-m", "not long"], 8, 4),
        (["-m", "not long"], 1, 1),
        (["--hypothesis-profile=long", "--timeout=1200"], 2, 2),
        (["-k", "backfill", "--hypothesis-profile", "long"], 8, 8),
        (["--hypothesis-profile=shrink"], 2, 1),
        (["-k", "long"], 2, 1),
    ],
)
def test_a_long_run_computes_on_all_processors(arguments: list[str], processors: int, workers: int) -> None:
    assert computing_workers(arguments, processors) == workers


@contextmanager
def profile(name: str) -> Iterator[None]:
    """Run the body with this profile of hypothesis."""
    before = settings.get_current_profile_name()
    settings.load_profile(name)
    try:
        yield
    finally:
        settings.load_profile(before)


def outcome(spent: Spent, marks: tuple[str, ...] = ()) -> str:
    """Return the outcome of a test that passed and took this."""
    budget = Budget()
    budget._spent = spent
    item: Any = SimpleNamespace(nodeid="tests/x.py::test", get_closest_marker={mark: mark for mark in marks}.get)
    call: Any = SimpleNamespace(when="call")
    report: Any = SimpleNamespace(outcome="passed", passed=True, user_properties=[])
    hook = budget.pytest_runtest_makereport(item, call)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    return str(report.outcome)


@pytest.mark.parametrize(
    ("run", "marks", "expected"),
    [
        ("default", (), "failed"),
        ("shrink", (), "failed"),
        ("default", ("long",), "passed"),
        ("long", (), "passed"),
        ("long", ("long",), "passed"),
    ],
)
def test_only_a_push_has_budgets(run: str, marks: tuple[str, ...], expected: str) -> None:
    with profile(run):
        assert outcome(Spent(1e6, 1e6), marks) == expected
        assert outcome(Spent(0.1, 0.1), marks) == "passed"
