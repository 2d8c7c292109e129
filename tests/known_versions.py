"""The versions of this machine's compilers, asked for once in a test process instead of by every executor.

Three programs are run for that, and each may be a script that starts a dozen others. What an executor finds in its
folder it does not ask for again.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from cress.executor.versions import CACHE, versions


def tell_versions(directory: Path) -> None:
    """Put what an earlier executor has found into the folder of one that is about to start."""
    if not (directory / CACHE).exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CACHE).write_bytes(_found())


@cache
def _found() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        versions(Path(folder))
        return Path(folder, CACHE).read_bytes()
