"""Processes that have outlived their parents and became children of the supervisor.

The supervisor is a subreaper: whatever a task starts stays below it. A process is attributed to its attempt by its mark
(``marks``), or by environment and session if an earlier release has started it. A process without any of these has
taken trouble to hide. Only an attempt that ran when it was started can have started it, so it ends with the last of
these attempts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping

from cress.executor import processes
from cress.protocol.messages import MOST_STRANGERS, HiddenProcess, Strangers
from cress.shell.executor.task_manager import SIGKILL, StageState, Task

# Searches in one sweep for the processes of an attempt: killed ones may have started others.
ROUNDS = 100
# Attempts that are named for a process that hides, and characters of its command.
MOST_NAMED, MOST_COMMAND = 20, 200


class Orphans:
    """The orphans of one supervisor. ``attempts`` is the folder of the attempts, ``say`` tells the operator.

    ``tasks`` are the attempts under way, and ``known`` returns the children that are no orphans. ``parents`` are
    further processes whose children are orphans: the reapers of earlier supervisors. ``begins`` says whether a process
    is about to become a program, and may have no mark yet. Nothing is an orphan until ``begin``, since the attempts of
    an earlier supervisor are unknown before.
    """

    def __init__(
        self,
        attempts: bytes,
        say: Callable[[str], None],
        *,
        tasks: Callable[[], Mapping[int, Task]],
        known: Callable[[], Collection[int]],
        parents: Callable[[], Iterable[int]] = tuple,
        begins: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._attempts = attempts
        self._say = say
        self._tasks = tasks
        self._known = known
        self._parents = parents
        self._begins = begins
        self._beginning = False
        self._began = False
        self._of: dict[int, int] = {}  # pid → attempt
        self._strangers: dict[int, HiddenProcess] = {}  # those that were told of, by pid
        self._killed: list[HiddenProcess] = []  # since they were last asked for
        self._fresh = True

    def begin(self) -> None:
        """Begin: all attempts are known from now on."""
        self._began = True
        self._fresh = False

    def begin_turn(self) -> None:
        """Forget what the last look has found; looks are shared by all sweeps of a turn."""
        self._fresh = not self._began

    def reaped(self, pid: int) -> None:
        """Note that a child has been waited for."""
        self._of.pop(pid, None)
        self._strangers.pop(pid, None)

    def of(self, attempt: int) -> set[int]:
        """Return the living orphans of an attempt."""
        self._look()
        return {pid for pid, owner in self._of.items() if owner == attempt}

    def kill(self, attempt: int, spare: int = 0) -> bool:
        """Kill the orphans of an attempt but ``spare``, and those that they start meanwhile.

        Return False if there are none, and no process that could still turn out to be one.
        """
        killed: set[int] = set()
        for _ in range(ROUNDS):
            fresh = self.of(attempt) - killed - {spare}
            if not fresh:
                break
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGKILL)
            killed |= fresh
            self.begin_turn()
        return bool(killed) or self._beginning

    def strangers(self) -> Strangers:
        """Return the living processes whose attempt is not known, and those that were killed since the last call."""
        killed, self._killed = self._killed, []
        living = (stranger for pid, stranger in self._strangers.items() if pid not in self._of)
        return Strangers(processes=tuple(living)[:MOST_STRANGERS], killed=tuple(killed[:MOST_STRANGERS]))

    def _look(self) -> None:
        if self._fresh:
            return
        self._fresh = True
        children = processes.children(os.getpid())
        for parent in self._parents():
            children |= {pid for pid in processes.children(parent) if processes.is_alive(pid)}
        self._of = {pid: attempt for pid, attempt in self._of.items() if pid in children}
        self._beginning = False
        tasks = self._tasks()
        for pid in children.difference(self._known(), self._of):
            attempt = processes.attempt_of(pid, self._attempts)
            if attempt is None:
                session = processes.session_of(pid)
                attempt = next((task.attempt for task in tasks.values() if task.pid == session), None)
            if attempt is None and self._begins(pid):
                # What is guessed now would be remembered, and its mark would never be read.
                self._beginning = True
                continue
            if attempt is None:
                attempt = self._guess(pid, tasks)
            if attempt is None:
                continue
            self._of[pid] = attempt
            if attempt not in tasks:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGKILL)

    def _guess(self, pid: int, tasks: Mapping[int, Task]) -> int | None:
        """Return the only attempt that can have started a process that hides; ``None`` if there are several.

        If there is none, the process is killed.
        """
        began = processes.start_ticks(pid)
        if began is None or not processes.is_alive(pid):
            return None
        may = [task.attempt for task in tasks.values() if _may_have_started(task, began)]
        if len(may) == 1:
            return may[0]
        known = self._strangers.get(pid)
        if known is None or known.since != began:
            then = "one of these attempts has started it, and it ends with the last of them: " if may else ""
            then += ", ".join(map(str, may[:MOST_NAMED])) or "no attempt runs that can have started it, so it is killed"
            then += f" and {len(may) - MOST_NAMED} more" if len(may) > MOST_NAMED else ""
            command = processes.command_of(pid).encode(errors="replace").decode()
            self._say(f"process {pid} ({command}) hides its attempt; {then}")
            told = HiddenProcess(pid, began, command[:MOST_COMMAND], then)
            if may:
                self._strangers[pid] = told
            else:
                self._killed.append(told)
        if not may:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        return None


def _may_have_started(task: Task, ticks: int) -> bool:
    if task.stage is StageState.QUEUED:
        return False
    own = processes.start_ticks(task.pid) if task.pid else None
    return own is None or own <= ticks
