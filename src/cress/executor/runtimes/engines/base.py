"""What a container engine is told, and does: makes the sandbox, starts its first process in it, and leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

# What of /proc nobody may look into, and what nobody may write, root included.
HIDDEN = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi")
FIXED = ("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class Mount(msgspec.Struct, frozen=True):
    """A folder of its own in memory (no ``source``) with the permissions ``mode``, or one of the node's at ``target``."""

    target: str
    source: str = ""
    writable: bool = False
    mode: int = 0o755


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox to be made in the folder ``folder``, which is its maker's own.

    ``root`` is the folder of its root file system; ``bound``: it is bound read-only already, and needs nothing made in
    it. ``mounts`` come in their order, after ``/proc``, ``/dev`` and ``/sys``. ``pause`` is the program of its first
    process, which finds ``environment``. ``group`` is the path of its control groups. ``devices`` are files of the node in /dev
    that are in the sandbox too.
    """

    folder: str
    root: str
    mounts: tuple[Mount, ...]
    pause: str
    environment: tuple[str, ...]
    hostname: str
    group: str
    devices: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What the engine says."""
        return Path(self.folder, "log")


# Where the first process is found in the sandbox.
PAUSE = "/dev/pause"


class Engine(Protocol):
    """A program that makes sandboxes. It never gets a root file system that can be written."""

    name: str

    def command(self, box: Box) -> list[str]:
        """Called in the process that becomes the engine, with mounts of its own: prepare, and say what to execute.

        It ends when the sandbox is there, or is killed then; its first process goes on in both cases.
        """

    def first(self, box: Box) -> int:
        """The pid of the first process; 0: it is not there yet."""
