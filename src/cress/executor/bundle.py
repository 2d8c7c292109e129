"""The executor's bundle: its certificate and key, and the authority by which it knows its center. Read again for each connection."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
# Turns of both sides in a handshake, at most.
STEPS = 3


class BundleError(Exception):
    """The bundle cannot be used; the sentence says why."""


class Bundle:
    """The bundle in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def context(self) -> ssl.SSLContext:
        """Return a context with the files as they are now. Raises BundleError."""
        return self._context(self.folder / CERTIFICATE)

    def fault(self) -> str:
        """Return why the certificate does not hold for the bundle's own authority (it has expired, say); empty if it does.

        The center's library closes the connection without saying so: this is a handshake with itself, in memory.
        """
        near, far = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        near.check_hostname, near.verify_mode, far.verify_mode = False, ssl.CERT_NONE, ssl.CERT_REQUIRED
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            for context in (near, far):
                context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY, password="")
            far.load_verify_locations(self.folder / AUTHORITY)
            ends = near.wrap_bio(back, there), far.wrap_bio(there, back, server_side=True)
            for _ in range(STEPS):
                for end in ends:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        end.do_handshake()
        except ssl.SSLError as error:
            return reason(error)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def keep(self, pem: bytes) -> None:
        """Store the next certificate, which must be one for the key of the bundle. Raises BundleError."""
        fresh = self.folder / f".{CERTIFICATE}.{os.getpid()}"
        try:
            fresh.unlink(missing_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(pem)
                    file.flush()
                    os.fsync(file.fileno())
                self._context(fresh)
                fresh.replace(self.folder / CERTIFICATE)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as error:
            raise BundleError(f"the new certificate cannot be stored in {self.folder} ({error.strerror})") from None

    def _context(self, certificate: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        place = self.folder / AUTHORITY
        try:
            context.load_verify_locations(place)
            place = self.folder / KEY
            if place.stat().st_mode & 0o077:
                raise BundleError(f"others may read the key {place} (chmod 600 {place})")
            place = certificate
            # Without a password the library would ask for one on the terminal.
            context.load_cert_chain(certificate, self.folder / KEY, password="")
        except ssl.SSLError as error:
            raise BundleError(f"{place} cannot be used ({reason(error)})") from None
        except OSError as error:
            raise BundleError(f"{place} cannot be read ({error.strerror})") from None
        return context


def reason(error: ssl.SSLError) -> str:
    """Return what the library says was wrong, as words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower()
