"""The number of the last event about which all notifications were delivered or given up, in the data directory.

If it is lost, or cannot be written, a restarted center begins with the newest event.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cress.protocol.regular_files import read_regular

FILE = "notified.position"


def read_position(folder: Path, newest: int) -> int:
    """Return the number; ``newest`` if none can be read."""
    with contextlib.suppress(OSError, ValueError):
        return int(read_regular(folder / FILE).decode("ascii"))
    return newest


def write_position(folder: Path, number: int) -> None:
    """Store the number. Notifications would only be sent again without it, so a failure is no error."""
    fresh = folder / f".{FILE}.new"
    with contextlib.suppress(OSError):
        fresh.write_text(f"{number}\n", "ascii")
        fresh.replace(folder / FILE)
