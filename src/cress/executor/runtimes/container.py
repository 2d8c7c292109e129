"""Runtime ``container``: a sandbox for each attempt, made by an engine, with enforced limits.

The engine makes a sandbox whose first process only sleeps, and leaves. The program is then started in it as a child of
the supervisor, like any other program. So its exit status is exact, and errors at its start are reported in the same
way. The state of a container is in ``DIR/containers/ATTEMPT``, where a new supervisor finds it; it is removed with the
container.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cress.executor import processes
from cress.executor.hidden_folders import hidden_folders
from cress.executor.runtimes import container_orders, linux, seccomp, user_namespace
from cress.executor.runtimes.base import NO_SECRETS, PID, Rest, Spawn
from cress.executor.runtimes.box import bind_root, has_distant_mounts, make_box
from cress.executor.runtimes.cgroups import GRACE, CgroupLimits, Cgroups, ReadyForMoves, device_of, move
from cress.executor.runtimes.egress import Egress
from cress.executor.runtimes.engines.base import PAUSE, STATES, Box, Engine
from cress.executor.runtimes.enter import Entrance, Ids
from cress.executor.runtimes.launcher import Launcher
from cress.executor.runtimes.process import LaunchPlan, ProcessRuntime
from cress.model.reports import Usage
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.units import describe_amount
from cress.shell.executor.starting import StartError

# Processes and threads of a task whose job sets no limit: enough for normal work, far below the kernel's 32,768.
PIDS = 4096
# Seconds for an engine to make a sandbox (a loaded machine is slow), and between two checks.
PATIENCE, LOOK = 30.0, 0.0005
# Seconds for the remains of an earlier supervisor to disappear.
PATIENCE_AT_START = 5.0
# The folder of the sandboxes, in the executor's folder.
FOLDER = "containers"
# In it: the folder where each engine has the root file system, by mounts of its own. A folder for each container would
# have to be removed, for which file systems wait.
ROOT = "root"

_GROUP, _BOX = b"group", b"box"


class _First(msgspec.Struct, frozen=True, array_like=True):
    """The first process of a sandbox, by pid and start ticks."""

    pid: int
    ticks: int


class ContainerRuntime(ProcessRuntime):
    """A ``Runtime`` for root.

    ``home`` is the executor's folder; tasks may also write in ``writable``, and do not see ``secret``.
    """

    where = "on this node, or not in containers there"

    def __init__(
        self,
        node: str,
        environment: Mapping[str, str],
        home: Path,
        engine: Engine,
        cgroups: Cgroups,
        writable: tuple[str, ...] = (),
        egress: Egress | None = None,
        secret: Sequence[str] = (),
        launcher: Launcher | None = None,
    ) -> None:
        super().__init__(node, environment, launcher)
        self.engine = engine
        self.cgroups = cgroups
        self._home = str(home.absolute())
        self._folder = f"{self._home}/{FOLDER}"
        self._writable = writable
        self._egress = egress
        self._secret = secret
        self._owner = 0
        self._own_file: str | None = None
        self._program = shutil.which(engine.name)
        # Made here for the children, which can read no file of the node at the point where they need it.
        seccomp.program(os.uname().machine)
        user_namespace.prepare()

    # --- one attempt -----------------------------------------------------------------------------------------------

    def knows(self, attempt: int) -> bool:
        """Return whether the attempt has a sandbox, or had one a moment ago."""
        return os.path.isdir(f"{self._folder}/{attempt}")  # noqa: PTH112

    def spawn(self, what: Spawn, secret: Mapping[str, bytes] = NO_SECRETS) -> tuple[int, int]:
        """Start a program in a new sandbox; see ``Runtime``."""
        if not what.run.command:
            raise StartError("the job has no command")
        if what.run.root and not os.path.isdir(what.run.root):  # noqa: PTH112
            raise StartError(f"root {what.run.root} does not exist on this node, or is not a folder")
        os.makedirs(f"{self._folder}/{what.attempt}", mode=0o700, exist_ok=True)  # noqa: PTH103
        self._owner = os.getpid()
        try:
            return super().spawn(what, secret)
        except StartError:
            self.clear(what.attempt)
            raise

    def _is_asked(self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int) -> bool:
        """Ask the launcher for the container and its program; return False if both must be made by a fork."""
        run = what.run
        queued = self._egress is not None and dict(run.limits).get("network", 0)
        if self._launcher is None or self._program is None or queued or not container_orders.is_plain(run.root):
            return False
        # The description needs a look at each mount. If that hangs, only a fork may, not the supervisor with all tasks.
        if has_distant_mounts():
            return False
        # Here and not by the launcher, since the container shows the folder.
        self._prepare(what.folder)
        try:
            box = self._box(what, plan.ids)
            command = self.engine.direct(box)
        except OSError as error:
            raise self._not_made(run, str(error.strerror or error)) from None
        if command is None:
            return False
        try:
            limits = self._limits_of(what)
        except OSError as error:
            raise _not_limited(str(error.strerror or error)) from None
        if self._own_file is None:
            # Once: it reads the numbers of all processes in the group of the executor.
            self._own_file = self.cgroups.own_file()
        making = container_orders.making(
            box,
            [self._program, *command[1:]],
            self.engine.emptied,
            self.cgroups.steps(what.attempt, limits),
            self.cgroups.procs_files(what.attempt),
            self._own_file,
        )
        orders = [*making, *self._orders(plan, what)]
        return self._launcher.ask(orders, environment, *((writing,) if what.hands < 0 else (writing, what.hands)))

    def _confining(self, plan: LaunchPlan) -> list[bytes]:
        """Return the orders that take rights from the program of a plan; see ``ProcessRuntime``."""
        return container_orders.confining(plan.ids, exposed=self._exposed)

    def _child(self, plan: LaunchPlan, what: Spawn, environment: dict[bytes, bytes], writing: int) -> None:
        """In the child: make the sandbox and the program's process in it, report its pid, and end."""
        stage = _GROUP
        try:
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != self._owner:
                os._exit(127)
            for number in self._handled:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            self.cgroups.make(what.attempt, self._limits_of(what))
            rate = dict(what.run.limits).get("network", 0)
            if self._egress is not None and rate:
                self._egress.limit(what.attempt, rate)
            stage = _BOX
            account = plan.ids
            first = self._make(what, account)
            procs_files = tuple(self.cgroups.procs_files(what.attempt))
            for file in procs_files:
                move(first, file)
            entrance = Entrance(pause=first, procs_files=procs_files, account=account)
            entrance.begin()
            waiting, going = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(going)
                os.read(waiting, 1)  # the end of file comes when the parent closes its end
                self._become(plan, what, environment, writing, entrance)
            os.write(writing, b"%s %d\n" % (PID, pid))
        except OSError as error:
            os.write(writing, b"%s %d %s" % (stage, error.errno or -1, str(error.strerror or error).encode()))
        except BaseException as error:  # noqa: BLE001 - after any error the child must not go on as a supervisor
            os.write(writing, b"%s -1 %s" % (stage, str(error).encode()))
        finally:
            os._exit(127)

    def problem(self, what: Run, told: bytes) -> StartError | None:
        """Return the reason why the program did not start; see ``Runtime``."""
        stage, _, rest = told.partition(b" ")
        number, _, said = rest.partition(b" ")
        if stage not in (_GROUP, _BOX):
            return super().problem(what, told)
        why = said.decode(errors="replace") or os.strerror(int(number))
        if stage == _GROUP:
            return _not_limited(why)
        return self._not_made(what, why)

    def _not_made(self, run: Run, why: str) -> StartError:
        return StartError(f"the container could not be made with {self.engine.name}: {why}", node=not run.root)

    def signal(self, attempt: int, pid: int, number: int) -> bool:
        """Send a signal to all processes in the sandbox but the first; SIGKILL also to the first. See ``Runtime``."""
        first = self.first(attempt)
        found = self.cgroups.pids(attempt) - {first}
        if number == signal.SIGKILL:
            # With the first process the kernel kills all others, however fast they multiply.
            found |= {first} - {0}
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        return bool(found)

    def clear(self, attempt: int) -> Rest | None:
        """Remove the sandbox, without SIGKILL only if just its first process is left; see ``Runtime``."""
        if not self.knows(attempt):
            return Rest()
        first = self.first(attempt)
        left = self.cgroups.pids(attempt)
        if left - {first}:
            return None
        if first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
            if processes.is_alive(first):
                return None
        if self._egress is not None:
            self._egress.remove(attempt)
        used, limit = self.cgroups.used(attempt), self.cgroups.memory(attempt)
        if not self.cgroups.remove(attempt):
            return None
        shutil.rmtree(f"{self._folder}/{attempt}", ignore_errors=True)
        usage = Usage(used.cpu, used.memory) if used.cpu or used.memory else None
        return Rest(usage, _killed(limit) if used.killed else "")

    def first(self, attempt: int) -> int:
        """Return the pid of the first process of an attempt's sandbox; 0 if there is none."""
        try:
            with open(f"{self._folder}/{attempt}/first", "rb", buffering=0) as file:  # noqa: PTH123 - at each look
                known = msgspec.json.decode(file.read(), type=_First)
        except (OSError, msgspec.MsgspecError):
            return 0
        return known.pid if processes.start_ticks(known.pid) == known.ticks else 0

    # --- what an earlier supervisor left ---------------------------------------------------------------------------

    def left(self) -> set[int]:
        """Return the attempts that have left a sandbox or a control group."""
        found = self.cgroups.left()
        with contextlib.suppress(OSError):
            found |= {int(name) for name in os.listdir(self._folder) if name.isdigit()}  # noqa: PTH208
        return found

    def remove(self, attempt: int) -> None:
        """Kill the remaining processes of an attempt that the supervisor does not know, and remove its sandbox."""
        Path(self._folder, str(attempt)).mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + PATIENCE_AT_START
        while self.clear(attempt) is None and time.monotonic() < deadline:
            self.signal(attempt, 0, signal.SIGKILL)
            time.sleep(LOOK)

    # --- making it -------------------------------------------------------------------------------------------------

    def _limits_of(self, what: Spawn) -> CgroupLimits:
        run, amounts = what.run, dict(what.run.limits)
        places = [
            os.fsdecode(what.folder),
            run.root or "/",
            os.fsdecode(what.data),
            *self._writable,
            *what.context.devices.folders,
        ]
        # A task with an exclusive disk may use all of its bandwidth.
        own = {device_of(place) for place in what.context.devices.owned()}
        devices = [
            number for number in dict.fromkeys(device_of(place) for place in places if place) if number not in own
        ]
        return CgroupLimits(
            memory=amounts.get("memory", 0) or run.memory_limit,
            cpu=amounts.get("cpu", 0),
            pids=run.pids or PIDS,
            disk_read=amounts.get("disk_read", 0),
            disk_write=amounts.get("disk_write", 0),
            iops_read=amounts.get("iops_read", 0),
            iops_write=amounts.get("iops_write", 0),
            devices=tuple(device for device in devices if device),
        )

    def _box(self, what: Spawn, account: Ids | None) -> Box:
        """Return the description of the sandbox of an attempt, with the folders for it. Raises OSError."""
        folder = f"{self._folder}/{what.attempt}"
        root = f"{self._folder}/{ROOT}"
        for path in (folder, root):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102
        return make_box(
            folder=folder,
            mounted=root,
            root=what.run.root.rstrip("/"),
            home=self._home,
            attempt=os.fsdecode(what.folder),
            writable=[*self._writable, *([os.fsdecode(what.data)] if what.data else [])],
            pause=f"{self._folder}/pause",
            group=f"{self.cgroups.path}/{what.attempt}",
            hidden=bool(account and account[0]),
            secret=hidden_folders(Path(self._home), self._secret),
            devices=what.context.devices,
            readable=[os.fsdecode(what.secrets)] if what.secrets else [],
            is_image=what.run.image is not None,
        )

    def _make(self, what: Spawn, account: Ids | None) -> int:
        """Make the sandbox; return the pid of its first process. Raises OSError."""
        box = self._box(what, account)
        folder = box.folder
        # An image is in a folder of the executor, which the account of the task may not pass.
        reader = None if what.run.image is not None else account
        try:
            first = self._make_once(box, what.run.root, reader)
        except OSError:
            # Another executor that ends may have removed a shared folder of control groups, so the step is tried once
            # more.
            for name in STATES:
                shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
            first = self._make_once(box, what.run.root, reader)
        Path(folder, "first").write_bytes(msgspec.json.encode(_First(first, processes.start_ticks(first) or 0)))
        return first

    def _make_once(self, box: Box, root: str, account: Ids | None) -> int:
        child = os.fork()
        if child == 0:
            self._engine(box, root, account)
        return self._wait(box, child)

    def _engine(self, box: Box, root: str, account: Ids | None) -> None:
        """In the child: become the engine, with private mounts. Never returns."""
        try:
            linux.die_with_parent(signal.SIGKILL)
            null = os.open(os.devnull, os.O_RDWR)
            log = os.open(box.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for number, fd in ((0, null), (1, null), (2, log)):
                os.dup2(fd, number)
            linux.private_mounts()
            bind_root(root, box, account)
            command = self.engine.command(box)
            os.execvp(command[0], command)  # noqa: S606 - an engine, found on the executor's path
        except OSError as error:
            os.write(2, f"{error.filename or self.engine.name}: {error.strerror}".encode())
        finally:
            os._exit(127)

    def _wait(self, box: Box, child: int) -> int:
        """Wait until the first process sleeps and the engine has ended; return the pid of the former."""
        deadline = time.monotonic() + PATIENCE
        ended, status = False, 0
        with ReadyForMoves(self.cgroups.own_file()) as moves, _watched(child) as watched:
            while True:
                if not ended and watched.poll(1000 * (LOOK if self.engine.stays else GRACE)):
                    ended, status = True, os.waitpid(child, 0)[1]
                if ended or self.engine.stays:
                    first = self.engine.first(box)
                    if first and processes.command_of(first) == PAUSE:
                        if not ended:
                            os.kill(child, signal.SIGKILL)
                            os.waitpid(child, 0)
                        return first
                    if ended and (status or not processes.is_alive(first)):
                        break
                if time.monotonic() > deadline:
                    break
                moves.keep()
                if ended:
                    time.sleep(LOOK)
        said = " ".join(box.log.read_text(errors="replace").split())
        if not ended:
            os.kill(child, signal.SIGKILL)
        last = said.encode()[-500:].decode(errors="ignore")
        raise OSError(-1, last or "the engine does not answer")


@contextlib.contextmanager
def _watched(child: int) -> Iterator[select.poll]:
    """Yield an object that is ready once a child has ended."""
    fd = os.pidfd_open(child)
    try:
        watched = select.poll()  # select would refuse descriptors above 1,023
        watched.register(fd, select.POLLIN)
        yield watched
    finally:
        os.close(fd)


def _not_limited(why: str) -> StartError:
    return StartError(f"the limits of the container could not be set: {why}", node=True)


def _killed(limit: int) -> str:
    if not limit:
        return "out of memory: the node had none left, and killed it"
    return f"out of memory: it used more than the {describe_amount(limit, 'memory', Dimensions())} that it may"
