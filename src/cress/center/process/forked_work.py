"""Work on the state of one moment in a forked process, while the event loop goes on.

The price is a copy of each page that the center writes until the fork ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import mmap
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

# Seconds after which a fork that hangs is killed.
PATIENCE = 60.0
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger("cress.center")


class ForkedWork:
    """The bytes that ``work`` returns, written to ``path`` by a fork; ``what`` names the work in the log.

    If no process can be forked, the work is done at once.
    """

    def __init__(self, work: Callable[[], bytes], path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._data: bytes | None = None
        self._pid = 0
        try:
            self._pid = _forked(work, path)
        except OSError as error:
            _log.warning("%s is made without a fork: %s", what, error.strerror)
            self._data = work()

    def result(self) -> memoryview | None:
        """Wait for the bytes; None if the fork has failed. Runs in a thread."""
        if self._data is not None:
            return memoryview(self._data)
        try:
            if not self._succeeded():
                return None
            with self._path.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            _log.warning("%s cannot be read: %s", self._what, error)
            return None
        finally:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _succeeded(self) -> bool:
        """Wait for the end of the fork; return whether it succeeded."""
        handle = os.pidfd_open(self._pid)
        try:
            if not select.select([handle], [], [], PATIENCE)[0]:
                _log.warning("the fork that makes %s hangs; it is killed", self._what)
                os.kill(self._pid, signal.SIGKILL)
        finally:
            os.close(handle)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]) == 0


def _forked(work: Callable[[], bytes], path: Path) -> int:
    """Fork a process that writes the result of ``work`` to ``path``; return its id. Raises OSError."""
    center = os.getpid()
    libc = ctypes.CDLL(None)
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # The fork must not affect the center: it keeps no descriptor open and runs no destructor.
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.nice(5)
        if os.getppid() == center:
            _write(path, work())
            code = 0
    finally:
        os._exit(code)


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.close(handle)
