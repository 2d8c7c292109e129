"""Routing between leader and standbys, and the age limits of reads. ASGI middleware.

A standby answers lists and explanations from its own state, and redirects all other requests to the leader.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, quote

from cress.center.committing.committer import NotStored
from cress.center.leader.failover import PATIENCE, Failover
from cress.center.web.asgi import App, Message, Receive, Scope, Send
from cress.protocol.calls import cluster_calls, job_calls, lease_calls
from cress.protocol.calls.row import CallRow
from cress.protocol.centers import AGE, LEADER, STALE
from cress.protocol.signatures import PATH
from cress.protocol.views import ErrorView, to_json

# Paths that every center answers itself.
OWN = frozenset(
    (
        "/v1/health", "/v1/centers", "/v1/centers/history", "/v1/ca", "/openapi.json", "/docs", "/metrics",
        "/v1/schema", PATH,
    )
)  # fmt: skip
# Calls whose answers may be slightly out of date unless the request says otherwise. Explanations take long, and a fork:
# standbys have the time for them.
LISTS = (
    job_calls.JOBS, cluster_calls.NODES, cluster_calls.GROUPS, cluster_calls.USAGE, cluster_calls.STATE,
    lease_calls.LICENCES, lease_calls.RESERVATIONS,
)  # fmt: skip
EXPLANATIONS = (job_calls.EXPLAIN, cluster_calls.EXPLAIN_GROUP, cluster_calls.EXPLAIN_NODE)
# Data that only the leader has.
LEADERS = re.compile(r"/v1/names/.*|/v1/jobs/[^/]+/(logs|files.*)|/v1/uploads.*")
# Seconds for which a read waits for confirmation of the lead; after that the answer states its age.
CERTAIN = 3.0
NO_LEADER = "no center leads at the moment; try again"


def _paths(calls: Iterable[CallRow[Any]]) -> re.Pattern[str]:
    """Return a pattern of the paths of these calls."""
    return re.compile("|".join(re.sub(r"\{\w+\}", "[^/]+", call.path) for call in calls))


_LISTS, _EXPLANATIONS = _paths(LISTS), _paths(EXPLANATIONS)


class LeaderRouting:
    """Answers a request, or redirects it to the center that can.

    ``?stale=ok`` lets a standby answer any GET. The header ``Cress-Age`` of its answers gives their greatest age in
    seconds. A leader whose lead the servers of the store have not confirmed for some time does the same.

    ``?stale=no`` lets only the leader answer, and only with stored state. Without it an answer may show a change that
    is being stored, before its caller has an answer. ``stored`` returns when everything that a reader can have seen is
    stored, or raises NotStored.
    """

    def __init__(self, app: App, failover: Failover, stored: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._failover = failover
        self._stored = stored

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, pass it on, or redirect it."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in OWN:
            await self._app(scope, receive, send)
            return
        wish = _wish(scope["query_string"])
        if wish not in ("", "ok", "no"):
            message = f"stale: {wish[:20]!r} is not ok or no (whether the answer may come from a center that stands by)"
            await _answer(scope, send, 422, ErrorView(code="bad_input", message=message), {})
            return
        if not self._failover.is_shared:
            await self._app(scope, receive, self._if_leader(scope, wish, send) if wish == "no" else send)
            return
        if not self._failover.leads and _may_be_stale(scope, wish):
            told = self._with_age(send)
            if not wish and _EXPLANATIONS.fullmatch(scope["path"]):
                told = self._unless_missing(scope, told, send)
            await self._app(scope, receive, told)
            return
        leader = await self._failover.settled()
        if self._failover.leads and _reads(scope):
            patience = 0.0 if _may_be_stale(scope, wish) else PATIENCE if wish == "no" else CERTAIN
            await self._failover.confirmed(patience)
            leader = await self._failover.settled()
        if self._failover.leads and not _reads(scope):
            await self._failover.ready()
            leader = await self._failover.settled()
        if not self._failover.leads:
            await self._redirect(scope, send, leader)
        elif not self._failover.age or not _reads(scope):
            await self._app(scope, receive, self._if_leader(scope, wish, send))
        elif wish == "no":
            await self._redirect(scope, send, "")
        elif _may_be_stale(scope, wish):
            await self._app(scope, receive, self._with_age(send))
        else:
            # An answer can state its age; an error that something does not exist cannot.
            await self._app(scope, receive, self._with_age(self._if_leader(scope, wish, send)))

    def _with_age(self, send: Send) -> Send:
        async def told(message: Message) -> None:
            if message["type"].endswith("response.start"):
                headers = {AGE: f"{self._failover.age:.3f}", LEADER: self._failover.leader}
                message["headers"] = [*message.get("headers", ()), *_encoded(headers)]
            await send(message)

        return told

    def _unless_missing(self, scope: Scope, told: Send, send: Send) -> Send:
        """Return a ``told`` that redirects refusals: what this standby does not know yet, the leader may know."""
        dropped = False

        async def answer(message: Message) -> None:
            nonlocal dropped
            if message["type"].endswith("response.start") and 400 <= message["status"] < 500:
                dropped = True
                await self._redirect(scope, send, await self._failover.settled())
            if not dropped:
                await told(message)

        return answer

    def _if_leader(self, scope: Scope, wish: str, send: Send) -> Send:
        """Return a ``send`` that redirects the answers of a center that may have lost the lead without knowing it.

        A stored change proves that this center leads. Refusals and reads come from its own state alone.
        """
        strict, failover = wish == "no" and _reads(scope), self._failover
        dropped = False

        async def told(message: Message) -> None:
            nonlocal dropped
            if message["type"].endswith("response.start"):
                status, leader = message["status"], ""
                if status == 503 and failover.is_changing:
                    leader = await failover.settled()
                    dropped = bool(leader) and not failover.leads
                elif strict or 400 <= status < 500:
                    dropped = not await failover.confirmed(CERTAIN)
                    leader = await failover.settled() if dropped else ""
                if dropped:
                    await self._redirect(scope, send, "" if failover.leads else leader)
                elif strict:
                    dropped = await self._refused(scope, send)
            if not dropped:
                await send(message)

        return told

    async def _refused(self, scope: Scope, send: Send) -> bool:
        """Wait until the state that an answer shows is stored; if it never is, refuse the answer and return True."""
        try:
            await self._stored()
        except NotStored as error:
            view = ErrorView(code="unavailable", message=f"what this would have shown was not stored: {error}")
            await _answer(scope, send, 503, view, {"Retry-After": "1"})
            return True
        return False

    async def _redirect(self, scope: Scope, send: Send, leader: str) -> None:
        if not leader:
            view = ErrorView(code="unavailable", message=NO_LEADER)
            await _answer(scope, send, 503, view, {"Retry-After": "1"})
            return
        target: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        query: bytes = scope["query_string"]
        place = leader + (target + (b"?" + query if query else b"")).decode("ascii", errors="replace")
        view = ErrorView(code="elsewhere", message=f"this center stands by; the one at {leader} leads")
        await _answer(scope, send, 307, view, {"Location": place, LEADER: leader})


def _wish(query: bytes) -> str:
    """Return the ``stale`` value of a query; empty if it has none."""
    if STALE.encode() not in query:
        return ""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return next((value or "ok" for name, value in pairs if name == STALE), "")


def _reads(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")


def _may_be_stale(scope: Scope, wish: str) -> bool:
    reads = _reads(scope)
    if wish == "ok":
        return reads and LEADERS.fullmatch(scope["path"]) is None
    path = scope["path"]
    return reads and not wish and (_LISTS.fullmatch(path) is not None or _EXPLANATIONS.fullmatch(path) is not None)


async def _answer(scope: Scope, send: Send, status: int, view: ErrorView, headers: dict[str, str]) -> None:
    prefix = "websocket." if scope["type"] == "websocket" else ""
    body = to_json(view)
    # The body of the request may still be on its way: if the connection were closed now, it could be reset before the
    # answer is read.
    told = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    start: dict[str, Any] = {"type": prefix + "http.response.start", "status": status, "headers": _encoded(told)}
    await send(start)
    await send({"type": prefix + "http.response.body", "body": body})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1", errors="replace")) for name, value in headers.items()]
