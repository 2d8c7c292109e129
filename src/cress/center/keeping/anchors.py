"""Anchors: notes in the store from which the loss of other files of the data directory can be seen."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import msgspec

from cress.center.access.audit import Audit, AuditMark
from cress.center.committing.committer import Committer, NotStored
from cress.center.keeping.data_directory import TLS
from cress.center.keeping.tls_mark import TlsMark, seen_now
from cress.center.settings import CenterSettings
from cress.store.base import Batch, Store, StoreError

# Seconds between two looks for new entries of the audit log, and for new certificates.
INTERVAL, TLS_INTERVAL = 1.0, 10.0
# The kinds of notes.
AUDIT, TLS_FILES = "audit", "tls"


class Anchors:
    """Makes the ``audit`` log of a center, and keeps the anchors in the store while ``run`` runs.

    ``known_tls`` is what the store knew about the folder ``tls`` before.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        settings = committer.settings
        self._audit_note, self._tls_note = note_of(settings, AUDIT), note_of(settings, TLS_FILES)
        self.audit = Audit(settings.data, known=self._known_audit)
        self.known_tls = tls_mark_in(committer.store, settings)
        self._tls_folder = settings.data / TLS
        self._stored_audit: AuditMark | None = None
        self._next_tls = 0.0

    def _known_audit(self) -> AuditMark:
        with contextlib.suppress(StoreError):
            return audit_mark_of(self._committer.store.note(self._audit_note))
        return AuditMark()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.keep()

    async def keep(self, *, last: bool = False) -> None:
        """Store what is new; a center that cannot store it tries again later.

        ``last``: do not wait for the interval of certificates.
        """
        meta: dict[str, bytes] = {}
        mark, tls = self._stored_audit, self.known_tls
        with contextlib.suppress(OSError, StoreError, NotStored):
            mark = await asyncio.to_thread(self.audit.mark)
            if mark.number and mark != self._stored_audit:
                meta[self._audit_note] = msgspec.msgpack.encode(mark)
            if last or time.monotonic() >= self._next_tls:
                self._next_tls = time.monotonic() + TLS_INTERVAL
                tls = self.known_tls.with_more(await asyncio.to_thread(seen_now, self._tls_folder))
                if tls != self.known_tls:
                    meta[self._tls_note] = msgspec.msgpack.encode(tls)
            if meta:
                await self._committer.tidy(Batch(meta=meta))
                self._stored_audit, self.known_tls = mark, tls


def note_of(settings: CenterSettings, kind: str) -> str:
    """Return the name of the note about the files of this center."""
    return note_at(kind, settings.data, shared=bool(settings.store))


def note_at(kind: str, data: Path, *, shared: bool) -> str:
    """Return the name of a note; the centers of a ``shared`` store have notes of their own."""
    return f"{kind}:{socket.gethostname()}:{data.absolute()}" if shared else kind


def audit_mark_of(note: bytes | None) -> AuditMark:
    """Return the mark in a note of the store."""
    return AuditMark() if note is None else msgspec.msgpack.decode(note, type=AuditMark)


def tls_mark_of(note: bytes | None) -> TlsMark:
    """Return the mark in a note of the store."""
    return TlsMark() if note is None else msgspec.msgpack.decode(note, type=TlsMark)


def tls_mark_in(store: Store, settings: CenterSettings) -> TlsMark:
    """Return what the store knows about the folder ``tls`` of this center."""
    return tls_mark_of(store.note(note_of(settings, TLS_FILES)))
