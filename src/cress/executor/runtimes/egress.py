"""Limits of the egress of tasks: a queue (HTB of ``tc``) on one interface of the node, with a class for each attempt.

Packets find their class by their priority, which the control group ``net_prio`` gives to all sockets of an attempt.
That needs no classifier in the kernel. The queue replaces that of the interface, so an operator must name the
interface.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

from cress.executor.runtimes.cgroups import Cgroups

CONTROLLER = "net_prio"
# The number of the queue; its classes have 1 to 65,535.
MAJOR = 0xC4E5
_QUEUE = f"{MAJOR:x}:"


class Egress:
    """The queue of the interface ``device``, for attempts with groups in ``cgroups``."""

    def __init__(self, device: str, cgroups: Cgroups) -> None:
        self.device = device
        self._cgroups = cgroups

    def begin(self) -> str:
        """Set up the queue; return an empty text, or the reason why that failed.

        Packets without a class pass as before.
        """
        if not self._cgroups.has(CONTROLLER):
            return f"the control groups of {CONTROLLER} are not mounted"
        if f"qdisc htb {_QUEUE}" in _tc("qdisc", "show", "dev", self.device)[1]:
            return ""
        code, said = _tc("qdisc", "replace", "dev", self.device, "root", "handle", _QUEUE, "htb")
        return said or f"tc ends with {code}" if code else ""

    def limit(self, attempt: int, rate: int) -> None:
        """Limit the group of an attempt to sending ``rate`` bits a second. Raise OSError."""
        minor = (zlib.crc32(self._cgroups.path.encode()) ^ attempt) % 0xFFFF + 1
        class_ = f"{_QUEUE}{minor:x}"
        code, said = _tc(
            "class", "replace", "dev", self.device, "parent", _QUEUE, "classid", class_, "htb", "rate", f"{rate}bit"
        )
        if code:
            raise OSError(-1, f"tc: {said}")
        self._file(attempt).write_text(f"{self.device} {MAJOR << 16 | minor}")

    def remove(self, attempt: int) -> None:
        """Remove the class of an attempt, whose group still exists, without waiting for the result."""
        with contextlib.suppress(OSError):
            for line in self._file(attempt).read_text().splitlines():
                device, number = line.split()
                if device == self.device and int(number) >> 16 == MAJOR:
                    class_ = f"{_QUEUE}{int(number) & 0xFFFF:x}"
                    words = ["tc", "class", "del", "dev", device, "classid", class_]
                    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
                    os.posix_spawnp("tc", words, os.environ, file_actions=null)

    def _file(self, attempt: int) -> Path:
        return Path(self._cgroups.file(CONTROLLER, attempt, "net_prio.ifpriomap"))


def _tc(*words: str) -> tuple[int, str]:
    """Run ``tc``; return its exit code and its output."""
    import subprocess  # imported here since few executors need it, and the supervisor should stay small

    try:
        done = subprocess.run(["tc", *words], capture_output=True, text=True, check=False)  # noqa: S607 - on its path
    except OSError as error:
        return 127, f"tc cannot be run: {error.strerror}"
    return done.returncode, " ".join((done.stdout + done.stderr).split())
