"""Files that only their owner may read, written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cress.model.errors import InputError


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner may enter. Raises InputError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise InputError(f"the folder cannot be made: {error.strerror}", file=str(path)) from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600; a reader sees the old content or the new one. Raises InputError."""
    with private_draft(path, data) as draft:
        draft.replace(path)


@contextmanager
def private_draft(path: Path, data: bytes) -> Iterator[Path]:
    """Write ``data`` to a file of mode 0600 beside ``path``, which the body may rename; it is removed otherwise.

    Raises InputError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=str(path)) from None
