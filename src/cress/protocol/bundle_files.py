"""The bundle of an executor as files in a folder, and messages about wrong certificates."""

from __future__ import annotations

import ssl

# The certificate of the authority, that of the node, and its key.
BUNDLE_CA, BUNDLE_CERTIFICATE, BUNDLE_KEY = "ca.pem", "cert.pem", "key.pem"


def tls_reason(error: ssl.SSLError) -> str:
    """Return the reason in an error of the TLS library as words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower()
