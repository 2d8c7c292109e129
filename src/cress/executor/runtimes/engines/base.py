"""The interface of a container engine, which makes the sandbox, starts its first process in it, and ends."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

# Files of /proc that are hidden, and files that are read-only, also for root.
HIDDEN = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi")
FIXED = ("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

# Folders in that of a container in which engines keep its state.
STATES = ("box", "state")


class Mount(msgspec.Struct, frozen=True):
    """A mount at ``target``.

    It is a folder of the node, or (without a ``source``) a private one in memory with the permissions ``mode``.
    """

    target: str
    source: str = ""
    writable: bool = False
    mode: int = 0o755


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a sandbox made in ``folder``, which only the executor may enter.

    ``root`` is the folder of its root file system; ``bound``: it is already bound read-only, and has all folders for
    mounts. ``mounts`` are in their order, after ``/proc``, ``/dev`` and ``/sys``. ``pause`` is the program of its first
    process, which gets ``environment``. ``group`` is the path of its control groups. ``devices`` are files of the node
    in /dev that are in the sandbox too.
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
        """Return the path of the engine's log."""
        return Path(self.folder, "log")


# The path of the first process's program in the sandbox.
PAUSE = "/dev/pause"


class Engine(Protocol):
    """A program that makes sandboxes. It never gets a writable root file system.

    It ends once the sandbox exists, or ``stays`` as the parent of the first process, and is killed then.
    """

    name: str
    stays: bool
    # A folder of the node that must look empty to it; empty: none.
    emptied: str

    def command(self, box: Box) -> list[str]:
        """Prepare, and return the command to execute.

        Called in the process that becomes the engine, with private mounts. The first process goes on without it.
        """

    def direct(self, box: Box) -> list[str] | None:
        """Prepare, and return the command for the launcher, which may run in any process; ``None``: only a fork can.

        The launcher mounts the root file system and hides ``emptied`` before it executes the command. The engine must
        stay until it is killed, once the first process has said on its standard output that it runs.
        """

    def first(self, box: Box) -> int:
        """Return the pid of the first process; 0 if it does not exist yet."""
