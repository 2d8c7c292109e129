"""Bundles in the format of the Open Container Initiative (runtime-spec 1.0.2), for crun and runc."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from cress.executor.runtimes import seccomp
from cress.executor.runtimes.engines.base import FIXED, HIDDEN, PAUSE, Box, Mount

_DEV = (
    ("/proc", "proc", "proc", ()),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=64k")),
    ("/dev/pts", "devpts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777")),  # noqa: S108
    ("/dev/mqueue", "mqueue", "mqueue", ("nosuid", "noexec", "nodev")),
    ("/sys", "none", "/sys", ("bind", "ro", "nosuid", "noexec", "nodev")),
)
_CAPABILITIES = ("bounding", "effective", "permitted", "inheritable", "ambient")


def write_bundle(box: Box) -> str:
    """Write the configuration, and return the folder of the bundle. The first process has no capabilities."""
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [PAUSE],
            "env": list(box.environment),
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {capability: [] for capability in _CAPABILITIES},
        },
        "root": {"path": box.root, "readonly": True},
        "hostname": box.hostname,
        "mounts": [
            *({"destination": t, "type": k, "source": s, "options": list(o)} for t, k, s, o in _DEV),
            _mount(Mount(PAUSE, box.pause)),
            *map(_mount, box.mounts),
        ],
        "linux": {
            "namespaces": [{"type": namespace} for namespace in ("pid", "ipc", "uts", "mount")],
            "cgroupsPath": "/" + box.group,
            "rootfsPropagation": "private",
            "devices": [_device(device) for device in box.devices],
            "seccomp": seccomp.oci_profile(),
            "maskedPaths": list(HIDDEN),
            "readonlyPaths": list(FIXED),
        },
    }
    Path(box.folder, "config.json").write_bytes(msgspec.json.encode(config))
    return box.folder


def first(box: Box) -> int:
    """Return the pid written by the engine; 0 if there is none yet."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(box.folder, "pid").read_text())
    return 0


def _device(path: str) -> dict[str, Any]:
    """Return the description of a private file for the same device."""
    known = os.stat(path)  # noqa: PTH116
    return {
        "path": path,
        "type": "b" if stat.S_ISBLK(known.st_mode) else "c",
        "major": os.major(known.st_rdev),
        "minor": os.minor(known.st_rdev),
        "fileMode": stat.S_IMODE(known.st_mode),
        "uid": known.st_uid,
        "gid": known.st_gid,
    }


def _mount(mount: Mount) -> dict[str, Any]:
    if not mount.source:
        options = ["nosuid", "nodev", f"mode={mount.mode:o}"]
        return {"destination": mount.target, "type": "tmpfs", "source": "tmpfs", "options": options}
    options = ["bind", "rw" if mount.writable else "ro", "nosuid", "nodev"]
    if not os.path.isdir(mount.source):  # noqa: PTH112
        options = ["bind", "ro"]
    return {"destination": mount.target, "type": "none", "source": mount.source, "options": options}
