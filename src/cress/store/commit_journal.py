"""The commit journal: each batch of a store once more, beside the write-ahead file, to complete a store that lost some.

The file is a header, then frames: length, number of the commit, a CRC-32 that continues that of the frame before, and a
``Commit``. It is not synced: a kill leaves it whole, and after lost power the store itself has what was acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import zlib
from pathlib import Path

import msgspec

from cress.store.base import Batch

# The ending of its name, behind that of the store.
COMMITS = ".commits"
# Bytes that wait in memory while the file cannot be written; beyond that the journal has a gap.
MOST_WAITING = 8 * 2**20

_MAGIC = b"cresscommits1\n"
_HEADER = struct.Struct("<14s8sQI")  # magic, random bytes, floor, CRC-32
_FRAME = struct.Struct("<IQI")  # length, number, CRC-32
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Commit(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One transaction of a store.

    ``batch`` is empty in a transaction that only raises the number. ``cluster``: an epoch began for this cluster.
    ``covered``: a snapshot was stored that covers the log up to this record; the state itself is not here.
    ``floor``: a checkpoint begins, which copies pages up to commit number ``floor``; this is not a transaction.
    """

    epoch: int = 0
    batch: Batch | None = None
    cluster: str = ""
    covered: int | None = None
    floor: int | None = None


class Commits(msgspec.Struct):
    """The readable part of a journal: commits by number, without a gap.

    The main file of the store may have pages of commits up to ``floor``: a store that stands below it is a mixture.
    ``end`` is the offset after the last whole frame, ``check`` its CRC-32.
    """

    floor: int
    last: int
    commits: dict[int, Commit]
    end: int
    check: int

    def missing(self, number: int) -> list[Commit] | None:
        """Return the commits that a store at commit ``number`` lacks; None if they cannot be applied to it."""
        if number >= self.last:
            return []
        wanted = range(number + 1, self.last + 1)
        if number < self.floor or any(each not in self.commits for each in wanted):
            return None
        return [self.commits[each] for each in wanted]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Commit).decode


def read_commits(path: Path) -> Commits | None:
    """Return what can be read of the journal at ``path``; None if there is none or its header is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _HEADER.size:
        return None
    magic, _, floor, check = _HEADER.unpack_from(data)
    if magic != _MAGIC or zlib.crc32(data[: _HEADER.size - 4]) != check:
        return None
    found = Commits(floor, floor, {}, _HEADER.size, check)
    while (begin := found.end + _FRAME.size) <= len(data):
        length, number, expected = _FRAME.unpack_from(data, found.end)
        content = data[begin : begin + length]
        if len(content) < length or _chained(found.check, length, number, content) != expected:
            break
        try:
            commit = _decode(content)
        except msgspec.MsgspecError:
            break
        if commit.floor is not None:
            found.floor = max(found.floor, commit.floor)
        else:
            found.commits[number] = commit
            found.last = number
        found.end, found.check = begin + length, expected
    return found


def _chained(check: int, length: int, number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<IQ", length, number), check))


class CommitJournal:
    """The journal of an open store, for the thread that writes. A failure to write never fails a commit.

    ``size`` is the number of bytes since it began anew. ``broken``: it lacks a commit, and has to begin anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.count = 0
        self.broken = True
        self._fd = -1
        self._end = self._check = 0
        self._waiting: list[bytes] = []

    def resume(self, found: Commits) -> None:
        """Continue the file as it was read."""
        with contextlib.suppress(OSError):
            self._fd = os.open(self.path, _FLAGS, 0o600)
            os.ftruncate(self._fd, found.end)
            self._end, self._check, self.broken = found.end, found.check, False

    def begin(self, floor: int) -> None:
        """Begin anew, empty, behind commit number ``floor``."""
        head = _HEADER.pack(_MAGIC, secrets.token_bytes(8), floor, 0)[:-4]
        check = zlib.crc32(head)
        self._waiting, self.size, self.count, self.broken = [], 0, 0, True
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, _FLAGS, 0o600)
            os.ftruncate(self._fd, 0)
            self._end = 0
            self._write(head + check.to_bytes(4, "little"))
        except OSError:
            return
        self._check, self.broken = check, False

    def append(self, number: int, commit: Commit) -> bool:
        """Append the commit of this number; return whether all is in the file, or the file is empty."""
        self.count += 1
        if self.broken:
            return True
        content = _encode(commit)
        self._check = _chained(self._check, len(content), number, content)
        self._waiting.append(_FRAME.pack(len(content), number, self._check) + content)
        self.size += _FRAME.size + len(content)
        try:
            self._write(b"".join(self._waiting))
        except OSError:
            if sum(map(len, self._waiting)) > MOST_WAITING:
                self._waiting, self.broken = [], True
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, 0)
            return False
        self._waiting = []
        return True

    def _write(self, data: bytes) -> None:
        view, at = memoryview(data), self._end
        try:
            while view:
                count = os.pwrite(self._fd, view, at)
                view, at = view[count:], at + count
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise
        self._end = at

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
