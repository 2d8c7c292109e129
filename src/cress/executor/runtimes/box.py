"""The file system of a container: the folders of the node in it, and its private ones."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cress.executor.runtimes import linux
from cress.executor.runtimes.engines.base import Box, Mount
from cress.executor.runtimes.enter import Ids
from cress.shell.executor.node_devices import AttemptDevices

# Private folders in memory; their files count towards the container's memory limit.
_OWN = (("/tmp", 0o1777), ("/run", 0o755))  # noqa: S108
_TEMPORARY = "/var/tmp"  # noqa: S108
# Folders whose mounts on the node are hidden from the container.
_APART = (
    *("/proc", "/sys", "/dev", "/run", _TEMPORARY, *(target for target, _ in _OWN)),
    *("/var/lib/docker", "/var/lib/containers", "/var/lib/kubelet"),
)
_NAMES = ("/etc/resolv.conf", "/etc/hosts")
# Every program that uses a GPU of this maker needs these files, too.
_NVIDIA = re.compile(r"/dev/nvidia\d+")
_NVIDIA_TOO = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
# An image may contain files of devices, and programs with the rights of others.
_NO_DEVICES = linux.MS_NODEV | linux.MS_NOSUID
NOTHING = AttemptDevices()
_KERNEL = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs "
    "mqueue nsfs proc "
    "pstore rpc_pipefs securityfs sysfs tracefs".split()
)
# File systems whose files are on this machine. A look at another one may take for ever if its server is gone.
_LOCAL = frozenset(
    "bcachefs btrfs erofs exfat ext2 ext3 ext4 f2fs iso9660 jfs ntfs3 overlay ramfs reiserfs rootfs squashfs tmpfs udf "
    "vfat xfs zfs".split()
)
# What the kernel mounts when somebody looks (autofs) may be of another machine.
_NEAR = _LOCAL | _KERNEL - {"autofs"}
# Folders in which nobody looks for mounts.
_NO_FILES = ("/proc", "/sys", "/dev", "/run")
_MOUNTS = Path("/proc/self/mountinfo")


def make_box(
    *,
    folder: str,
    mounted: str,
    root: str,
    home: str,
    attempt: str,
    writable: Iterable[str],
    pause: str,
    group: str,
    hidden: bool,
    secret: Iterable[str] = (),
    devices: AttemptDevices = NOTHING,
    readable: Iterable[str] = (),
    is_image: bool = False,
) -> Box:
    """Return the sandbox of an attempt, made in ``folder``; ``root`` is the job's root folder, empty: the node's.

    ``mounted`` is the folder where the engine finds the root file system.

    ``home`` is the executor's folder, of which only ``attempt`` is visible. ``writable`` are folders of the node.
    ``hidden``: the task is not root, and may be unable to pass through the folders above ``home``, so these are
    replaced. ``secret`` are folders of the node that are replaced by empty ones, wherever ``root`` shows them.
    ``devices`` are the devices of the attempt; folders of other attempts on its disks are not visible. ``readable`` are
    folders of the node that the task may read, wherever they are. ``is_image``: ``root`` is that of an image, which the
    executor keeps. Raise OSError if another ``root`` is in a secret folder.
    """
    mounts = [Mount(target, mode=mode) for target, mode in _OWN]
    base = root or "/"
    if os.path.isdir(base + _TEMPORARY):  # noqa: PTH112
        mounts.append(Mount(_TEMPORARY, mode=0o1777))
    if not root:
        mounts += [Mount(place, place) for place in _mounts_of_the_node(home)]
        names = os.path.realpath("/etc/resolv.conf")
        if names.startswith("/run/"):
            mounts.append(Mount(os.path.dirname(names), os.path.dirname(names)))  # noqa: PTH120
    own = [target for target, _ in _OWN]
    if is_image:
        # The network is the node's, and so are its names.
        mounts += [Mount(place, os.path.realpath(place)) for place in _NAMES if os.path.exists(place)]  # noqa: PTH110
    else:
        mounts += [Mount(place) for place in _shown(secret, base) if not _inside(place, own)]
    covered = _closed(home) if hidden else ""
    if not _inside(home, own):
        mounts.append(Mount(covered or home))
    if not root:
        mounts += [Mount(place, mode=0o711) for place in devices.covered if os.path.isdir(place)]  # noqa: PTH112
    mounts += [Mount(shared, shared, writable=True) for shared in (*writable, attempt, *devices.folders)]
    mounts += [Mount(place, place) for place in readable]
    return Box(
        folder=folder,
        root=mounted,
        mounts=tuple(mounts),
        pause=pause,
        environment=(f"CRESS_DIRECTORY={attempt}",),
        hostname=socket.gethostname(),
        group=group,
        devices=tuple(_files(devices.files)),
    )


def _files(files: Sequence[str]) -> Iterator[str]:
    """Yield the device files for a sandbox, which has a private /dev, and the further files that drivers need."""
    beside = _NVIDIA_TOO if any(_NVIDIA.fullmatch(file) for file in files) else ()
    for file in dict.fromkeys((*files, *beside)):
        path = os.path.realpath(file)
        if file.startswith("/dev/") and path == file and os.path.exists(file):  # noqa: PTH110
            mode = os.stat(file).st_mode  # noqa: PTH116
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                yield file


def bind_root(root: str, box: Box, account: Ids | None = None) -> None:
    """Mount the root file system where the engine expects it, in a process with private mounts.

    ``account`` is the account of the task. Raise OSError if it may not enter and list ``root``, which could not be
    checked inside the container.

    The node's root is bound without /dev and other mounts in it, and is read-only before any engine sees it. A job's
    root folder may lack folders for mounts: these are made in memory, beside binds of its contents, so that nothing is
    written to it.
    """
    if not root.rstrip("/"):
        _bind("/", box.root)
        return
    with as_account(account):
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fchdir(fd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, root) from None
    os.chdir("/")
    linux.mount("tmpfs", box.root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    _graft(f"/proc/self/fd/{fd}", box.root, [mount.target.strip("/").split("/") for mount in box.mounts])
    os.close(fd)


def _graft(source: str, target: str, paths: list[list[str]]) -> None:
    """Fill a folder in memory with the contents of ``source``, so that these paths can be made in it.

    All such folders are in one mount, which the engine makes read-only.
    """
    for name in os.listdir(source):  # noqa: PTH208
        place = f"{target}/{name}"
        # The owner of the folder may replace its contents by links at any moment.
        with _opened(f"{source}/{name}") as (path, mode):
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(f"{source}/{name}"), place)  # noqa: PTH211, PTH115
            elif stat.S_ISDIR(mode):
                os.mkdir(place, 0o755)  # noqa: PTH102
                os.chmod(place, 0o755)  # noqa: PTH101, S103 - whatever the umask is
                below = [parts[1:] for parts in paths if parts[0] == name and len(parts) > 1]
                if any(not os.path.isdir(f"{path}/{'/'.join(parts)}") for parts in below):  # noqa: PTH112
                    _graft(path, place, below)
                else:
                    _bind(path, place, _NO_DEVICES)
            elif stat.S_ISREG(mode):
                os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
                _bind(path, place, _NO_DEVICES)


@contextlib.contextmanager
def as_account(account: Ids | None) -> Iterator[None]:
    """Access files as another account for a moment, in a process that is root."""
    if account is None:
        yield
        return
    uid, gid, groups = account
    own = os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(own)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[str, int]]:
    """Yield a path that keeps leading to the present file, and the file's mode."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        yield f"/proc/self/fd/{fd}", os.fstat(fd).st_mode
    finally:
        os.close(fd)


