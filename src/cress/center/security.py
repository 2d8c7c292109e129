"""The guard of the API: Host, token, Content-Type and size of every request. Pure ASGI."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from cress.protocol.views import ErrorView, to_json

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 16 * 2**20
OPEN_PATHS = frozenset({"/v1/health"})
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Refuses requests that are not allowed.

    A web page in a browser on this machine can send requests to the center: through a host name that it points to this
    address (Host is checked), without a token (none is in a cookie), or as a form (Content-Type is checked).
    """

    def __init__(self, app: App, *, token: str, names: Iterable[str]) -> None:
        self._app = app
        self._token = b"Bearer " + token.encode()
        self._names = frozenset(name.lower().encode() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(scope)
            if refusal is not None:
                await _answer(send, *refusal, prefix="websocket." if scope["type"] == "websocket" else "")
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        host: list[bytes] = []
        given: list[bytes] = []
        kind, length, origin, body = b"", b"", b"", False
        for name, value in scope["headers"]:
            if name == b"host":
                host.append(value)
            elif name == b"authorization":
                given.append(value)
            elif name == b"content-type":
                kind = value
            elif name == b"content-length":
                length, body = value, value != b"0"
            elif name == b"transfer-encoding":
                body = True
            elif name == b"origin":
                origin = value
        if len(host) != 1 or _without_port(host[0].lower()) not in self._names:
            shown = host[0].decode("latin-1")[:100] if host else ""
            return 403, "forbidden", f"the center is not called {shown!r} (its address, or a name that it was given)"
        if scope["type"] == "websocket" and origin:
            # Browsers let a page open a WebSocket to any host.
            _, _, place = origin.lower().partition(b"://")
            if _without_port(place) not in self._names:
                return 403, "forbidden", f"a page of {origin.decode('latin-1')[:100]!r} may not connect to the center"
        if scope["path"] not in OPEN_PATHS and not (len(given) == 1 and hmac.compare_digest(given[0], self._token)):
            what = "wrong token" if given else "no token"
            return (
                401,
                "unauthorized",
                f"{what} (Authorization: Bearer TOKEN, from the file token in the data directory)",
            )
        if body and kind.split(b";")[0].strip().lower() != b"application/json":
            return 415, "unsupported", "the body is not application/json (Content-Type: application/json)"
        if length and (not length.isdigit() or int(length) > MOST_BODY):
            return 413, "too_large", f"the body has more than {MOST_BODY // 2**20} MB"
        return None


def _without_port(host: bytes) -> bytes:
    if host.startswith(b"["):
        end = host.find(b"]")
        rest = host[end + 1 :]
        return host[: end + 1] if end > 0 and (not rest or (rest[:1] == b":" and rest[1:].isdigit())) else b""
    name, colon, port = host.partition(b":")
    return name.removesuffix(b".") if not colon or port.isdigit() else b""


async def _answer(send: Send, status: int, code: str, message: str, *, prefix: str = "") -> None:
    body = to_json(ErrorView(code=code, message=message))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 413:
        # The rest of the body is not read.
        headers.append((b"connection", b"close"))
    await send({"type": prefix + "http.response.start", "status": status, "headers": headers})
    await send({"type": prefix + "http.response.body", "body": body})
