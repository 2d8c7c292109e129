"""The center's end of TLS: a context for each listener, renewed and reloaded while it serves.

A context uses reloaded files for new connections; open connections keep their certificates.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509

from cress.center.keeping.file_names import CA, CENTER_CERTIFICATE, TLS
from cress.center.keeping.tls_mark import CA_KEY, REVOKED, read_revoked
from cress.center.tls.authority import Authority
from cress.center.tls.certificates import Certificate, facts_of, moment, read_certificate
from cress.model.errors import InputError
from cress.protocol.bundle_files import tls_reason
from cress.protocol.regular_files import check_regular

if TYPE_CHECKING:
    from cress.center.settings import CenterSettings

# Seconds between two checks of the files.
LOOK = 1.0
# The last part of its life in which a certificate without automatic renewal causes a warning.
LATE = 0.1

_log = logging.getLogger("cress.center")


class Files(NamedTuple):
    """The certificate of the center, its key, and the authorities of the executors' certificates."""

    certificate: Path
    key: Path
    ca: Path


class CenterTls:
    """The contexts ``api`` and ``executors`` of the listeners, and the ``names`` in the certificate.

    ``executors`` demands a client certificate of the authorities in ``files.ca``. ``when_revoked`` is called after
    certificates were revoked. With its own ``authority`` the center renews its certificate. ``say`` informs the
    operator.
    """

    def __init__(
        self,
        files: Files,
        authority: Authority | None,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Load the files. Raises InputError."""
        self.authority = authority
        self._files, self._say, self._clock = files, say, clock
        self.facts = self._first()
        self.api = _context(files)
        self.executors = _context(files, clients=True)
        self._loaded = self._seen = self._stamps()
        self._revoked = read_revoked(self._revocations)
        self._remembered: Mapping[str, float] = {}
        self._revoked_seen = _stamp(self._revocations)
        self.when_revoked: Callable[[], None] = lambda: None
        self._said = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the certificate, in the form of a request's Host header."""
        return tuple(f"[{name}]" if ":" in name else name for name in self.facts.names)

    @property
    def _revocations(self) -> Path:
        return self._files.ca.parent / REVOKED

    def is_revoked(self, present: bytes) -> bool:
        """Return whether the certificate (DER) of an executor was revoked."""
        facts = facts_of(x509.load_der_x509_certificate(present))
        here, known = self._revoked, self._remembered
        return any(facts.made_at <= max(here.get(name, 0.0), known.get(name, 0.0)) for name in facts.names)

    def remember(self, revoked: Mapping[str, float]) -> None:
        """Keep certificates revoked that were revoked before, whatever became of the file since."""
        self._remembered = revoked
        lost = sorted(node for node, until in revoked.items() if self._revoked.get(node, 0.0) < until)
        if lost:
            self._say(
                f"{self._revocations} has lost the revocation of the certificates of {', '.join(lost[:10])}; they stay "
                "revoked; bring the file back from a backup, or `cress tls revoke` each again"
            )

    def renewed_node(self, present: bytes) -> tuple[bytes, Certificate] | None:
        """Return a new certificate (PEM) for an executor whose ``present`` one is DER.

        Return None if the center's authority did not issue ``present``.
        """
        self._look_at_revocations()
        if self.authority is None or self.is_revoked(present):
            return None
        return self.authority.renew_node(x509.load_der_x509_certificate(present))

    def node_due(self, present: bytes) -> float | None:
        """Return the moment for renewing an executor's certificate (DER).

        Return None if the center does not renew it.
        """
        if self.authority is None:
            return None
        return facts_of(x509.load_der_x509_certificate(present)).renewed_at

    async def run(self) -> None:
        """Renew and reload until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                self.look()
            except Exception:  # noqa: BLE001 – a look that failed must not be the last one
                _log.exception("the certificates could not be looked at")

    def look(self) -> None:
        """Renew the certificate if it is due, and reload changed files."""
        self._renew()
        self._look_at_revocations()
        stamps = self._stamps()
        # Certificate and key are two files, so they are read once neither has changed since the last check.
        if stamps != self._loaded and stamps == self._seen:
            self._loaded = stamps
            try:
                self._load()
            except InputError as error:
                self._tell(f"{error}; the certificate of before is kept")
        self._seen = stamps

    def read_again(self) -> None:
        """Read the files now. Raises InputError, in which case nothing changes."""
        self._loaded = self._stamps()
        self._load()

    def _look_at_revocations(self) -> None:
        stamp = _stamp(self._revocations)
        if stamp == self._revoked_seen:
            return
        self._revoked_seen = stamp
        try:
            self._revoked = read_revoked(self._revocations)
        except InputError as error:
            self._tell(f"{error}; what was revoked before stays so")
            return
        self.when_revoked()

    def _first(self) -> Certificate:
        """Return the certificate at the start; the center's own authority replaces an expired one."""
        facts = facts_of(read_certificate(self._files.certificate))
        if self.authority is not None and self._clock() >= facts.renewed_at:
            try:
                facts = self.authority.renew_center()
            except InputError as error:
                # Renewal may fail on a full disk; it is tried again while the certificate is valid.
                facts.check(self._clock(), self._files.certificate)
                self._say(f"the center's certificate cannot be renewed: {error}")
        facts.check(self._clock(), self._files.certificate)
        return facts

    def _renew(self) -> None:
        facts, now = self.facts, self._clock()
        if self.authority is not None:
            if now >= facts.renewed_at:
                try:
                    self.authority.renew_center()
                    self.read_again()
                except InputError as error:
                    self._tell(
                        f"the center's certificate cannot be renewed: {error}; it expires at {moment(facts.until)}"
                    )
        elif now >= facts.until - (facts.until - facts.since) * LATE:
            ends = "expired" if now >= facts.until else "expires"
            self._tell(
                f"{self._files.certificate}: {ends} at {moment(facts.until)}; replace it, and it is read at once"
            )

    def _load(self) -> None:
        facts = facts_of(read_certificate(self._files.certificate))
        facts.check(self._clock(), self._files.certificate)
        # A context that has loaded a certificate without its key cannot go back, so the files are tried in another one
        # first.
        _context(self._files, clients=True)
        for context in (self.api, self.executors):
            _load_certificate(context, self._files)
        _load_authorities(self.executors, self._files.ca)
        self.facts = facts

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_stamp(path) for path in self._files)

    def _tell(self, sentence: str) -> None:
        """Inform the operator, once for each message."""
        if sentence != self._said:
            self._said = sentence
            self._say(sentence)