def _bind(source: str, target: str, more: int = 0) -> None:
    linux.mount(source, target, "", linux.MS_BIND)
    linux.mount("", target, "", linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | more)


def _mounts_of_the_node(home: str) -> list[str]:
    """Return the mount points that belong in a container: data and programs, not the kernel's file systems."""
    found = [place for place, kind in _mounts() if kind not in _KERNEL and not _inside(place, (*_APART, home))]
    return list(dict.fromkeys(found))


def has_distant_mounts() -> bool:
    """Return whether a look at the mounts of the node may take for ever, since one is of another machine."""
    return any(kind not in _NEAR and not _inside(place, _NO_FILES) for place, kind in _mounts())


def _mounts() -> Iterator[tuple[str, str]]:
    """Yield mount points and kinds of all file systems but that of the root."""
    for line in _MOUNTS.read_text().splitlines():
        left, _, right = line.partition(" - ")
        place = left.split()[4].replace("\\040", " ")
        if place != "/":
            yield place, right.split()[0]


def _shown(secret: Iterable[str], root: str) -> Iterator[str]:
    """Yield the places where a root folder shows secret folders. Raise OSError if the root is in a secret folder."""
    top = os.path.realpath(root).rstrip("/")
    for folder in secret:
        if top and _inside(top, [folder]):
            raise OSError(errno.EACCES, f"root {root} is in a data directory of Cress")
        if _inside(folder, [top]):
            yield folder.removeprefix(top)


def _closed(path: str) -> str:
    """Return the uppermost folder above ``path`` that others may not pass; if there is none, ``path`` itself."""
    so_far = ""
    for part in path.strip("/").split("/"):
        so_far += "/" + part
        if not os.stat(so_far).st_mode & 0o001:  # noqa: PTH116
            return so_far
    return path


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
