"""Join tokens as texts: ``cressjoin_ID_PIN_SECRET``.

The pin is the fingerprint of the authority by which a node verifies its center.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "cressjoin_"


class JoinTokenText(NamedTuple):
    """The parts of a join token's text."""

    id: str
    pin: str
    secret: str


def join_token_text(id: str, pin: str, secret: str) -> str:
    """Return the text of a join token."""
    return f"{PREFIX}{id}_{pin}_{secret}"


def parsed_join_token(text: str) -> JoinTokenText | None:
    """Return the parts of a join token's text; None if the text is not a join token."""
    if not text.startswith(PREFIX):
        return None
    # The secret may contain underscores.
    parts = text.removeprefix(PREFIX).split("_", 2)
    return JoinTokenText(*parts) if len(parts) == 3 and all(parts) and len(parts[1]) == 64 else None


def fingerprint(pem: str) -> str:
    """Return the SHA-256 of a certificate, as hexadecimal digits. Raises ValueError."""
    # Imported only by those who join: every command imports this module, and ssl takes some 20 ms.
    import hashlib
    import ssl

    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
