"""Programs forked from a process that has imported a center already: a hundred tests start one, and half of a start is imports."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cress.center.run", __name__])
    return context


_CONTEXT = _context()


def _be(program: str, arguments: list[str], said: Path) -> None:
    with said.open("ab") as place:
        os.dup2(place.fileno(), 2)
    sys.argv = ["-c", *arguments]
    exec(program, {"__name__": "__main__"})


class Forked:
    """Runs ``program``, as ``python -c`` would; what it says to standard error goes to the file ``said``."""

    stdin = None
    stderr = None

    def __init__(self, program: str, arguments: list[str], said: Path) -> None:
        self._said = said
        self._process = _CONTEXT.Process(target=_be, args=(program, arguments, said))
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked center", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its end, and what it said to standard error."""
        self.wait(timeout)
        return "", self._said.read_text()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
