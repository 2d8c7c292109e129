"""The notes of the store from which the loss of other files of a data directory can be seen."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from cress.center.keeping.audit import AuditMark
from cress.center.keeping.tls_mark import TlsMark

# The kinds of notes.
AUDIT, TLS_FILES = "audit", "tls"


def note_at(kind: str, data: Path, *, shared: bool) -> str:
    """Return the name of a note; the centers of a ``shared`` store have notes of their own."""
    return f"{kind}:{socket.gethostname()}:{data.absolute()}" if shared else kind


def audit_mark_of(note: bytes | None) -> AuditMark:
    """Return the mark in a note of the store."""
    return AuditMark() if note is None else msgspec.msgpack.decode(note, type=AuditMark)


def tls_mark_of(note: bytes | None) -> TlsMark:
    """Return the mark in a note of the store."""
    return TlsMark() if note is None else msgspec.msgpack.decode(note, type=TlsMark)
