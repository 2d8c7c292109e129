"""The commit journal: a second copy of each batch of a store, to complete a store that lost its last commits.

It is a framed file. A frame consists of the number of the commit, a link, which is the CRC-32 of the frame before, and
a ``StoredCommit``. The first one has a random link and the floor with which the file begins, so a frame of an earlier
life of the file is never accepted in this one. The file is not synced: a killed process leaves it whole, and after a
power loss the store itself has all acknowledged commits.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
from io import BytesIO
from pathlib import Path

import msgspec

from cress.formats.framed import CHAINED, FileFormat, Frame, FramedFile, Older, check_of, framed, frames_of
from cress.store.base import Batch

# The suffix of its name, after the name of the store.
COMMITS = ".commits"
# Maximum number of bytes that wait in memory while the file cannot be written; beyond that the journal has a gap.
MOST_WAITING = 8 * 2**20

# The header of version 1: 14 bytes of magic, 8 random ones, the floor (8) and their CRC-32 (4).
_HEADER_1 = 34
FORMAT = FileFormat("commits", 2, (Older(1, b"cresscommits1\n", _HEADER_1, CHAINED, checked=True),))
_NUMBER = struct.Struct("<Q")
_ENTRY = struct.Struct("<QI")  # number, link
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class StoredCommit(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One transaction of a store.

    ``batch`` is None in a transaction that only raises the number. ``cluster``: an epoch began for this cluster.
    ``covered``: a snapshot was stored that covers the log up to this record; the state itself is not included.
    ``floor``: a checkpoint begins, which copies pages up to commit number ``floor``; this is not a transaction.
    """

    epoch: int = 0
    batch: Batch | None = None
    cluster: str = ""
    covered: int | None = None
    floor: int | None = None


class Commits(msgspec.Struct):
    """The readable part of a journal: commits by number, without a gap.

    The main file of the store may have pages of commits up to ``floor``: a store below it is a mixture. ``end`` is the
    offset after the last whole frame, ``check`` its CRC-32. A file of an older ``version`` is not continued.
    """

    version: int
    floor: int
    last: int
    commits: dict[int, StoredCommit]
    end: int
    check: int

    def missing(self, number: int) -> list[StoredCommit] | None:
        """Return the commits that a store at commit ``number`` lacks; None if they cannot be applied to it."""
        if number >= self.last:
            return []
        wanted = range(number + 1, self.last + 1)
        if number < self.floor or any(wanted_number not in self.commits for wanted_number in wanted):
            return None
        return [self.commits[wanted_number] for wanted_number in wanted]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredCommit).decode


def read_commits(path: Path) -> Commits | None:
    """Read the journal at ``path`` as far as possible; return None if it is missing or its header is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    beginning = FORMAT.beginning(BytesIO(data))
    if beginning.version == 1:
        (floor,) = _NUMBER.unpack_from(data, _HEADER_1 - 4 - _NUMBER.size)
        found = Commits(1, floor, floor, {}, beginning.at, beginning.check)
    elif beginning.version == FORMAT.version:
        found = Commits(beginning.version, 0, 0, {}, beginning.at, 0)
    else:
        return None
    first = beginning.at if beginning.version > 1 else -1
    for frame in frames_of(data, beginning):
        # After damage no frame has the expected link.
        if not _add(found, frame, first=frame.start == first):
            break
        found.end, found.check = frame.end, frame.check
    return found if found.end > first else None


def _add(found: Commits, frame: Frame, *, first: bool) -> bool:
    """Add the content of a frame; return False if it is unreadable or does not follow the one before."""
    linked = found.version > 1
    try:
        number, link = _ENTRY.unpack_from(frame.payload) if linked else (*_NUMBER.unpack_from(frame.payload), 0)
        commit = _decode(frame.payload[_ENTRY.size if linked else _NUMBER.size :])
    except (msgspec.MsgspecError, struct.error):
        return False
    if first:
        if commit.floor is None:
            return False
        found.last = commit.floor
    elif linked and link != found.check:
        return False
    if commit.floor is not None:
        found.floor = max(found.floor, commit.floor)
    else:
        found.commits[number] = commit
        found.last = number
    return True


class CommitJournal:
    """The journal of an open store, for the writing thread. A failed write never fails a commit.

    ``size`` is the number of bytes since the last beginning. ``broken``: a commit is missing, and the journal must
    begin anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.count = 0
        self.broken = True
        self._file: FramedFile | None = None
        self._check = 0
        self._waiting: list[bytes] = []

    def resume(self, found: Commits) -> None:
        """Continue a file that was read; one of an older release is rewritten."""
        if found.version < FORMAT.version:
            self.begin(found.floor)
            for number, commit in found.commits.items():
                if number > found.floor:
                    self.append(number, commit)
            return
        with contextlib.suppress(OSError):
            self._file = FramedFile(os.open(self.path, _FLAGS, 0o600))
            self._file.cut(found.end)
            self._check, self.broken = found.check, False

    def begin(self, floor: int) -> None:
        """Begin anew, empty, after commit number ``floor``."""
        frame = framed(_ENTRY.pack(floor, secrets.randbits(32)) + _encode(StoredCommit(floor=floor)))
        self._waiting, self.size, self.count, self.broken = [], 0, 0, True
        try:
            if self._file is None:
                self._file = FramedFile(os.open(self.path, _FLAGS, 0o600))
            self._file.cut(0)
            self._file.write(FORMAT.first_line, frame)
        except OSError:
            return
        self._check, self.broken = check_of(frame), False

    def append(self, number: int, commit: StoredCommit) -> bool:
        """Append the commit with this number; return whether the file is complete or empty."""
        self.count += 1
        if self.broken or self._file is None:
            return True
        frame = framed(_ENTRY.pack(number, self._check) + _encode(commit))
        self._check = check_of(frame)
        self._waiting.append(frame)
        self.size += len(frame)
        try:
            self._file.write(*self._waiting)
        except OSError:
            if sum(map(len, self._waiting)) > MOST_WAITING:
                self._waiting, self.broken = [], True
                with contextlib.suppress(OSError):
                    self._file.cut(0)
            return False
        self._waiting = []
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file.fd)
            self._file = None
