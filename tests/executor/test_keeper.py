"""``cress executor`` keeps its agent alive: small programs in the place of agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cress.executor.processes import is_stopped
from cress.model.reports import Cause
from tests.executor.harness import PATIENCE, Client, shell, supervisor, until

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from cress.executor.keeper import Keeper
place = Path(sys.argv[1])

def work():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    with (place / "started").open("a") as file:
        file.write(f"{os.getpid()} {sys.argv[2]}\\n")
    if (place / "codes").exists():
        code, _, rest = (place / "codes").read_text().partition(" ")
        (place / "codes").write_text(rest)
        if code == "raise":
            raise RuntimeError("a defect")
        if code:
            return int(code)
    time.sleep(1000)

if sys.argv[2] == "keeper":
    again = [sys.executable, "-c", sys.orig_argv[2], str(place), "again"]
    sys.exit(Keeper(work, again, place / "supervisor.lock", first_pause=0.05).run())
sys.exit(work())
"""


class Kept:
    """A keeper, and the agents that it has started so far."""

    def __init__(self, folder: Path, codes: str = "") -> None:
        self.folder = folder
        if codes:
            (folder / "codes").write_text(codes)
        command = [sys.executable, "-c", PROGRAM, str(folder), "keeper"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def agent(self, number: int) -> tuple[int, str]:
        """The pid of the agent that was started as the one with this number (from 0 on), and how."""

        def started() -> list[str]:
            file = self.folder / "started"
            return file.read_text().splitlines()[number:] if file.exists() else []

        pid, how = until(started, "a start")[0].split()
        return int(pid), how

    def ended(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_agent_that_dies_is_started_again_as_a_new_program_and_told(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    first, how = kept.agent(0)
    assert (how, first != kept.process.pid) == ("keeper", True)
    os.kill(first, signal.SIGKILL)
    second, how = kept.agent(1)
    assert how == "again"
    os.kill(second, signal.SIGSEGV)
    kept.agent(2)
    kept.process.terminate()
    code, said = kept.ended()
    assert code == 0
    assert "the agent ended (signal 9); its tasks go on, and it is started again in 0.05 s" in said
    assert "the agent ended (signal 11); its tasks go on, and it is started again in 0.1 s" in said


def test_a_defect_is_shown_and_does_not_end_the_executor(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "raise 1 3")
    code, said = kept.ended()
    assert code == 3
    assert "RuntimeError: a defect" in said
    assert said.count("the agent ended (exit code 1)") == 2


def test_what_an_agent_ends_with_as_it_should_is_the_end(tmp_path: Path) -> None:
    for code in (0, 2, 3):
        kept = Kept(tmp_path, str(code))
        assert kept.ended() == (code, "")


ABOVE_A_REAPER = """
import os, sys, time
from pathlib import Path
from cress.executor.ends import ReapedProcess
from cress.executor.keeper import Keeper
place = Path(sys.argv[1])

def work():
    command = [sys.executable, "-m", "cress.executor.supervisor", str(place), "--name", "node1"]
    with (place / "log").open("ab") as log:
        (place / "reaper").write_text(str(ReapedProcess(place, command, dict(os.environ), log).reaper.pid))
    time.sleep(1000)

sys.exit(Keeper(work, [], place / "supervisor.lock").run())
"""


def test_supervisor_and_reaper_are_killed_and_no_end_is_lost(tmp_path: Path) -> None:
    home = tmp_path / "executor"
    home.mkdir()
    keeper = subprocess.Popen([sys.executable, "-c", ABOVE_A_REAPER, str(home)])
    try:
        with supervisor(home) as later:
            first = until(lambda: _client(home), "the supervisor")
            wait = f"while [ ! -e {home}/go ]; do sleep 0.02; done; "
            first.launch(shell(wait + "exit 0"), 5)
            first.launch(shell(wait + "exit 7", job=2), 6)
            first.launch(shell("exec sleep 1000", job=3), 7)
            for attempt in (5, 6, 7):
                first.wait_started(attempt)
            for file in ("reaper", "supervisor.lock"):
                os.kill(int((home / file).read_text()), signal.SIGKILL)
            (home / "go").touch()
            # Two of them end while nobody but the keeper is there.
            until(lambda: not any(Path(f"/proc/{first.started[n].pid}").exists() for n in (5, 6)), "their ends")
            first.close()
            again = later.start()
            again.wait_ended(5, 6)
            found = [(again.ended[n].cause, again.ended[n].code) for n in (5, 6)]
            assert found == [(Cause.EXITED, 0), (Cause.EXITED, 7)]
            os.kill(first.started[7].pid, signal.SIGUSR1)
            assert again.wait_ended(7).code == -signal.SIGUSR1
    finally:
        keeper.kill()
        keeper.wait()


def _client(home: Path) -> Client | None:
    try:
        return Client(home)
    except OSError:
        return None


def test_an_agent_dies_with_its_keeper(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    agent, _ = kept.agent(0)
    kept.process.kill()
    kept.ended()
    until(lambda: gone(agent), "the end of the agent")


def test_a_supervisor_that_was_stopped_is_continued(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with subprocess.Popen(["sleep", "1000"]) as supervisor:
        (tmp_path / "supervisor.lock").write_text(f"{supervisor.pid:<10}\n")
        for _ in range(2):
            supervisor.send_signal(signal.SIGSTOP)
            until(lambda: is_stopped(supervisor.pid), "the stop")
            until(lambda: not is_stopped(supervisor.pid), "its going on")
        kept.process.terminate()
        code, said = kept.ended()
        supervisor.kill()
    assert code == 0
    assert said.count(f"the supervisor (pid {supervisor.pid}) was stopped by a signal; it is continued") == 2
