"""The audit log: refused and administrative calls as lines of JSON, which are only appended (``audit/``)."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cress.protocol.access_views import AuditEntry

FOLDER, CURRENT = "audit", "audit.jsonl"
# Bytes of a file. A full file is renamed with the next number.
FULL = 16 * 2**20
# Most refusals of one address that are written in a second; the rest is left out.
MOST_REFUSALS = 20

_log = logging.getLogger("cress.audit")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditEntry).decode


class Audit:
    """Appends entries to the newest file."""

    def __init__(self, data: Path, full: int = FULL) -> None:
        self.folder = data / FOLDER
        self._full = full
        self._failed = False
        self._second = 0
        self._refused: dict[str, int] = {}

    def write(self, entry: AuditEntry) -> None:
        """Append an entry.

        The center keeps working when the disk is full: it logs a warning, and entries are lost until there is room.
        """
        if entry.status in (401, 429) and not self._counts(entry):
            return
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            path = self.folder / CURRENT
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(path, flags, 0o600)
            try:
                # A full disk may have cut off the last line, so the entry begins on a new one.
                line = b"\n" * self._failed + _encode(entry) + b"\n"
                if os.write(handle, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                size = os.fstat(handle).st_size
            finally:
                os.close(handle)
            if size >= self._full:
                self._put_aside(path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("the audit log cannot be written (%s); entries are lost until it can", error.strerror)
            self._failed = True

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


def _lines_backwards(path: Path) -> Iterator[bytes]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    yield from reversed(data.splitlines())
