"""Signed requests at the center: sessions of clients, and acceptance of each request once.

Times and random bytes are arguments.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from typing import NamedTuple

from cress.model.times import SECOND
from cress.protocol.proof import ProofError, mac, nonce_of
from cress.protocol.signatures import SessionKey, Signature, center_proof, parse

# Time (µs) within which a client must use the center's nonce for the first time.
FRESH = 60 * SECOND
# Range of request numbers of a session that may arrive out of order.
WINDOW = 1_024
MOST_SESSIONS = 4_096
# Parts of a nonce in bytes: time, random bytes, and the center's own MAC of both.
_TIME, _RANDOM, _MAC = 8, 8, 16


class Stale(ProofError):
    """The session is no longer known; the client must begin another one."""


class Accepted(NamedTuple):
    """An accepted request: its signature, and its session."""

    signature: Signature
    session: SessionKey


class _Known:
    """A session in use: its accepted numbers, as a window of bits below ``highest``."""

    def __init__(self, session: SessionKey, issued: int) -> None:
        self.session = session
        self.issued = issued
        self._highest = 0
        self._seen = 0

    def accept(self, number: int) -> None:
        """Accept a number once. Raises ProofError."""
        if number > self._highest:
            ahead = number - self._highest
            self._seen = (self._seen << ahead if ahead < WINDOW else 0) & ((1 << WINDOW) - 1)
            self._highest = number
        behind = self._highest - number
        if behind >= WINDOW or self._seen >> behind & 1:
            raise ProofError("the request was sent before")
        self._seen |= 1 << behind


class SignedRequests:
    """Checks signed requests. ``own`` are random bytes of this run of the center, ``token`` is the clients' token."""

    def __init__(self, token: str, own: bytes) -> None:
        self._token = token
        self._own = own
        self._sessions: OrderedDict[tuple[bytes, bytes], _Known] = OrderedDict()
        self._forgotten = -1  # the time of issue of the newest forgotten session: older ones cannot begin again

    def prove(self, nonce: str, random: bytes, now: int) -> str:
        """Return the center's answer to a client's nonce. Raises ProofError. Nothing is kept."""
        theirs = nonce_of(nonce)
        said = now.to_bytes(_TIME, "big") + random[:_RANDOM]
        return center_proof(self._token, theirs, said + self._seal(theirs, said))

    def accept(self, header: str, method: str, target: str, key: str, now: int) -> Accepted:
        """Accept a request whose body has the digest of its signature. Raises ProofError, and Stale."""
        signature = parse(header)
        name = signature.theirs, signature.ours
        known = self._sessions.get(name) or self._begun(signature, now)
        known.session.check(signature, method, target, key)
        known.accept(signature.number)
        self._sessions[name] = known
        self._sessions.move_to_end(name)
        if len(self._sessions) > MOST_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            self._forgotten = max(self._forgotten, oldest.issued)
        return Accepted(signature, known.session)

    def _begun(self, signature: Signature, now: int) -> _Known:
        said, seal = signature.ours[: _TIME + _RANDOM], signature.ours[_TIME + _RANDOM :]
        issued = int.from_bytes(said[:_TIME], "big")
        if not hmac.compare_digest(seal, self._seal(signature.theirs, said)):
            raise Stale("the session is not one of this run of the center")
        if not self._forgotten < issued <= now <= issued + FRESH:
            raise Stale("the session is over")
        return _Known(SessionKey(self._token, signature.theirs, signature.ours), issued)

    def _seal(self, theirs: bytes, said: bytes) -> bytes:
        return mac(self._own, "api nonce", theirs, said)[:_MAC]
