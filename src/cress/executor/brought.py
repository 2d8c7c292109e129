"""The note in the folder of an attempt that its input files are there.

Its time tells the files that the program changed from those that were brought before.
"""

from __future__ import annotations

import contextlib
import os

BROUGHT = "brought"


def note_brought(folder: bytes) -> None:
    """Note in the folder of an attempt that its input files are there. Raise OSError."""
    path = folder + b"/" + BROUGHT.encode()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
