"""Runtime ``process``: a session and a process group for each attempt, and kernel limits; no further isolation.

A program is started by the launcher (``launcher``), or by a fork where there is none. Both do the same, step by step:
``ProcessRuntime._orders`` and ``_become``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path

from cress.executor import work_folders
from cress.executor.environment import HOST_FILE, host_file, of_job, variables
from cress.executor.inherited import for_tasks
from cress.executor.marks import attempt_marks
from cress.executor.runtimes import default_limits
from cress.executor.runtimes.accounts import NodeAccount, own_name
from cress.executor.runtimes.base import NO_SECRETS, Rest, Spawn
from cress.executor.runtimes.enter import Entrance
from cress.executor.runtimes.launcher import Launcher
from cress.executor.runtimes.programs import become, candidates
from cress.executor.runtimes.task_cgroups import TaskCgroups
from cress.model.run import Run
from cress.shell.executor.starting import StartError

# Most plans kept, by job: few jobs start several attempts at a time, and making a plan takes 0.1 ms.
_MOST_PLANS = 256

_FOLDER, _GROUP, _OUTPUT, _DIRECTORY, _LIMIT, _ACCOUNT, _EXEC = (
    b"folder",
    b"group",
    b"output",
    b"directory",
    b"limit",
    b"account",
    b"exec",
)


class LaunchPlan:
    """Launch data shared by all attempts of a job, in the form that the kernel takes."""

    __slots__ = ("account", "arguments", "directory", "environment", "ids", "memory", "orders", "programs", "run")

    def __init__(self, run: Run, base: Mapping[bytes, bytes], account: NodeAccount | None) -> None:
        self.run = run
        self.account = account
        self.ids = None if account is None else account.ids
        self.arguments = [_bytes(part) for part in run.command]
        self.directory = _bytes(run.directory)
        self.memory = run.memory_limit
        who = {} if self.account is None else self.account.environment()
        environment = {**base, **who, **{_bytes(name): _bytes(value) for name, value in run.environment}}
        self.environment = environment = environment | of_job(run)
        self.programs = candidates(self.arguments[0], environment)
        self.orders: list[bytes] = []  # those for the launcher


class ProcessRuntime:
    """Runtime that starts programs by a ``launcher``, or forks and executes.

    Only for a process without threads, since the child of a fork runs Python until it executes.
    """

    where = "on this node"  # the place named in messages about directories

    def __init__(self, node: str, environment: Mapping[str, str], launcher: Launcher | None = None) -> None:
        self._launcher = launcher
        self._base = {os.fsencode(name): os.fsencode(value) for name, value in for_tasks(environment).items()}
        self._base[b"CRESS_NODE"] = os.fsencode(node)
        self._plans: dict[int, LaunchPlan] = {}
        self.groups: TaskCgroups | None = None  # that each attempt gets a group of
        # Children get the original limits and signal handlers, which the supervisor changed for itself.
        self._files = default_limits.files(resource.getrlimit(resource.RLIMIT_NOFILE))
        self._processes = default_limits.processes()
        self._ignored = [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]
        self._handled = [number for number in signal.valid_signals() if callable(signal.getsignal(number))]
        # A supervisor that the kernel's memory killer must spare does not pass this on.
        self._exposed = default_limits.is_spared()

    def spawn(self, what: Spawn, secret: Mapping[str, bytes] = NO_SECRETS) -> tuple[int, int]:
        """Start a program; see ``Runtime``."""
        plan = self._plan(what.run, what.account)
        own = {os.fsencode(name): value for name, value in secret.items()}
        environment = plan.environment | own | variables(what)
        if what.context.hosts:
            self._prepare(what.folder)
            try:
                Path(os.fsdecode(what.folder + b"/" + HOST_FILE)).write_bytes(host_file(what.context.hosts))
            except OSError as error:
                raise StartError(f"the file with the hosts could not be written: {error.strerror}", node=True) from None
        try:
            # A stage may tell more than a pipe holds, and waits then.
            reading, writing = os.pipe2(os.O_CLOEXEC | (0 if what.tells else os.O_NONBLOCK))
        except OSError as error:
            raise StartError(f"cannot open a pipe for a new process: {error.strerror}", node=True) from None
        pid = 0
        try:
            if self._is_asked(plan, what, environment, writing):
                writing = -1
            else:
                self._prepare(what.folder)
                pid = self._fork(plan, what, environment, writing)
        except StartError:
            os.close(reading)
            raise
        except OSError as error:
            os.close(reading)
            raise not_made(error.errno or 0) from None
        finally:
            if writing >= 0:
                os.close(writing)
        if what.tells:
            os.set_blocking(reading, False)
        return pid, reading

    def _prepare(self, folder: bytes) -> None:
        """Make the folder of an attempt, as the launcher does."""
        try:
            if os.lstat(folder).st_uid != os.geteuid():
                # The folder's owner may have replaced the files written later by links.
                raise StartError(f"the folder {os.fsdecode(folder)} belongs to another account", node=True)
        except FileNotFoundError:
            try:
                os.mkdir(folder, 0o750)  # noqa: PTH102 - bytes, and a thousand times a second
            except OSError as error:
                why = f"the folder {os.fsdecode(folder)} could not be made: {error.strerror}"
                raise StartError(why, node=True) from None

    def _is_asked(self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int) -> bool:
        """Ask the launcher for the process, which then closes ``writing``; False: it must be started by a fork."""
        if self._launcher is None:
            return False
        files = (writing,) if what.hands < 0 else (writing, what.hands)
        return self._launcher.ask([b"k", *self._orders(plan, what)], environment, *files)

    def _orders(self, plan: LaunchPlan, what: Spawn) -> list[bytes]:
        """Return the orders for the launcher, which ``launcher.c`` lists; those of a plan are kept with it."""
        mark = attempt_marks(os.path.dirname(what.folder)).of(what.attempt)  # noqa: PTH120 - bytes
        own = [b"l%d" % mark, b"f" + what.folder]
        if what.leads:
            own.append(b"s")
            if self.groups is not None:
                own.append(b"g" + os.fsencode(self.groups.folder_of(what.attempt)))
        if what.kept and not plan.directory:
            own.append(b"r" + what.kept)
        if what.tells:
            own.append(b"t")
        if not plan.orders:
            plan.orders = self._orders_of(plan)
        return own + plan.orders

    def _orders_of(self, plan: LaunchPlan) -> list[bytes]:
        orders = [b"n%d:%d" % _unsigned(self._files), *self._confining(plan)]
        if plan.directory:
            orders.append(b"d" + plan.directory)
        if plan.ids is not None:
            uid, gid, groups = plan.ids
            orders.append(b"a%d:%d:%s" % (uid, gid, b",".join(b"%d" % group for group in groups)))
        return [*orders, *(b"e" + program for program in plan.programs), b"--", *plan.arguments]

    def _confining(self, plan: LaunchPlan) -> list[bytes]:
        """Return the orders that take rights from the program of a plan."""
        orders = []
        if plan.ids is not None and plan.ids[0] != 0:
            orders += [b"x", b"u%d:%d" % _unsigned(self._processes)]
        if plan.memory > 0:
            orders.append(b"m%d" % plan.memory)
        if self._exposed:
            orders.append(b"o0")
        return orders

    def _fork(self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int) -> int:
        """Fork, and become the program in the child; return its pid. Raise OSError."""
        # A signal between fork and exec stays pending until it has its default effect in the child.
        signal.pthread_sigmask(signal.SIG_BLOCK, self._handled)
        try:
            pid = os.fork()
            if pid == 0:
                self._child(plan, what, environment, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._handled)
        return pid

    def _child(self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int) -> None:
        """In the child: become the program. Never returns."""
        files: tuple[str, ...] = ()
        try:
            if self.groups is not None and what.leads:
                files = (self.groups.make(what.attempt),)
        except OSError as error:
            os.write(writing, b"%s %d" % (_GROUP, error.errno or 0))
            os._exit(127)
        self._become(plan, what, environment, writing, Entrance(procs_files=files, account=plan.ids))

    def _become(
        self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int, entrance: Entrance
    ) -> None:
        """Become the program, or report the error and end. Never returns."""
        stage = _OUTPUT
        try:
            attempt_marks(os.path.dirname(what.folder)).put(what.attempt)  # noqa: PTH120 - bytes
            if what.leads:
                os.setsid()
            self._outputs(what.folder, entrance)
            stage = _DIRECTORY
            directory = plan.directory or self._own_directory(what, entrance)
            folder = -1 if entrance.account is None else os.open(what.folder, os.O_RDONLY | os.O_DIRECTORY)
            entrance.go_in()
            if not plan.directory:
                # The account of the task may be unable to enter this directory by path.
                os.chdir(directory)
            stage = _LIMIT
            resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
            if entrance.other_account and not entrance.pause:
                resource.setrlimit(resource.RLIMIT_NPROC, self._processes)
            if plan.memory > 0 and not entrance.pause:
                resource.setrlimit(resource.RLIMIT_DATA, (plan.memory, plan.memory))
            if self._exposed:
                default_limits.expose()
            for number in self._ignored:
                signal.signal(number, signal.SIG_DFL)
            for number in self._handled:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            # The given descriptors may be those that the program gets.
            handed = fcntl.fcntl(what.hands, fcntl.F_DUPFD_CLOEXEC, 5) if what.hands >= 0 else -1
            writing = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 5)
            if what.tells:
                os.dup2(writing, 3)
            if handed >= 0:
                os.dup2(handed, 4)
            stage = _ACCOUNT
            if entrance.account is not None:
                # Last, after all files are made: other processes of this account could put links there.
                os.fchmod(folder, 0o700)
                os.fchown(folder, *entrance.account[:2])
            entrance.step_down()
            stage = _DIRECTORY
            if plan.directory:
                os.chdir(directory)
            stage = _EXEC
            os.write(writing, b"%s %d" % (stage, become(plan.programs, plan.arguments, environment)))
        except OSError as error:
            os.write(writing, b"%s %d" % (stage, error.errno or 0))
        except BaseException as error:  # noqa: BLE001 - after any error the child must not go on as a supervisor
            os.write(writing, b"%s -1 %s" % (stage, str(error).encode()))
        finally:
            os._exit(127)

    def _outputs(self, folder: bytes, entrance: Entrance) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        for number, name in ((1, b"/stdout"), (2, b"/stderr")):
            os.dup2(os.open(folder + name, flags, 0o644), number)
            if entrance.account is not None:
                os.fchown(number, *entrance.account[:2])

    def _own_directory(self, what: Spawn, entrance: Entrance) -> bytes:
        directory = what.folder + b"/work"
        if what.kept and work_folders.own(directory, what.kept):
            return directory
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o755)  # noqa: PTH102
            if entrance.account is not None:
                os.chown(directory, *entrance.account[:2])
        return directory

    def problem(self, what: Run, told: bytes) -> StartError | None:
        """Return the reason why the program did not start; see ``Runtime``."""
        if not told:
            return None
        stage, number, *rest = told.split(b" ", 2)
        code = int(number)
        why = rest[0].decode(errors="replace") if rest else os.strerror(code)
        if stage == _DIRECTORY and what.directory:
            return StartError(_why_not_entered(what, code, why, self._who(what), self.where))
        if stage == _EXEC:
            return StartError(_why_not_executed(what, code, why, self._who(what)))
        if stage == _ACCOUNT:
            return StartError(f"cannot switch to account {self._who(what)}: {why}", node=True)
        if stage == _GROUP:
            return StartError(f"the control group of the attempt could not be made: {why}", node=True)
        if stage == _FOLDER:
            if code == errno.EEXIST:
                return StartError("the folder of the attempt belongs to another account", node=True)
            return StartError(f"the folder of the attempt could not be made: {why}", node=True)
        if stage == _LIMIT:
            return StartError(f"the limits of the attempt could not be set: {why}")
        if stage == _DIRECTORY:
            return StartError(f"the working folder of the attempt could not be made: {why}", node=True)
        return StartError(f"the files for the output could not be made: {why}", node=True)

    def signal(self, attempt: int, pid: int, number: int) -> bool:
        """Send a signal to the process group; see ``Runtime``."""
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # All remaining processes run as another user, which this process may not signal.
            return False
        return True

    def clear(self, attempt: int) -> Rest | None:
        """Return no usage, since nothing is made besides the program; see ``Runtime``."""
        return Rest()

    def _who(self, run: Run) -> str:
        """Return the account that the program should have run as."""
        plan = self._plans.get(run.job)
        return own_name() if plan is None or plan.account is None else plan.account.name

    def _plan(self, run: Run, account: NodeAccount | None) -> LaunchPlan:
        plan = self._plans.get(run.job)
        if plan is None or plan.account != account or (plan.run is not run and plan.run != run):
            if not run.command:
                raise StartError("the job has no command")
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            try:
                plan = LaunchPlan(run, self._base, account)
            except ValueError as error:
                raise StartError(str(error)) from None
            self._plans[run.job] = plan
        return plan


def not_made(number: int) -> StartError:
    """Return the reason if no process could be made, by its error number."""
    return StartError(f"no new process could be made on this node: {os.strerror(number)}", node=True)


def _unsigned(limits: tuple[int, int]) -> tuple[int, int]:
    """Return limits as the kernel has them, where no limit is the largest number."""
    return limits[0] % (1 << 64), limits[1] % (1 << 64)


def _bytes(text: str) -> bytes:
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} cannot be written in the encoding of this node") from None
    if b"\0" in data:
        raise ValueError(f"{text!r} contains a zero byte")
    return data


def _why_not_entered(what: Run, code: int, why: str, who: str, where: str) -> str:
    directory = what.directory
    return {
        errno.ENOENT: f"directory {directory} does not exist {where}",
        errno.ENOTDIR: f"directory {directory} is a file on this node",
        errno.EACCES: f"directory {directory} may not be entered by {who} on this node",
    }.get(code, f"directory {directory} cannot be entered on this node: {why}")


def _why_not_executed(what: Run, code: int, why: str, who: str) -> str:
    command = what.command[0]
    if code == errno.ENOENT:
        if "/" in command and command.startswith("/") and Path(command).exists():
            return f"{command} cannot be started: the interpreter that it names does not exist on this node"
        return f"command not found: {command}"
    return {
        errno.EACCES: f"not executable by {who}: {command}",
        errno.E2BIG: f"command line and environment of {command} are too long for this node",
        errno.ENOEXEC: f"{command} is not a program: neither built for this machine nor a script that begins with #!",
        errno.ENOMEM: f"{command} cannot be started: the memory limit is too small, or the node has none left",
    }.get(code, f"{command} cannot be started: {why}")
