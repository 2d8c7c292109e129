"""The center's end of a connection to an executor: TLS with its certificate, or mutual proof and sealed messages."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from http import HTTPStatus
from weakref import WeakKeyDictionary

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response

from cress.center.tls.node_names import nodes_of
from cress.protocol.large_messages import LARGE
from cress.protocol.messages import MOST_BYTES
from cress.protocol.proof import HEADER, NONCE, CenterProof, ProofError, Seals

# Most bytes of the first message, before the executor has proven itself; later ones may have ``MOST_BYTES``.
MOST_UNPROVEN = 4096
# Seconds within which an executor must answer a ping.
ALIVE_TIMEOUT = 2.0


class Wire:
    """A connection to an executor.

    Over TLS ``certified`` are the nodes for which the executor's certificate is valid. Without TLS and ``seals`` the
    executor uses protocol 5 and has sent the token itself.
    """

    def __init__(
        self, connection: ServerConnection, seals: Seals | None, certified: frozenset[str] | None = None
    ) -> None:
        self.connection = connection
        self._seals = seals
        self.certified = certified

    @property
    def has_sent_token(self) -> bool:
        """True if the executor has sent the token instead of a proof."""
        return self._seals is None and self.certified is None

    @property
    def certificate(self) -> bytes:
        """The executor's certificate (DER); empty without TLS."""
        tls = self.connection.transport.get_extra_info("ssl_object")
        return b"" if tls is None else tls.getpeercert(binary_form=True) or b""

    async def receive(self) -> str | bytes:
        """Return the next message. Raises ConnectionClosed, and ProofError for one without the executor's seal."""
        data = await self.connection.recv()
        if self._seals is None:
            return data
        sealed = data if isinstance(data, bytes) else b""
        if len(sealed) < LARGE:
            return self._seals.into.open(sealed)
        # The digest of a large message takes milliseconds, in which the event loop goes on.
        return await asyncio.to_thread(self._seals.into.open, sealed)

    async def send(self, message: bytes) -> None:
        """Send a message; only one task may send. Raises ConnectionClosed."""
        await self.connection.send(message if self._seals is None else self._seals.out.seal(message))

    async def close(self, code: int, reason: str) -> None:
        """Close the connection."""
        await self.connection.close(code, reason)

    def abort(self) -> None:
        """Cut the connection without a closing handshake."""
        self.connection.transport.abort()

    async def is_alive(self) -> bool:
        """Return whether the executor answers a ping."""
        try:
            async with asyncio.timeout(ALIVE_TIMEOUT):
                await (await self.connection.ping())
        except (ConnectionClosed, TimeoutError):
            return False
        return True


class Handshake:
    """Admits executors with a certificate or the token, which they prove or, in protocol 5, send."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._bearer = f"Bearer {token}".encode()
        self._proofs: WeakKeyDictionary[ServerConnection, CenterProof] = WeakKeyDictionary()

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the refusal of a connection request; None to go on."""
        if _certified(connection) is not None:
            return None
        offered = request.headers.get_all(HEADER)
        if offered:
            try:
                proof = self._proofs[connection] = CenterProof(self._token, secrets.token_bytes(NONCE), offered[0])
            except ProofError as error:
                return connection.respond(HTTPStatus.BAD_REQUEST, f"{error}\n")
            _limit_until_proven(connection, proof)
            return None
        given = request.headers.get_all("Authorization")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "surrogateescape"), self._bearer):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no proof that the token is known\n")
        return None

    def answer(self, connection: ServerConnection, _: Request, response: Response) -> None:
        """Add the center's proof to the answer."""
        proof = self._proofs.get(connection)
        if proof is not None and response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers[HEADER] = proof.header

    async def admit(self, connection: ServerConnection) -> Wire:
        """Return the wire of a connection once the executor has proven itself.

        Raises ConnectionClosed and ProofError.
        """
        certified = _certified(connection)
        if certified is not None:
            return Wire(connection, None, certified)
        proof = self._proofs.pop(connection, None)
        if proof is None:
            return Wire(connection, None)
        first = await connection.recv()
        seals = proof.check(first if isinstance(first, bytes) else b"")
        return Wire(connection, seals)


def _certified(connection: ServerConnection) -> frozenset[str] | None:
    """Return the nodes for which the client's certificate is valid; None without TLS."""
    tls = connection.transport.get_extra_info("ssl_object")
    return None if tls is None else nodes_of(tls.getpeercert() or {})


def _limit_until_proven(connection: ServerConnection, proof: CenterProof) -> None:
    """Admit only small messages until the first one has proven that the executor knows the token.

    The next message may have arrived together with the first one, so the limit is lifted while frames are read, and
    not when the task of the connection sees the proof.
    """
    protocol = connection.protocol
    take = protocol.recv_frame

    def take_first(frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.TEXT):
            protocol.recv_frame = take  # type: ignore[method-assign]
            with contextlib.suppress(ProofError):
                proof.check(bytes(frame.data))
                protocol.max_message_size = MOST_BYTES
        take(frame)

    protocol.max_message_size = MOST_UNPROVEN
    protocol.recv_frame = take_first  # type: ignore[method-assign]
