"""Snapshots of the machine, encoded by a forked process, while the event loop goes on.

The fork sees the state of one moment; the price is a copy of each page that the center writes until the fork is done.
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
from pathlib import Path

from cress.lifecycle.machine import Machine

# Seconds that a fork may take; one that hangs is killed, and the center encodes the state itself.
PATIENCE = 60.0
FILE = "snapshot.new"
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger("cress.center")


class Export:
    """A state that is being encoded; ``state`` waits for it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._path = folder / FILE
        self._data: bytes | None = None
        self._pid = 0
        try:
            self._pid = _forked(machine, self._path)
        except OSError as error:
            _log.warning("a snapshot is encoded without a fork: %s", error.strerror)
            self._data = machine.export()

    def state(self) -> memoryview | None:
        """Wait for the state; None if the fork has failed. Runs in a thread."""
        if self._data is not None:
            return memoryview(self._data)
        try:
            if not _succeeded(self._pid):
                return None
            with self._path.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            _log.warning("a snapshot cannot be read: %s", error)
            return None
        finally:
            with contextlib.suppress(OSError):
                self._path.unlink()


def _succeeded(pid: int) -> bool:
    """Wait for the end of a fork; return whether it succeeded."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], PATIENCE)[0]:
            _log.warning("the fork that encodes a snapshot hangs; it is killed")
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _forked(machine: Machine, path: Path) -> int:
    """Fork a process that writes the state of ``machine`` to ``path``; return its id. Raises OSError."""
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
            _write(path, machine.export())
            code = 0
    finally:
        os._exit(code)


def _write(path: Path, state: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    view = memoryview(state)
    while view:
        view = view[os.write(handle, view) :]
    os.close(handle)
