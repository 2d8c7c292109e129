"""Folders of attempts on the disks of their node: made before the program starts, removed after it ends.

``<disk>/cress-<executor>/<attempt>``, for the account of the task alone. The folders of an earlier supervisor are
removed as soon as the disks are known. Removal may take long, so one child does it for all folders of a turn.

Other accounts may own the disk and rename files on it at any moment. So the folder of the executor is opened and its
owner checked. Its contents, which no other account may write, are reached from there.
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
from collections.abc import Callable, Iterable, Iterator, Sequence

from cress.executor import log_cleanup
from cress.executor.runtimes import linux
from cress.model.node import DISK_KIND, Device
from cress.shell.executor.node_devices import AttemptDevices, NodeDevices
from cress.shell.executor.starting import StartError

_FULL = {errno.ENOSPC, errno.EDQUOT}


class ScratchFolders:
    """The folders of this executor's attempts on the disks of its node."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._names: dict[str, str] = {}  # by folder on the disk: the name of the disk for messages
        self._systems: dict[str, int] = {}  # the first known file system (st_dev) of each of these folders
        self._known: dict[int, tuple[str, ...]] = {}  # of attempts that have not ended
        self._gone: list[str] = []
        self.removing: set[int] = set()

    def fit(self, node_devices: NodeDevices, devices: Iterable[Device]) -> None:
        """Take over the devices of the node; folders on its disks that are no longer needed are removed."""
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
                    # No disk is mounted there now; if one was, it must be mounted again before use.
                    self._systems[base] = before[base]
            with contextlib.suppress(OSError), _opened(base) as place:
                for name in os.listdir(place):  # noqa: PTH208
                    if f"{base}/{name}" not in living:
                        self._set_aside(base, name, place)

    def keep(self, attempt: int, folders: tuple[str, ...]) -> None:
        """Keep these folders, existing or still to be made, until the attempt ends."""
        if folders:
            self._known[attempt] = folders

    def make(self, attempt: int, devices: AttemptDevices, account: tuple[int, int] | None) -> None:
        """Make the folders of an attempt for this account, and check that its device files exist.

        Raise StartError.
        """
        for file in devices.files:
            if not os.path.exists(file):  # noqa: PTH110
                raise StartError(f"the device {file} does not exist on this node", node=True)
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
                # The folder of a forgotten attempt of the same number.
                self._set_aside(base, name, place)
            os.mkdir(name, 0o700, dir_fd=place)
            if account is not None:
                os.chown(name, *account, dir_fd=place, follow_symlinks=False)

    def _set_aside(self, base: str, name: str, place: int) -> None:
        """Rename a folder that will be removed later, since an attempt may get its name in the meantime."""
        aside = f"old-{time.monotonic_ns()}"
        os.rename(name, aside, src_dir_fd=place, dst_dir_fd=place)
        self._gone.append(f"{base}/{aside}")

    def over(self, attempt: int) -> None:
        """Note that no process of the attempt is left, so its folders can be removed."""
        self._gone += self._known.pop(attempt, ())

    def remove(self) -> None:
        """Remove the folders that are no longer needed; called at the end of each turn."""
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
        self.removing.add(pid)

    def close(self) -> None:
        """Remove the executor's folders on the disks, if they are empty."""
        for base in self._names:
            with contextlib.suppress(OSError):
                os.rmdir(base)  # noqa: PTH106

    def ended(self, pid: int) -> bool:
        """Note the end of a child; return whether it was one that removes folders."""
        if pid in self.removing:
            self.removing.discard(pid)
            return True
        return False


@contextlib.contextmanager
def _opened(base: str) -> Iterator[int]:
    """Yield a descriptor of the executor's folder on a disk. Raise OSError, also if another account owns the folder."""
    try:
        place = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise OSError(errno.EPERM, f"{base} belongs to another account") from None
    try:
        if os.fstat(place).st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{base} belongs to another account")
        yield place
    finally:
        os.close(place)


def _empty(folder: str) -> bool:
    """Remove a folder if it is empty; return whether it was."""
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
    """In the child: remove folders with all their contents. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Close inherited descriptors, above all the lock of the executor's folder.
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
    """Unmount everything that a task has mounted in its folder, so that it is not removed with it. Raise OSError."""
    for place in reversed(linux.mounted()):
        if place == folder or place.startswith(f"{folder}/"):
            linux.unmount(place)
