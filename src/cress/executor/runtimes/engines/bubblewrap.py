"""bubblewrap: a small engine.

It would stay as the parent of the first process, which does not need one, so it is killed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from cress.executor.runtimes import linux, seccomp
from cress.executor.runtimes.engines.base import FIXED, HIDDEN, PAUSE, Box, Mount

# Devices that every program may rely on, by their numbers (Documentation/admin-guide/devices.txt).
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


class _Info(msgspec.Struct):
    child: int = msgspec.field(name="child-pid")


class Bubblewrap:
    """Engine ``bwrap``; see ``Engine``."""

    name = "bubblewrap"
    stays = True
    emptied = ""

    def command(self, box: Box) -> list[str]:
        """See ``Engine``."""
        os.dup2(os.open(f"{box.folder}/pid", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), 1)
        command = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", box.hostname]
        command += ["--seccomp", str(_filter()), "--cap-drop", "ALL", "--as-pid-1", "--info-fd", "1", "--clearenv"]
        for variable in box.environment:
            command += ["--setenv", *variable.split("=", 1)]
        command += ["--bind", box.root, "/", "--proc", "/proc", "--dev-bind", _devices(box), "/dev"]
        command += ["--mqueue", "/dev/mqueue", "--ro-bind", "/sys", "/sys"]
        for path in FIXED:
            command += ["--ro-bind-try", path, path]
        for path in HIDDEN:
            if Path(path).is_dir():
                command += ["--tmpfs", path, "--remount-ro", path]
            elif Path(path).exists():
                command += ["--ro-bind", f"{box.folder}/nothing", path]
        for mount in box.mounts:
            command += _mount(mount)
        return [*command, "--remount-ro", "/", PAUSE]

    def direct(self, box: Box) -> None:
        """See ``Engine``: it needs files of devices, and a descriptor."""

    def first(self, box: Box) -> int:
        """See ``Engine``."""
        try:
            return msgspec.json.decode(Path(box.folder, "pid").read_bytes(), type=_Info).child
        except (OSError, msgspec.MsgspecError):
            return 0


def _filter() -> int:
    """Return a descriptor from which bubblewrap reads the system call filter."""
    reading, writing = os.pipe()
    os.write(writing, seccomp.program(os.uname().machine))
    os.close(writing)
    os.set_inheritable(reading, True)
    return reading


def _devices(box: Box) -> str:
    """Make a private /dev, since bubblewrap's binds the files of the node, whose permissions root could change."""
    dev = Path(box.folder, "dev")
    dev.mkdir(exist_ok=True)
    Path(box.folder, "nothing").touch(mode=0o444)
    linux.mount("tmpfs", str(dev), "tmpfs", linux.MS_NOSUID, "mode=755,size=64k")
    for name, numbers in _DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(*numbers))
        (dev / name).chmod(0o666)
    for path in box.devices:
        known, place = os.stat(path), dev / path.removeprefix("/dev/")  # noqa: PTH116
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, known.st_mode, known.st_rdev)
        place.chmod(stat.S_IMODE(known.st_mode))
        os.chown(place, known.st_uid, known.st_gid)
    for name, target in {**_LINKS, "ptmx": "pts/ptmx"}.items():
        (dev / name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        (dev / name).mkdir()
    quiet = linux.MS_NOSUID | linux.MS_NOEXEC
    linux.mount("devpts", str(dev / "pts"), "devpts", quiet, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    linux.mount("tmpfs", str(dev / "shm"), "tmpfs", quiet | linux.MS_NODEV, "mode=1777")
    place = dev / Path(PAUSE).name
    place.write_bytes(Path(box.pause).read_bytes())
    place.chmod(0o555)
    return str(dev)


def _mount(mount: Mount) -> list[str]:
    if not mount.source:
        return ["--perms", f"{mount.mode:04o}", "--tmpfs", mount.target]
    return ["--bind" if mount.writable else "--ro-bind", mount.source, mount.target]
