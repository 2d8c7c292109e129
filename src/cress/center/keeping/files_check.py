"""A table of everything that may lie in a center's data directory, and checks of what it contains.

The store, the event log, the history, the token, the audit log and certificates have checks of their own. All other
files are made again when they are missing; only a folder in their place, or a file in that of a folder, does harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from cress.center.keeping.anchor_notes import AUDIT as AUDIT_NOTE
from cress.center.keeping.anchor_notes import TLS_FILES, audit_mark_of, note_at, tls_mark_of
from cress.center.keeping.audit import FOLDER as AUDIT
from cress.center.keeping.audit import AuditMark
from cress.center.keeping.audit_check import check_audit, is_of_audit
from cress.center.keeping.data_directory import ADDRESS, API_SOCKET, EXECUTOR_SOCKET, LOCK, READ_AT_START, STORE, TLS
from cress.center.keeping.event_log import EVENTS
from cress.center.keeping.history_reader import FILE as HISTORY
from cress.center.keeping.loss_proof import FILE as LOSS
from cress.center.keeping.notified_position import FILE as NOTIFIED
from cress.center.keeping.owner_token import TOKEN_FILE
from cress.center.keeping.quarantine import QUARANTINE
from cress.center.keeping.snapshots import FILE as SNAPSHOT
from cress.center.keeping.uploads import FOLDER as UPLOADS
from cress.center.keeping.uploads import check_uploads
from cress.protocol.regular_files import NotRegularError, not_regular
from cress.store.base import Saved
from cress.store.history_mark import FILE as HISTORY_MARK
from cress.store.opening import REPLICA

EXECUTORS = "executors"


class FileKind(Enum):
    """The kind of what lies at a place of the data directory."""

    FILE = auto()  # made again if it is missing
    FOLDER = auto()
    CHECKED = auto()  # a check of its own covers it


class FileRow(NamedTuple):
    """The names of files, as a pattern, and their kind."""

    pattern: str
    kind: FileKind


_TABLE = (
    *(
        FileRow(re.escape(name), FileKind.FILE)
        for name in (LOCK, ADDRESS, f".{ADDRESS}.new", API_SOCKET, EXECUTOR_SOCKET)
    ),
    *(FileRow(re.escape(name), FileKind.FILE) for name in (SNAPSHOT, LOSS, f".{LOSS}.new", f"{HISTORY_MARK}.new")),
    # Answers of forks, and the curves of `committing/use_curves.py`.
    FileRow(r"(plan|what-if)\.new|use\.curves|\.use\.curves\.new", FileKind.FILE),
    FileRow(rf"{re.escape(NOTIFIED)}|\.{re.escape(NOTIFIED)}\.new", FileKind.FILE),
    FileRow(rf"({re.escape(STORE)}|{re.escape(REPLICA)})\.(mark\.new|restored.*)", FileKind.FILE),
    FileRow(rf"({re.escape(STORE)}|{re.escape(REPLICA)})(-wal|-shm|\.mark|\.commits)?", FileKind.CHECKED),
    FileRow(rf"{re.escape(HISTORY)}(-wal|-shm)?|{re.escape(HISTORY_MARK)}", FileKind.CHECKED),
    FileRow(rf"{TOKEN_FILE}|{AUDIT}|{TLS}", FileKind.CHECKED),
    FileRow(rf"\.{TOKEN_FILE}\.\d+", FileKind.FILE),
    # Those of the portal, which ``cress up`` starts.
    FileRow(r"portal\.(json|port|new)|\.portal\.(json|port)\.\d+", FileKind.FILE),
    FileRow(rf"{EVENTS}|{QUARANTINE}|{EXECUTORS}|{UPLOADS}", FileKind.FOLDER),
    FileRow(r"(replaced|moved)-\d+", FileKind.FOLDER),
)


class FilesReport(NamedTuple):
    """``problems`` are messages about damage; ``others`` are names that do not belong to a center."""

    problems: list[str]
    others: list[str]


def irregular(data: Path) -> Iterator[NotRegularError]:
    """Yield an error for each pipe, device and socket that a center would read or write as a file of its own.

    Operators may have others there, such as a log that is a link to ``/dev/null``.
    """
    for error in not_regular(data, READ_AT_START):
        path = Path(error.filename)
        if path.parent != data or _row_of(path.name) is not None:
            yield error


def _row_of(name: str) -> FileRow | None:
    return next((row for row in _TABLE if re.fullmatch(row.pattern, name)), None)


def check_files(data: Path, saved: Saved, *, shared: bool) -> FilesReport:
    """Check all files of ``data`` but the store, the history, the event log and the token.

    ``saved`` is the content of the store, which other centers use too if it is ``shared``.
    """
    problems: list[str] = []
    others: list[str] = []
    for path in sorted(data.iterdir()) if data.is_dir() else ():
        row = _row_of(path.name)
        if row is None:
            others.append(path.name)
        elif row.kind is FileKind.FILE and path.is_dir():
            problems.append(f"{path} is a folder, not the file that belongs there; move it away: it is made again")
        elif row.kind is FileKind.FOLDER and not path.is_dir():
            problems.append(f"{path} is not a folder, as it should be; move it away: it is made again")
    damaged, foreign = check_uploads(data / UPLOADS)
    problems += damaged
    others += foreign
    mark = audit_mark(data, saved, shared=shared)
    problems += [f"{what}; {AUDIT_WAY_OUT}" for what in check_audit(data / AUDIT, mark)]
    if (data / AUDIT).is_dir():
        others += [f"{AUDIT}/{path.name}" for path in sorted((data / AUDIT).iterdir()) if not is_of_audit(path.name)]
    tls = tls_mark_of(saved.meta.get(note_at(TLS_FILES, data, shared=shared)))
    if tls.authority or (data / TLS).exists():
        from cress.center.keeping.tls_check import check_tls

        problems += check_tls(data / TLS, tls)
    return FilesReport(problems, others)


AUDIT_WAY_OUT = "bring it back from a copy, or accept the loss with `cress store accept-loss`"


def audit_mark(data: Path, saved: Saved, *, shared: bool) -> AuditMark:
    """Return the mark of the audit log in ``data``, as the store has it."""
    return audit_mark_of(saved.meta.get(note_at(AUDIT_NOTE, data, shared=shared)))
