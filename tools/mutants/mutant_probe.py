"""What pytest loads while mutants are tried: writes down which tests came by which points, and how tests ended.

It is copied into the copy of the project, and imports nothing of it. ``MUTANT_RECORDS`` names the file to which it
appends lines of JSON; ``MUTANT_TESTS`` a file with the tests to run, in their order; ``MUTANT_UNTIL`` the moment
(seconds since 1970) behind which no further test begins.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

_seen: set[tuple[int, str | None]] = set()


def reached(number: int) -> None:
    """Note that a test came by a point. A program that a test started leaves the name out: it is the last that began,
    and the environment of a program that is forked from a server names the one that started the server.
    """
    own = os.environ.get("MUTANT_PYTEST") == str(os.getpid())
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] if own else None
    if (number, test) not in _seen:
        _seen.add((number, test))
        _write(["reached", test, number])


def pytest_configure() -> None:
    """Let the programs that tests start know that they are others."""
    os.environ["MUTANT_PYTEST"] = str(os.getpid())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that are asked for, in their order."""
    name = os.environ.get("MUTANT_TESTS")
    if name:
        order = {test: place for place, test in enumerate(json.loads(Path(name).read_text(encoding="utf-8")))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note the test that begins: it is the one that hangs if none follows."""
    _write(["begins", nodeid, 0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Begin no further test when the time is up."""
    until = os.environ.get("MUTANT_UNTIL")
    if until and time.time() > float(until):
        item.session.shouldstop = "the time is up"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a part of a test ended, and the seconds that it took."""
    _write([report.outcome, report.nodeid, report.duration])


def _write(row: list[object]) -> None:
    name = os.environ.get("MUTANT_RECORDS")
    if name:
        # One write in one piece: several processes append to the file.
        place = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(place, (json.dumps(row) + "\n").encode())
        finally:
            os.close(place)
