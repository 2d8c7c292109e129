"""Mutual proof of a shared secret, and messages sealed with it (docs/design/0009-mutual-proof.md).

Pure: nonces are given. The executor begins: ``ExecutorProof`` offers a nonce, ``CenterProof`` answers it, and both give
the ``Seals`` of the connection. Requests of the API are signed instead (``signatures``).
"""

from __future__ import annotations

import hmac

NONCE = 32
TAG = 16
VERSION = "1"
# The header of the upgrade and of its answer.
HEADER = "Cress-Proof"


class ProofError(Exception):
    """The other side has not proven that it knows the secret; the message says what is wrong."""


def mac(secret: bytes, label: str, *parts: bytes) -> bytes:
    """Return the HMAC-SHA256 over a label and parts; no two sequences of parts give the same input."""
    data = b"".join(len(part).to_bytes(8, "big") + part for part in (label.encode(), *parts))
    return hmac.digest(secret, data, "sha256")


class Seal:
    """Seals the messages of one direction, or opens them; a counter makes each seal valid in one place only."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def seal(self, message: bytes) -> bytes:
        """Return the next message with its tag in front."""
        return self._tag(message) + message

    def open(self, sealed: bytes) -> bytes:
        """Return the message in a sealed one. Raises ProofError unless it is the next one from the other side."""
        message = sealed[TAG:]
        if not hmac.compare_digest(self._tag(message), sealed[:TAG]):
            raise ProofError("a message without a valid seal")
        return message

    def _tag(self, message: bytes) -> bytes:
        count, self._count = self._count, self._count + 1
        return hmac.digest(self._key, count.to_bytes(8, "big") + message, "sha256")[:TAG]


class Seals:
    """The two directions of a connection: ``out`` seals, ``into`` opens."""

    def __init__(self, out: bytes, into: bytes) -> None:
        self.out = Seal(out)
        self.into = Seal(into)


class ExecutorProof:
    """The executor's side of a handshake with a fresh ``nonce``."""

    def __init__(self, secret: str, nonce: bytes) -> None:
        self._secret = secret.encode()
        self._nonce = nonce
        self.header = f"{VERSION} {nonce.hex()}"

    def check(self, header: str | None) -> tuple[bytes, Seals]:
        """Return the executor's own proof, its first message, and the seals, from the center's answer.

        Raises ProofError.
        """
        fields = (header or "").split()
        if len(fields) != 3 or fields[0] != VERSION:
            raise ProofError("it did not prove that it knows the token")
        nonce, proof = nonce_of(fields[1]), fields[2]
        expected = mac(self._secret, "center", self._nonce, nonce).hex()
        if not hmac.compare_digest(expected.encode(), proof.encode("utf-8", "replace")):
            raise ProofError("wrong cluster or wrong token")
        own = mac(self._secret, "executor", self._nonce, nonce)
        return own, Seals(*_keys(self._secret, "from executor", "from center", self._nonce, nonce))


class CenterProof:
    """The center's side of a handshake: the answer to an executor's header, with a fresh ``nonce``."""

    def __init__(self, secret: str, nonce: bytes, offered: str) -> None:
        """Raises ProofError if ``offered`` is not the header of an executor."""
        fields = offered.split()
        if len(fields) != 2 or fields[0] != VERSION:
            raise ProofError(f"{HEADER} is not '{VERSION} NONCE'")
        self._secret = secret.encode()
        self._theirs, self._nonce = nonce_of(fields[1]), nonce
        self.header = f"{VERSION} {nonce.hex()} {mac(self._secret, 'center', self._theirs, nonce).hex()}"

    def check(self, proof: bytes) -> Seals:
        """Return the seals of the connection for the executor's first message. Raises ProofError."""
        if not hmac.compare_digest(mac(self._secret, "executor", self._theirs, self._nonce), proof):
            raise ProofError("its proof is not made with the center's token")
        return Seals(*_keys(self._secret, "from center", "from executor", self._theirs, self._nonce))


def _keys(secret: bytes, out: str, into: str, theirs: bytes, ours: bytes) -> tuple[bytes, bytes]:
    return mac(secret, out, theirs, ours), mac(secret, into, theirs, ours)


def nonce_of(text: str) -> bytes:
    """Return a nonce from its hexadecimal digits. Raises ProofError."""
    try:
        nonce = bytes.fromhex(text)
    except ValueError:
        nonce = b""
    if len(nonce) != NONCE or len(text) != 2 * NONCE:
        raise ProofError(f"a nonce is {NONCE} bytes in hexadecimal digits")
    return nonce
