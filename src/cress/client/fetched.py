"""Files of tasks in a folder of this machine: written completely or not at all, and never outside the folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cress.model.errors import InputError, NotAccepted
from cress.protocol.file_views import TaskFile

# The beginning of the name of a file that shows whether this machine and a node see the same folder.
PROBE = ".cress-probe-"
_MAGIC = re.compile(r"[*?\[]")


class FetchedFile(NamedTuple):
    """A file that was fetched: its path at the task, its path here, its bytes; ``skipped`` says why it was not."""

    name: str
    path: Path
    size: int
    skipped: str = ""


class Wanted:
    """The paths and patterns that a user names. ``starts`` are the folders and files to list for them."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._patterns = [(path, _expression(_clean(path))) for path in paths]
        self._met: set[str] = set()
        self.starts = list(dict.fromkeys(_fixed(_clean(path)) for path in paths)) or [""]

    def takes(self, path: str) -> bool:
        """Return whether a file is wanted."""
        found = [name for name, pattern in self._patterns if pattern.fullmatch(path)]
        self._met.update(found)
        name = path.rpartition("/")[2]
        return bool(found or not self._patterns) and not name.startswith(PROBE)

    def check(self, job: int, task: int) -> None:
        """Raise InputError for a pattern that no file has matched."""
        for name, _ in self._patterns:
            if name not in self._met and _MAGIC.search(name):
                raise InputError(f"task {task} of job {job} has no file {name}", hint="without PATH all are fetched")


class NewFile:
    """A file that arrives under a temporary name beside its place."""

    def __init__(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        self._place = place
        self._new = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.new")
        self._file = self._new.open("xb")
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write the next part."""
        self._file.write(data)
        self._size += len(data)

    def keep(self, file: TaskFile) -> FetchedFile:
        """Give the file its name, mode and time. Raises NotAccepted if it is not the file that was listed."""
        self._file.close()
        if self._size < file.size:
            raise NotAccepted(
                f"{file.path} has only {self._size:,} of {file.size:,} bytes: it was changed while it was read",
                hint="fetch it again when the program no longer writes to it",
            )
        self._new.chmod(file.mode & 0o777 | 0o600)
        os.utime(self._new, (file.modified, file.modified))
        if self._place.is_dir() and not self._place.is_symlink():
            raise NotAccepted(f"{self._place} is a folder here and a file at the task", hint="another --to")
        self._new.replace(self._place)
        return FetchedFile(file.path, self._place, self._size)

    def close(self) -> None:
        """Remove what has not become the file."""
        self._file.close()
        self._new.unlink(missing_ok=True)

    @classmethod
    def copied(cls, source: Path, place: Path, file: TaskFile) -> FetchedFile:
        """Copy a file of a folder that this machine sees. Raises OSError."""
        if place.exists() and source.samefile(place):
            return FetchedFile(file.path, place, file.size)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.new")
        try:
            shutil.copy2(source, new, follow_symlinks=False)
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)
        return FetchedFile(file.path, place, file.size)


def target_of(to: Path, path: str) -> Path:
    """Return where a file goes. Raises NotAccepted for a path that leads out of the folder ``to``."""
    words = path.split("/")
    if path.startswith("/") or any(word in ("", ".", "..") for word in words):
        raise NotAccepted(f"{path!r} is not a path below the directory of a task")
    place = to
    for word in words[:-1]:
        place /= word
        if place.is_symlink():
            raise NotAccepted(f"{place} is a link here, and nothing is written through it", hint="another --to")
    return place / words[-1]


def make_link(to: Path, file: TaskFile) -> FetchedFile:
    """Make a link as the task has it, unless it leads out of what is fetched."""
    place = target_of(to, file.path)
    # Upwards only from its own folder: after a name, which may be a link too, ``..`` may lead anywhere.
    words = [word for word in file.link.split("/") if word not in ("", ".")]
    upwards = len(list(itertools.takewhile(lambda word: word == "..", words)))
    if file.link.startswith("/") or upwards > file.path.count("/") or ".." in words[upwards:]:
        return FetchedFile(file.path, place, 0, skipped=f"it is a link that leads out, to {file.link}")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        return FetchedFile(file.path, place, 0, skipped="it is a link at the task and a folder here")
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(file.link)
    return FetchedFile(file.path, place, 0)


def _clean(path: str) -> str:
    words = [word for word in path.split("/") if word not in ("", ".")]
    if path.startswith("/") or ".." in words:
        raise InputError(f"{path} is not a path below the directory of the task", hint="such as out/result.csv")
    return "/".join(words)


def _fixed(path: str) -> str:
    """Return the folder before the first part with a wildcard; a path without one stays as it is."""
    words = path.split("/")
    first = next((place for place, word in enumerate(words) if _MAGIC.search(word)), len(words))
    return "/".join(words[:first])


def _expression(path: str) -> re.Pattern[str]:
    """Return an expression for a path or pattern, and for all below it."""
    made = ""
    for place, word in enumerate(path.split("/")):
        if word == "**":
            made += "(?:[^/]+/)*"
            continue
        part = re.sub(r"\\\[(!?)(.*?)\\\]", lambda found: f"[{'^' if found[1] else ''}{found[2]}]", re.escape(word))
        made += part.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        made += "/" if place < path.count("/") else ""
    return re.compile((made.removesuffix("/") or ".*") + "(?:/.*)?" if path else ".*")
