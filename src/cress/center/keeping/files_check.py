"""Checks of what lies in a center's data directory, by the table of ``files_table.py``.

The store, the event log, the history, the token, the audit log and certificates have checks of their own. All other
files are made again when they are missing; only a folder in their place, or a file in that of a folder, does harm.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cress.center.keeping.anchor_notes import AUDIT as AUDIT_NOTE
from cress.center.keeping.anchor_notes import TLS_FILES, audit_mark_of, note_at, tls_mark_of
from cress.center.keeping.audit import FOLDER as AUDIT
from cress.center.keeping.audit import AuditMark
from cress.center.keeping.audit_check import check_audit, is_of_audit
from cress.center.keeping.file_names import TLS
from cress.center.keeping.files_table import FileKind, row_of
from cress.center.keeping.uploads import FOLDER as UPLOADS
from cress.center.keeping.uploads import check_uploads
from cress.store.base import Saved


class FilesReport(NamedTuple):
    """``problems`` are messages about damage; ``others`` are names that do not belong to a center."""

    problems: list[str]
    others: list[str]


def check_files(data: Path, saved: Saved, *, shared: bool) -> FilesReport:
    """Check all files of ``data`` but the store, the history, the event log and the token.

    ``saved`` is the content of the store, which other centers use too if it is ``shared``.
    """
    problems: list[str] = []
    others: list[str] = []
    for path in sorted(data.iterdir()) if data.is_dir() else ():
        row = row_of(path.name)
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
