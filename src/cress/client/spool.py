"""Spools: a directory shared by client and tasks, or an fsspec address, which carries functions and results.

Each call has its own folder there (docs/python.md). Files appear complete: they are written under another name and then
renamed. This module is loaded in every worker, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# Seconds after which the folder of a killed client is removed, since its results can no longer be wanted.
FORGOTTEN = 7 * 86_400.0
# Attempts to remove a folder.
CLEARINGS = 5


class Spool(Protocol):
    """The folder of one call."""

    address: str

    def write(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Return a file that appears, complete, when the ``with`` ends without an error."""

    def read(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Return a file that supports seeking. Raises ``FileNotFoundError``."""

    def names(self) -> set[str]:
        """Return the names of the files."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def clear(self) -> None:
        """Remove the folder."""


class Folder:
    """A folder of this machine, or one that all nodes mount at the same path."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._path = Path(address)

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """See ``Spool``."""
        beside = self._path / f".{name}.{secrets.token_hex(4)}"
        try:
            with beside.open("wb") as file:
                yield file
            beside.replace(self._path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise

    @contextmanager
    def read(self, name: str) -> Iterator[BinaryIO]:
        """See ``Spool``."""
        with (self._path / name).open("rb") as file:
            yield file

    def names(self) -> set[str]:
        """See ``Spool``."""
        try:
            return {name for name in os.listdir(self._path) if not name.startswith(".")}  # noqa: PTH208 – names alone
        except FileNotFoundError:
            return set()

    def remove(self, name: str) -> None:
        """See ``Spool``."""
        (self._path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """See ``Spool``."""
        # A task that is being cancelled may still write into the folder.
        for _ in range(CLEARINGS):
            shutil.rmtree(self._path, ignore_errors=True)
            if not self._path.exists():
                break
            time.sleep(0.05)


class Remote:
    """A spool at an fsspec address, such as ``s3://bucket/folder``."""

    def __init__(self, address: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise OSError(f"{address} needs fsspec: pip install fsspec") from error
        self.address = address
        system, path = url_to_fs(address)
        self._system: AbstractFileSystem = system
        self._path = path.rstrip("/")

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """See ``Spool``."""
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            beside = f"{self._path}/.{name}.{secrets.token_hex(4)}"
            with self._system.open(beside, "wb") as there:
                shutil.copyfileobj(file, there, 2**20)
            self._system.mv(beside, f"{self._path}/{name}")

    @contextmanager
    def read(self, name: str) -> Iterator[BinaryIO]:
        """See ``Spool``."""
        with self._system.open(f"{self._path}/{name}", "rb") as file:
            yield file

    def names(self) -> set[str]:
        """See ``Spool``."""
        self._system.invalidate_cache()
        try:
            listed: list[Any] = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return set()
        names = (str(path).rstrip("/").rpartition("/")[2] for path in listed)
        return {name for name in names if not name.startswith(".")}

    def remove(self, name: str) -> None:
        """See ``Spool``."""
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._path}/{name}")

    def clear(self) -> None:
        """See ``Spool``."""
        with contextlib.suppress(OSError):
            self._system.rm(self._path, recursive=True)


def opened(address: str) -> Spool:
    """Return the folder of a call."""
    return Remote(address) if "://" in address else Folder(address)


def created(place: str | os.PathLike[str] | None) -> Spool:
    """Return a new private folder for a call below ``place``; ``None`` stands for the user's cache."""
    if place is None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        home = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "cress" / "calls"
    elif "://" in os.fspath(place):
        remote = Remote(f"{os.fspath(place).rstrip('/')}/{secrets.token_hex(8)}")
        remote._system.makedirs(remote._path, exist_ok=True)  # noqa: SLF001 – its own kind
        return remote
    else:
        home = Path(place).absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place is None:
        home.chmod(0o700)
        _sweep(home)
    folder = home / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    return Folder(os.fspath(folder))


def _sweep(home: Path) -> None:
    """Remove folders of clients that were killed long ago."""
    for folder in home.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > FORGOTTEN:
                shutil.rmtree(folder, ignore_errors=True)
