"""Anchors: notes in the store from which the loss of other files of the data directory can be seen."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from cress.center.committing.committer import Committer, NotStored
from cress.center.keeping.anchor_notes import AUDIT, TLS_FILES, audit_mark_of, note_at, tls_mark_of
from cress.center.keeping.audit import Audit, AuditMark
from cress.center.keeping.file_names import TLS
from cress.center.keeping.tls_mark import seen_now
from cress.store.base import Batch, StoreError

# Seconds between two looks for new entries of the audit log, and for new certificates.
INTERVAL, TLS_INTERVAL = 1.0, 10.0


class Anchors:
    """Makes the ``audit`` log of a center, and keeps the anchors in the store while ``run`` runs.

    ``known_tls`` is what the store knew about the folder ``tls`` before.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        settings = committer.settings
        shared = bool(settings.store)
        self._audit_note = note_at(AUDIT, settings.data, shared=shared)
        self._tls_note = note_at(TLS_FILES, settings.data, shared=shared)
        self.audit = Audit(settings.data, known=self._known_audit)
        self.known_tls = tls_mark_of(committer.store.note(self._tls_note))
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
