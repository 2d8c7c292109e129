"""Control groups of attempts, in the kernel's first version, the second, or both at once (hybrid).

Each attempt has one group, below a folder for the executor: ``cress/NODE-1f2e3d4c/17``. It exists in every hierarchy of
the first version with a controller in use here, and in the second version if present. ``lacks`` names the missing
limits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

# Controllers that limits need, by their names in the first version; ``_SECOND`` has differing names of the second.
_LIMITS = ("memory", "cpu", "pids", "blkio")
_COUNTS = ("cpuacct",)
_SECOND = {"blkio": "io", "cpuacct": "cpu"}
TOP = "cress"

# Microseconds: the period over which a quota of processor time counts, and the smallest quota that the kernel accepts.
PERIOD, LEAST_QUOTA = 100_000, 1_000
# Tries to make a folder that another executor may remove at the same moment.
_TRIES = 100

# Seconds between two moves of processes that keep the kernel ready for others; it stays so for 10 ms or more.
GRACE = 0.003

# Version 1 shows a number just below 2^63 for an absent limit.
_NO_LIMIT = 1 << 62

# Files that exist only where the kernel accounts swap.
_SWAP = ("memory.memsw.limit_in_bytes", "memory.swap.max")

_DISK = (("disk_read", "read_bps", "rbps"), ("disk_write", "write_bps", "wbps"))
_IOPS = (("iops_read", "read_iops", "riops"), ("iops_write", "write_iops", "wiops"))


class CgroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a group, for all its processes together; 0: no limit.

    ``memory`` in bytes, ``cpu`` in thousandths of a processor, ``pids`` processes and threads. ``disk_read`` and
    ``disk_write`` in bytes/s, ``iops_read`` and ``iops_write`` in operations/s, for each of ``devices`` (major:minor).
    """

    memory: int = 0
    cpu: int = 0
    pids: int = 0
    disk_read: int = 0
    disk_write: int = 0
    iops_read: int = 0
    iops_write: int = 0
    devices: tuple[str, ...] = ()


class StepKind(Enum):
    """The kind of a step that makes a group: make a folder, or write a limit, which may be impossible or absent."""

    MAKE = "make"
    WRITE = "write"
    IF_PRESENT = "if present"
    IF_POSSIBLE = "if possible"


class GroupStep(NamedTuple):
    """A step in which a group is made: ``path`` is a folder to make, or the file into which ``text`` is written."""

    kind: StepKind
    path: str
    text: str = ""


class CgroupUsage(msgspec.Struct, frozen=True):
    """Usage counted by a group: ``cpu`` in µs, ``memory`` at the peak in bytes, processes killed as memory ran out."""

    cpu: int = 0
    memory: int = 0
    killed: int = 0


