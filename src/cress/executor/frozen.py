"""Supervision of the supervisor by the keeper.

A stopped supervisor (SIGSTOP, a debugger) cannot end its tasks when their term expires.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from cress.executor.processes import is_stopped


class FrozenSupervisor:
    """Continues the supervisor of a folder when two checks in a row find it stopped.

    ``say`` is called with a message. A stopped agent is left alone, since the supervisor ends the tasks in time.
    """

    def __init__(self, lock: Path, say: Callable[[str], None]) -> None:
        self._lock = lock
        self._say = say
        self._found = 0

    def look(self) -> None:
        """Check once; called about every second."""
        pid = self._pid()
        if not pid or not is_stopped(pid):
            self._found = 0
            return
        if self._found == pid:
            self._say(
                f"the supervisor (pid {pid}) was stopped by a signal; it is continued, since it ends tasks "
                "with their term"
            )
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self._found = pid

    def _pid(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(self._lock.read_text(encoding="ascii"))
        return 0
