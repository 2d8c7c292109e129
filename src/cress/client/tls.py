"""TLS of a client: the trusted authority, and messages for failures."""

from __future__ import annotations

import ssl
from pathlib import Path

from cress.client.errors import ClientError, Unproven, Unreachable
from cress.model.errors import InputError
from cress.protocol.bundle_files import tls_reason
from cress.protocol.regular_files import check_regular


def trusting(ca: Path | None) -> ssl.SSLContext:
    """Return a context that trusts one authority; None: those of the system. Raises InputError."""
    try:
        if ca is not None:
            check_regular(ca)
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise InputError(
            "there is no certificate in it", hint="the ca.pem of the center, a PEM file", file=str(ca)
        ) from None
    except OSError as error:
        raise InputError(f"the center's authority cannot be read: {error.strerror}", file=str(ca)) from None


def tls_error(error: BaseException, url: str) -> ClientError | None:
    """Return the error for a failed TLS handshake; None if the connection failed for another reason."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, ssl.SSLError):
        inner = inner.__cause__ or inner.__context__
    if inner is None:
        return None
    if isinstance(inner, ssl.SSLCertVerificationError):
        return Unproven(
            f"the server at {url} is not a known center: its certificate is not valid here "
            f"({tls_reason(inner)}); "
            "nothing was sent to it. CRESS_CA names the file with the center's authority, ca.pem of its data "
            "directory (docs/tls.md)"
        )
    reason = tls_reason(inner)
    if "version number" in reason or "record layer" in reason:
        return Unreachable(f"the server at {url} does not speak TLS; for a center without TLS use http://")
    return Unreachable(f"no secure connection to the center at {url} ({reason})")
