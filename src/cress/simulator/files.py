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
    """Make the directory where results go. Raises ``InputError`` when nothing can be written into it."""
    probe = path / f".{os.getpid()}.part"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", hint="another --out", file=str(path)) from error


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name only when everything is written; its directory is made when missing.

    On an exception (Ctrl-C too) nothing is left behind, and what stood under the name before stays.
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
        # What keeps a file from being written may keep it from being removed; the first error is the one to tell.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def text_of(path: Path) -> IO[str]:
    """The text of a file that may be gzipped, to be read and closed."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")
