"""The keeper: the program ``cress executor``, which restarts its agent when the agent ends unexpectedly.

It is also the last one to see how tasks end. If a supervisor is killed and its reaper too, the tasks become children of
the keeper, which notes their ends as a reaper does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from cress.executor import reaper
from cress.executor.ends import FOLDER
from cress.executor.frozen import FrozenSupervisor
from cress.executor.runtimes.linux import be_subreaper, die_with_parent

# Exit codes of an agent that has ended as it should: stopped, bad input, unable to work.
FINAL = (0, 2, 3)
# Seconds before the agent is restarted, at first and at most; after a run of ``STEADY`` seconds the pause is short
# again.
FIRST_PAUSE, LONGEST_PAUSE, STEADY = 0.5, 30.0, 60.0
# Seconds between two checks for a request to stop, while no agent runs.
LOOK = 0.05
# Seconds between two checks of the supervisor.
WATCH = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Keeper:
    """Runs ``begin``, the first agent, in a child process; ``again`` is the command for later agents.

    ``lock`` is the file with the pid of the supervisor, which the keeper continues if something has stopped it.

    The first agent is a fork, which saves a second start of Python. Later ones are new programs, since another release
    may have been installed in the meantime. An agent dies with its keeper, so killing the keeper kills both. The keeper
    passes on signals that ask it to stop.
    """

    def __init__(
        self, begin: Callable[[], int], again: Sequence[str], lock: Path, first_pause: float = FIRST_PAUSE
    ) -> None:
        self._begin = begin
        self._supervisor = FrozenSupervisor(lock, self._say)
        self._ends = lock.parent / FOLDER
        self._noted = -1  # the file of noted ends, once there is one
        self._again = list(again)
        self._first_pause = first_pause
        self._agent = 0
        self._asked: list[int] = []

    def run(self) -> int:
        """Keep an agent running until one ends as it should; return its exit code."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        be_subreaper()
        signal.signal(signal.SIGCHLD, self._note_ends)
        pause, work = self._first_pause, self._begin
        while True:
            since = time.monotonic()
            how = self._wait(self._start(work))
            if how in FINAL:
                return how
            if self._asked:
                self._say(f"the agent ended ({_told(how)}) while it was being stopped")
                return 1
            if time.monotonic() - since >= STEADY:
                pause = self._first_pause
            self._say(f"the agent ended ({_told(how)}); its tasks go on, and it is started again in {pause:g} s")
            self._rest(pause)
            pause, work = min(2 * pause, LONGEST_PAUSE), self._execute

    def _start(self, work: Callable[[], int]) -> int:
        # A signal that comes before the agent handles it stays pending, and its end before its pid is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*SIGNALS, signal.SIGCHLD))
        keeper = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._agent = os.fork()
        if not self._agent:
            _be_agent(keeper, work)
        # These signals came while no agent ran.
        for number in self._asked:
            os.kill(self._agent, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*SIGNALS, signal.SIGCHLD))
        return self._agent

    def _wait(self, agent: int) -> int:
        """Return how the agent ended: its exit code, or -n after signal n. Meanwhile, watch the supervisor."""
        end = os.pidfd_open(agent)
        while not select.select([end], [], [], WATCH)[0]:
            self._supervisor.look()
        os.close(end)
        _, status = os.waitpid(agent, 0)
        self._agent = 0
        self._note_ends()
        return os.waitstatus_to_exitcode(status)

    def _note_ends(self, *_: object) -> None:
        """Note the ends of the children but the agent, and reap them: tasks whose supervisor and reaper are gone."""
        with contextlib.suppress(OSError):
            while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if seen.si_pid == self._agent:
                    return
                with contextlib.suppress(OSError):
                    reaper.note(self._file(), seen)
                os.waitid(os.P_PID, seen.si_pid, os.WEXITED)

    def _file(self) -> int:
        if self._noted < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._noted = os.open(self._ends / f"{time.time_ns()}", flags, 0o600)
            # The file is not removed while it is locked.
            fcntl.flock(self._noted, fcntl.LOCK_EX)
        return self._noted

    def _rest(self, seconds: float) -> None:
        """Wait before the next start; return early if the keeper must stop, since only an agent can stop its tasks."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._asked:
            time.sleep(LOOK)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._asked.append(number)
        if self._agent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._agent, number)

    def _execute(self) -> int:
        os.execv(self._again[0], self._again)  # noqa: S606 – no shell is wanted

    def _say(self, sentence: str) -> None:
        print(time.strftime("%Y-%m-%d %H:%M:%S"), sentence, file=sys.stderr, flush=True)  # noqa: T201


def _be_agent(keeper: int, work: Callable[[], int]) -> None:
    """Become the agent, in a process group of its own, so that Ctrl-C reaches it only once, through the keeper."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        die_with_parent(signal.SIGKILL)
        if os.getppid() == keeper:
            code = work()
    except BaseException:  # noqa: BLE001 – the keeper's own code must not run twice
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _told(how: int) -> str:
    return f"exit code {how}" if how >= 0 else f"signal {-how}"
