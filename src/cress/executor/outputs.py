"""The output files of a task to be saved, and their destinations."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cress.executor.addresses import Failed, FileRoot, local_path, protocol


class OutputFile(NamedTuple):
    """A file, its name in the job file, and the address where it is saved."""

    name: str
    file: Path
    address: str


def find_outputs(path: str, address: str, root: FileRoot) -> list[OutputFile]:
    """Return the files of ``path``: a file, a folder with all its files, or a pattern. Raise Failed if there are none.

    One file goes to the address itself, or below it if the address ends with a slash or is a folder of the node. The
    files of a folder or pattern go below it, by their paths relative to the folder or to the fixed beginning of the
    pattern.
    """
    place = root.place(path)
    if place.is_dir():
        found = [
            OutputFile(f"{path.rstrip('/')}/{file}", place / file, _below(address, file)) for file in _files_in(place)
        ]
        if not found:
            raise Failed("this folder contains no file")
    elif glob.has_magic(path) and not place.exists():
        start, names = _matching(path, root)
        found = [OutputFile(name, start / name, _below(address, name)) for name in names]
        if not found:
            raise Failed("the program left nothing of this name")
    else:
        if not place.exists():
            raise Failed("the program left no such file")
        if not place.is_file():
            raise Failed("it is neither a file nor a folder")
        local = local_path(address)
        into = address.endswith("/") or (local is not None and local.is_dir())
        found = [OutputFile(path, place, _below(address, place.name) if into else address)]
    for file in found:
        root.check(file.file)
    return found


def _matching(pattern: str, root: FileRoot) -> tuple[Path, list[str]]:
    """Return the folder at the fixed beginning of a pattern, and the matching files by their paths from there."""
    fixed = _fixed(pattern)
    start = root.place(fixed) if fixed else root.base
    rest = pattern[len(fixed) :].lstrip("/")
    names: dict[str, None] = {}
    for name in sorted(glob.glob(rest, root_dir=start, recursive=True)):  # noqa: PTH207 - relative to a folder
        if (start / name).is_dir():
            names.update(dict.fromkeys(f"{name.rstrip('/')}/{file}" for file in _files_in(start / name)))
        elif _is_file(start / name):
            names[name] = None
    return start, list(names)


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the files below a folder in order, as relative paths. Links to folders are not followed."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            file = Path(parent) / name
            if _is_file(file):
                yield str(file.relative_to(folder))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _fixed(pattern: str) -> str:
    """Return the part of a pattern before the first folder or name with a wildcard."""
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else "")


def _below(address: str, relative: str) -> str:
    return address.rstrip("/") + "/" + (relative if protocol(address) == "file" else quote(relative))
