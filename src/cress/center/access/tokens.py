"""Tokens as texts: ``cress_ID_SECRET``. The center keeps only a digest of the secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import NamedTuple

from cress.protocol.join_tokens import join_token_text

PREFIX = "cress_"
_ID = 6
_SECRET = 32


class Fresh(NamedTuple):
    """A new token: its id, the digest that is kept, and the text, which is shown once."""

    id: str
    digest: bytes
    text: str


def fresh() -> Fresh:
    """Return a new token of 256 random bits."""
    id, secret = secrets.token_hex(_ID), secrets.token_urlsafe(_SECRET)
    return Fresh(id, _digest(secret), f"{PREFIX}{id}_{secret}")


def fresh_join(pin: str) -> Fresh:
    """Return a new join token of 256 random bits; ``pin`` is the fingerprint of the center's authority."""
    id, secret = secrets.token_hex(_ID), secrets.token_urlsafe(_SECRET)
    return Fresh(id, _digest(secret), join_token_text(id, pin, secret))


def id_in(text: str) -> str:
    """Return the id in a token's text; empty if the text is not a token."""
    kind, _, rest = text.partition("_")
    id, _, secret = rest.partition("_")
    return id if kind + "_" == PREFIX and len(id) == 2 * _ID and secret else ""


def opens(text: str, digest: bytes) -> bool:
    """Return whether the secret in a token's text has this digest."""
    return has_digest(text.split("_", 2)[-1], digest)


def has_digest(secret: str, digest: bytes) -> bool:
    """Return whether a secret has this digest."""
    return hmac.compare_digest(_digest(secret), digest)


def _digest(secret: str) -> bytes:
    # 256 random bits cannot be guessed, so the digest needs no salt and no slow hash.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
