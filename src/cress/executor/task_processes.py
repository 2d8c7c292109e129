"""The processes of attempts: started, waited for, signalled, swept, and found again after a restart of the supervisor.

Children are waited for with wait4 at SIGCHLD: that needs no descriptor per task, returns the usage, and reaps the
orphans of a subreaper. Adopted processes are not children of this supervisor, so they are waited for by pidfd.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from cress.executor import handed_on, log_limits, ports, processes, stage_failure, state
from cress.executor.account_rules import TaskAccounts
from cress.executor.ends import SeenEnds
from cress.executor.folder import SupervisorFolder
from cress.executor.log_limits import LogLimits
from cress.executor.logcopy import LogCopies
from cress.executor.marks import attempt_marks
from cress.executor.orphans import Orphans
from cress.executor.runtimes import choose
from cress.executor.runtimes import launcher as launchers
from cress.executor.runtimes.base import Runtime, Spawn, announced
from cress.executor.runtimes.container import ContainerRuntime
from cress.executor.runtimes.engines import ENGINES, Engine
from cress.executor.runtimes.engines.base import PAUSE
from cress.executor.runtimes.enter import can_hide_processes
from cress.executor.runtimes.process import ProcessRuntime, not_made
from cress.executor.runtimes.staged import StagedRuntime
from cress.executor.runtimes.task_cgroups import TaskCgroups
from cress.executor.scratch_folders import ScratchFolders
from cress.executor.secret_files import SecretFiles
from cress.executor.settings import LOG_SIZE
from cress.executor.work_folders import WorkFolders
from cress.model.allowed_sources import AllowedSources
from cress.model.node import Device
from cress.model.reports import Cause, Ended, Report, Usage
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.units import describe_amount
from cress.shell.executor.node_devices import NodeDevices, key_of
from cress.shell.executor.starting import StageFailure, StartError
from cress.shell.executor.task_manager import SIGKILL, SIGTERM, StageState, Task, TaskManager

# Seconds for processes without a record in the journal to end.
STRAYS = 5.0
# Seconds for a reaper to note the end of a process.
REAPERS = 5.0
# How programs end that are refused memory: SIGABRT, SIGBUS, SIGSEGV. Bytes that suffice to load the libraries of one.
MEMORY_SIGNALS, LOADING = (-6, -7, -11), 1 << 19
# Seconds in which a process that the launcher has made becomes its program.
BEGINNING = 10.0
# Turns without an attempt of an earlier supervisor before the files of its reaper are removed.
LATER = 10
# The exit code of a process that could not become its program: no end of a program if the journal has no start.
NOT_EXECUTED = 127


class _Spawning:
    """A process that becomes a program: ``fd`` reports its start, ``told`` was read from it so far.

    ``ticks`` is its start in clock ticks since boot; 0: not known yet.
    """

    __slots__ = ("fd", "task", "ticks", "told")

    def __init__(self, fd: int, task: Task, ticks: int = 0) -> None:
        self.fd = fd
        self.task = task
        self.ticks = ticks
        self.told = bytearray()


def first_leaders(found: Iterable[tuple[int, int]], apart: set[int]) -> dict[int, tuple[int, int]]:
    """Return start ticks and pid of the first session leader of each attempt, of its processes ``found``.

    Those ``apart`` are the first processes of containers. One whose supervisor died may not be known as such, but runs
    the program of them all.
    """
    leaders: dict[int, tuple[int, int]] = {}
    for attempt, pid in found:
        if pid not in apart and processes.is_leader(pid) and processes.command_of(pid) != PAUSE:
            leader = (processes.start_ticks(pid) or 0, pid)
            leaders[attempt] = min(leader, leaders.get(attempt, leader))
    return leaders


class TaskProcesses:
    """The processes of one executor's attempts, for its task ``manager``, which is set before the first use.

    ``clearing``: attempts that failed to start and whose remains are not removed completely.
    """

    manager: TaskManager

    def __init__(
        self,
        folder: SupervisorFolder,
        selector: selectors.BaseSelector,
        say: Callable[[str], None],
        *,
        name: str,
        runtime: str = "process",
        writable: tuple[str, ...] = (),
        engines: Sequence[Engine] = ENGINES,
        log_size: int = LOG_SIZE,
        egress: str = "",
        hide: Sequence[str] = (),
        sources: AllowedSources = AllowedSources(),  # noqa: B008 - frozen
    ) -> None:
        self.folder = folder
        self.selector = selector
        self.say = say
        self.launcher = launcher = launchers.find(folder.path, say)
        self.runtime = ProcessRuntime(name, os.environ, launcher)
        self.staged = StagedRuntime(name, os.environ, sources, home=str(folder.path), launcher=launcher)
        found = choose.find(
            name,
            os.environ,
            folder.path,
            writable=writable,
            engines=engines,
            egress=egress,
            secret=hide,
            launcher=launcher,
        )
        self.container, self.no_container = found.container, found.why
        engine = "" if found.container is None else found.container.engine.name
        self.staged_inside = StagedRuntime(name, os.environ, sources, engine, str(folder.path), writable, launcher)
        self.default = choose.default(runtime, found)
        self.unlimited = choose.unlimited(self.default, found)
        self.accounts = TaskAccounts(folder.path)
        self.work = WorkFolders(folder.path)
        self.clearing: set[int] = set()
        self.attempts = os.fsencode(folder.attempts)
        self.log_size = log_size
        self.scratch = ScratchFolders(say)
        self.copies = LogCopies(folder.path, name, say, sources)
        self.secrets = SecretFiles(key_of(name, str(folder.path)))
        self.log_limits = LogLimits(self.attempts, say)
        if os.geteuid() == 0 and not can_hide_processes():
            self.unlimited += (
                "tasks that run as processes see the command lines of all others: /proc cannot be hidden",
            )
        if not log_limits.can_punch_holes(folder.attempts):
            self.unlimited += (
                "logs are not limited: the file system of the executor's directory cannot make holes in files",
            )
        self.by_pid: dict[int, Task] = {}  # first processes that are children of this one
        self.spawning: dict[int, _Spawning] = {}  # by pid
        self._heard: set[int] = set()  # those of these descriptors on which the selector waits
        self._asked: list[tuple[int, Task]] = []  # those whose pids the launcher has not told yet
        self.ends = SeenEnds(folder.path)
        self.marks = attempt_marks(self.attempts)
        # Adopted attempts whose first process has ended, until the end is in a file of its reaper: when to give up.
        self.awaited: dict[int, float] = {}
        self._reaped = False
        self._old_ends = 0  # turns until the files of earlier reapers are looked at, to remove them
        self.groups = TaskCgroups.find(name, str(folder.path))
        self.runtime.groups = self.groups
        self.staged.group_by(self.groups)
        self.orphans = Orphans(
            self.attempts,
            say,
            tasks=lambda: self.manager.tasks,
            known=self._own_children,
            parents=self.ends.reapers,
            begins=self._begins,
        )

    def _own_children(self) -> set[int]:
        """Return the children of this process that are not orphans."""
        adopted = {task.pid for task in self.manager.tasks.values() if task.adopted}
        return {os.getpid(), self.launcher.pid, *self.by_pid, *self.copies.working, *self.scratch.removing, *adopted}

    def _begins(self, pid: int) -> bool:
        """Return whether a process still has the launcher's program, and will execute its own in a moment.

        A task could execute the launcher too, so this holds for the first seconds of a process only.
        """
        started = processes.start_ticks(pid)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not self.launcher.program or started is None or now - started / processes.TICKS > BEGINNING:
            return False
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/exe").samefile(self.launcher.program)
        return False

    def reap(self, *, signalled: bool) -> None:
        """Reap every child that has ended; ``signalled``: SIGCHLD has arrived."""
        self.orphans.begin_turn()
        if not signalled and not self.by_pid:
            return
        ended: list[tuple[int, int, resource.struct_rusage]] = []
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if seen is None:
                break
            first = self.by_pid.get(seen.si_pid)
            # What makes a container ends before the program begins.
            if first is not None and not (seen.si_pid in self.spawning and self._inside(first)):
                code = seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
                self._note_end(first, seen.si_pid, code)
            pid, status, usage = os.wait4(seen.si_pid, 0)
            ended.append((pid, status, usage))
        self._reaped = bool(ended)
        # Spawns come first: a process that has become a program may have ended already.
        while fresh := [pid for pid, _, _ in ended if pid in self.spawning]:
            for pid in fresh:
                self._settle(pid, over=True)
        for pid, status, usage in ended:
            self.orphans.reaped(pid)
            self.launcher.ended(pid)
            task = self.by_pid.pop(pid, None)
            if self.copies.ended(pid, status) or self.scratch.ended(pid) or task is None or task.pid != pid:
                continue
            if task.attempt in self.manager.tasks:
                used = Usage(round((usage.ru_utime + usage.ru_stime) * 1e6), usage.ru_maxrss * 1024)
                code = os.waitstatus_to_exitcode(status)
                if (why := self._died_at_limit(task, code, used)) and task.cause is None:
                    task.cause, task.error = Cause.MEMORY, why
                self.manager.exited(task.attempt, code, used, self._stage_failure(task))

    def _died_at_limit(self, task: Task, code: int, used: Usage) -> str:
        """Return a sentence if a process has died because it met its memory limit; empty: it has not.

        The kernel refuses memory beyond RLIMIT_DATA. Programs that do not expect that end by one of a few signals. The
        peak counts resident memory only, so half of the limit is enough.
        """
        limit = 0 if task.run is None or self._inside(task) is not None else task.run.memory_limit
        # The dynamic loader ends with 127 if it cannot map a library.
        loading = code == NOT_EXECUTED and limit < LOADING
        if not limit or not (loading or code in MEMORY_SIGNALS) or used.memory < limit // 2:
            return ""
        how = f"with code {code}" if code >= 0 else f"by signal {-code}"
        return (
            f"out of memory: it ended {how} at its limit of "
            f"{describe_amount(limit, 'memory', Dimensions())} for the memory of each process"
        )

    def _note_end(self, task: Task, pid: int, code: int) -> None:
        """Note an end in a file before only this process knows it, which may be killed before its journal has it."""
        entry = self.manager.known.running.get(task.attempt)
        start = None if entry is None else entry.start
        begun = self.spawning.get(pid)
        known = 0 if begun is None else begun.ticks
        ticks = start.ticks if start is not None and start.pid == pid else known or processes.start_ticks(pid) or 0
        self.ends.note(pid, ticks, self.marks.of(task.attempt), code)

    def resume(self, boot: str) -> None:
        """Resume the attempts of an earlier supervisor: processes that still run are found, the others are lost."""
        attempts = self.manager.resume(boot)
        self._resume(attempts)
        self.orphans.begin()

    def _resume(self, attempts: list[int]) -> None:
        self._kill_strays(set(attempts))
        if self.groups is not None:
            for attempt in self.groups.left().difference(attempts):
                self.groups.kill(attempt)
                self.groups.remove(attempt)
        self.secrets.resume(set(attempts))
        if self.container is not None:
            for attempt in self.container.left().difference(attempts):
                self.say(f"the remains of the container of attempt {attempt} are removed")
                self.container.remove(attempt)
        for attempt in attempts:
            self.scratch.keep(attempt, self.manager.known.running[attempt].intent.folders)
        self._old_ends = LATER
        if not attempts:
            return
        first = {0 if self.container is None else self.container.first(attempt) for attempt in attempts}
        leaders = first_leaders(processes.find_attempts(self.attempts), first)
        # After the look at the processes: what has ended by then is in these files.
        self.ends.look()
        for attempt in attempts:
            start = self.manager.known.running[attempt].start
            if start is not None:
                ticks, pid = start.ticks, start.pid
            else:
                ticks, pid = self._first_of(attempt, leaders.get(attempt))
            alive = bool(pid) and processes.is_alive(pid) and processes.start_ticks(pid) == ticks
            if alive and self._watch(attempt, pid):
                task = self.manager.adopt(attempt, pid, ticks)
                self.log_limits.began(attempt, task.intent.log_size or self.log_size, self.manager.now)
                continue
            if pid and processes.start_ticks(pid) == ticks:
                self._await_reaper(pid, ticks)
            end = self.ends.of(pid, ticks)
            if end is None or (start is None and end.code == NOT_EXECUTED):
                self.manager.lost(attempt)
            else:
                failure = stage_failure.read(self.attempts + b"/%d" % attempt)
                self.manager.lost(attempt, end.code, end.usage, failure)
        self.say(f"{len(self.manager.tasks)} attempts of an earlier supervisor resumed")

    def _first_of(self, attempt: int, leader: tuple[int, int] | None) -> tuple[int, int]:
        """Return start ticks and pid of the first process of an attempt whose start is not in the journal.

        It was the first to lead a session, and ``leader`` is the first one that lives. (0, 0): nobody has seen one.
        """
        known = [(end.ticks, end.pid) for end in self.ends.leaders(self.marks.of(attempt))]
        return min([*known, *([] if leader is None else [leader])], default=(0, 0))

    def _await_reaper(self, pid: int, ticks: int) -> None:
        """Wait until the reaper of a zombie has noted its end."""
        end = time.monotonic() + REAPERS
        while processes.start_ticks(pid) == ticks and time.monotonic() < end:
            self.ends.look()
            if self.ends.of(pid, ticks) is not None:
                return
            time.sleep(0.002)
        self.ends.look()

    def _kill_strays(self, known: set[int]) -> None:
        """Kill attempts that the journal does not know.

        It may have been moved away, and their tasks will run again elsewhere.
        """
        told: set[int] = set()
        end = time.monotonic() + STRAYS
        while strays := [attempt for attempt in processes.find_attempts(self.attempts) if attempt[0] not in known]:
            fresh = {attempt for attempt, _ in strays} - told
            if fresh:
                told |= fresh
                self.say(f"{len(fresh)} running attempts are not in the journal; they are killed")
            for _, pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGKILL)
            if time.monotonic() > end:
                self.say(f"{len(strays)} processes cannot be killed")
                return
            time.sleep(0.005)

    def _watch(self, attempt: int, pid: int) -> bool:
        """Watch a process that is not a child of this one."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False

        def over() -> None:
            self.selector.unregister(fd)
            os.close(fd)
            self.awaited[attempt] = time.monotonic() + REAPERS
            self._look_for_ends()

        self.selector.register(fd, selectors.EVENT_READ, over)
        return True

    def _look_for_ends(self) -> None:
        """Find the ends of adopted processes in the files of their reapers."""
        if not self.awaited:
            return
        gone = {attempt for attempt in self.awaited if self._pid_taken(self.manager.tasks[attempt], or_gone=True)}
        self.ends.look()
        for attempt, due in list(self.awaited.items()):
            task = self.manager.tasks[attempt]
            start = self.manager.known.running[attempt].start
            end = None if start is None else self.ends.of(start.pid, start.ticks)
            if end is None and attempt not in gone and time.monotonic() < due:
                continue
            del self.awaited[attempt]
            code, usage = (None, Usage()) if end is None else (end.code, end.usage)
            self.manager.exited(attempt, code, usage, self._stage_failure(task))

    def spawn(self, task: Task) -> int:
        """See ``ProcessDriver``."""
        assert task.run is not None
        port = ports.taken(task.context.ports)
        if port:
            raise StartError(f"port {port} is in use on this node", port=port)
        folder = self.attempts + b"/%d" % task.attempt
        account = self.accounts.account_of(task.run)
        if task.context.devices.allocated:
            self.scratch.make(task.attempt, task.context.devices, (account.uid, account.gid) if account else None)
        data = state.make(self.folder.path, task.run, task.intent.launch.task, account)
        what = Spawn(task.attempt, task.intent.launch.task, task.run, folder, task.context, data, account=account)
        if not task.run.directory and not task.run.staged:
            owner = (os.geteuid(), os.getegid()) if account is None else (account.uid, account.gid)
            what = msgspec.structs.replace(what, kept=self.work.take(*owner))
        if task.run.log_copy:
            self.copies.order(what)
        runtime = self._runtime(task.run)
        if task.material.files:
            files_owner = (account.uid, account.gid) if account else None
            files = self.secrets.make(task.attempt, task.material.files, files_owner)
            what = msgspec.structs.replace(what, secrets=files)
        pid, fd = runtime.spawn(what, task.material.environment)
        self.log_limits.began(task.attempt, task.intent.log_size or self.log_size, self.manager.now)
        if pid:
            self.by_pid[pid] = task
            self.spawning[pid] = _Spawning(fd, task)
        else:
            self._asked.append((fd, task))
        return pid

    def _name_asked(self) -> None:
        """Note the pids of the processes that the launcher was asked for: all of a turn at once, to wait once."""
        asked, self._asked = self._asked, []
        for (fd, task), (pid, ticks) in zip(asked, self.launcher.answers(), strict=True):
            if pid > 0:
                task.pid = pid
                self.by_pid[pid] = task
                self.spawning[pid] = _Spawning(fd, task, ticks)
            else:
                os.close(fd)
                self.manager.failed(task.attempt, not_made(-pid))
                # A launcher that was killed may have started it.
                self.clearing.add(task.attempt)

    def _runtime(self, run: Run) -> Runtime:
        """Return the runtime that starts a program, or the stage for it.

        Raise StartError if the node has no such runtime.
        """
        contained = self._is_contained(run)
        if contained and self.container is None:
            raise StartError(f"this node cannot run containers: {self.no_container}", node=not run.runtime)
        if run.root and not contained:
            raise StartError("a root folder needs runtime: container")
        if run.staged:
            return self.staged_inside if contained else self.staged
        return self.container if contained and self.container is not None else self.runtime

    def _stage_failure(self, task: Task) -> StageFailure | None:
        """Return the failure reported by the stage of an attempt.

        An adopted attempt may have had a stage, so it is checked too.
        """
        if task.staged or task.adopted:
            return stage_failure.read(self.attempts + b"/%d" % task.attempt)
        return None

    def signal(self, task: Task, number: int) -> None:
        """See ``ProcessDriver``."""
        inside = self._inside(task)
        if inside is not None:
            inside.signal(task.attempt, task.pid, number)
            if task.pid in inside.cgroups.pids(task.attempt):
                return
            # This process makes the container, or works for the program outside it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(task.pid, number)
            return
        if not self.runtime.signal(task.attempt, task.pid, number) and task.stage is StageState.SPAWNING:
            # The process does not have its own process group yet.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(task.pid, number)
        if number in (SIGTERM, SIGKILL):
            self._signal_outside(task, number)

    def _signal_outside(self, task: Task, number: int) -> None:
        """Send a signal to the processes of an attempt that have left its process group."""
        if self.groups is not None:
            found = self.groups.pids(task.attempt)
        else:
            orphans = self.orphans.of(task.attempt)
            found = orphans.union(*map(processes.descendants, {task.pid, *orphans} - {0}))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != task.pid:
                    os.kill(pid, number)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``ProcessDriver``."""
        number = SIGKILL if kill else 0
        gone = True
        if task.pid and task.group and (not task.adopted or not self._pid_taken(task)):
            task.group = self.runtime.signal(task.attempt, task.pid, number)
            gone = not task.group
        inside, removed = self._inside(task), self.groups is None
        if inside is not None:
            inside.signal(task.attempt, task.pid, number)
        elif self.groups is not None:
            # A group that can be removed has no processes, which is usual.
            removed = self.groups.remove(task.attempt)
            if not removed and kill:
                self.groups.kill(task.attempt)
            gone &= removed or not self.groups.pids(task.attempt)
        # The first process of a container goes last.
        first = 0 if inside is None else inside.first(task.attempt)
        if task.adopted:
            for pid in [pid for attempt, pid in processes.find_attempts(self.attempts) if attempt == task.attempt]:
                if pid != first:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                        gone = False
        if kill:
            gone &= not self.orphans.kill(task.attempt, first)
        else:
            gone &= not self.orphans.of(task.attempt) - {first}
        if gone and inside is not None:
            gone = self._clear_after(inside, task)
        if gone and not removed and self.groups is not None:
            gone = self.groups.remove(task.attempt)
        if gone and task.code == 0 and task.cause is None and task.failure is None:
            task.values, task.failure = handed_on.read(self.attempts + b"/%d" % task.attempt)
        if gone and task.run is not None and not task.run.directory:
            self.work.give(self.attempts + b"/%d/work" % task.attempt)
        return gone

    def _inside(self, task: Task) -> ContainerRuntime | None:
        """Return the container runtime if the attempt has a container."""
        return None if task.run is not None and not self._is_contained(task.run) else self._inside_of(task.attempt)

    def _inside_of(self, attempt: int) -> ContainerRuntime | None:
        return self.container if self.container is not None and self.container.knows(attempt) else None

    def _is_contained(self, run: Run) -> bool:
        return (run.runtime or self.default) == choose.CONTAINER

    def _clear_after(self, inside: ContainerRuntime, task: Task) -> bool:
        """Remove the container of a program that has ended, and note the usage counted by its control groups."""
        rest = inside.clear(task.attempt)
        if rest is None:
            return False
        if rest.usage is not None:
            task.usage = rest.usage
        if rest.killed and task.cause is None:
            if task.code != 0:
                task.cause, task.error = Cause.MEMORY, rest.killed
            else:
                # The program reports its own success; the record names the processes that it may have lost.
                task.error = f"some of its processes were killed ({rest.killed})"
        return True

    def clear(self) -> None:
        """Remove the remains of attempts whose programs did not start."""
        for attempt in list(self.clearing):
            inside = self._inside_of(attempt)
            if inside is not None:
                inside.signal(attempt, 0, SIGKILL)
            elif self.groups is not None:
                self.groups.kill(attempt)
            over = inside.clear(attempt) is not None if inside is not None else not self.orphans.kill(attempt)
            if over and (self.groups is None or self.groups.remove(attempt)):
                self.clearing.discard(attempt)

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``ProcessDriver``."""
        self.scratch.fit(node_devices, devices)

    def ended(self, report: Report) -> None:
        """Free the resources of an attempt that has ended."""
        if isinstance(report, Ended):
            self.log_limits.over(report.attempt, self.manager.now)
            self.copies.over(report.attempt)
            self.secrets.remove(report.attempt)
            self.scratch.over(report.attempt)

    def settle(self) -> None:
        """Find the new processes that have become programs; the others are checked again later."""
        self._name_asked()
        for pid, begun in list(self.spawning.items()):
            if begun.fd not in self._heard:
                self._settle(pid)
        self.accounts.look_again()
        self.clear()
        self._look_for_ends()
        if not self._reaped and not any(task.stage is StageState.SWEEPING for task in self.manager.tasks.values()):
            self.ends.trim()
        if self._old_ends and not any(task.adopted for task in self.manager.tasks.values()):
            # The last of these ends may be of this turn; the journal has it in the next one.
            self._old_ends -= 1
            if not self._old_ends and self.ends.forget():
                self._old_ends = LATER
        self.log_limits.look(self.manager.now)
        self.scratch.remove()

    def close(self) -> None:
        """Kill the remaining processes, and remove all containers."""
        self.launcher.close()
        end = time.monotonic() + STRAYS
        while children := processes.children(os.getpid()) - self.scratch.removing:
            for pid in children:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGKILL)
                # The children of a killed process are children of this one once it is gone.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > end:
                break
        if self.container is not None:
            self.container.cgroups.close()
        if self.groups is not None:
            self.groups.close()
        self.ends.forget()
        self.ends.close()
        self.scratch.close()
        self.secrets.close()

    def _pid_taken(self, task: Task, *, or_gone: bool = False) -> bool:
        """Return whether the pid of a lost process has been reused; ``or_gone``: also if it is not used at all."""
        start = self.manager.known.running[task.attempt].start
        ticks = processes.start_ticks(task.pid)
        return (or_gone and ticks is None) or (ticks is not None and (start is None or ticks != start.ticks))

    def _settle(self, pid: int, *, over: bool = False) -> None:
        if pid not in self.spawning:
            return  # settled earlier in the same turn
        begun = self.spawning[pid]
        fd, task, told = begun.fd, begun.task, begun.told
        try:
            while data := os.read(fd, 4096):
                told += data
        except BlockingIOError:
            program, _ = announced(bytes(told))
            if program and program != pid:
                # The first process has forked the one that becomes the program, and ends.
                del self.spawning[pid], self.by_pid[pid]
                self.spawning[program], self.by_pid[program] = begun, task
                task.pid = pid = program
                begun.ticks = 0
                self._hear_no_more(fd)
                over = False
            if not over:
                self._settle_later(pid, fd)
                return
        self._hear_no_more(fd)
        os.close(fd)
        del self.spawning[pid]
        assert task.run is not None
        program, rest = announced(bytes(told))
        if program and program != pid:
            self.by_pid.pop(pid, None)
            self.by_pid[program] = task
            task.pid = pid = program
            begun.ticks = 0
        problem = self._runtime(task.run).problem(task.run, rest)
        if problem is not None:
            self.manager.failed(task.attempt, problem)
            if self.groups is not None or self._inside(task) is not None:
                self.clearing.add(task.attempt)
        else:
            self.manager.running(task.attempt, begun.ticks or processes.start_ticks(pid) or 0)

    def _settle_later(self, pid: int, fd: int) -> None:
        if fd not in self._heard:
            self._heard.add(fd)
            self.selector.register(fd, selectors.EVENT_READ, lambda: self._settle(pid))

    def _hear_no_more(self, fd: int) -> None:
        if fd in self._heard:
            self._heard.remove(fd)
            self.selector.unregister(fd)
