"""Other programs that start tasks, measured beside Cress in the same run: ``python -m benchmarks.peers``.

Each peer is a context manager that runs it on this machine, and yields a function. The function runs an array of so
many ``/bin/true`` and returns the seconds from the submission to the end of the last. ``sh benchmarks/peers/fetch.sh``
fetches the programs; nothing is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

# Runs an array of so many tasks, and returns the seconds that it took.
Array = Callable[[int], float]
Peer = Callable[[], AbstractContextManager[Array]]

PLACE = Path("build/peers").absolute()
SLOTS = 64


class Missing(Exception):
    """A peer that cannot run here; the message says why."""
