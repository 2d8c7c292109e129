"""How the tests run: the processes of the two pools, budgets of tests, and what failed and runs once more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.budget import Budget, Spent
from tests.portions import portions
from tools import run_tests


@pytest.mark.parametrize(
    ("names", "processes", "expected"),
    [
        ("a b c d", 1, [[2], [0], [1], [3]]),
        ("", 4, []),
        ("c f", 4, [[0], [1]]),
        (" ".join(["a"] * 48), 1, [[*range(4)], [*range(4, 7)], [*range(7, 10)], [*range(10, 13)]]),
        (" ".join(["a"] * 3 + ["b"] * 69), 2, [[0, 1, 2], [3, 4], [5, 6]]),
        (" ".join(["a"] * 1000), 2, [[*range(16)], [*range(16, 32)]]),
    ],
    ids=["the longest first", "no tests", "long tests only", "smaller and smaller", "one file a portion", "at most 16"],
)
def test_processes_get_the_longest_tests_first_and_then_smaller_and_smaller_portions(
    names: str, processes: int, expected: list[list[int]]
) -> None:
    found = portions([f"{name}::test" for name in names.split()], {"c::test", "f::test"}, processes)
    assert found[: len(expected)] == expected
    assert sorted(place for portion in found for place in portion) == [*range(len(names.split()))]
    assert not found or len(found[-1]) == 1


# Tests of processes that share a collection. One dies, and its process had more to do.
SHARED = """
import os
import pytest

IMPORTED = os.getpid()

@pytest.fixture(scope="module")
def once(tmp_path_factory):
    with (tmp_path_factory.getbasetemp().parent.parent / "made").open("a") as made:
        made.write(f"{os.getpid()}\\n")
    yield os.getpid()
    with (tmp_path_factory.getbasetemp().parent.parent / "torn").open("a") as torn:
        torn.write(f"{os.getpid()}\\n")

@pytest.mark.parametrize("number", range(30))
def test_many(number, once, capfd, tmp_path):
    print("said")
    os.write(1, b"written")
    assert once == os.getpid() != IMPORTED
    assert "worker" in str(tmp_path)
    assert sorted(capfd.readouterr().out.split()) == ["said", "written"]

def test_bad(): assert False, "this is why"
def test_dies(): os._exit(7)
@pytest.mark.skip(reason="not now")
def test_skipped(): pass
def test_last(): pass
"""


def test_processes_share_one_collection_and_one_that_dies_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(SHARED)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = [sys.executable, "-m", "pytest", "-n2", "-v", "-rA", f"--basetemp={tmp_path / 'base'}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "2 failed, 31 passed, 1 skipped" in ended.stdout
    assert "this is why" in ended.stdout
    assert "the process that ran this test died: exit code 7" in ended.stdout
    made, torn = ((tmp_path / name).read_text().split() for name in ("made", "torn"))
    assert 1 <= len(made) <= 3
    # The one that died tidied up nothing.
    assert len(made) - len(torn) <= 1


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


# ``-n`` of the tests of Cress, for fake ones.
CONFTEST = f"""
import sys
sys.path.append({str(run_tests.ROOT)!r})

def pytest_addoption(parser):
    parser.getgroup("fakes")._addoption("-n", "--workers", type=int, default=0)

def pytest_configure(config):
    if config.option.workers:
        from tests.workers import Workers
        config.pluginmanager.register(Workers(config.option.workers))
"""
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
TOO_MANY = run_tests.AGAIN + 1
MANY = f"@pytest.mark.parametrize('number', range({TOO_MANY}))\ndef test_many(number): assert not first(str(number))\n"


@pytest.mark.parametrize(
    ("computing", "waiting", "processes", "code", "told", "alone"),
    [
        ("", ONCE + AT_THE_END + TWICE, True, 0, "3 passed, 3 passed alone", ["at_the_end", "once", "twice"]),
        (ONCE, ONCE + ALWAYS, False, 1, "3 failed, 2 passed", []),
        ("", MANY, False, 1, f"{TOO_MANY} failed, 2 passed", []),
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
    (tmp_path / "conftest.py").write_text(CONFTEST)
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
    assert run_tests.main([]) == code
    said = capfd.readouterr().out
    assert re.search(rf"^==== {told} in ", said, re.MULTILINE), said
    assert re.findall(r"^failed beside others, passed alone: .*::test_(\w+)$", said, re.MULTILINE) == alone, said
