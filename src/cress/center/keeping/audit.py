"""The audit log: refused and administrative calls as lines of JSON, which are only appended (``audit/``).

Each line has its number and a digest over itself and the digest before, so that no line can be changed, left out or
moved without notice. The store has the number and digest of a recent line (``AuditMark``), so that the end cannot be
cut off either (``keeping.audit_check``).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cress.protocol.access_views import AuditEntry
from cress.protocol.regular_files import open_regular, read_regular

FOLDER, CURRENT = "audit", "audit.jsonl"
# What is between the digested part of a line and its digest.
BEFORE_DIGEST = b',"chain":"'
DIGEST = 32
# Bytes of a file. A full file is renamed with the next number.
FULL = 16 * 2**20
# Most refusals of one address that are written in a second; the rest is left out.
MOST_REFUSALS = 20

_log = logging.getLogger("cress.audit")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditEntry).decode


class AuditMark(msgspec.Struct, frozen=True, array_like=True):
    """The number and the digest of a line; lines up to number ``accepted`` are damaged, and the operator knows it."""

    number: int = 0
    digest: str = ""
    accepted: int = 0
    accepted_digest: str = ""


class ChainedLine(msgspec.Struct):
    """The part of a line by which it is chained to the line before."""

    number: int = 0
    chain: str = ""


_decode_chained = msgspec.json.Decoder(ChainedLine).decode


def digest_of(before: str, line: bytes) -> str:
    """Return the digest of a line; ``line`` ends before ``BEFORE_DIGEST``, ``before`` is the digest before it."""
    return hashlib.sha256(before.encode() + b"\n" + line).hexdigest()[:DIGEST]


class Audit:
    """Appends entries to the newest file.

    ``known`` returns the mark in the store; after it the log continues, even if the lines up to there are lost.
    """

    def __init__(self, data: Path, full: int = FULL, known: Callable[[], AuditMark] = AuditMark) -> None:
        self.folder = data / FOLDER
        self._full = full
        self._known = known
        self._last: AuditMark | None = None  # of the last line; None before the first entry
        self._failed = False
        self._second = 0
        self._refused: dict[str, int] = {}

    def mark(self) -> AuditMark:
        """Return the mark of the last line, after it has been written durably. Raises OSError. Blocks."""
        last = self._last
        if last is None:
            return self._known()
        # A full file was synced before it got its number.
        with contextlib.suppress(FileNotFoundError), os.fdopen(open_regular(self.folder / CURRENT), "rb") as file:
            os.fsync(file.fileno())
        return last

    def _begin(self) -> AuditMark:
        """Return the mark after which the log continues."""
        known = self._known()
        there = last_line(self.folder)
        if there.number < known.number:
            lost = known.number - there.number
            _log.warning("the audit log in %s has lost its last %d entries", self.folder, lost)
            return known
        return msgspec.structs.replace(known, number=there.number, digest=there.chain)

    def write(self, entry: AuditEntry) -> None:
        """Append an entry.

        The center keeps working when the disk is full: it logs a warning, and entries are lost until there is room.
        """
        if entry.status in (401, 429) and not self._counts(entry):
            return
        try:
            if self._last is None:
                self._last = self._begin()
            self._append(entry, self._last)
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("the audit log cannot be written (%s); entries are lost until it can", error.strerror)
            self._failed = True

    def _append(self, entry: AuditEntry, last: AuditMark) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / CURRENT
        line = _encode(entry)[:-1] + b',"number":%d' % (last.number + 1)
        digest = digest_of(last.digest, line)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(handle).st_size
            # What a power failure has cut off stays a line of its own.
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            data = b"\n" * torn + line + BEFORE_DIGEST + digest.encode() + b'"}\n'
            if os.write(handle, data) < len(data):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._last = msgspec.structs.replace(last, number=last.number + 1, digest=digest)
            if size + len(data) >= self._full:
                os.fsync(handle)
                self._put_aside(path)
        finally:
            os.close(handle)

    def _put_aside(self, path: Path) -> None:
        """Rename a full file with the number after the last one, since an operator may have moved older files away."""
        _, *old = files(self.folder)
        last = int(old[0].stem.removeprefix("audit-")) if old else 0
        path.rename(self.folder / f"audit-{last + 1:06d}.jsonl")

    def _counts(self, entry: AuditEntry) -> bool:
        """Return whether a refusal is written: many refusals must not fill the disk."""
        second = int(entry.at)
        if second != self._second:
            self._second, self._refused = second, {}
        count = self._refused[entry.address] = self._refused.get(entry.address, 0) + 1
        return count <= MOST_REFUSALS


def files(folder: Path) -> list[Path]:
    """Return the files of the log, the newest first."""
    old = sorted(folder.glob(f"audit-{'[0-9]' * 6}.jsonl"), reverse=True)
    return [folder / CURRENT, *old]


def latest(folder: Path, limit: int, passes: Callable[[AuditEntry], bool]) -> list[AuditEntry]:
    """Return at most ``limit`` latest entries that pass, newest first. Blocks."""
    found: list[AuditEntry] = []
    for path in files(folder):
        for line in _lines_backwards(path):
            try:
                entry = _decode(line)
            except msgspec.DecodeError:
                continue  # a line cut off by a crash
            if passes(entry):
                found.append(entry)
                if len(found) == limit:
                    return found
    return found


def last_line(folder: Path) -> ChainedLine:
    """Return the last line with a number; that with the number 0 if there is none. Raises OSError."""
    for path in files(folder):
        for line in _lines_backwards(path):
            try:
                found = _decode_chained(line)
            except msgspec.DecodeError:
                continue
            if found.number:
                return found
    return ChainedLine()


def _lines_backwards(path: Path) -> Iterator[bytes]:
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return
    yield from reversed(data.splitlines())
