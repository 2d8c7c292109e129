"""Migration of a store to another kind, and maintenance of shared stores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.file_names import STORE
from cress.model.errors import InputError
from cress.store.commit_journal import COMMITS as JOURNAL
from cress.store.copying import copy_from_file, copy_to_file
from cress.store.opening import REPLICA, check_address
from cress.store.sqlite_file import MARK, beside
from cress.store.tools import move_away

# The folder of a data directory to which the file of a former store is moved.
MOVED = "moved"


def is_address(place: str) -> bool:
    """Return whether this is the address of a shared store rather than a data directory."""
    return "://" in place


@contextmanager
def as_file(address: str, *, last: bool = False) -> Iterator[Path]:
    """Yield a copy of a shared store as a file; ``last`` is as in ``copy_to_file``. Raises StoreError, InputError."""
    check_address(address)
    with tempfile.TemporaryDirectory(prefix="cress-store-") as folder:
        path = Path(folder) / STORE
        copy_to_file(address, path, last=last)
        yield path


def migrate(source: str, target: str) -> Path | None:
    """Move a store; source and target are data directories or addresses of shared stores.

    The target must be empty. A center that runs on the source is refused (a directory) or fenced off (a shared store).
    Return the folder with the file of a directory's former store. An interrupted migration can be run again. Raises
    StoreError and InputError.
    """
    for place in (source, target):
        if is_address(place):
            check_address(place)
    if is_address(source):
        _from_shared(source, target)
        return None
    if not is_address(target):
        raise InputError("both are directories", hint="`cress store backup`, `cress store restore`", field="TO")
    folder = Path(source)
    if not (folder / STORE).is_file():
        raise InputError("has no store", hint="the data directory of a center", file=source)
    directory = DataDirectory(folder)
    try:
        copy_from_file(folder / STORE, target)
        return move_away(folder / STORE, MOVED)
    finally:
        directory.close()


def _from_shared(source: str, target: str) -> None:
    directory = None if is_address(target) else DataDirectory(Path(target))
    try:
        path = Path(target) / STORE
        if directory is not None and path.exists():
            raise InputError("has a store already", hint="an empty directory", file=target)
        with as_file(source, last=True) as file:
            if directory is None:
                copy_from_file(file, target)
            else:
                fresh = beside(path, ".migrated")
                fresh.write_bytes(file.read_bytes())
                fresh.chmod(0o600)
                for ending in (MARK, JOURNAL):
                    beside(path, ending).unlink(missing_ok=True)
                fresh.rename(path)
                for ending in ("", "-wal", "-shm"):
                    beside(Path(target) / REPLICA, ending).unlink(missing_ok=True)
    finally:
        if directory is not None:
            directory.close()
