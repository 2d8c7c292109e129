"""The end of tasks for which no supervisor can vouch, because none can start in the executor's directory.

Their terms would pass unnoticed, and the center would start them again elsewhere while they still run here.
"""

from __future__ import annotations

import contextlib
import os
import time
from io import BytesIO
from pathlib import Path
from signal import SIGKILL

import msgspec

from cress.executor import processes
from cress.executor.journal import FORMAT
from cress.formats.framed import frames
from cress.protocol.regular_files import read_regular
from cress.shell.executor.records import Known, decode_records

# Seconds for killed processes to be gone.
PATIENCE = 5.0


def stop_unvouched(folder: Path, *, now: int | None = None) -> int:
    """Kill the tasks in the executor's directory whose term has ended; return their number.

    ``now`` is CLOCK_BOOTTIME in µs; None: all tasks, whatever their term. Without a readable journal no term is known,
    so all are killed. Does nothing while a supervisor lives.
    """
    folder = folder.absolute()
    if _has_supervisor(folder):
        return 0
    attempts = os.fsencode(folder / "attempts")
    known = None if now is None else _known(folder / "journal")
    kept: set[int] = set()
    if known is not None and now is not None:
        in_time = known.until == 0 or now < known.until
        kept = {attempt for attempt, entry in known.running.items() if in_time or entry.intent.keep}
    stopped: set[int] = set()
    end = time.monotonic() + PATIENCE
    while overdue := [found for found in processes.find_attempts(attempts) if found[0] not in kept]:
        stopped |= {attempt for attempt, _ in overdue}
        for _, pid in overdue:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        if time.monotonic() > end:
            break
        time.sleep(0.005)
    return len(stopped)


def _has_supervisor(folder: Path) -> bool:
    try:
        pid = read_regular(folder / "supervisor.lock").decode("ascii", "replace").strip()
    except OSError:
        return False
    # The number of a supervisor that is gone may belong to another program by now.
    return (
        pid.isdigit() and processes.is_alive(int(pid)) and processes.runs_module(int(pid), "cress.executor.supervisor")
    )


def _known(journal: Path) -> Known | None:
    """Return the state in a journal; None if nothing can be read."""
    try:
        data = read_regular(journal)
    except OSError:
        return None
    beginning = FORMAT.beginning(BytesIO(data))
    if not 0 < beginning.version <= FORMAT.version:
        return None
    known = Known()
    for frame in frames(BytesIO(data), beginning):
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            for record in decode_records(frame.payload, beginning.version):
                known.apply(record)
    return known
