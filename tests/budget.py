"""A budget for each test: what is slow is made faster or marked ``long``; and a table of where the time of a run went.

A test without the mark may take as many seconds of processor (of its process and of the programs that it waited for)
and of time as ``BUDGET`` says. Its own fixtures count, those that it shares with others do not. Machines differ, and
other programs run beside it. So the budget of a test that is above it becomes wider: by what a fixed piece of work
takes more than ``REFERENCE``, and its time by what the processors were asked for. Stories that are drawn differ from
commit to commit, and so does what they take: a file with properties has ``DRAWN`` budgets for each test. What is
measured may be ``NOISE`` times what it was. In a long run there are no budgets.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

REFERENCE = 0.010  # seconds of the piece of work, on the machine for which the budget is meant
EXCEPTIONS = Path(__file__).with_name("over_budget.txt")
# What each test of the last run took: seconds of processor, seconds, name.
TIMES = Path("build") / f"test-times-{os.environ.get('TEST_POOL', 'all')}.json"
_PROPERTY = "spent"
_ABOVE = "above"
_SHOWN = 15


class Spent(NamedTuple):
    """Seconds of processor, and of time."""

    processor: float = 0.0
    wall: float = 0.0

    @classmethod
    def so_far(cls) -> Spent:
        """Return what this process has spent, with the programs that it waited for."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(time.process_time() + children.ru_utime + children.ru_stime, time.perf_counter())

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """Return the sum of this and ``times`` the other one."""
        return Spent(self.processor + times * other.processor, self.wall + times * other.wall)

    def __str__(self) -> str:
        return f"{self.processor:7.1f} s of processor {self.wall:7.1f} s"


BUDGET = Spent(3.0, 8.0)
DRAWN = 3
# Two measurements of one test differ by a half with the state of caches and of the other processor. On a machine that
# others share they differed by a factor of two for minutes, in which the piece of work, which needs no memory, took as
# long as ever.
NOISE = 2.5


def slowness_now() -> Spent:
    """Return how many times as long work takes on this machine at this moment: 1 or more, of processor and of time."""
    took = []
    for _ in range(5):
        before, total = Spent.so_far(), 0
        for number in range(200_000):
            total += number & 7
        took.append(Spent.so_far().plus(before, -1))
    slower, later = (sorted(each)[len(took) // 2] / REFERENCE for each in zip(*took, strict=True))
    asked = os.getloadavg()[0] / (os.cpu_count() or 1)
    # Two programs on one core with two threads take longer, each of them.
    return Spent(max(1.0, slower, min(1.5, asked)), max(1.0, later, asked))


def budget_now() -> Spent:
    """Return the budget on a machine that is as slow, and as busy, as this one is at this moment."""
    slowness = slowness_now()
    return Spent(BUDGET.processor * slowness.processor, BUDGET.wall * slowness.wall)


def exceptions() -> frozenset[str]:
    """Return the tests that may take longer: a list that may only become shorter."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


class Budget:
    """The plugin: measures every test, fails those above the budget, and prints the table."""

    def __init__(self) -> None:
        self.excepted = exceptions()
        # Of the running test; and what shared fixtures took meanwhile.
        self._spent = self._shared = Spent()
        self.tests: dict[str, Spent] = {}
        self.above: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Measure fixtures of a module or of the whole run: they are nobody's own."""
        if fixturedef.scope == "function":
            return (yield)
        before, outer = Spent.so_far(), self._shared
        try:
            return (yield)
        finally:
            # It includes those that it asks for.
            self._shared = outer.plus(Spent.so_far()).plus(before, -1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        """Measure the fixtures of the test."""
        self._spent = Spent()
        return (yield from self._measured())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Measure the test."""
        return (yield from self._measured())

    def _measured(self) -> Generator[None, None, None]:
        self._shared, before = Spent(), Spent.so_far()
        try:
            return (yield)
        finally:
            self._spent = self._spent.plus(Spent.so_far()).plus(before, -1).plus(self._shared, -1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let a test that passed fail if it is above its budget."""
        report = yield
        if call.when == "call":
            report.user_properties.append((_PROPERTY, tuple(self._spent)))
            bound = item.get_closest_marker("long") is None and item.nodeid not in self.excepted
            # A long run draws thirty times as many examples.
            bound = bound and item.config.getoption("--hypothesis-profile", None) != "long"
            times = DRAWN if hasattr(getattr(item, "module", None), "given") else 1
            if report.passed and bound and _is_above(self._spent, BUDGET, times):
                budget = budget_now()
                if _is_above(self._spent, budget, times):
                    report.outcome = "failed"
                    report.user_properties.append((_ABOVE, True))
                    report.longrepr = (
                        f"above its budget: {self._spent}, where {times} times {budget} are allowed.\n"
                        "Make the test faster, or mark it long."
                    )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test took, in whatever process it ran."""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == _PROPERTY and isinstance(value, Iterable):
                    self.tests[report.nodeid] = Spent(*value)
                elif name == _ABOVE:
                    self.above.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the time went, by folder, file and test; note what was above the budget (tools/run_tests.py)."""
        cache = getattr(terminalreporter.config, "cache", None)
        if cache is not None:
            cache.set("budget/above", self.above)
        if len(self.tests) < 100:
            return
        folders: dict[str, Spent] = defaultdict(Spent)
        files: dict[str, Spent] = defaultdict(Spent)
        total = Spent()
        for name, spent in self.tests.items():
            file = name.partition("::")[0]
            files[file] = files[file].plus(spent)
            folder = file.rpartition("/")[0]
            folders[folder] = folders[folder].plus(spent)
            total = total.plus(spent)
        terminalreporter.section(f"where the time went: {total} in {len(self.tests)} tests")
        for kind in (folders, files, self.tests):
            for name, spent in sorted(kind.items(), key=lambda each: each[1], reverse=True)[:_SHOWN]:
                terminalreporter.line(f"{spent}  {name}")
            terminalreporter.line("")
        rows = sorted(((*spent, name) for name, spent in self.tests.items()), reverse=True)
        TIMES.parent.mkdir(exist_ok=True)
        TIMES.write_text(json.dumps(rows, indent=0), encoding="utf-8")
        terminalreporter.line(f"all tests: {TIMES}")


def _is_above(spent: Spent, budget: Spent, times: int) -> bool:
    most = NOISE * times
    return spent.processor > most * budget.processor or spent.wall > most * budget.wall
