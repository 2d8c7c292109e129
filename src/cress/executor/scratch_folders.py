"""Folders of attempts on the disks of their node: made before the program starts, removed when it is over.

``<disk>/cress-<executor>/<attempt>``, for the account of the task alone. What an earlier supervisor left is removed as soon as
the disks are known. Removing may take long, so a child does it; one child for all folders of a turn.

The disk may be somebody's who renames what is on it at any moment. So the folder of the executor is opened, seen to be its own, and
what is in it, where nobody else may write, is reached from there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from cress.executor import log_cleanup
from cress.executor.runtimes import linux
from cress.model.node import DISK_KIND, Device
from cress.shell.executor.node_devices import AttemptDevices, NodeDevices
from cress.shell.executor.starting import StartError

_FULL = {errno.ENOSPC, errno.EDQUOT}


class ScratchFolders:
    """The folders that attempts of this executor have on its disks."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._names: dict[str, str] = {}  # what people call the disk, by the folder on it
        self._systems: dict[str, int] = {}  # the file system (st_dev) that each of these folders was on at first
        self._known: dict[int, tuple[str, ...]] = {}  # of attempts that are not over
        self._gone: list[str] = []
        self._removing: set[int] = set()

    def fit(self, node_devices: NodeDevices, devices: Iterable[Device]) -> None:
        """These are the devices of the node from now on; what nobody needs any more of what is on its disks is removed."""
        before = self._systems
        self._names, self._systems = {}, {}
        living = {folder for folders in self._known.values() for folder in folders}
        for disk in devices:
            if disk.kind != DISK_KIND or not disk.path:
                continue
            base = node_devices.base(disk)
            self._names[base] = f"disk {disk.id} ({disk.path})"
            with contextlib.suppress(OSError):
                system = os.stat(disk.path).st_dev  # noqa: PTH116
                if base not in before or system != os.stat(f"{disk.path}/..").st_dev:  # noqa: PTH116
                    self._systems[base] = system
                else:
                    # Nothing is mounted there: if it was, it still is to be.
                    self._systems[base] = before[base]
            with contextlib.suppress(OSError), _opened(base) as place:
                for name in os.listdir(place):  # noqa: PTH208
                    if f"{base}/{name}" not in living:
                        self._set_aside(base, name, place)

    def keep(self, attempt: int, folders: tuple[str, ...]) -> None:
        """The attempt has, or is to have, these folders until it is over."""
        if folders:
            self._known[attempt] = folders

    def make(self, attempt: int, devices: AttemptDevices, account: tuple[int, int] | None) -> None:
        """Make the folders of an attempt, for this account, and see that its devices are there. Raises StartError."""
        for file in devices.files:
            if not os.path.exists(file):  # noqa: PTH110
                raise StartError(f"the device {file} is not there on this node", node=True)
        self.keep(attempt, devices.folders)
        for folder in devices.folders:
            base = folder.rpartition("/")[0]
            name = self._names.get(base, base)
            try:
                self._make(base, folder, account)
            except OSError as error:
                why = "is full" if error.errno in _FULL else f"cannot be used: {error.strerror or error}"
                raise StartError(f"{name} {why}", node=True) from None

    def _make(self, base: str, folder: str, account: tuple[int, int] | None) -> None:
        path = os.path.dirname(base)  # noqa: PTH120
        system = os.stat(path).st_dev  # noqa: PTH116
        if self._systems.setdefault(base, system) != system:
            raise OSError(errno.ENODEV, "another file system is mounted there than when the executor started")
        room = os.statvfs(path)
        if room.f_bavail == 0 or (room.f_files and not room.f_favail):
            raise OSError(errno.ENOSPC, "full")
        with contextlib.suppress(FileExistsError):
            os.mkdir(base, 0o711)  # noqa: PTH102
        name = folder.rpartition("/")[2]
        with _opened(base) as place:
            with contextlib.suppress(FileNotFoundError):
                # Of an attempt of this number that nobody knows any more.
                self._set_aside(base, name, place)
            os.mkdir(name, 0o700, dir_fd=place)
            if account is not None:
                os.chown(name, *account, dir_fd=place, follow_symlinks=False)

    def _set_aside(self, base: str, name: str, place: int) -> None:
        """Have it removed, by another name: an attempt may get this one meanwhile."""
        aside = f"old-{time.monotonic_ns()}"
        os.rename(name, aside, src_dir_fd=place, dst_dir_fd=place)
        self._gone.append(f"{base}/{aside}")

    def over(self, attempt: int) -> None:
        """Nothing of the attempt runs any more."""
        self._gone += self._known.pop(attempt, ())

    def remove(self) -> None:
        """Remove what is to go; called at the end of each turn."""
        if not self._gone:
            return
        gone, self._gone = self._gone, []
        full = [folder for folder in gone if not _empty(folder)]
        if not full:
            return
        try:
            pid = os.fork()
        except OSError as error:
            self._gone += full
            self._say(f"folders on disks are not removed: {error.strerror}; it is tried again")
            return
        if pid == 0:
            _remove(full)
        self._removing.add(pid)

    def close(self) -> None:
        """Leave the disks as they were, as far as nobody has anything there any more."""
        for base in self._names:
            with contextlib.suppress(OSError):
                os.rmdir(base)  # noqa: PTH106

    def ended(self, pid: int) -> bool:
        """A child has ended; whether it was one that removes folders."""
        if pid in self._removing:
            self._removing.discard(pid)
            return True
        return False

    def busy(self, pids: Collection[int]) -> set[int]:
        """Those of these children that remove folders: they are left alone when the supervisor ends."""
        return self._removing & set(pids)


@contextlib.contextmanager
def _opened(base: str) -> Iterator[int]:
    """A descriptor of the executor's folder on a disk. Raises OSError, also for one that is somebody else's."""
    try:
        place = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise OSError(errno.EPERM, f"{base} is somebody else's") from None
    try:
        if os.fstat(place).st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{base} is somebody else's")
        yield place
    finally:
        os.close(place)


def _empty(folder: str) -> bool:
    """Remove a folder with nothing in it; False: there is something in it."""
    base, _, name = folder.rpartition("/")
    try:
        with _opened(base) as place:
            os.rmdir(name, dir_fd=place)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove(folders: Sequence[str]) -> None:
    """In the child: remove folders with all that is in them. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # The lock of the executor's folder, above all.
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for folder in folders:
            base, _, name = folder.rpartition("/")
            with contextlib.suppress(OSError):
                with _opened(base) as place:
                    os.fchdir(place)
                _unmount(f"{os.getcwd()}/{name}")  # noqa: PTH109
                if stat.S_ISDIR(os.lstat(name).st_mode):
                    shutil.rmtree(name, onerror=log_cleanup.force_remove)
                else:
                    os.unlink(name)  # noqa: PTH108
    finally:
        os._exit(0)


def _unmount(folder: str) -> None:
    """Take away what a task has mounted in its folder: what is there is not its own. Raises OSError."""
    for place in reversed(linux.mounted()):
        if place == folder or place.startswith(f"{folder}/"):
            linux.unmount(place)
