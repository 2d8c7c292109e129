"""Samples of the use of the cluster and its groups, for curves of the past, and the file in which they are kept.

The file is for drawings only: if it is damaged, lost or cannot be written, the curves have a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from pathlib import Path

from cress.center.committing.committer import Committer
from cress.model.times import SECOND
from cress.protocol.regular_files import read_regular
from cress.shell.center.past_use import GROUP, TASKS, USE, PastUse

FILE = "use.curves"
# Seconds between two samples, and samples between two writes of the file.
EVERY, WRITE = 5.0, 60
# Groups with a curve, in the order of the tree from the top.
MOST_GROUPS = 500

_log = logging.getLogger("cress.center")


class UseCurves:
    """Samples the use of a center that leads or stands by."""

    def __init__(self, committer: Committer, folder: Path) -> None:
        self._committer = committer
        self._file = folder / FILE
        # One write at a time: that of a sampling that was cancelled goes on in its thread.
        self._writes = threading.Lock()
        committer.past_use = _read(self._file)

    async def run(self) -> None:
        """Sample until cancelled."""
        number = 0
        while True:
            await self.sample()
            number += 1
            if number % WRITE == 0:
                # Encoded here, since curves change meanwhile; a thousand of them take 3 ms.
                await asyncio.to_thread(self._write, self._committer.past_use.encoded())
            await asyncio.sleep(EVERY)

    async def sample(self) -> None:
        """Note the use of this moment."""
        committer = self._committer
        machine = committer.machine
        core, cluster = machine.core, machine.core.cluster
        values: dict[tuple[str, str], float] = {}
        for name, used, most in zip(core.dimensions.names, cluster.used(), cluster.capacity(), strict=True):
            if most:
                values[USE, name] = used / most
        for group in [*reversed(core.groups.tree.upwards), *core.groups][:MOST_GROUPS]:
            values[GROUP, group.name] = float(group.ratio())
        values[TASKS, "waiting"] = (await committer.work_counter.counts(machine)).waiting.total()
        values[TASKS, "running"] = len(machine.attempts)
        committer.past_use.add(committer.clock.utc() / SECOND, values)

    def close(self) -> None:
        """Write the file for the last time; blocks."""
        self._write(self._committer.past_use.encoded())

    def _write(self, data: bytes) -> None:
        """Write the file. A failure only costs a gap in the curves after a restart."""
        fresh = self._file.with_name(f".{FILE}.new")
        with self._writes, contextlib.suppress(OSError):
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            fresh.replace(self._file)


def _read(path: Path) -> PastUse:
    try:
        return PastUse.decoded(read_regular(path))
    except FileNotFoundError:
        return PastUse()
    except (OSError, ValueError) as error:
        _log.warning("the curves in %s cannot be read (%s); they begin anew", path, error)
        return PastUse()
