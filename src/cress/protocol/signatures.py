"""Signed requests of the API: a client proves with each request that it knows the token, and never sends it.

A session begins with a nonce of each side; the center's proof comes with its nonce. Each request of the session has its
own number and a MAC over its content (docs/design/0009-mutual-proof.md). Pure: nonces are given.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from cress.protocol.proof import NONCE, VERSION, ProofError, Seals, mac, nonce_of

# The path for the center's proof, and the center's answer to an unknown session.
PATH = "/v1/proof"
SCHEME, STALE = "Cress", "Cress stale"
# Numbers of requests are below this.
MOST_NUMBER = 2**53
_FIELDS = ("session", "number", "body", "mac")


class Signature(NamedTuple):
    """The fields of a signed request: nonces of both sides, number, digest of the body, MAC."""

    theirs: bytes
    ours: bytes
    number: int
    body: str
    mac: str

    def text(self) -> str:
        """Return the value of the header ``Authorization``."""
        session = self.theirs.hex() + self.ours.hex()
        return f"{SCHEME} session={session}, number={self.number}, body={self.body}, mac={self.mac}"


def parse(text: str) -> Signature:
    """Return the signature in the header ``Authorization``. Raises ProofError."""
    scheme, _, rest = text.partition(" ")
    fields = dict(word.partition("=")[::2] for word in rest.split(", "))
    if scheme != SCHEME or tuple(fields) != _FIELDS:
        raise ProofError(f"the signature is not '{SCHEME} session=…, number=…, body=…, mac=…'")
    session, number = fields["session"], fields["number"]
    if not (number.isascii() and number.isdigit()) or len(number) > len(str(MOST_NUMBER)) or int(number) >= MOST_NUMBER:
        raise ProofError("the number of a request is a whole number below 2^53")
    theirs, ours = nonce_of(session[: 2 * NONCE]), nonce_of(session[2 * NONCE :])
    return Signature(theirs, ours, int(number), fields["body"], fields["mac"])


def digest(body: bytes) -> str:
    """Return the digest of a body."""
    return hashlib.sha256(body).hexdigest()


def center_proof(token: str, theirs: bytes, ours: bytes) -> str:
    """Return the header of the center's answer to a client's nonce ``theirs``."""
    return f"{VERSION} {ours.hex()} {mac(token.encode(), 'api center', theirs, ours).hex()}"


class SessionKey:
    """The key of a session with ``theirs``, the client's nonce, and ``ours``, the center's."""

    def __init__(self, token: str, theirs: bytes, ours: bytes) -> None:
        self._key = mac(token.encode(), "api key", theirs, ours)
        self._theirs, self._ours = theirs, ours

    def sign(self, number: int, method: str, target: str, key: str, body: bytes) -> str:
        """Return the header of a request; ``target`` is path and query, ``key`` its Idempotency-Key."""
        return Signature(
            self._theirs, self._ours, number, digest(body), self._mac(number, method, target, key, digest(body))
        ).text()

    def check(self, signature: Signature, method: str, target: str, key: str) -> None:
        """Raise ProofError unless a request was signed in this session."""
        expected = self._mac(signature.number, method, target, key, signature.body)
        if not hmac.compare_digest(expected.encode(), signature.mac.encode()):
            raise ProofError("the signature is not made with the center's token")

    def seals(self, number: int, *, client: bool) -> Seals:
        """Return the seals of the WebSocket opened by request ``number``."""
        up, down = (mac(self._key, label, number.to_bytes(8, "big")) for label in ("from client", "from center"))
        return Seals(up, down) if client else Seals(down, up)

    def _mac(self, number: int, method: str, target: str, key: str, body: str) -> str:
        fields = (method, target, key, str(number), body)
        return mac(self._key, "request", *(field.encode("utf-8", "surrogateescape") for field in fields)).hex()


def begin(token: str, theirs: bytes, answer: str | None) -> SessionKey:
    """Return the session from the center's answer to the nonce ``theirs``. Raises ProofError without a valid proof."""
    fields = (answer or "").split()
    if len(fields) != 3 or fields[0] != VERSION:
        raise ProofError("it did not prove that it knows the token")
    ours = nonce_of(fields[1])
    if not hmac.compare_digest(center_proof(token, theirs, ours).encode(), (answer or "").encode("utf-8", "replace")):
        raise ProofError("wrong cluster or wrong token")
    return SessionKey(token, theirs, ours)


def wrap(message: str | bytes) -> bytes:
    """Return a WebSocket message with its kind in front, to be sealed."""
    return b"t" + message.encode() if isinstance(message, str) else b"b" + message


def unwrap(data: bytes) -> str | bytes:
    """Return the WebSocket message in opened data. Raises ProofError."""
    try:
        return data[1:].decode() if data[:1] == b"t" else data[1:]
    except UnicodeDecodeError:
        raise ProofError("a text that is not UTF-8") from None
