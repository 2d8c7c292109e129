"""Unpacking of untrusted archives: no path outside the folder, no device, no owner and no set-user-id bit.

Every member is made through a descriptor of its folder, and no link is followed on the way there. So it does not matter
which folders above this one the account of the task may pass through, or what an earlier member was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cress.executor.addresses import Failed

# Most links that are followed when one of them is looked up; as in the kernel.
_MOST_LINKS = 40


def prepare() -> None:
    """Load what archives need, while this process may read Python's library: the account of a task may not."""
    import bz2  # noqa: F401 - loaded by tarfile and zipfile when they find such data
    import gzip  # noqa: F401
    import lzma  # noqa: F401

    # The encodings of names in zip archives.
    "".encode("cp437")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar of any compression that Python supports, or a zip, into an empty folder. Raise Failed or OSError."""
    try:
        with contextlib.closing(_Tree(folder)) as tree:
            if zipfile.is_zipfile(archive):
                _unzip(archive, tree)
            else:
                _untar(archive, tree)
            tree.check_links()
    except tarfile.ReadError:
        raise Failed("it is neither a tar nor a zip archive, or a damaged one") from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise Failed(f"the archive cannot be unpacked: {error}") from None


def _untar(archive: Path, tree: _Tree) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            # As tar does: absolute names are unpacked below the folder.
            member.name = member.name.lstrip("/")
            if member.isdir():
                tree.folder(member.name)
            elif member.isreg():
                source = tar.extractfile(member)
                assert source is not None, "a regular member has data"
                with source:
                    tree.file(member.name, source, member.mode, member.mtime)
            elif member.issym():
                tree.symlink(member.name, member.linkname)
            elif member.islnk():
                tree.link(member.name, member.linkname)
            else:
                raise _leads_out(member.name)


def _unzip(archive: Path, tree: _Tree) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _leads_out(member.filename)
            if member.is_dir():
                tree.folder(member.filename)
                continue
            with packed.open(member) as source:
                tree.file(member.filename, source, 0o644 | (mode & 0o111))


class _Tree:
    """A folder in which members are made by name. Names that lead out of it raise Failed."""

    def __init__(self, folder: Path) -> None:
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self._links: dict[tuple[str, ...], str] = {}

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def folder(self, name: str) -> None:
        """Make a folder, and those above it."""
        with self._opened(_parts(name), name):
            pass

    def file(self, name: str, source: IO[bytes], mode: int, mtime: float | None = None) -> None:
        """Make a file; it can be executed if its owner could, and written only by its owner."""
        kept = mode & 0o755 | 0o600 if mode & 0o100 else mode & 0o644 | 0o600
        with self._place(name) as (folder, last):
            fd = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            with os.fdopen(fd, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
                file.flush()
                os.fchmod(fd, kept)
                if mtime is not None:
                    with contextlib.suppress(OSError, OverflowError):
                        os.utime(fd, (mtime, mtime))

    def symlink(self, name: str, target: str) -> None:
        """Make a symbolic link, whose target is checked at the end."""
        with self._place(name) as (folder, last):
            os.symlink(target, last, dir_fd=folder)
        self._links[_parts(name)] = target

    def link(self, name: str, other: str) -> None:
        """Make a second name of a file of the archive."""
        parts = _parts(other)
        if not parts:
            raise _leads_out(name)
        with self._opened(parts[:-1], name, make=False) as there, self._place(name) as (folder, last):
            try:
                regular = stat.S_ISREG(os.stat(parts[-1], dir_fd=there, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                regular = False
            if not regular:
                raise _leads_out(name)
            os.link(parts[-1], last, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)

    def check_links(self) -> None:
        """Raise Failed if a symbolic link leads out of the folder, be it by way of others."""
        for parts, target in self._links.items():
            at, rest, followed = list(parts[:-1]), target.split("/"), 0
            if target.startswith("/"):
                raise _leads_out("/".join(parts))
            while rest:
                part = rest.pop(0)
                if part == "..":
                    if not at:
                        raise _leads_out("/".join(parts))
                    at.pop()
                elif part not in ("", "."):
                    further = self._links.get((*at, part))
                    if further is None:
                        at.append(part)
                        continue
                    followed += 1
                    if followed > _MOST_LINKS or further.startswith("/"):
                        raise _leads_out("/".join(parts))
                    rest = further.split("/") + rest

    @contextlib.contextmanager
    def _place(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a member's folder, and its name there, which is free."""
        parts = _parts(name)
        if not parts:
            raise _leads_out(name)
        with self._opened(parts[:-1], name) as folder:
            try:
                os.unlink(parts[-1], dir_fd=folder)
            except FileNotFoundError:
                pass
            except IsADirectoryError:
                raise Failed(f"the archive has a folder and a file of one name: {name}") from None
            self._links.pop(parts, None)
            yield folder, parts[-1]

    @contextlib.contextmanager
    def _opened(self, parts: tuple[str, ...], name: str, *, make: bool = True) -> Iterator[int]:
        """Yield a descriptor of a folder of the tree."""
        fd = os.dup(self._root)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=fd)
                try:
                    below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                        raise _leads_out(name) from None
                    raise
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def _parts(name: str) -> tuple[str, ...]:
    """Return the folders and the last part of a member's name."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise _leads_out(name)
    return parts


def _leads_out(name: str) -> Failed:
    return Failed(f"the archive has a member that leads out of it or is not a file: {name}")


def merge(source: Path, target: Path) -> None:
    """Move the files in ``source`` into ``target``, each atomically, and replace files of the same name."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False) and (place.is_dir() and not place.is_symlink()):
            merge(Path(entry.path), place)
        else:
            Path(entry.path).replace(place)
