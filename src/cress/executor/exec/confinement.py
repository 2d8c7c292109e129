"""Confinement of a running task, taken on by another process: cgroups, namespaces, root, directory, limits, account.

All of it is read from /proc, so it works for every runtime. A plain process has the node's namespaces, and then none is
entered. ``prepare`` reads and opens. The other functions are called in order, in a new child with one thread.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from cress.executor import processes
from cress.executor.runtimes import linux, seccomp

# Namespaces in the order in which they are entered. Without root the user namespace comes first, since it grants the
# right to enter the others; with root it comes last, since it takes that right away.
_NAMESPACES = ("cgroup", "ipc", "uts", "net", "pid", "time", "mnt")
_USER = "user"
# Programs between the first process of an attempt and its own program, by their names in the kernel.
_ENGINES = frozenset({"crun", "runc", "runc:[2:INIT]", "bwrap", "conmon"})
_STAGE = b"cress.executor.stage"
_MOST_LOOKED = 100
# Seconds between two checks for a program that does not run yet.
_PAUSES = (0.001, 0.01, 0.1)

_MOST_CAPABILITIES = 64
# The seccomp mode of a task in a container, in /proc/PID/status.
_FILTERED = "2"
# The names in /proc/PID/limits; prlimit would need a right that even root may lack.
_LIMITS = {
    "cpu time": resource.RLIMIT_CPU,
    "file size": resource.RLIMIT_FSIZE,
    "data size": resource.RLIMIT_DATA,
    "stack size": resource.RLIMIT_STACK,
    "core file size": resource.RLIMIT_CORE,
    "resident set": resource.RLIMIT_RSS,
    "processes": resource.RLIMIT_NPROC,
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "address space": resource.RLIMIT_AS,
    "pending signals": resource.RLIMIT_SIGPENDING,
    "msgqueue size": resource.RLIMIT_MSGQUEUE,
    "nice priority": resource.RLIMIT_NICE,
    "realtime priority": resource.RLIMIT_RTPRIO,
    "realtime timeout": resource.RLIMIT_RTTIME,
}


class EnterError(Exception):
    """Error: the task cannot be entered; the message says why."""


class Confinement:
    """Confinement of a process, with open descriptors.

    Account numbers are those inside its user namespace. ``owner`` is uid and gid of the task's account; ``None``: those
    of the process. A task of another account may run set-user-id programs, which are root for a while. A command that
    enters at that moment must not become root.
    """

    __slots__ = (
        "cgroups",
        "directory",
        "environment",
        "gid",
        "groups",
        "limits",
        "namespaces",
        "new_pids",
        "pid",
        "root",
        "status",
        "strange_user",
        "uid",
    )

    def __init__(self, pid: int, owner: tuple[int, int] | None = None) -> None:
        self.pid = pid
        self.status = _status(pid)
        self.uid = int(self.status["Uid"].split()[1])
        self.gid = int(self.status["Gid"].split()[1])
        if owner is not None and owner[0]:
            if {int(uid) for uid in self.status["Uid"].split()} != {owner[0]}:
                raise EnterError(
                    "the program of the task runs as another account than the task's at the moment; try again"
                )
            self.gid = owner[1]
        self.groups = [int(group) for group in self.status.get("Groups", "").split()]
        self.environment = environment(pid)
        self.cgroups = list(_cgroups(pid))
        self.namespaces: list[tuple[str, int]] = []
        for name in (*_NAMESPACES, _USER) if os.geteuid() == 0 else (_USER, *_NAMESPACES):
            path = f"/proc/{pid}/ns/{name}"
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:  # noqa: PTH116
                    self.namespaces.append((name, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
        names = {name for name, _ in self.namespaces}
        self.new_pids = "pid" in names
        self.strange_user = _USER in names
        if self.strange_user:
            self.uid, self.gid = _inner(pid, "uid_map", self.uid), _inner(pid, "gid_map", self.gid)
            self.groups = list(_known_groups(pid, self.groups))
        self.root = -1
        if "mnt" in names or os.readlink(f"/proc/{pid}/root") != "/":  # noqa: PTH115
            self.root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.directory = os.open(f"/proc/{pid}/cwd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.limits = list(_limits(pid))


def prepare(first: int, attempt: int, folder: str = "") -> Confinement:
    """Return the confinement of the program of an attempt, whose first process is ``first``. Raise EnterError.

    ``folder`` has the folders of all attempts; the owner of the files in the attempt's folder is the task's account.
    Empty: the owner is not checked.
    """
    if not processes.is_alive(first):
        raise EnterError("the task has ended")
    try:
        pid = _program_soon(first, attempt)
        before = processes.start_ticks(pid)
        place = Confinement(pid, _owner(f"{folder}/{attempt}") if folder else None)
    except (OSError, KeyError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is over"
        raise EnterError(f"the task cannot be entered: {why}") from None
    if before is None or processes.start_ticks(pid) != before or not processes.is_alive(pid):
        raise EnterError("the task has ended")
    return place


def _program_soon(first: int, attempt: int) -> int:
    """Wait for the program of a task.

    After the start it takes a moment until its environment can be read.
    """
    for pause in _PAUSES:
        with contextlib.suppress(EnterError):
            return program(first, attempt)
        time.sleep(pause)
    return program(first, attempt)


def program(first: int, attempt: int) -> int:
    """Return the pid of the task's own program: the first process, or a descendant of it."""
    known = [first]
    for pid in known:
        with contextlib.suppress(OSError):
            if _stands_between(pid):
                # There may be other processes, such as the first one of a container, which only sleeps.
                known += sorted(_children(pid))
            elif environment(pid).get(b"CRESS_ATTEMPT") == b"%d" % attempt:
                return pid
        if len(known) > _MOST_LOOKED:
            break
    raise EnterError("the program of the task cannot be found on its node")


