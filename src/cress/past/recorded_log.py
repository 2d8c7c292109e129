"""A recorded log: the files of one center in order, and its records in a span of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cress.model.errors import InputError
from cress.past.event_file import EVENTS, SUFFIX, EventFile, files, read

HINT = f"the data directory of a center, its folder {EVENTS}, or a file NUMBER{SUFFIX}"


@dataclass(frozen=True)
class LogSpan:
    """A part of a log, from ``since`` to ``until`` (µs of the wall clock, excluded); ``anonymise``: with pseudonyms."""

    since: int = 0
    until: int | None = None
    anonymise: bool = False


@dataclass(frozen=True)
class Gap:
    """Records that are in no file: after ``last`` the log continues at ``first``, with the state in ``file``.

    ``first <= last`` if the center continued with an older state.
    """

    last: int
    first: int
    file: Path

    def __str__(self) -> str:
        if self.first > self.last:
            return f"records {self.last + 1} to {self.first - 1} are in no file; {self.file} continues after them"
        return f"the center continued with an older state, after record {self.first - 1}, in {self.file}"


class RecordedLog:
    """The log at ``path``: a data directory, a folder of event files, or one file.

    Raises ``InputError`` for anything else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths = paths_of(path)

    def files(self, since: int = 0) -> Iterator[EventFile]:
        """Yield the files that may have records from ``since`` (µs of the wall clock) on.

        Only the first lines of files are read. Raises ``InputError`` for a file that is none of an event log.
        """
        kept: EventFile | None = None
        for path in self.paths:
            file = read(path)
            if kept is not None and file.header.created > since:
                yield kept
            kept = file
        if kept is not None:
            yield kept


def is_recorded(path: Path) -> bool:
    """Return whether a path is meant as a log: an event file, or a folder with some."""
    return path.name.endswith(SUFFIX) or (path.is_dir() and bool(files(path) or files(path / EVENTS)))


def paths_of(path: Path) -> list[Path]:
    """Return the event files at ``path``, oldest first. Raises ``InputError`` if there are none."""
    if path.is_dir():
        found = files(path) or files(path / EVENTS)
        if not found:
            raise InputError("has no event log", hint=HINT, file=str(path))
        return found
    if not path.exists():
        raise InputError("no such file or directory", hint=HINT, file=str(path))
    return [path]