def center_tls(settings: CenterSettings, say: Callable[[str], None]) -> CenterTls:
    """Return the TLS of a center that was given certificates, or has an authority in its data directory.

    Raises InputError.
    """
    folder = settings.data / TLS
    if settings.tls_cert is not None and settings.tls_key is not None:
        if settings.tls_ca is None:
            raise InputError(
                "the authority of the executors' certificates is missing",
                hint=(
                    "a PEM file with it; an authority for this cluster only, since each of its certificates "
                    "opens the center to a node"
                ),
                field="--tls-ca",
            )
        return CenterTls(Files(settings.tls_cert, settings.tls_key, settings.tls_ca), None, say)
    center = folder / CENTER_CERTIFICATE
    # An operator who keeps the authority's key elsewhere renews the certificate there.
    authority = Authority(folder) if (folder / CA_KEY).exists() else None
    return CenterTls(Files(center, center, settings.tls_ca or folder / CA), authority, say)


def _context(files: Files, *, clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load_certificate(context, files)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session would not have its certificate checked again.
        context.num_tickets = 0
        _load_authorities(context, files.ca)
    return context


def _load_certificate(context: ssl.SSLContext, files: Files) -> None:
    with _told(files.key):
        mode = files.key.stat().st_mode
        if mode & 0o027:
            raise InputError("others may read or change the key", hint=f"chmod 600 {files.key}", file=str(files.key))
        check_regular(files.key)
        check_regular(files.certificate)
        # Without a password the library would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    with _told(path):
        check_regular(path)
        context.load_verify_locations(path)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        hint = "a PEM file; the key without a password, and that of the certificate"
        raise InputError(f"it cannot be used: {tls_reason(error)}", hint=hint, file=str(path)) from None
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", file=str(path)) from None


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
