"""Checks of the audit log: lines and files that were changed, removed, doubled or moved."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from cress.center.keeping.audit import BEFORE_DIGEST, CURRENT, AuditMark, ChainedLine, digest_of, files, last_line
from cress.protocol.regular_files import read_regular
from cress.store.base import StoreError

_decode = msgspec.json.Decoder(ChainedLine).decode
_OLDER = re.compile(r"audit-\d{6}\.jsonl")


def check_audit(folder: Path, mark: AuditMark) -> list[str]:
    """Return messages about damage, at most one for each file and one for the end. Reads the whole log."""
    if not folder.is_dir():
        what = "is not a directory" if folder.exists() else "is gone"
        return [f"the audit log {folder} {what}, and with it {mark.number} entries"] if mark.number else []
    found: list[str] = []
    chain = _Chain(mark)
    paths = [path for path in reversed(files(folder)) if path.exists()]
    before = ""
    for path in paths:
        chain.between, before = _between(before, path.name), path.name
        if not path.is_file():
            found.append(f"{path} is a directory, not a file of the audit log; move it away, and put the file back")
            continue
        try:
            data = read_regular(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from None
        wrong = list(filter(None, (chain.take(number, line) for number, line in enumerate(data.splitlines(), 1))))
        if data and not data.endswith(b"\n") and not wrong:
            wrong = ["its last line is cut off"]
        if wrong:
            more = f" ({len(wrong) - 1} more such lines)" if len(wrong) > 1 else ""
            found.append(f"the audit log {path}: {wrong[0]}{more}")
    if chain.number < mark.number:
        lost = mark.number - chain.number
        last = f"the store knows entry {mark.number}, the last one here is {chain.number}"
        found.append(f"the audit log {folder / CURRENT} has lost its last {lost} entries: {last}")
    elif mark.number > mark.accepted and chain.digest_at_mark != mark.digest and not found:
        found.append(f"the audit log in {folder}: entry {mark.number} is not the one that the store knows")
    return found


def accepted(folder: Path, mark: AuditMark) -> AuditMark:
    """Return a mark with which the log as it is passes the check."""
    there = last_line(folder) if folder.is_dir() else ChainedLine()
    number, digest = there.number, there.chain
    if number < mark.number:
        # The next entry continues after the last one that the store knows.
        number, digest = mark.number, mark.digest
    return AuditMark(number, digest, number, digest)


def _between(before: str, name: str) -> str:
    """Return what is wrong if entries are missing between two files; ``before`` is empty for the first file."""
    number = int(before[len("audit-") : -len(".jsonl")]) + 1 if before else 1
    gone = f"audit-{number:06d}.jsonl is gone"
    if not before:
        return f"it: {gone}"
    cut = f"the end of {before} was cut off"
    return f"it: {cut}" if name == f"audit-{number:06d}.jsonl" else f"it: {cut}, or {gone}"


class _Chain:
    """The lines read so far, oldest first: the number and digest of the last one."""

    def __init__(self, mark: AuditMark) -> None:
        self._mark = mark
        self.number, self.digest = mark.accepted, mark.accepted_digest
        self.between = ""  # what may be gone before the first line of the file
        self.digest_at_mark = mark.digest if mark.number == mark.accepted else ""

    def take(self, place: int, line: bytes) -> str:
        """Take the line at ``place`` of its file; return what is wrong with it, else an empty text."""
        try:
            stated = _decode(line)
        except msgspec.DecodeError:
            # A line of an older release, or one that the operator has accepted, may be anything.
            return f"line {place} is not as it was written" if self.number > self._mark.accepted else ""
        if not stated.number:
            # Older releases wrote lines without a number.
            return f"line {place} has no number, as if written by hand" if self.number else ""
        if stated.number <= self._mark.accepted:
            return ""
        begin, _, end = line.rpartition(BEFORE_DIGEST)
        before, self.number = self.number, max(self.number, stated.number)
        if stated.number <= before:
            return f"line {place} has entry {stated.number} a second time, or out of order"
        digest, self.digest = self.digest, stated.chain
        if stated.number == self._mark.number:
            self.digest_at_mark = stated.chain
        if stated.number > before + 1:
            where = self.between if place == 1 else f"line {place}"
            return f"entries {before + 1} to {stated.number - 1} are missing before {where}"
        if digest_of(digest, begin) != stated.chain or end != stated.chain.encode() + b'"}':
            return f"line {place} (entry {stated.number}) is not as it was written"
        return ""


def is_of_audit(name: str) -> bool:
    """Return whether a file of this name belongs into the folder."""
    return name == CURRENT or _OLDER.fullmatch(name) is not None
