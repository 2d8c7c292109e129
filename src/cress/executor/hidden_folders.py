"""Folders of this machine that containers must not see: data directories of centers and executors.

A container that runs as root could read their tokens and databases through the root folder of the node. The list has
the executor's own folder, the data directory around it, and the folder of key files. It also has the directories of
programs that ran as root since the machine started (noted in ``/run/cress/homes``), and those that the operator names
(``--hide``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cress.model.secrets import KEY_FOLDER

HOMES = Path("/run/cress/homes")
# Files that mark a data directory.
_MARKS = ("center.json", "cress.db")
# In the executor's folder: the folders that the operator names, for processes that the supervisor starts.
_NAMED = "containers/hidden"


def note_home(directory: Path) -> None:
    """Note a data directory of this machine, if this process is root. Errors are ignored."""
    if os.geteuid() != 0:
        return
    path = os.fsencode(directory.absolute())
    with contextlib.suppress(OSError):
        HOMES.mkdir(mode=0o700, parents=True, exist_ok=True)
        for gone in [setting for setting in HOMES.iterdir() if not os.path.isdir(setting.read_bytes())]:  # noqa: PTH112
            gone.unlink()
        (HOMES / hashlib.sha256(path).hexdigest()[:32]).write_bytes(path)


def is_private(folder: Path) -> bool:
    """Return whether only its owner may enter a folder, so that it can be hidden from containers without harm."""
    try:
        return not folder.stat().st_mode & 0o077
    except OSError:
        return False


def hidden_folders(home: Path, named: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the real paths of the folders that exist now, outermost ones only; ``home`` is the executor's."""
    found = {home.absolute(), Path(KEY_FOLDER), *map(Path, named)}
    found |= {parent for parent in home.absolute().parents if any((parent / mark).exists() for mark in _MARKS)}
    with contextlib.suppress(OSError):
        found |= {Path(os.fsdecode(setting.read_bytes())) for setting in HOMES.iterdir()}
    real = {folder.resolve() for folder in found if folder.is_dir()} - {Path("/")}
    return tuple(sorted(str(folder) for folder in real if not any(other in folder.parents for other in real)))


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
