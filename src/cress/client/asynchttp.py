"""HTTP calls to a center for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import httpx

from cress.client import calls
from cress.client.calls import Call, T
from cress.client.errors import Elsewhere
from cress.client.http import CONNECT_SECONDS, CONNECTIONS, LOG_SECONDS, answer_in, refusal_of, told
from cress.client.leader import LeaderClient, elsewhere, no_leader, pauses
from cress.protocol.logs import Piece

if TYPE_CHECKING:
    from cress.client.execution import Command


class AsyncHttp(LeaderClient):
    """A connection to a center, for one event loop."""

    _opened: tuple[httpx.AsyncClient, ...] = ()

    def _open(self) -> None:
        route = self._open_route()
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self._http = httpx.AsyncClient(
            base_url=route.url,
            headers=route.headers,
            auth=route.auth,
            timeout=self._timeouts(0.0),
            trust_env=False,
            transport=httpx.AsyncHTTPTransport(
                verify=route.tls, uds=route.socket or None, limits=limits, trust_env=False
            ),
        )
        self._opened += (self._http,)

    async def aclose(self) -> None:
        """Close the connections."""
        for each in self._opened:
            await each.aclose()
        self._closing.close()

    async def ask(self, call: Call[T]) -> T:
        """The answer to one call."""
        content, headers = calls.content_of(call)
        for pause in pauses():
            await asyncio.sleep(pause)
            with told(self.url, self.timeout, self._advice):
                answer = await self._http.request(
                    call.method,
                    call.path,
                    params=calls.query_of(call.query),
                    content=content,
                    headers=headers,
                    timeout=self._timeouts(call.wait),
                )
            try:
                return answer_in(answer, call, self.url)
            except Elsewhere as moved:
                self._follow(moved)
        raise no_leader()

    def begin_exec(self, id: int, command: Sequence[str], task: int, environment: Mapping[str, str] | None) -> Command:
        """Begin a command in a running task, with pipes; blocks, so it belongs into a thread."""
        from cress.client.execution import run_inside

        path = f"/v1/jobs/{id}/tasks/{task}/exec"
        given = environment or {}

        def begin() -> Command:
            with told(self.url, self.timeout, self._advice):
                return run_inside(self._route, path, command, environment=given, terminal=None, advice=self._advice)

        return self._following(begin)

    async def read(self, call: Call[bytes], *, follow: bool) -> AsyncIterator[Piece]:
        """A log piece by piece; ``follow``: with signs of life while there is nothing to say."""
        budget = httpx.Timeout(self.timeout, connect=CONNECT_SECONDS, read=LOG_SECONDS if follow else self.timeout)
        query = calls.query_of(call.query)
        pieces = calls.Pieces()
        for pause in pauses():
            await asyncio.sleep(pause)
            with told(self.url, self.timeout, self._advice):
                async with self._http.stream(call.method, call.path, params=query, timeout=budget) as answer:
                    moved = elsewhere(answer.status_code, answer.headers)
                    if moved is None:
                        if answer.status_code != httpx.codes.OK:
                            await answer.aread()
                            raise refusal_of(answer)
                        async for data in answer.aiter_bytes():
                            for piece in pieces.feed(data):
                                yield piece
                        return
            self._follow(moved)
        raise no_leader()

    def _timeouts(self, wait: float) -> httpx.Timeout:
        return httpx.Timeout(self.timeout + wait, connect=CONNECT_SECONDS)
