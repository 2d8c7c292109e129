"""Snapshots of the machine, encoded by a forked process while the event loop goes on.

The fork sees the state of one moment.
"""

from __future__ import annotations

from pathlib import Path

from cress.center.process.forked_work import ForkedWork
from cress.lifecycle.machine import Machine

FILE = "snapshot.new"


class Export:
    """A state that is being encoded; ``state`` waits for it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._work = ForkedWork(machine.export, folder / FILE, "a snapshot")

    def state(self) -> memoryview | None:
        """Wait for the encoded state; None if the fork has failed. Runs in a thread."""
        return self._work.result()
