"""Event files: what a center recorded, one file after the other, each with the state before its first record.

A file is a framed file. The first frame is a ``Header``, every other one a record as in ``lifecycle.record``, both in
msgpack. ``center/keeping/event_log.py`` writes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from cress.formats.framed import BARE, Beginning, FileFormat, Frame, Older, frames
from cress.lifecycle.record import Record, decode_record
from cress.model.errors import InputError

EVENTS, SUFFIX = "events", ".events"
# Files of version 1 are frames without a first line and marks.
FORMAT = FileFormat("events", 2, (Older(1, b"", 0, BARE),))


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame of a file: the ``state`` for ``Machine.restore``, and the settings of a replay.

    ``before`` is the number of the last record that is part of the state. ``created`` is a wall-clock time in µs.
    """

    format: int
    release: str
    machine: int
    zone: str
    created: int
    before: int
    state: bytes


class EventFile:
    """A file opened for reading: its ``header`` and, as an iterable, its records with their numbers.

    A last record that a crash cut off is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _told(path), path.open("rb") as file:
            version = FORMAT.beginning(file).version
            if version > FORMAT.version:
                raise InputError(
                    f"was written by a newer release of Cress (version {version} of its files, not {FORMAT.version})",
                    hint="read it with that release",
                    file=str(path),
                )
            first = next(_payloads(file, path), None)
        try:
            self.header = msgspec.msgpack.decode(first or b"", type=Header)
        except msgspec.MsgspecError:
            raise InputError("is not a file of an event log", hint=f"NUMBER{SUFFIX}", file=str(path)) from None

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for number, data in self.raw():
            try:
                yield number, decode_record(data)
            except (ValueError, msgspec.MsgspecError) as error:
                what = f"record {number} was written by another version ({self.header.release}): {error}"
                raise InputError(what, file=str(self.path)) from None

    def raw(self) -> Iterator[tuple[int, bytes]]:
        """Yield the encoded records with their numbers."""
        with _told(self.path), self.path.open("rb") as file:
            payloads = _payloads(file, self.path)
            next(payloads, None)
            yield from enumerate(payloads, self.header.before + 1)


def read(path: Path) -> EventFile:
    """Open the file at ``path``. Raises InputError, now or during iteration, if it is not an event file."""
    return EventFile(path)


def files(folder: Path) -> list[Path]:
    """Return the files of a log, oldest first."""
    found = [path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdigit()]
    return sorted(found, key=lambda path: int(path.stem))


def _payloads(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the payloads of the whole frames, up to a record that a crash cut off.

    Raises InputError if a frame in the middle is damaged.
    """
    beginning = FORMAT.beginning(file)
    end = beginning.at
    for frame in _frames(file, beginning):
        if frame.start > end:
            raise InputError(f"is damaged at byte {end}", hint="the part before it can be read", file=str(path))
        end = frame.end
        yield frame.payload


def up_to_damage(file: BinaryIO, beginning: Beginning) -> Iterator[Frame]:
    """Yield the whole frames before any damage."""
    end = beginning.at
    for frame in _frames(file, beginning):
        if frame.start > end:
            return
        end = frame.end
        yield frame


def _frames(file: BinaryIO, beginning: Beginning) -> Iterator[Frame]:
    """Yield the whole frames; none if a newer release wrote the file."""
    return frames(file, beginning) if beginning.version <= FORMAT.version else iter(())


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
