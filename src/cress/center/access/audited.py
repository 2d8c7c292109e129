"""The audit of requests: ASGI middleware around the whole API, so that every call is covered."""

from __future__ import annotations

import itertools
import secrets
import time

from cress.center.keeping.audit import Audit
from cress.center.web.asgi import App, Message, Receive, Scope, Send, address_of
from cress.protocol.access_views import AuditEntry

REFUSED = frozenset({401, 403, 429})
# Prefixes of paths whose calls administer the cluster unless they only read.
ADMINISTRATIVE = (
    "/v1/nodes/",
    "/v1/rebalance",
    "/v1/reservations",
    "/v1/groups",
    "/v1/config",
    "/v1/users",
    "/v1/tokens",
    "/v1/join",
    "/v1/login",
    "/v1/secret",
)
MOST_PATH = 300


class Audited:
    """Gives every request an id, and writes refused and administrative requests before the answer is sent."""

    def __init__(self, app: App, audit: Audit) -> None:
        self._app = app
        self._audit = audit
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and examine the status of its answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = f"{self._run}-{next(self._numbers)}"
        state = scope.setdefault("state", {})

        async def look(message: Message) -> None:
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request.encode())]
                if status in REFUSED or state.get("audited") or _administers(scope):
                    self._audit.write(_entry(scope, status, request))
            elif kind == "websocket.accept" and state.get("audited"):
                self._audit.write(_entry(scope, 101, request))
            await send(message)

        await self._app(scope, receive, look)


def _administers(scope: Scope) -> bool:
    return scope.get("method", "GET") not in ("GET", "HEAD") and scope["path"].startswith(ADMINISTRATIVE)


def _entry(scope: Scope, status: int, request: str) -> AuditEntry:
    state = scope["state"]
    caller = state.get("caller")
    address = address_of(scope)
    if caller is None and state.get("peer") is not None:
        address = f"local, account {state['peer']}"
    return AuditEntry(
        at=time.time(),
        user=caller.user if caller else "",
        how=caller.how if caller else "",
        address=address,
        what=f"{scope.get('method', 'GET')} {scope['path'][:MOST_PATH]}",
        status=status,
        request=request,
        why=str(state.get("audited") or ""),
    )
