"""How the tests run: the processes of the two pools, budgets of tests, and what failed and runs once more."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.budget import Budget, Spent
from tests.longest_first import longest_first
from tools import run_tests


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


# Fake tests: each notes in a file of its own that it ran, so that it may fail the first time only.
FAKES = """
from pathlib import Path
import pytest

def first(name):
    note = Path(__file__).with_name(name)
    ran = note.exists()
    note.touch()
    return not ran

@pytest.fixture
def torn_down(request):
    yield
    assert not first(request.node.name + "-end")

def test_good(): pass
"""
ONCE = "def test_once(): assert not first('once')\n"
ALWAYS = "@pytest.mark.parametrize('how', ['a - b'])\ndef test_always(how): assert False\n"
AT_THE_END = "def test_at_the_end(torn_down): pass\n"
TWICE = "def test_twice(torn_down): assert not first('twice')\n"
MANY = "@pytest.mark.parametrize('number', range(13))\ndef test_many(number): assert not first(str(number))\n"


@pytest.mark.parametrize(
    ("computing", "waiting", "processes", "code", "told", "alone"),
    [
        ("", ONCE + AT_THE_END + TWICE, True, 0, "3 passed, 3 passed alone", ["at_the_end", "once", "twice"]),
        (ONCE, ONCE + ALWAYS, False, 1, "3 failed, 2 passed", []),
        ("", MANY, False, 1, "13 failed, 2 passed", []),
    ],
    ids=["one time only", "always, or in the pool that computes", "too many"],
)
def test_a_few_that_failed_while_they_waited_run_once_more(
    computing: str,
    waiting: str,
    processes: bool,
    code: int,
    told: str,
    alone: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for folder, tests in (("core", computing), ("system", waiting)):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(FAKES + tests)
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setenv("WORKERS", "1")
    # Other plugins take longer to load than these tests to run; so do processes of each pool.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    if not processes:
        command = run_tests._command
        monkeypatch.setattr(run_tests, "_command", lambda _workers, arguments: command(0, arguments))
    assert run_tests.main(["-p", "xdist.plugin"]) == code
    said = capfd.readouterr().out
    assert re.search(rf"^==== {told} in ", said, re.MULTILINE), said
    assert re.findall(r"^failed beside others, passed alone: .*::test_(\w+)$", said, re.MULTILINE) == alone, said
