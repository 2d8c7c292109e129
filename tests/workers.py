"""Processes that share one collection: each is forked from the pytest that has imported and collected all tests.

``-n 4`` makes four. They import nothing again, share the memory of what was imported and the server that forks programs
(``tests/forked.py``), and get their tests a few at a time (``tests/portions.py``), so that all of them end together. A
process that dies fails the test that it ran; another takes its place.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.forkserver import _forkserver
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import pytest

from tests.budget import exceptions
from tests.portions import portions

# How many tests a process has at least, until none are left: the one that runs, and the one whose fixtures stay.
AHEAD = 2


class Told(NamedTuple):
    """What a process tells: a hook of pytest to call in the first process, and what it is given."""

    hook: str
    given: dict[str, Any]


@dataclass(eq=False)
class _Worker:
    pid: int
    pipe: Connection
    # The file descriptor that becomes readable when the process is over.
    over: int
    # The numbers of its tests, from the running one on.
    tests: deque[int] = field(default_factory=deque)
    last: bool = False

    def send(self, tests: list[int]) -> None:
        """Hand over more tests; none means that no more follow. A process that is over is seen later."""
        self.tests += tests
        self.last = not tests
        with contextlib.suppress(OSError):
            self.pipe.send(tests)


class Workers:
    """The plugin of the first process: forks the others and reports what they tell as its own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._number = 0
        self._workers: list[_Worker] = []
        self._waiting: deque[list[int]] = deque()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests in other processes."""
        if session.config.option.collectonly:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        session.config.pluginmanager.get_plugin("terminalreporter").showfspath = False  # type: ignore[union-attr]
        names = [item.nodeid for item in session.items]
        self._waiting.extend(portions(names, exceptions(), self._count))
        # Made before there are several that could make it.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        if "tests.forked" in sys.modules:
            _forkserver.ensure_running()
        try:
            for _ in range(min(self._count, len(names))):
                self._fork(session)
            while self._workers:
                self._listen(session)
        except BaseException:
            # Ctrl-C goes to all of them; one that listens to a test is told.
            for worker in self._workers:
                os.kill(worker.pid, signal.SIGINT)
            raise
        finally:
            for worker in self._workers:
                os.waitpid(worker.pid, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _fork(self, session: pytest.Session) -> None:
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            here.close()
            for worker in self._workers:
                worker.pipe.close()
                os.close(worker.over)
            _work(session, self._number, there)
        there.close()
        self._number += 1
        worker = _Worker(pid, here, os.pidfd_open(pid))
        self._workers.append(worker)
        self._feed(worker)

    def _feed(self, worker: _Worker) -> None:
        while len(worker.tests) < AHEAD and not worker.last:
            worker.send(self._waiting.popleft() if self._waiting else [])

    def _listen(self, session: pytest.Session) -> None:
        ready = wait([end for worker in self._workers for end in (worker.pipe, worker.over)])
        for worker in [each for each in self._workers if each.pipe in ready or each.over in ready]:
            # Read before what it told: after its end it tells nothing more.
            over = bool(wait([worker.over], 0))
            with contextlib.suppress(EOFError, OSError):
                while worker.pipe.poll():
                    self._report(session, worker, worker.pipe.recv())
            if over:
                self._bury(session, worker)

    def _report(self, session: pytest.Session, worker: _Worker, told: Told) -> None:
        config, given = session.config, told.given
        if told.hook == "pytest_runtest_logreport":
            report = config.hook.pytest_report_from_serializable(config=config, data=given["report"])
            config.hook.pytest_runtest_logreport(report=report)
        else:
            getattr(config.hook, told.hook)(**given)
        if told.hook == "pytest_runtest_logfinish":
            worker.tests.popleft()
            if session.shouldfail or session.shouldstop:
                self._waiting.clear()
            self._feed(worker)

    def _bury(self, session: pytest.Session, worker: _Worker) -> None:
        """Take leave of a process that is over; another takes its place if it was to do more."""
        self._workers.remove(worker)
        worker.pipe.close()
        os.close(worker.over)
        _, status = os.waitpid(worker.pid, 0)
        if not worker.tests or session.shouldfail or session.shouldstop:
            return
        item = session.items[worker.tests.popleft()]
        code = os.waitstatus_to_exitcode(status)
        why = f"the process that ran this test died: exit code {code}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        if worker.tests:
            self._waiting.appendleft(list(worker.tests))
        self._fork(session)


# --- the forked process -----------------------------------------------------------------------------------------------


class _Teller:
    """The plugin of a forked process: tells the first one what pytest reports."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config, self._pipe = config, pipe

    def _tell(self, hook: str, **given: object) -> None:
        self._pipe.send(Told(hook, given))

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._tell("pytest_runtest_logstart", nodeid=nodeid, location=location)

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._tell("pytest_runtest_logfinish", nodeid=nodeid, location=location)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._config
        self._tell(
            "pytest_runtest_logreport", report=config.hook.pytest_report_to_serializable(config=config, report=report)
        )

    @pytest.hookimpl
    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        shown = warnings.WarningMessage(
            str(warning_message.message), warning_message.category, warning_message.filename, warning_message.lineno
        )
        self._tell("pytest_warning_recorded", warning_message=shown, when=when, nodeid=nodeid, location=location)


def _work(session: pytest.Session, number: int, pipe: Connection) -> NoReturn:
    """Be a process of tests: run what comes through the pipe, to the end."""
    code = 0
    try:
        # What was to happen at the end of the first process happens there.
        atexit._clear()
        _part_from_parent(session.config, number)
        session.config.pluginmanager.register(_Teller(session.config, pipe), "teller")
        items = _received(session, pipe)
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
    except KeyboardInterrupt:
        code = 2
    except (EOFError, BrokenPipeError):
        # The first process is gone.
        code = 3
    except BaseException:  # noqa: BLE001 – told as the interpreter tells it
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        os._exit(code)


def _received(session: pytest.Session, pipe: Connection) -> Iterator[pytest.Item]:
    while numbers := pipe.recv():
        yield from (session.items[number] for number in numbers)


def _part_from_parent(config: pytest.Config, number: int) -> None:
    """Have no part in the output, folders, random numbers and children of the process that this was forked from."""
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    # Its files would be those of all processes.
    capture = plugins.get_plugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=False)
    base = cast("Path", config._tmp_path_factory.getbasetemp()) / f"worker{number}"  # type: ignore[attr-defined]
    base.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    # The server that forks programs is a child of the first process, and as old as that.
    _forkserver.ensure_running = lambda: None  # type: ignore[method-assign]
