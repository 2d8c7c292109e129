"""Open answers (events, followed logs, commands): they end when their caller's credential or rights change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cress.center.access.callers import Callers
from cress.center.access.rights import Caller, Sight
from cress.center.web.asgi import App, Message, Receive, Scope, Send

# Seconds between two checks, and for a command to end by itself.
EVERY, GRACE = 1.0, 2.0
REASON = "the credential of this connection was revoked, has expired, or its rights were changed"


@dataclass(eq=False, slots=True)
class _Open:
    """An open answer; ``over`` is done when it must end."""

    scope: Scope
    caller: Caller
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class OpenAnswers:
    """The open answers; the rights of their callers are checked every second."""

    def __init__(self, callers: Callers, every: float = EVERY) -> None:
        self._callers = callers
        self._every = every
        self._open: set[_Open] = set()
        self._looking: asyncio.Task[None] | None = None

    async def answer(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request until its caller loses the right to the answer."""
        caller: Caller | None = scope["state"].get("caller")
        goes_on = scope["type"] == "websocket" or scope.get("method") == "GET"
        if caller is None or not goes_on or self._callers.is_lasting(caller):
            await app(scope, receive, send)
            return
        opened = _Open(scope, caller)
        self._open.add(opened)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="open answers")
        try:
            await app(scope, _until(receive, opened) if scope["type"] == "websocket" else receive, send)
        finally:
            self._open.discard(opened)

    async def _look(self) -> None:
        while self._open:
            await asyncio.sleep(self._every)
            sights: dict[Caller, Sight] = {}
            for answer in list(self._open):
                if not answer.over.done() and not self._is_valid(answer, sights):
                    self._end(answer)
        self._looking = None

    def _is_valid(self, opened: _Open, sights: dict[Caller, Sight]) -> bool:
        if self._callers.renewed(opened.caller) != opened.caller:
            return False
        seen = opened.scope["state"].get("sight")
        if seen is None:
            return True
        if opened.caller not in sights:
            sights[opened.caller] = self._callers.sight(opened.caller)
        return bool(sights[opened.caller] == seen)

    def _end(self, opened: _Open) -> None:
        opened.over.set_result(None)
        abort = opened.scope["state"].get("abort")
        if abort is None:
            return
        if opened.scope["type"] == "websocket":
            asyncio.get_running_loop().call_later(GRACE, abort)
        else:
            # The connection is cut, since a part of an answer must not look complete.
            abort()


def _until(receive: Receive, opened: _Open) -> Receive:
    """Return a ``receive`` that reports a closed connection when the answer must end."""

    async def heard() -> Message:
        if not opened.over.done():
            message = asyncio.ensure_future(receive())
            try:
                await asyncio.wait((message, opened.over), return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    return message.result()
            finally:
                message.cancel()
        return {"type": "websocket.disconnect", "code": 1008, "reason": REASON}

    return heard
