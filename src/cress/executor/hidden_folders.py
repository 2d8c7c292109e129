"""Folders of this machine that containers must not see: data directories of centers and executors.

A container that runs as root could read their tokens and databases through the root folder of the node. The list has
the executor's own folder, the data directory around it, and the folder of key files. It also has the directories of
programs that ran as root since the machine started (noted in ``/run/cress/homes``), and those that the operator names
(``--hide``).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from cress.model.secrets import KEY_FOLDER

HOMES = Path("/run/cress/homes")
# Files that mark a data directory.
_MARKS = ("center.json", "cress.db")
# In the executor's folder: the folders that the operator names, for processes that the supervisor starts.
_NAMED = "containers/hidden"
# Errors that say that a path leads to no folder that tasks could enter.
_NO_FOLDER = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG))
# Folders by the names of their notes, which are checksums, so that a whole note never changes.
_KNOWN: dict[str, str] = {}


def note_home(directory: Path) -> None:
    """Note a data directory of this machine, if this process is root. Errors are ignored."""
    if os.geteuid() != 0:
        return
    path = os.fsencode(directory.absolute())
    with contextlib.suppress(OSError):
        HOMES.mkdir(mode=0o700, parents=True, exist_ok=True)
        for gone in [setting for setting in HOMES.iterdir() if not os.path.isdir(setting.read_bytes())]:  # noqa: PTH112
            gone.unlink()
        (HOMES / _name_of(path)).write_bytes(path)


def is_private(folder: Path) -> bool:
    """Return whether only its owner may enter a folder, so that it can be hidden from containers without harm."""
    try:
        return not folder.stat().st_mode & 0o077
    except OSError:
        return False


def hidden_folders(home: Path, named: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the real paths of the folders that exist now, outermost ones only; ``home`` is the executor's.

    Raise OSError if that cannot be found out, as without free descriptors: a folder must not be shown for that.
    Called at each start of a container, so it makes no path objects: these took 8 ms where 31 folders were noted.
    """
    own = home.absolute()
    found = {str(own), KEY_FOLDER, *named}
    for parent in map(str, own.parents):
        if any(os.path.exists(f"{parent}/{mark}") for mark in _MARKS):  # noqa: PTH110
            found.add(parent)
    found.update(_noted())
    # A folder comes before all folders in it, since the names end with a slash.
    real = sorted({folder + "/" for folder in map(_real, found) if folder} - {"//"})
    outermost: list[str] = []
    for folder in real:
        if not outermost or not folder.startswith(outermost[-1]):
            outermost.append(folder)
    return tuple(sorted(folder[:-1] for folder in outermost))


def _real(folder: str) -> str:
    """Return the path of a folder without links, by the kernel, in a tenth of the time of Python; empty: it is none.

    Raise OSError if the kernel does not say what it is.
    """
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except ValueError:
        return ""
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return ""
        raise
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    finally:
        os.close(fd)


def _noted() -> Iterator[str]:
    """Yield the folders noted by programs that ran as root."""
    names: list[str] = []
    # There is no folder of notes before the first one, and only root may read it.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        names = os.listdir(HOMES)  # noqa: PTH208
    for name in names:
        known = _KNOWN.get(name)
        if known is None:
            # Another program may remove a note meanwhile, which must not hide the others from this list.
            with contextlib.suppress(FileNotFoundError):
                path = Path(HOMES, name).read_bytes()
                known = os.fsdecode(path)
                if name == _name_of(path):
                    _KNOWN[name] = known
        if known is not None:
            yield known
    if len(_KNOWN) > len(names):
        for gone in _KNOWN.keys() - set(names):
            del _KNOWN[gone]


def _name_of(path: bytes) -> str:
    return hashlib.sha256(path).hexdigest()[:32]


def keep_named(home: Path, named: Iterable[str]) -> None:
    """Store the folders that the operator names."""
    path = home / _NAMED
    if folders := list(named):
        path.write_bytes(msgspec.json.encode(folders))
    else:
        path.unlink(missing_ok=True)


def named_folders(home: Path) -> list[str]:
    """Return the stored folders."""
    path = home / _NAMED
    return msgspec.json.decode(path.read_bytes(), type=list[str]) if path.exists() else []


def hidden_here(home: Path) -> tuple[str, ...]:
    """Return the folders that are hidden from containers of this executor."""
    return hidden_folders(home, named_folders(home))
