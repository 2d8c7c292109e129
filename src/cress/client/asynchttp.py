"""HTTP calls to a center for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from cress.client import calls
from cress.client.calls import Call, T
from cress.client.config import Address, address_again
from cress.client.http import ANSWER_SECONDS, CONNECT_SECONDS, CONNECTIONS, refusal_of, told
from cress.client.route import Route
from cress.protocol.logs import Piece

if TYPE_CHECKING:
    from cress.client.execution import Command


class AsyncHttp:
    """A connection to a center, for one event loop; ``find`` says where the center is when it may have moved."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout: float = ANSWER_SECONDS,
        advice: str = "",
        find: Callable[[], Address] | None = None,
        socket: Path | None = None,
        ca: Path | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._advice = f"; {advice}" if advice else ""
        self._find = find
        self._address = Address(self.url, token, socket=socket, ca=ca)
        self._routes: list[Route] = []
        self._old: list[httpx.AsyncClient] = []
        self._open()

    def _open(self) -> None:
        """Open the way to the present address; connections to the one before are closed with the client."""
        route = Route(self._address)
        self._routes.append(route)
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
        self._old.append(self._http)

    async def aclose(self) -> None:
        """Close the connections."""
        for each in self._old:
            await each.aclose()
        for route in self._routes:
            route.close()

    def look(self) -> None:
        """Look again where the center is."""
        found = address_again(self._find)
        if found is not None and found._replace(data=None) != self._address:
            self._address, self.url = found._replace(data=None), found.url
            self._open()

    async def ask(self, call: Call[T]) -> T:
        """The answer to one call."""
        content, headers = calls.content_of(call)
        with told(self.url, self.timeout, self._advice):
            answer = await self._http.request(
                call.method,
                call.path,
                params=calls.query_of(call.query),
                content=content,
                headers=headers,
                timeout=self._timeouts(call.wait),
            )
        if not answer.is_success:
            raise refusal_of(answer)
        return calls.answer_of(call, answer.content, self.url)

    def begin_exec(self, id: int, command: Sequence[str], task: int, environment: Mapping[str, str] | None) -> Command:
        """Begin a command in a running task, with pipes; blocks, so it belongs into a thread."""
        from cress.client.execution import run_inside

        path = f"/v1/jobs/{id}/tasks/{task}/exec"
        given = environment or {}
        with told(self.url, self.timeout, self._advice):
            return run_inside(self._routes[-1], path, command, environment=given, terminal=None, advice=self._advice)

    async def read(self, call: Call[bytes], *, follow: bool) -> AsyncIterator[Piece]:
        """A log piece by piece; ``follow``: it says nothing for as long as there is nothing to say."""
        budget = httpx.Timeout(self.timeout, connect=CONNECT_SECONDS, read=None if follow else self.timeout)
        query = calls.query_of(call.query)
        pieces = calls.Pieces()
        with told(self.url, self.timeout, self._advice):
            async with self._http.stream(call.method, call.path, params=query, timeout=budget) as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    raise refusal_of(answer)
                async for data in answer.aiter_bytes():
                    for piece in pieces.feed(data):
                        yield piece

    def _timeouts(self, wait: float) -> httpx.Timeout:
        return httpx.Timeout(self.timeout + wait, connect=CONNECT_SECONDS)
