"""Calls to a center that may be away for a while."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from cress.client.aio.http import AsyncHttp
from cress.client.aio.runtime import in_thread, sleep
from cress.client.calls import PreparedCall, T
from cress.client.errors import ClientError
from cress.client.retries import CenterOutage, RetryBudget
from cress.protocol.logs import Piece


class AsyncPatientHttp:
    """Makes calls over ``http``, and repeats them while a center that has answered before is unreachable."""

    def __init__(self, http: AsyncHttp, budget: RetryBudget) -> None:
        self.http = http
        self.budget = budget

    def at_most(self, seconds: float) -> AsyncPatientHttp:
        """Return a copy with a budget of at most ``seconds``."""
        return AsyncPatientHttp(self.http, self.budget.at_most(seconds))

    async def ask(self, call: PreparedCall[T]) -> T:
        """Return the answer to a call. Raises ClientError."""
        outage = CenterOutage(self.budget, again=call.row.again)
        while True:
            try:
                answer = await self.http.ask(call)
            except ClientError as error:
                pause = outage.pause(error)
                if pause is None:
                    raise
            else:
                self.budget.met = True
                return answer
            await self._look(pause)

    async def read(self, call: PreparedCall[bytes], *, follow: bool) -> AsyncGenerator[Piece, None]:
        """Yield a log piece by piece; only its beginning is requested again."""
        first, pieces = await self._begin(call, follow=follow)
        async with aclosing(pieces):
            if first is not None:
                yield first
                async for piece in pieces:
                    yield piece

    async def _begin(
        self, call: PreparedCall[bytes], *, follow: bool
    ) -> tuple[Piece | None, AsyncGenerator[Piece, None]]:
        """Return the first piece of a log, if there is one, and the rest."""
        outage = CenterOutage(self.budget, again=call.row.again)
        while True:
            pieces = self.http.read(call, follow=follow)
            try:
                first = await anext(pieces, None)
            except ClientError as error:
                pause = outage.pause(error)
                if pause is None:
                    raise
            else:
                self.budget.met = True
                return first, pieces
            await self._look(pause)

    async def _look(self, pause: float) -> None:
        """Wait for ``pause`` seconds, then look up the present address of the center."""
        await sleep(pause)
        await in_thread(self.http.look)
