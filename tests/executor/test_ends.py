"""Ends are known without the supervisor: kill -9 at any moment, with a reaper above it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.ends import FOLDER, ReapedProcess
from cress.executor.processes import is_alive
from cress.model.reports import Cause
from cress.model.run import Run
from cress.protocol.messages import Durable
from tests.executor.harness import Client, SupervisorProcess, kill_attempts, remove_groups, shell, until
from tests.waiting import PATIENCE

WAITS = "while ! [ -e ../../../go ]; do sleep 0.02; done; "


class ReapedSupervisor:
    """A supervisor below a reaper, as an agent starts it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[ReapedProcess] = []
        self.clients: list[Client] = []

    def start(self) -> Client:
        command = SupervisorProcess(self.directory).command()
        with (self.directory / "log").open("ab") as log:
            self.processes.append(ReapedProcess(self.directory, command, dict(os.environ), log))
        return until(self._connect, "the supervisor to listen")

    def _connect(self) -> Client | None:
        assert self.processes[-1].poll() is None, (self.directory / "log").read_text()
        with contextlib.suppress(OSError):
            self.clients.append(Client(self.directory))
            return self.clients[-1]
        return None

    @property
    def pid(self) -> int:
        return int((self.directory / "supervisor.lock").read_text())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: self.processes[-1].poll() == -signal.SIGKILL, "its end in the file of its reaper")

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for process in self.processes:
            if process.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
        kill_attempts(self.directory)
        for process in self.processes:
            process.reaper.wait(PATIENCE)
        remove_groups(self.directory)


@pytest.fixture
def reaped(tmp_path: Path) -> Iterator[ReapedSupervisor]:
    (tmp_path / "executor").mkdir()
    parent = ReapedSupervisor(tmp_path / "executor")
    try:
        yield parent
    finally:
        parent.close()


def test_a_task_that_ends_after_its_supervisor_was_killed_ends_as_it_does(reaped: ReapedSupervisor) -> None:
    client = reaped.start()
    client.launch(shell(WAITS + "exit 0"), 5)
    client.launch(shell(WAITS + "exit 7", job=2), 6)
    client.launch(shell(WAITS + "kill -SEGV $$", job=3), 7)
    client.launch(shell("exec sleep 1000", job=4), 8)
    for attempt in (5, 6, 7, 8):
        client.wait_started(attempt)
    reaped.kill()
    (reaped.directory / "go").touch()
    # Two of them end while there is no supervisor.
    until(lambda: not any(is_alive(client.started[attempt].pid) for attempt in (5, 6, 7)), "their ends")
    again = reaped.start()
    again.wait_ended(5, 6, 7)
    assert [(again.ended[n].cause, again.ended[n].code) for n in (5, 6, 7)] == [
        (Cause.EXITED, 0),
        (Cause.EXITED, 7),
        (Cause.EXITED, -11),
    ]
    assert again.ended[5].usage.cpu > 0
    os.kill(client.started[8].pid, signal.SIGUSR1)
    assert again.wait_ended(8).code == -signal.SIGUSR1
    assert again.wait_ended(8).cause is Cause.EXITED


def test_who_kills_the_supervisor_by_name_leaves_its_reaper(reaped: ReapedSupervisor) -> None:
    """``pkill -9 -f supervisor`` killed both, so a task that ended well was started again."""
    client = reaped.start()
    client.launch(shell(WAITS + "exit 0"), 5)
    client.wait_started(5)
    folder = os.fsencode(reaped.directory)
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = [pid for pid in running if folder in _command_of(pid)]
    assert reaped.pid in found
    for pid in found:
        if b"supervisor" in _command_of(pid):
            os.kill(pid, signal.SIGKILL)
    until(lambda: reaped.processes[-1].poll() == -signal.SIGKILL, "its end in the file of its reaper")
    (reaped.directory / "go").touch()
    until(lambda: not is_alive(client.started[5].pid), "its end")
    again = reaped.start()
    assert (again.wait_ended(5).cause, again.ended[5].code) == (Cause.EXITED, 0)


def _command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_a_task_of_a_supervisor_three_kills_ago_is_still_seen(reaped: ReapedSupervisor) -> None:
    client = reaped.start()
    client.launch(shell(WAITS + "env -i setsid sleep 1000 & exit 5"), 5)
    client.wait_started(5)
    for _ in range(2):
        reaped.kill()
        reaped.start()
    reaped.kill()
    again = reaped.start()
    (reaped.directory / "go").touch()
    assert (again.wait_ended(5).cause, again.ended[5].code) == (Cause.EXITED, 5)
    assert kill_attempts(reaped.directory) == []
    # Only the file of the last reaper is left, since all others have ended.

    def files() -> int:
        again.sync()
        return len(list((reaped.directory / FOLDER).iterdir()))

    until(lambda: files() == 2, "the files of earlier reapers to go")


def kill_at_random(reaped: ReapedSupervisor, kills: int, seed: int) -> None:
    """Kill the supervisor at random moments while tasks start and end; all of them end once, as they do."""
    moments = random.Random(seed)
    client, number, codes = reaped.start(), 0, {}
    for _ in range(kills):
        first = number + 1
        for _ in range(moments.randint(5, 40)):
            number += 1
            codes[number] = moments.choice((0, 0, 3, 77))
            script = f"echo {number} >> ../../../ran; sleep {moments.choice((0, 0, 0.01, 0.1))}; exit {codes[number]}"
            client.launch(Run(job=number, command=("/bin/sh", "-c", script)), number)
        client.wait_started(first)
        with contextlib.suppress(OSError, EOFError):
            client.socket.settimeout(moments.uniform(0, 0.2))
            while True:
                client._take_in(client.receive().reports)
        reaped.kill()
        client = reaped.start()
    client.socket.settimeout(60)
    # The first one of the last round runs.
    until(lambda: str(first) in (reaped.directory / "ran").read_text().split(), "a line of it")
    # What had no durable intent was never started; a center would order it again.
    started = {int(line) for line in (reaped.directory / "ran").read_text().split()}
    reports = {report.attempt: report for client in reaped.clients for report in client.ended.values()}
    for attempt in started - reports.keys():
        reports[attempt] = client.wait_ended(attempt)
    wrong = {n: (reports[n].cause, reports[n].code, codes[n]) for n in started if reports[n].code != codes[n]}
    assert not wrong, wrong
    lines = (reaped.directory / "ran").read_text().split()
    assert len(lines) == len(set(lines))
    client.send(Durable(epoch=1, attempts=tuple(started)))


def test_a_supervisor_is_killed_at_random_moments_and_no_end_is_lost(reaped: ReapedSupervisor) -> None:
    kill_at_random(reaped, 2, seed=int(os.environ.get("CRESS_SEED", time.time_ns() % 10_000)))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_supervisor_is_killed_at_random_moments_again_and_again(reaped: ReapedSupervisor) -> None:
    kill_at_random(reaped, 150, seed=time.time_ns() % 10_000)
