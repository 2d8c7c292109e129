"""``AsyncClient.map``: ``mapping`` for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, Self

from cress.client import bundle as bundles
from cress.client.asynchandles import AsyncJobHandle
from cress.client.asynchttp import AsyncHttp
from cress.client.bundle import Bundle, Deadline
from cress.client.effects import RetryBudget, aiterate, arun
from cress.client.mapping import Line, R, brief, value_of


class AsyncResults(Generic[R]):
    """The results of a map as an asynchronous iterator.

    Tasks that still run are cancelled at ``close``, at the end of an ``async with``, and when the reading task is
    cancelled.
    """

    def __init__(
        self,
        http: AsyncHttp,
        budget: RetryBudget,
        bundle: Bundle,
        job: AsyncJobHandle | None,
        *,
        errors: bool,
        deadline: Deadline | None = None,
    ) -> None:
        self.job = job
        self._deadline = deadline
        self._http = http
        self._budget = budget
        self._bundle = bundle
        self._errors = errors
        self._chosen: AsyncIterator[tuple[int, R]] | None = None

    def __len__(self) -> int:
        """Return the total number of results."""
        return sum(self._bundle.sizes)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        if self._chosen is None:
            self._chosen = self._results(ordered=True)
        return (await anext(self._chosen))[1]

    def as_completed(self) -> AsyncIterator[tuple[int, R]]:
        """Positions of items and their results, as they come."""
        if self._chosen is not None:
            raise RuntimeError("these results are read already, in their order")
        self._chosen = self._results(ordered=False)
        return self._chosen

    async def close(self) -> None:
        """Want no more: cancel what still runs, remove what was sent."""
        await arun(bundles.end(self._bundle, brief(self._budget)), self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _results(self, *, ordered: bool) -> AsyncIterator[tuple[int, R]]:
        line = Line(self._bundle.sizes, ordered=ordered)
        try:
            async for part in aiterate(bundles.parts(self._bundle, self._budget, self._deadline), self._http):
                for position, outcome in line.add(part):
                    yield position, value_of(outcome, errors=self._errors)
        finally:
            await self.close()
