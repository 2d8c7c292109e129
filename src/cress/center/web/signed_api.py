"""Signed requests at the API's guard: the center's proof, bodies checked before use, sealed WebSockets."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time

from cress.center.web.asgi import Message, Receive, Scope, Send
from cress.protocol.proof import HEADER, NONCE, ProofError, Seals
from cress.protocol.signatures import PATH, digest, unwrap, wrap
from cress.shell.center.signed_requests import Accepted, SignedRequests


class SignedApi:
    """The center's side of signed requests, for ASGI."""

    def __init__(self, token: str) -> None:
        self._requests = SignedRequests(token, secrets.token_bytes(NONCE))

    async def prove(self, scope: Scope, send: Send) -> None:
        """Answer a client that requests the center's proof. Raises ProofError."""
        nonce = scope["query_string"].decode("latin-1").removeprefix("nonce=")
        answer = self._requests.prove(nonce, secrets.token_bytes(NONCE), _now())
        headers = [(HEADER.lower().encode(), answer.encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def accept(self, scope: Scope, authorization: bytes) -> Accepted:
        """Accept a signed request, whose body remains to be checked. Raises ProofError."""
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        keys = [value for name, value in scope["headers"] if name == b"idempotency-key"]
        return self._requests.accept(
            authorization.decode("latin-1"),
            scope.get("method", "GET"),
            target.decode("latin-1"),
            keys[0].decode("latin-1") if keys else "",
            _now(),
        )


def is_proof(scope: Scope) -> bool:
    """Return whether this is the call for the center's proof."""
    return bool(scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == PATH)


async def checked_body(accepted: Accepted, receive: Receive, most: int) -> Receive:
    """Read the body of a request, and return a ``receive`` for it. Raises ProofError if it was not signed."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= most:
        message = await receive()
        if message["type"] != "http.request":
            break  # the client has disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    body = b"".join(parts)
    # A body that is too large is not read to its end, and its reader refuses it.
    if size <= most and not hmac.compare_digest(digest(body).encode(), accepted.signature.body.encode()):
        raise ProofError("the body is not the one that was signed")
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": more}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def sealed(accepted: Accepted, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return ``receive`` and ``send`` of a WebSocket whose messages are sealed on the wire."""
    seals = accepted.session.seals(accepted.signature.number, client=False)
    turn = asyncio.Lock()

    async def open_next() -> Message:
        message = await receive()
        if message["type"] != "websocket.receive":
            return message
        return _opened(seals, message.get("bytes") or b"")

    async def seal(message: Message) -> None:
        if message["type"] != "websocket.send":
            await send(message)
            return
        text = message.get("text")
        async with turn:
            data = seals.out.seal(wrap(message["bytes"] if text is None else text))
            await send({"type": "websocket.send", "bytes": data})

    return open_next, seal


def _opened(seals: Seals, data: bytes) -> Message:
    try:
        message = unwrap(seals.into.open(data))
    except ProofError:
        return {"type": "websocket.disconnect", "code": 1008, "reason": "a message without a valid seal"}
    if isinstance(message, str):
        return {"type": "websocket.receive", "text": message}
    return {"type": "websocket.receive", "bytes": message}


def _now() -> int:
    return time.monotonic_ns() // 1000
