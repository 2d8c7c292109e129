"""The outermost layer of the portal: it checks where a request comes from, and what an answer may do in a browser."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send


# Scripts, styles and pictures come from the portal alone, and no page of another host can show it in a frame.
def policy(*, style_nonce: str = "") -> str:
    """Return the content security policy of a page; with ``style_nonce`` it may have style elements with that nonce."""
    styles = f"'self' 'nonce-{style_nonce}'" if style_nonce else "'self'"
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


HEADERS = (
    (b"content-security-policy", policy().encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With ``no-referrer`` browsers would send forms with ``Origin: null``.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
SAFE = ("GET", "HEAD")
# The opening of a WebSocket is checked like a change.
OPENS = "WEBSOCKET"
# Relations of the page that sent a request to the portal; ``none`` is an address that was typed or clicked.
SAME = ("same-origin", "none")


class PortalGuard:
    """Refuses requests with a foreign ``Host``, and changes that a page of another origin sent."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or open one WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            # Browsers send cookies with the WebSockets of every page, so its origin must be told and be the portal.
            why = "no origin" if "origin" not in headers else self._refusal(OPENS, headers)
            if why:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": why})
                return
            await self._app(scope, receive, send)
            return
        why = self._refusal(scope["method"], headers)
        if why:
            await _refuse(send, why)
            return
        kept = scope["path"].startswith("/static/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = () if kept else ((b"cache-control", b"no-store"),)
                given = list(message.get("headers", ()))
                own = {name for name, _ in given}
                message["headers"] = [*given, *(header for header in (*HEADERS, *more) if header[0] not in own)]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: dict[str, str]) -> str:
        host = headers.get("host", "").lower()
        name = urlsplit(f"//{host}").hostname if host else None
        if name not in self._hosts:
            return f"{host[:100]!r} is not a name of this portal (cress portal --name adds one)"
        if method in SAFE:
            return ""
        origin = headers.get("origin", "")
        if origin and (urlsplit(origin).netloc.lower() != host):
            return "this request comes from a page of another origin"
        if headers.get("sec-fetch-site", "none") not in SAME:
            return "this request comes from a page of another site"
        return ""


async def _refuse(send: Send, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"refused: {why}\n".encode()})
