"""A budget for each test: what is slow is marked ``long`` or made faster, and the end of a run shows where the minutes
went.

A test without the mark may take ``PROCESSOR`` seconds of processor (its own process and the programs that it waited
for) and ``WALL`` seconds of time, fixtures of its own included, those that it shares with others not. Machines differ,
and other programs run beside: a fixed piece of work is measured at the beginning and again when a test is above its
budget, and the larger of the two ratios to ``REFERENCE`` widens the budget.
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PROCESSOR, WALL = 3.0, 8.0
# Seconds that the piece of work takes on the machine for which the budget is meant.
REFERENCE = 0.010
EXCEPTIONS = Path(__file__).with_name("over_budget.txt")
# What each test of the last run took: seconds of processor, seconds, name.
TIMES = Path("build/test-times.json")
_PROPERTY = "seconds"
_SHOWN = 15


def processor() -> float:
    """Return the seconds of processor that this process and the programs that it waited for have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def slowness() -> float:
    """Return by how much slower than on the reference machine a fixed piece of work is at this moment, at least 1."""
    took = []
    for _ in range(5):
        before = time.perf_counter()
        total = 0
        for number in range(200_000):
            total += number & 7
        took.append(time.perf_counter() - before)
    return max(1.0, sorted(took)[len(took) // 2] / REFERENCE)


def exceptions() -> frozenset[str]:
    """Return the tests that may take longer: the list may only become shorter."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


class Budget:
    """The plugin: measures every test, fails those above the budget, and prints a table."""

    def __init__(self) -> None:
        self.excepted = exceptions()
        self.slowness = slowness()
        # Of the running test: what it took, without fixtures that are shared.
        self._seconds = [0.0, 0.0]
        # What fixtures that are shared took while it was set up.
        self._shared = [0.0, 0.0]
        # By file: seconds of processor, seconds, tests.
        self.files: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
        self.tests: list[tuple[float, float, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Measure what fixtures of a module or of the whole run take: nobody's test pays for them."""
        if fixturedef.scope == "function":
            return (yield)
        before = processor(), time.perf_counter()
        inner, self._shared = self._shared, [0.0, 0.0]
        try:
            return (yield)
        finally:
            # A fixture that asks for another one includes it.
            self._shared = [inner[0] + processor() - before[0], inner[1] + time.perf_counter() - before[1]]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Measure the fixtures of the test."""
        self._shared = [0.0, 0.0]
        before = processor(), time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds = [
                processor() - before[0] - self._shared[0],
                time.perf_counter() - before[1] - self._shared[1],
            ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Measure the test."""
        self._shared = [0.0, 0.0]
        before = processor(), time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[0] += processor() - before[0] - self._shared[0]
            self._seconds[1] += time.perf_counter() - before[1] - self._shared[1]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Let a test that passed fail if it was above its budget."""
        report: pytest.TestReport = yield
        if call.when == "call":
            used, wall = self._seconds
            report.user_properties.append((_PROPERTY, (used, wall)))
            if report.passed and item.get_closest_marker("long") is None and item.nodeid not in self.excepted:
                over = self._over(used, wall)
                if over:
                    report.outcome = "failed"
                    report.longrepr = over
        return report

    def _over(self, used: float, wall: float) -> str:
        if used <= PROCESSOR * self.slowness and wall <= WALL * self.slowness:
            return ""
        slow = self.slowness = max(self.slowness, slowness())
        if used <= PROCESSOR * slow and wall <= WALL * slow:
            return ""
        return (
            f"above its budget: {used:.1f} s of processor (at most {PROCESSOR * slow:.1f}), {wall:.1f} s of time (at "
            f"most {WALL * slow:.1f}). Make it faster, or mark it long"
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what tests took, those of other processes too."""
        for name, value in report.user_properties:
            if name == _PROPERTY and report.when == "call":
                used, wall = value
                sums = self.files[report.nodeid.partition("::")[0]]
                sums[0] += used
                sums[1] += wall
                sums[2] += 1
                self.tests.append((used, wall, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the minutes went."""
        if len(self.files) < 2:
            return
        total = [sum(each[i] for each in self.files.values()) for i in range(2)]
        terminalreporter.section(f"where the time went: {total[0]:.0f} s of processor, {total[1]:.0f} s of time")
        by_folder: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
        for name, sums in self.files.items():
            for i, value in enumerate(sums):
                by_folder[name.rpartition("/")[0]][i] += value
        for kind in (by_folder, self.files):
            for name, (used, wall, count) in sorted(kind.items(), key=lambda each: -each[1][0])[:_SHOWN]:
                terminalreporter.line(f"{used:7.1f} s of processor {wall:7.1f} s {int(count):5d} tests  {name}")
            terminalreporter.line("")
        for used, wall, name in sorted(self.tests, reverse=True)[:_SHOWN]:
            terminalreporter.line(f"{used:7.1f} s of processor {wall:7.1f} s  {name}")
        TIMES.parent.mkdir(exist_ok=True)
        TIMES.write_text(json.dumps(sorted(self.tests, reverse=True), indent=0), encoding="utf-8")
        terminalreporter.line(f"all of them: {TIMES}")
