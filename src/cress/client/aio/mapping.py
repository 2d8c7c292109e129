"""``Client.map``: apply a function to items, with results in order or as they arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from cress.client.aio import bundles
from cress.client.aio.handles import AsyncJobHandle
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.runtime import AsyncAtEnd, in_thread
from cress.client.bundle import GONE, ChunkBundle, Patience, chunk_size, job_of, name_of
from cress.client.mapping import OrderedChunks, value_of
from cress.client.spool import Spool, created

R = TypeVar("R")


async def start(
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    chunk: int | None,
    python: str,
    spool: Any,
    keys: Mapping[str, Any],
    center: AsyncPatientHttp,
) -> ChunkBundle:
    """Send a function with its items and submit the job for them.

    Raises ``CannotSend``, ``ClientError``, ``OSError``.
    """
    from cress.client import packing, worker

    if chunk is None:
        slots = await bundles.places(keys.get("resource"), center)
        chunk = chunk_size(len(rows), slots)
    if chunk < 1:
        raise ValueError("chunk must be 1 or more")
    chunks = [rows[begin : begin + chunk] for begin in range(0, len(rows), chunk)]
    folder: Spool = await in_thread(created, spool)
    bundle = ChunkBundle(folder, [len(items) for items in chunks])
    try:
        await in_thread(packing.send, folder, worker.MAP, function, chunks)
        if chunks:
            if keys.get("resource") is None and (part := await bundles.part_of_a_core(center)):
                keys = {**keys, "resource": part}
            job = job_of(bundle, name_of(function), python, keys)
            await bundles.submit(bundle, job, "", center)
    except BaseException:
        folder.clear()
        raise
    return bundle


class AsyncResults(Generic[R]):
    """The results of a map: an iterator in the order of the items.

    An exception of the function is raised in place of its result, with the traceback of the task as its cause, and ends
    the map. With ``return_exceptions`` it is returned as the result instead. A task that died in every attempt raises
    ``TaskDied``, and a result that does not arrive in time raises ``TimeoutError``.

    Running tasks are cancelled at ``close`` and at the end of a ``with``, and when the program ends, also by Ctrl-C. In
    asyncio they are cancelled with the reading task, otherwise when the iterator is collected.
    """

    def __init__(
        self,
        center: AsyncPatientHttp,
        bundle: ChunkBundle,
        job: AsyncJobHandle | None,
        *,
        errors: bool,
        deadline: Patience | None = None,
    ) -> None:
        self.job = job
        self._deadline = deadline
        self._center = center
        self._bundle = bundle
        self._errors = errors
        self._chosen: AsyncIterator[tuple[int, R]] | None = None
        # A center that is away at the end is waited for briefly; tasks that it starts later find nothing to do.
        self._close = AsyncAtEnd(self, _end, bundle, center)

    def __len__(self) -> int:
        """Return the total number of results."""
        return sum(self._bundle.sizes)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        if self._chosen is None:
            self._chosen = self._results(ordered=True)
        _, result = await anext(self._chosen)
        return result

    def as_completed(self) -> AsyncIterator[tuple[int, R]]:
        """Yield positions of items with their results, as they arrive."""
        if self._chosen is not None:
            raise RuntimeError("these results are read already, in their order")
        self._chosen = self._results(ordered=False)
        return self._chosen

    async def close(self) -> None:
        """End the map: cancel running tasks, and remove the files that were sent."""
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _results(self, *, ordered: bool) -> AsyncIterator[tuple[int, R]]:
        line = OrderedChunks(self._bundle.sizes, ordered=ordered)
        try:
            async with aclosing(bundles.parts(self._bundle, self._center, self._deadline)) as parts:
                async for part in parts:
                    for position, outcome in line.add(part):
                        yield position, value_of(outcome, errors=self._errors)
        finally:
            await self.close()


async def _end(bundle: ChunkBundle, center: AsyncPatientHttp) -> None:
    await bundles.end(bundle, center.at_most(GONE))
