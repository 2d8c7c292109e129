"""Empty working directories of ended attempts, kept for the next ones.

To make and remove a folder takes longer on a disk than all other files of a short task together: file systems look for
a free inode, and do not take one that was freed a moment ago. To rename a folder takes a fiftieth of that.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

# The name of the folder in the executor's directory.
FOLDER = "work"
# Most folders that are kept; a node rarely ends more short tasks in one turn.
MOST = 64
# The permissions of a working directory. One that its task has changed is not used again.
_MODE = 0o755


class WorkFolders:
    """The kept folders of one executor, by uid and gid of their owner. Only the executor can enter their place."""

    def __init__(self, home: Path) -> None:
        self._home = os.fsencode(home / FOLDER)
        self._kept: dict[tuple[int, int], list[bytes]] = {}
        self._count = 0
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._home, 0o700)  # noqa: PTH102 - bytes
        # Those of an earlier supervisor.
        names = sorted((name for name in os.listdir(self._home) if name.isdigit()), key=int)  # noqa: PTH208
        self._next = int(names[-1]) + 1 if names else 1
        for name in names[:MOST]:
            self._keep(self._home + b"/" + name)

    def take(self, uid: int, gid: int) -> bytes:
        """Return the path of a folder of this owner, which is no longer kept; empty: there is none."""
        kept = self._kept.get((uid, gid))
        if not kept:
            return b""
        self._count -= 1
        return kept.pop()

    def give(self, path: bytes) -> None:
        """Keep the working directory of an ended attempt if it is as it was at first; else remove it if it is empty.

        With something in it, it stays where it is.
        """
        if self._count >= MOST or _unchanged(path) is None:
            with contextlib.suppress(OSError):
                os.rmdir(path)  # noqa: PTH106 - only if nothing was left in it
            return
        place = b"%s/%d" % (self._home, self._next)
        self._next += 1
        with contextlib.suppress(OSError):
            os.rename(path, place)  # noqa: PTH104
            # A process of its account, in another attempt, may have put something there up to now.
            if not self._keep(place):
                os.rename(place, path)  # noqa: PTH104

    def _keep(self, path: bytes) -> bool:
        facts = _unchanged(path)
        if facts is None:
            return False
        self._kept.setdefault((facts.st_uid, facts.st_gid), []).append(path)
        self._count += 1
        return True


def own(path: bytes, kept: bytes) -> bool:
    """Make ``kept`` the working directory ``path``; return False if that is not possible, and one must be made.

    The folder of ``path`` belongs to the executor, so nobody changes ``path`` after it was found to be a folder.
    """
    try:
        os.rename(kept, path)  # noqa: PTH104
    except OSError:
        return False
    if stat.S_ISDIR(os.lstat(path).st_mode):
        return True
    os.unlink(path)  # noqa: PTH108
    return False


def _unchanged(path: bytes) -> os.stat_result | None:
    """Return the facts of an empty folder with its first permissions, and no other attributes; ``None``: it is none."""
    try:
        facts = os.lstat(path)
        if not stat.S_ISDIR(facts.st_mode) or stat.S_IMODE(facts.st_mode) != _MODE:
            return None
        with os.scandir(path) as entries:
            if next(entries, None) is not None:
                return None
        return None if os.listxattr(path, follow_symlinks=False) else facts
    except OSError:
        return None
