"""Files: texts that may be gzipped, and results that are written completely or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from cress.model.errors import InputError


def make_directory(path: Path) -> None:
    """Make the directory of the results. Raise ``InputError`` if it cannot be written to."""
    probe = path / f".{os.getpid()}.part"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", hint="another --out", file=str(path)) from error


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that gets its name only when it is complete; its directory is made if missing.

    After an exception (also Ctrl-C) nothing is left behind, and an earlier file of that name stays.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", hint="another --out", file=str(path)) from error
    finally:
        # The cause of a failed write may also prevent the removal; the first error is the one to report.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def text_of(path: Path) -> IO[str]:
    """Return the open text of a file that may be gzipped; the caller closes it."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")
