"""Ends of processes that no supervisor has taken note of, in files of the folder ``ends``.

Each reaper has a file, which it keeps locked. It has a line ``reaper PID`` and a line for each process whose end the
reaper has seen: ``end PID TICKS SESSION MARK CODE CPU MEMORY``, or ``over CODE`` for its supervisor. The file ``own``
has such lines of the supervisor itself, written before it reaps: if it is killed before its journal has the end, the
next supervisor still finds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from cress.executor import reaper
from cress.model.reports import Usage
from cress.protocol.regular_files import open_regular

# The name of the folder in the executor's directory.
FOLDER = "ends"
_OWN = "own"
# Bytes of the supervisor's own lines before they are removed, and of a line at most.
_MOST_OWN = 1_000_000


class SeenEnd(msgspec.Struct, frozen=True):
    """The end of a process: start ``ticks``, ``session``, ``mark`` (``marks``), exit ``code`` or -n after signal n."""

    pid: int
    ticks: int
    session: int
    mark: int
    code: int
    usage: Usage = Usage()


class SeenEnds:
    """The reader of these files in the executor's directory, and the writer of the supervisor's own lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._own = os.open(self._folder / _OWN, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._own).st_size
        self._read: dict[str, int] = {}  # bytes read, by the name of the file
        self._pids: dict[str, int] = {}  # reapers, by the name of the file
        self._ends: dict[tuple[int, int], SeenEnd] = {}  # by pid and ticks

    def note(self, pid: int, ticks: int, mark: int, code: int) -> None:
        """Note the end of a task's first process, before it is reaped."""
        line = b"end %d %d %d %d %d 0 0\n" % (pid, ticks, pid, mark, code)
        with contextlib.suppress(OSError):
            self._size += os.write(self._own, line)

    def trim(self) -> None:
        """Remove the supervisor's own lines if they are many; called when the journal has all these ends."""
        if self._size > _MOST_OWN:
            os.ftruncate(self._own, 0)
            self._size = 0

    def look(self) -> None:
        """Read the lines that are new."""
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError), os.fdopen(open_regular(path), "rb") as file:
                file.seek(self._read.get(path.name, 0))
                data = file.read()
                complete = data[: data.rfind(b"\n") + 1]
                self._read[path.name] = self._read.get(path.name, 0) + len(complete)
                for line in complete.splitlines():
                    self._take(path.name, line.split())

    def _take(self, name: str, words: list[bytes]) -> None:
        with contextlib.suppress(ValueError):
            if words[:1] == [b"reaper"]:
                self._pids[name] = int(words[1])
            elif words[:1] == [b"end"]:
                pid, ticks, session, mark, code, cpu, memory = map(int, words[1:])
                self._ends[pid, ticks] = SeenEnd(pid, ticks, session, mark, code, Usage(cpu, memory))

    def of(self, pid: int, ticks: int) -> SeenEnd | None:
        """Return the end of a process; ``None``: nobody has seen it."""
        return self._ends.get((pid, ticks))

    def leaders(self, mark: int) -> list[SeenEnd]:
        """Return the ends of the leaders of sessions with this mark, in the order of their starts."""
        found = [end for end in self._ends.values() if end.mark == mark and end.session == end.pid]
        return sorted(found, key=lambda end: (end.ticks, end.pid))

    def reapers(self) -> list[int]:
        """Return the reapers of earlier supervisors that still run, which have tasks of theirs as children."""
        return [pid for name, pid in self._pids.items() if pid != os.getppid() and self._is_locked(name)]

    def forget(self) -> bool:
        """Remove the files of reapers that have ended; return True if some have not.

        Called when the journal has the ends of all attempts of earlier supervisors.
        """
        self.look()
        for name in list(self._read):
            if name != _OWN and not self._is_locked(name):
                with contextlib.suppress(OSError):
                    (self._folder / name).unlink()
                self._read.pop(name)
                self._pids.pop(name, None)
        self._ends.clear()
        return any(pid != os.getppid() for pid in self._pids.values())

    def close(self) -> None:
        """Close the file of the supervisor's own lines."""
        os.close(self._own)

    def _is_locked(self, name: str) -> bool:
        try:
            with (self._folder / name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


class ReapedProcess:
    """A supervisor, started below a reaper of its own."""

    def __init__(self, folder: Path, command: Sequence[str], environment: dict[str, str], output: IO[bytes]) -> None:
        """Start ``command`` for the executor's directory ``folder``; its output is appended to ``output``."""
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        self._path = folder / FOLDER / f"{time.time_ns()}"
        # The lock belongs to the open file, which the reaper keeps.
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self.reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(reaper.__file__), str(fd)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment | {reaper.COMMAND: "".join(word + reaper.SEPARATOR for word in command)},
                cwd="/",
                start_new_session=True,
                pass_fds=[fd],
            )
        finally:
            os.close(fd)

    def poll(self) -> int | None:
        """Return how the supervisor ended: its exit code, or -n after signal n; ``None``: it runs."""
        ended = self.reaper.poll()
        with contextlib.suppress(OSError):
            for line in self._path.read_bytes().splitlines():
                if line.startswith(b"over "):
                    return int(line.split()[1])
        return ended
