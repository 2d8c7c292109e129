"""Files of the node as sources and destinations: copied completely or not at all, never through a hidden folder."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from cress.executor.addresses import Failed
from cress.executor.runtimes.accounts import own_name
from cress.executor.source_rules import SourceRules


def fetch_here(source: Path, new: Path, rules: SourceRules) -> None:
    """Copy a file or folder of the node to a new path. Raise Failed or OSError."""
    if source.exists() and not (source.is_dir() or source.is_file()):
        raise Failed("it is neither a file nor a folder")
    with _opened(source, os.O_RDONLY | os.O_NONBLOCK, rules) as place:
        if place.is_dir():
            shutil.copytree(place, new, symlinks=True)
        elif not place.is_file():
            raise Failed("it is neither a file nor a folder")
        else:
            shutil.copyfile(place, new)
            new.chmod(stat.S_IMODE(place.stat().st_mode) & 0o777)


def save_here(file: Path, place: Path, rules: SourceRules) -> None:
    """Copy a file to a path of the node; missing folders are made. Raise Failed or OSError."""
    rules.check_place(Path(os.path.realpath(place)))
    place.parent.mkdir(parents=True, exist_ok=True)
    with _opened(place.parent, os.O_PATH | os.O_DIRECTORY, rules) as folder:
        new = folder / f".{place.name[:100]}.{os.getpid()}.{threading.get_ident():x}.new"
        try:
            shutil.copyfile(file, new)
            new.chmod(stat.S_IMODE(file.stat().st_mode) & 0o777)
            new.replace(folder / place.name)
        finally:
            remove(new)


@contextlib.contextmanager
def _opened(path: Path, flags: int, rules: SourceRules) -> Iterator[Path]:
    """Open a path, and yield the name of the open file, so that a later change of a link has no effect."""
    fd = os.open(path, flags | os.O_CLOEXEC)
    name = Path(f"/proc/self/fd/{fd}")
    try:
        rules.check_place(Path(os.path.realpath(name)))
        yield name
    except shutil.Error as error:
        first = error.args[0][0]
        raise Failed(f"{str(first[0]).replace(str(name), str(path))}: {first[2]}") from None
    except OSError as error:
        if isinstance(error.filename, str | Path):
            error.filename = str(error.filename).replace(str(name), str(path))
        raise
    finally:
        os.close(fd)


def here(error: OSError) -> Failed:
    """Return the error of a path of this node as a message for users."""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "it"
    node = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Failed(
        {
            errno.ENOENT: f"{name} does not exist on this node",
            errno.EACCES: f"{own_name()} may not use {name} on this node",
            errno.ENOSPC: "no room is left on the disk of this node",
            errno.EISDIR: f"{name} is a folder",
        }.get(error.errno or 0, f"{name}: {error.strerror or error}"),
        node=node,
    )


def remove(path: Path) -> None:
    """Remove a file, link or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