class Cgroups:
    """The groups of one executor.

    ``first``: folders by controller of version 1. ``second``: the folder of version 2, if present. ``folders`` are
    those of all hierarchies, including those that only an engine uses.
    """

    def __init__(
        self, key: str, first: dict[str, str], second: str, folders: tuple[str, ...], also: tuple[str, ...] = ()
    ) -> None:
        self.first = first
        self.second = second
        self.path = f"{TOP}/{key}"
        self._folders = folders
        self._also = also
        wanted = {first[limit] for limit in (*_LIMITS, *_COUNTS, *also) if limit in first}
        self._used = tuple(sorted(wanted | ({second} if second else set())))
        self._has: set[str] = set()  # controllers that work, by their names in version 1
        self._why = ""
        self._swap = False

    @classmethod
    def find(cls, name: str, folder: str, also: tuple[str, ...] = ()) -> Cgroups:
        """Find the mounted hierarchies for the executor ``name`` in ``folder``; ``also``: further controllers."""
        first: dict[str, str] = {}
        second = ""
        folders = []
        for place, kind, options in _mounts():
            if kind == "cgroup2":
                second = second or place
                folders.append(place)
            elif kind == "cgroup":
                folders.append(place)
                for option in options:
                    first.setdefault(option, place)
        key = re.sub(r"[^\w.-]", "_", name)[:64] + f"-{zlib.crc32(os.fsencode(folder)):08x}"
        return cls(key, first, second, tuple(dict.fromkeys(folders)), also)

    # --- before the first task -------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Find out which controllers work. Return False if groups cannot be made, for the reason ``why``."""
        if not self._used:
            self._why = "no control groups are mounted"
            return False
        self._has = {limit for limit in (*_LIMITS, *_COUNTS, *self._also) if limit in self.first}
        try:
            self._open()
            if self.second:
                self._has |= {
                    limit for limit in (*_LIMITS, *_COUNTS) if limit not in self.first and self._delegated(limit)
                }
            self._swap = self._limits_swap()
        except OSError as error:
            self._why = f"control groups cannot be made: {error.strerror}"
            return False
        finally:
            self.close()
        return True

    def _open(self) -> None:
        """Make the executor's folder in all hierarchies."""
        for place in self._used:
            _make(f"{place}/{self.path}")

    @property
    def why(self) -> str:
        """Return the reason why groups cannot be made."""
        return self._why

    def has(self, controller: str) -> bool:
        """Return whether a controller (by its name in version 1) works here."""
        return controller in self._has

    def _delegated(self, controller: str) -> bool:
        """Return whether version 2 delegates this controller to the executor's groups."""
        name = _SECOND.get(controller, controller)
        place = Path(self.second)
        for folder in (place, place / TOP, place / self.path):
            try:
                if name not in (folder / "cgroup.controllers").read_text().split():
                    return False
                (folder / "cgroup.subtree_control").write_text(f"+{name}")
            except OSError:
                return False
        return True

    # --- one attempt -----------------------------------------------------------------------------------------------

    def make(self, attempt: int, limits: CgroupLimits) -> None:
        """Make the group of an attempt with these limits. Raise OSError if one of them cannot be set."""
        for step in self.steps(attempt, limits):
            if step.kind is StepKind.MAKE:
                _make(step.path)
                continue
            try:
                _write(step.path, step.text)
            except OSError as error:
                absent = step.kind is StepKind.IF_PRESENT and error.errno == errno.ENOENT
                if step.kind is not StepKind.IF_POSSIBLE and not absent:
                    raise

    def steps(self, attempt: int, limits: CgroupLimits) -> Iterator[GroupStep]:
        """Yield the steps in which the group of an attempt is made with these limits."""
        for place in self._used:
            yield GroupStep(StepKind.MAKE, f"{place}/{self.path}")
        for controller in sorted(self._has - self.first.keys()):
            for folder in (self.second, f"{self.second}/{TOP}", f"{self.second}/{self.path}"):
                name = _SECOND.get(controller, controller)
                yield GroupStep(StepKind.IF_POSSIBLE, f"{folder}/cgroup.subtree_control", f"+{name}")
        for place in self._used:
            yield GroupStep(StepKind.MAKE, f"{place}/{self.path}/{attempt}")
        for controller, name, text in self._settings(limits):
            if controller in self._has:
                # Without swap accounting its file is missing, and ``lacks`` reports it.
                kind = StepKind.IF_PRESENT if name in _SWAP else StepKind.WRITE
                yield GroupStep(kind, self.file(controller, attempt, name), text)

    def _settings(self, limits: CgroupLimits) -> Iterator[tuple[str, str, str]]:
        """Yield controller, file and text of each limit, in the order in which the kernel accepts them."""
        if limits.memory and "memory" in self.first:
            yield "memory", "memory.limit_in_bytes", str(limits.memory)
            # Memory and swap together.
            yield "memory", "memory.memsw.limit_in_bytes", str(limits.memory)
        elif limits.memory:
            yield "memory", "memory.max", str(limits.memory)
            yield "memory", "memory.swap.max", "0"
        if limits.cpu:
            quota = max(LEAST_QUOTA, limits.cpu * PERIOD // 1000)
            if "cpu" in self.first:
                yield "cpu", "cpu.cfs_period_us", str(PERIOD)
                yield "cpu", "cpu.cfs_quota_us", str(quota)
            else:
                yield "cpu", "cpu.max", f"{quota} {PERIOD}"
        if limits.pids:
            yield "pids", "pids.max", str(limits.pids)
        for name, first, second in (*_DISK, *_IOPS):
            amount = getattr(limits, name)
            for device in limits.devices if amount else ():
                if "blkio" in self.first:
                    yield "blkio", f"blkio.throttle.{first}_device", f"{device} {amount}"
                else:
                    yield "blkio", "io.max", f"{device} {second}={amount}"

    def procs_files(self, attempt: int) -> list[str]:
        """Return the files into which a process writes its id (0: itself) to enter the group."""
        return [f"{place}/{self.path}/{attempt}/cgroup.procs" for place in self._used]

    def own_file(self) -> str:
        """Return the file by which a process enters the group of this one, in any hierarchy; empty: unknown."""
        for line in _read("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            place = self.first.get(controllers.partition(",")[0]) if controllers else self.second
            if place:
                file = f"{place}{path.rstrip('/')}/cgroup.procs"
                # The mount may show another part of the hierarchy than the path is from.
                return file if str(os.getpid()) in _read(file).split() else ""
        return ""

    def pids(self, attempt: int) -> set[int]:
        """Return the processes of a group."""
        found: set[int] = set()
        for place in self._used[:1]:
            found.update(int(process) for process in _read(f"{place}/{self.path}/{attempt}/cgroup.procs").split())
        return found

    def used(self, attempt: int) -> CgroupUsage:
        """Return the usage counted by the group so far; 0 where nothing is counted."""
        if "cpuacct" in self.first:
            cpu = _number(_read(self.file("cpuacct", attempt, "cpuacct.usage"))) // 1000
        else:
            cpu = _field(_read(self.file("", attempt, "cpu.stat")), "usage_usec")
        if "memory" in self.first:
            peak = _number(_read(self.file("memory", attempt, "memory.max_usage_in_bytes")))
            killed = _field(_read(self.file("memory", attempt, "memory.oom_control")), "oom_kill")
        else:
            peak = _number(_read(self.file("", attempt, "memory.peak")))
            killed = _field(_read(self.file("", attempt, "memory.events")), "oom_kill")
        return CgroupUsage(cpu, peak, killed)

    def memory(self, attempt: int) -> int:
        """Return the memory limit of a group, in bytes; 0: none."""
        name = "memory.limit_in_bytes" if "memory" in self.first else "memory.max"
        limit = _number(_read(self.file("memory", attempt, name)))
        return limit if limit < _NO_LIMIT else 0

    def remove(self, attempt: int) -> bool:
        """Remove the group in every hierarchy; return False if it still has processes."""
        gone = True
        for place in self._folders:
            try:
                os.rmdir(f"{place}/{self.path}/{attempt}")  # noqa: PTH106
            except FileNotFoundError:
                pass
            except OSError:
                gone = False
        return gone

    def left(self) -> set[int]:
        """Return the attempts that have a group."""
        found: set[int] = set()
        for place in self._folders:
            with contextlib.suppress(OSError):
                found.update(int(name) for name in os.listdir(f"{place}/{self.path}") if name.isdigit())  # noqa: PTH208
        return found

    def close(self) -> None:
        """Remove the executor's folders, as far as no attempt has a group in them."""
        for place in self._folders:
            for path in (self.path, TOP):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{place}/{path}")  # noqa: PTH106

    def file(self, controller: str, attempt: int, name: str) -> str:
        """Return the path of a file of a group."""
        return f"{self.first.get(controller, self.second)}/{self.path}/{attempt}/{name}"

    # --- missing limits --------------------------------------------------------------------------------------------

    def lacks(self) -> list[str]:
        """Return sentences about limits that are not enforced here."""
        found = []
        for controller, what in _MISSING.items():
            if controller not in self._has:
                found.append(f"{what}: the kernel's controller {controller!r} is missing")
        if "memory" in self._has and not self._swap and _has_swap():
            found.append("memory that is swapped out counts for no limit: the kernel does not account swap")
        if "blkio" in self._has and "blkio" in self.first:
            found.append(
                "disk limits hold for reads and for direct writes only, not for writes through the page cache "
                "(control groups version 1)"
            )
        return found

    def _limits_swap(self) -> bool:
        if "memory" in self.first:
            return Path(self.first["memory"], "memory.memsw.limit_in_bytes").exists()
        return Path(self.second, self.path, "memory.swap.max").exists()


_MISSING = {
    "memory": "memory is not limited",
    "cpu": "processor time is not limited",
    "pids": "the number of processes is not limited",
    "blkio": "disk throughput is not limited",
}


def move(pid: int, file: str) -> None:
    """Move a process (0: this one) into the group with this file ``cgroup.procs``. Raise OSError."""
    fd = os.open(file, os.O_WRONLY)
    try:
        os.write(fd, b"%d" % pid)
    finally:
        os.close(fd)


class ReadyForMoves:
    """The kernel's readiness to move processes between groups at once; this process has the group of ``own_file``.

    Before the kernel moves a process, it waits until all processors have noticed: a grace period of RCU, 10 ms or more.
    It does not wait if it has moved another one a moment ago. So a process moves to its own group, which changes
    nothing, while it has to wait for something else anyway. Errors are ignored: the later moves are only slower.
    """

    def __init__(self, own_file: str) -> None:
        self._fd, self._due = -1, 0.0
        if own_file:
            with contextlib.suppress(OSError):
                self._fd = os.open(own_file, os.O_WRONLY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def keep(self) -> None:
        """Make the kernel ready, or keep it so; to be called at least every ``GRACE`` seconds."""
        # Each move stops all forks of the node for some microseconds, so there are no more than needed.
        if self._fd >= 0 and time.monotonic() >= self._due:
            with contextlib.suppress(OSError):
                os.write(self._fd, b"0")
            self._due = time.monotonic() + GRACE


def device_of(path: str) -> str:
    """Return the disk (major:minor) below a folder, if its throughput can be limited; empty: none, as in memory."""
    number = os.stat(path).st_dev  # noqa: PTH116
    major, minor = os.major(number), os.minor(number)
    place = f"/sys/dev/block/{major}:{minor}"
    if not major or not os.path.exists(place):  # noqa: PTH110
        return ""
    if os.path.exists(f"{place}/partition"):  # noqa: PTH110
        # Limits apply to whole disks.
        return _read(f"{os.path.realpath(place)}/../dev").strip()
    return f"{major}:{minor}"


def _mounts() -> list[tuple[str, str, list[str]]]:
    """Return the mounts of control groups: folder, kind, options of the file system."""
    found = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        place = left.split()[4].replace("\\040", " ")
        kind, _, options = right.split(" ")[:3]  # the second may be empty
        if kind.startswith("cgroup"):
            found.append((place, kind, options.split(",")))
    return found


def _has_swap() -> bool:
    return len(_read("/proc/swaps").splitlines()) > 1


def _make(path: str) -> None:
    """Make a folder. Another executor may remove its parents at the same moment, if they are empty."""
    for _ in range(_TRIES):
        try:
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            break
        except FileNotFoundError:
            continue


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value)
    return 0
