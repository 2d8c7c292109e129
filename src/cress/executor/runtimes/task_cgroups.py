"""A control group for each attempt of the runtime ``process``, without limits: none of its processes gets lost.

One hierarchy is enough: the second version, which can kill a whole group at once, else a freezer of the first version,
else any. The group of attempt 17 is ``cress/NODE-1f2e3d4c/p17``; containers have groups without the letter.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from cress.executor.runtimes.cgroups import Cgroups

# Tries to make a folder whose parent another executor may remove at the same moment.
_TRIES = 100
# Searches for the processes of a group that can neither be frozen nor killed as a whole: some may just be starting.
_ROUNDS = 50


class TaskCgroups:
    """The groups of one executor, in ``folder``."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def find(cls, name: str, home: str) -> TaskCgroups | None:
        """Return the groups of the executor ``name`` in the directory ``home``; ``None``: none can be made here."""
        if os.geteuid() != 0:
            return None
        known = Cgroups.find(name, home)
        place = known.second or known.first.get("freezer") or min(known.first.values(), default="")
        if not place:
            return None
        groups = cls(f"{place}/{known.path}")
        try:
            groups.make(0)
        except OSError:
            return None
        groups.remove(0)
        groups.close()
        return groups

    def make(self, attempt: int) -> str:
        """Make the group of an attempt; return the file by which a process enters it. Raise OSError."""
        path = self.folder_of(attempt)
        for _ in range(_TRIES):
            try:
                os.mkdir(path)  # noqa: PTH102 - a thousand times a second
                break
            except FileExistsError:
                break
            except FileNotFoundError:
                with contextlib.suppress(FileNotFoundError):
                    os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103
        return path + "/cgroup.procs"

    def pids(self, attempt: int) -> set[int]:
        """Return the processes of a group, without zombies."""
        try:
            return {int(pid) for pid in Path(self.folder_of(attempt), "cgroup.procs").read_bytes().split()}
        except OSError:
            return set()

    def kill(self, attempt: int) -> None:
        """Kill all processes of a group, however fast they multiply."""
        path = self.folder_of(attempt)
        if _write(path + "/cgroup.kill", "1"):
            return
        frozen = _write(path + "/freezer.state", "FROZEN")
        killed: set[int] = set()
        for _ in range(_ROUNDS):
            fresh = self.pids(attempt) - killed
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not fresh:
                break
            killed |= fresh
        if frozen:
            # Frozen processes die when they go on.
            _write(path + "/freezer.state", "THAWED")

    def remove(self, attempt: int) -> bool:
        """Remove a group; return False if it still has processes."""
        try:
            os.rmdir(self.folder_of(attempt))  # noqa: PTH106
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True

    def left(self) -> set[int]:
        """Return the attempts that have a group."""
        with contextlib.suppress(OSError):
            names = os.listdir(self.folder)  # noqa: PTH208
            return {int(name[1:]) for name in names if name[:1] == "p" and name[1:].isdigit()}
        return set()

    def close(self) -> None:
        """Remove the executor's folders, as far as nothing is in them."""
        for path in (self.folder, os.path.dirname(self.folder)):  # noqa: PTH120
            with contextlib.suppress(OSError):
                os.rmdir(path)  # noqa: PTH106

    def folder_of(self, attempt: int) -> str:
        """Return the folder of the group of an attempt."""
        return f"{self.folder}/p{attempt}"


def _write(path: str, text: str) -> bool:
    """Write to a file of a group; return False if there is no such file."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
    return True