def join_cgroups(place: Confinement) -> None:
    """Join the task's control groups; called before the namespaces are entered, as the paths are the node's."""
    for path in place.cgroups:
        try:
            with open(path, "wb", buffering=0) as file:  # noqa: PTH123
                file.write(b"0")
        except OSError as error:
            # Only root sets limits by control groups, so an executor without root may skip them.
            if os.geteuid() == 0:
                raise EnterError(f"the limits of the task cannot be applied: {path}: {error.strerror}") from None


def enter_namespaces(place: Confinement) -> None:
    """Enter the namespaces of the task; the pid namespace applies only to further children."""
    for name, fd in place.namespaces:
        try:
            linux.setns(fd, 0)
        except OSError as error:
            raise EnterError(f"the task's {name} namespace cannot be entered: {error.strerror}") from None
        os.close(fd)


def enter_root(place: Confinement) -> None:
    """Change to the root directory and the working directory of the task."""
    if place.root >= 0:
        os.fchdir(place.root)
        os.chroot(".")
    os.fchdir(place.directory)


def become(place: Confinement) -> None:
    """Take on limits, capabilities and account of the task.

    Called last, since the other steps need the rights that this gives up.
    """
    for number, (soft, hard) in place.limits:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(number, (soft, hard))
    os.umask(int(place.status.get("Umask", "22"), 8))
    bounds = int(place.status.get("CapBnd", "f" * 16), 16)
    with contextlib.suppress(OSError):  # only root can, and only root needs it
        linux.bound_capabilities(number for number in range(_MOST_CAPABILITIES) if bounds >> number & 1)
    uid, gid = place.uid, place.gid
    if uid and os.geteuid() == 0:
        linux.new_session_keyring()
    if place.strange_user or os.geteuid() == 0:
        with contextlib.suppress(PermissionError):  # a user namespace may deny setgroups
            os.setgroups(place.groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif (uid, gid) != (os.getuid(), os.getgid()):
        raise EnterError("the task runs as another user than the executor")
    if place.status.get("NoNewPrivs") == "1":
        linux.no_new_privileges()
        if place.status.get("Seccomp") == _FILTERED:
            seccomp.install()


def environment(pid: int) -> dict[bytes, bytes]:
    """Return the environment variables that a process was started with."""
    pairs = (part.partition(b"=") for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return {name: value for name, equals, value in pairs if equals and name}


def _stands_between(pid: int) -> bool:
    name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return name in _ENGINES or _STAGE in Path(f"/proc/{pid}/cmdline").read_bytes()


def _owner(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116
    return status.st_uid, status.st_gid


def _children(pid: int) -> Iterator[int]:
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split())


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _limits(pid: int) -> Iterator[tuple[int, tuple[int, int]]]:
    for line in Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()[1:]:
        number = _LIMITS.get(line[:26].removeprefix("Max ").strip())
        if number is not None:
            soft, hard = (
                resource.RLIM_INFINITY if word == "unlimited" else int(word) for word in line[26:].split()[:2]
            )
            yield number, (soft, hard)


def _cgroups(pid: int) -> Iterator[str]:
    """Yield the files by which to enter the cgroups of a process, without those that this process is in."""
    ours = set(_lines(os.getpid()))
    for line in _lines(pid):
        if line in ours:
            continue
        _, controllers, path = line.split(":", 2)
        found = _mount(controllers)
        if found is not None:
            root, point = found
            inner = path.removeprefix(root.rstrip("/")) if path.startswith(root) else path
            yield f"{point}{inner.rstrip('/')}/cgroup.procs"


def _lines(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()


def _mount(controllers: str) -> tuple[str, str] | None:
    """Return root and mount point of a hierarchy: of v1 by its controllers, of v2 without controllers."""
    wanted = set(controllers.split(",")) if controllers else None
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if wanted is None:
            if kind == "cgroup2":
                return root, point
        elif kind == "cgroup" and wanted <= set(options.split(" ")[-1].split(",")):
            return root, point
    return None


def _known_groups(pid: int, groups: list[int]) -> Iterator[int]:
    """Yield the groups whose numbers exist in the user namespace of a process."""
    for group in groups:
        with contextlib.suppress(EnterError):
            yield _inner(pid, "gid_map", group)


def _inner(pid: int, table: str, number: int) -> int:
    """Return the number of an account in the user namespace of a process."""
    for line in Path(f"/proc/{pid}/{table}").read_text(encoding="ascii").splitlines():
        inside, outside, count = map(int, line.split())
        if outside <= number < outside + count:
            return inside + number - outside
    raise EnterError("the account of the task has no number inside it")
