"""The stage of an attempt: fetches its files, runs its program, saves its outputs. ``python -m cress.executor.stage``.

It leads the session and the process group of the program. Signals for the attempt reach both; the stage only notes
them, so that it can end as the program did. Until the program runs, it reports its progress and errors on descriptor 3.
Later errors, or those while no supervisor listens, go into a file in the attempt's folder. A child fetches and saves
files, and loads the libraries for it: the stage itself stays small, and starts nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import msgspec

from cress.executor import stage_failure
from cress.executor.addresses import Failed, FileRoot
from cress.executor.brought import note_brought
from cress.executor.hidden_folders import hidden_here
from cress.executor.runtimes import linux
from cress.executor.runtimes.base import NO_SECRETS, Runtime, announced
from cress.executor.runtimes.process import ProcessRuntime
from cress.executor.runtimes.staged import RUNS, StageOrders, take, take_secrets
from cress.executor.task_identity import account_in, step_down
from cress.model.archives import archive_in
from cress.model.reports import Cause
from cress.model.run import IMAGE_CREDENTIALS, Image
from cress.model.start_material import CENTER_OF_STAGE, CenterAccess
from cress.model.uploads import digest_in, uploads_of
from cress.shell.executor.starting import StageFailure, StartError

TELLS = 3
# Seconds for all files of an attempt together, and for all its outputs.
MOST = 3600.0
# Seconds: longer than the clock of any file system stands still.
TICK = 0.011
# Signals without a handler: they cannot be caught, concern the stage's own children, suspend, or report its own faults.
_UNHEARD = {
    "SIGKILL",
    "SIGSTOP",
    "SIGCHLD",
    "SIGCONT",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGSEGV",
    "SIGBUS",
    "SIGFPE",
    "SIGILL",
}


class Stage:
    """The stage of one attempt.

    ``secret`` are environment variables for its program, and for the processes that transfer its files.
    """

    def __init__(self, orders: StageOrders, secret: Mapping[str, bytes] = NO_SECRETS) -> None:
        self.orders = orders
        # The program does not get the stage's access to the center.
        self._center = center_in(secret)
        self._credentials = secret.get(IMAGE_CREDENTIALS, b"")
        own = (CENTER_OF_STAGE, IMAGE_CREDENTIALS)
        self._secret = {name: value for name, value in secret.items() if name not in own}
        self.what = orders.what
        self.run = orders.what.run
        self._told_to_end = False
        self._child = 0
        self._heard = [number for number in signal.Signals if number.name not in _UNHEARD]
        for number in self._heard:
            signal.signal(number, self._hear)

    def perform(self) -> int:
        """Run the whole stage. Return the exit code, or -n if the stage has to end by signal n."""
        if self.run.image is not None:
            wrong = self._use_image(self.run.image)
            if wrong is not None and not self._is_to_end():
                return self._fail(wrong)
        if self.run.files:
            wrong = self._transfer(Cause.FILES)
            if wrong is not None and not self._is_to_end():
                return self._fail(wrong)
            with contextlib.suppress(OSError):
                note_brought(self.what.folder)
                # File systems note times in ticks: what the program writes must have a later time.
                time.sleep(TICK)
        if self._is_to_end():
            return self._fail(
                StageFailure(Cause.FILES, "it was stopped before its program was started"), -signal.SIGTERM
            )
        pid, why = self._start()
        if why is not None:
            return self._fail(StageFailure(Cause.NODE if why.node else Cause.FILES, str(why)))
        self._tell(RUNS)
        if self._is_to_end():
            # The signal may have come just before there was a program to receive it.
            os.kill(pid, signal.SIGTERM)
        code = self._wait(pid)
        if code == 0 and self.run.outputs:
            # A stopped attempt saves no outputs: its task runs again, or is cancelled.
            wrong = None if self._is_to_end() else self._transfer(Cause.OUTPUTS)
            if self._is_to_end():
                wrong = StageFailure(Cause.OUTPUTS, "it was stopped before its outputs were saved")
            if wrong is not None:
                try:
                    stage_failure.write(self.what.folder, wrong)
                except OSError as error:
                    # The attempt fails in any case; its standard error may still have room for the reason.
                    with contextlib.suppress(OSError):
                        os.write(2, f"{wrong.error}\nthis could not be reported: {error.strerror}\n".encode())
                    return 1
        return code

    def _use_image(self, image: Image) -> StageFailure | None:
        """Pull the image if the node lacks it; the program starts in it, as it says where the job says nothing."""
        from cress.executor.images import Images
        from cress.executor.inputs import open_inputs

        home = Path(self.orders.home)
        archive = -1
        try:
            kind, rest = archive_in(image.name)
            if kind and digest_in(rest):
                archive = open_inputs((digest_in(rest),), home, self._center)[digest_in(rest)]
            elif kind:
                archive = self._open_archive(rest)
            found = Images(home, self.orders.sources).use(image.name, archive, self._credentials, self.run.user)
            if not (self.run.command or found.command):
                raise Failed("it names no program, so the job needs a command")  # noqa: TRY301
        except Failed as error:
            cause = Cause.NODE if error.node else Cause.FILES
            return StageFailure(cause, f"image {image.name} cannot be used: {error}")
        finally:
            if archive >= 0:
                os.close(archive)
        run = self.run
        given = {name for name, _ in run.environment}
        beside = bool(run.files or run.outputs)
        self.run = msgspec.structs.replace(
            run,
            root=found.root,
            command=run.command or found.command,
            environment=(*(pair for pair in found.environment if pair[0] not in given), *run.environment),
            directory=run.directory or ("" if beside else found.directory),
        )
        self.what = msgspec.structs.replace(self.what, run=self.run)
        return None

    def _open_archive(self, path: str) -> int:
        """Open an archive of the node as the account of the task. Raise Failed."""
        from cress.executor.runtimes.box import as_account

        account = account_in(self.what)
        if "file" not in self.orders.sources.schemes:
            raise Failed("paths of this node may not be used (--allow-scheme)")
        try:
            hidden = hidden_here(Path(self.orders.home))
            with as_account(None if account is None else (account.uid, account.gid, account.groups)):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}") from None
        real = Path(os.path.realpath(f"/proc/self/fd/{fd}"))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Failed(f"{path} is not a file")
        if any(real.is_relative_to(folder) for folder in hidden):
            os.close(fd)
            raise Failed(f"{path} is hidden from the tasks of this node")
        return fd

    def _start(self) -> tuple[int, StartError | None]:
        """Start the program. Return its pid and, if it does not run, the reason."""
        orders = self.orders
        try:
            runtime: Runtime
            if orders.engine:
                from cress.executor.runtimes import choose

                # The program's parent ends at once, so the program becomes a child of this process.
                linux.be_subreaper()
                runtime = choose.reopen(
                    orders.node, orders.environment, Path(orders.home), orders.engine, orders.writable
                )
            else:
                runtime = ProcessRuntime(orders.node, orders.environment)
            what = msgspec.structs.replace(self.what, leads=False, account=account_in(self.what))
            pid, fd = runtime.spawn(what, self._secret)
            program, told = announced(_all_of(fd) or b"")
            return program or pid, runtime.problem(self.run, told)
        except StartError as error:
            return 0, error

    def _wait(self, pid: int) -> int:
        """Wait for the program, and reap orphans meanwhile; return the program's wait status."""
        while True:
            ended, status = os.wait()
            if ended == pid:
                return os.waitstatus_to_exitcode(status)

    def _is_to_end(self) -> bool:
        return self._told_to_end

    def _hear(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self._told_to_end = True
        if self._child:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._child, number)

    def _fail(self, why: StageFailure, code: int = 1) -> int:
        # The file comes first, since a later supervisor reads it.
        with contextlib.suppress(OSError):
            stage_failure.write(self.what.folder, why)
        self._tell(why.encode())
        return code

    def _tell(self, words: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(TELLS, words)
        os.close(TELLS)

    # --- the child that fetches and saves -----------------------------------------------------------------------------

    def _transfer(self, kind: Cause) -> StageFailure | None:
        reading, writing = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._heard)
        try:
            self._child = os.fork()
            if self._child == 0:
                self._carry(kind, writing)
        except OSError as error:
            os.close(reading)
            return StageFailure(Cause.NODE, f"no new process could be made on this node: {error.strerror}")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._heard)
            os.close(writing)
        told = _all_of(reading, MOST)
        if told is None:
            os.kill(self._child, signal.SIGKILL)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        if told == b"done":
            return None
        doing = "fetching its files" if kind is Cause.FILES else "saving its outputs"
        if told is None:
            return StageFailure(kind, f"{doing} took more than {MOST / 3600:g} h")
        return stage_failure.decode(told) or StageFailure(kind, f"{doing} was interrupted ({_ending(status)})")

    def _carry(self, kind: Cause, writing: int) -> None:
        """In the child: fetch or save as the account of the task. Never returns."""
        try:
            for number in self._heard:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            with contextlib.suppress(OSError):
                os.close(TELLS)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(writing, self._carried(kind))
        except BaseException as error:  # noqa: BLE001 - after any error the child must not go on as a stage
            os.write(writing, StageFailure(kind, f"files cannot be moved on this node: {error}").encode())
        finally:
            os._exit(0)

    def _carried(self, kind: Cause) -> bytes:
        try:
            from cress.executor import transfer
            from cress.executor.inputs import open_inputs
            from cress.executor.source_rules import SourceRules
        except ImportError as error:
            return StageFailure(
                kind, f"files need the Python package {error.name}, which this node does not have"
            ).encode()
        files = self.run.files if kind is Cause.FILES else self.run.outputs
        walls = None
        if self.orders.engine:
            walls = tuple(
                Path(folder)
                for folder in (
                    *(os.fsdecode(self.what.folder), os.fsdecode(self.what.data)),
                    *(*self.orders.writable, *self.what.context.devices.folders),
                )
                if folder
            )
        # A task in a container must not reach through its files what the container hides.
        hidden = hidden_here(Path(self.orders.home)) if walls is not None else ()
        rules = SourceRules(self.orders.sources, hidden, walls or ())
        transfer.load(files, rules)
        inputs: Mapping[str, int] = {}
        if kind is Cause.FILES and self.run.has_uploads:
            try:
                digests = (digest for _, digest in uploads_of(self.run))
                inputs = open_inputs(digests, Path(self.orders.home), self._center)
            except Failed as error:
                what = f"the files of the submitter could not be fetched: {error}"
                return StageFailure(Cause.NODE if error.node else kind, what).encode()
        # A root task enters its directory as root, which may pass through the executor's; other tasks do so as their
        # account.
        own = not self.run.directory
        if own:
            try:
                self._enter_own(make=kind is Cause.FILES)
            except OSError as error:
                return StageFailure(kind, f"the directory of the attempt cannot be entered: {error.strerror}").encode()
        root = FileRoot(Path() if own else Path(self.run.directory), walls)
        told = step_down(self.what, self.orders.node)
        os.environ.update({name: os.fsdecode(value) for name, value in self._secret.items()})
        # Set after the change of account, which resets it in the kernel.
        linux.die_with_parent(signal.SIGKILL)
        if not own:
            os.chdir(self.run.directory)
        rules.enforce()
        if kind is Cause.FILES:
            wrong = transfer.bring(files, root, told, rules, inputs)
        else:
            wrong = transfer.save(files, root, told, rules)
        return b"done" if wrong is None else wrong.encode()

    def _enter_own(self, *, make: bool) -> None:
        """Enter the directory of the attempt.

        ``make`` it first, as the program would, while the folder is still the executor's. Afterwards the folder belongs
        to the task, which may have replaced the directory by a link.
        """
        base = self.what.folder + b"/work"
        account = account_in(self.what)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(base, 0o755)  # noqa: PTH102
                if account is not None:
                    os.chown(base, account.uid, account.gid)
        fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if account is not None and os.fstat(fd).st_uid != account.uid:
            raise PermissionError(errno.EACCES, "it belongs to another account")
        os.fchdir(fd)
        os.close(fd)


def center_in(secret: Mapping[str, bytes]) -> CenterAccess | None:
    """Return the access to the center in the start material of an attempt; ``None``: there is none."""
    told = secret.get(CENTER_OF_STAGE)
    return None if told is None else msgspec.json.decode(told, type=CenterAccess)


def _all_of(fd: int, most: float | None = None) -> bytes | None:
    """Read until the last writer has closed the pipe; ``None`` if that takes longer than ``most`` seconds."""
    end = None if most is None else time.monotonic() + most
    data = b""
    os.set_blocking(fd, True)
    try:
        while True:
            if end is not None and not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            more = os.read(fd, 4096)
            if not more:
                return data
            data += more
    finally:
        os.close(fd)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def main() -> int:
    """Run one attempt by the orders in its folder; end as its program ends."""
    os.set_inheritable(TELLS, False)
    orders = take(os.environb[b"CRESS_DIRECTORY"])
    stage = Stage(orders, take_secrets() if orders.hands else NO_SECRETS)
    code = stage.perform()
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        return 128 - code
    return code


if __name__ == "__main__":
    sys.exit(main())
