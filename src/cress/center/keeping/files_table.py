"""A table of everything that may lie in a center's data directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from cress.center.keeping.audit import FOLDER as AUDIT
from cress.center.keeping.event_log import EVENTS
from cress.center.keeping.file_names import ADDRESS, API_SOCKET, EXECUTOR_SOCKET, LOCK, READ_AT_START, STORE, TLS
from cress.center.keeping.history_reader import FILE as HISTORY
from cress.center.keeping.loss_proof import FILE as LOSS
from cress.center.keeping.notified_position import FILE as NOTIFIED
from cress.center.keeping.owner_token import TOKEN_FILE
from cress.center.keeping.quarantine import QUARANTINE
from cress.center.keeping.snapshots import FILE as SNAPSHOT
from cress.center.keeping.uploads import FOLDER as UPLOADS
from cress.protocol.regular_files import NotRegularError, not_regular
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


def irregular(data: Path) -> Iterator[NotRegularError]:
    """Yield an error for each pipe, device and socket that a center would read or write as a file of its own.

    Operators may have others there, such as a log that is a link to ``/dev/null``.
    """
    for error in not_regular(data, READ_AT_START):
        path = Path(error.filename)
        if path.parent != data or row_of(path.name) is not None:
            yield error


def row_of(name: str) -> FileRow | None:
    """Return the row of a name in a data directory; ``None`` for one that does not belong to a center."""
    return next((row for row in _TABLE if re.fullmatch(row.pattern, name)), None)
