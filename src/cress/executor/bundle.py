"""The executor's bundle: its certificate and key, and the authority that signs the certificate of its center.

The files are read again for each connection.
"""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

from cress.model.errors import InputError
from cress.protocol.bundle_files import BUNDLE_CA, BUNDLE_CERTIFICATE, BUNDLE_KEY, tls_reason
from cress.protocol.private_files import private_draft
from cress.protocol.regular_files import check_regular

# Most rounds of a handshake in memory.
STEPS = 3


class BundleError(Exception):
    """Error: the bundle cannot be used; the message says why."""


class BundleFolder:
    """The bundle in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def context(self) -> ssl.SSLContext:
        """Return a context with the current files. Raise BundleError."""
        return self._context(self.folder / BUNDLE_CERTIFICATE)

    def fault(self) -> str:
        """Return why the bundle's own authority does not accept the certificate (it has expired, say); empty: it does.

        The center's library closes the connection without a reason, so this does a handshake with itself in memory.
        """
        near, far = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        near.check_hostname, near.verify_mode, far.verify_mode = False, ssl.CERT_NONE, ssl.CERT_REQUIRED
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            for name in (BUNDLE_CERTIFICATE, BUNDLE_KEY, BUNDLE_CA):
                check_regular(self.folder / name)
            for context in (near, far):
                context.load_cert_chain(self.folder / BUNDLE_CERTIFICATE, self.folder / BUNDLE_KEY, password="")
            far.load_verify_locations(self.folder / BUNDLE_CA)
            ends = near.wrap_bio(back, there), far.wrap_bio(there, back, server_side=True)
            for _ in range(STEPS):
                for end in ends:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        end.do_handshake()
        except ssl.SSLError as error:
            return tls_reason(error)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def keep(self, pem: bytes) -> None:
        """Store the next certificate, which must match the key of the bundle. Raise BundleError."""
        path = self.folder / BUNDLE_CERTIFICATE
        try:
            with private_draft(path, pem) as draft:
                self._context(draft)
                draft.replace(path)
        except InputError as error:
            raise BundleError(f"the new certificate cannot be stored: {error}") from None

    def _context(self, certificate: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        place = self.folder / BUNDLE_CA
        try:
            check_regular(place)
            context.load_verify_locations(place)
            place = self.folder / BUNDLE_KEY
            check_regular(place)
            if place.stat().st_mode & 0o077:
                raise BundleError(f"other users may read the key {place} (chmod 600 {place})")
            place = certificate
            check_regular(place)
            # Without the argument ``password`` the library would ask for it on the terminal.
            context.load_cert_chain(certificate, self.folder / BUNDLE_KEY, password="")
        except ssl.SSLError as error:
            raise BundleError(f"{place} cannot be used ({tls_reason(error)})") from None
        except OSError as error:
            raise BundleError(f"{place} cannot be read ({error.strerror})") from None
        return context
