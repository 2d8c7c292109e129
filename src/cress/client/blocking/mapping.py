# Written by tools/blocking_client.py: edit aio/mapping.py.
"""``Client.map``: apply a function to items, with results in order or as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from cress.client.blocking import bundles
from cress.client.blocking.handles import JobHandle
from cress.client.blocking.patient import PatientHttp
from cress.client.blocking.runtime import AtEnd, in_thread
from cress.client.bundle import GONE, ChunkBundle, Patience, chunk_size, job_of, name_of
from cress.client.mapping import OrderedChunks, value_of
from cress.client.spool import Spool, created

R = TypeVar("R")


def start(
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    chunk: int | None,
    python: str,
    spool: Any,
    keys: Mapping[str, Any],
    center: PatientHttp,
) -> ChunkBundle:
    """Send a function with its items and submit the job for them.

    Raises ``CannotSend``, ``ClientError``, ``OSError``.
    """
    from cress.client import packing, worker

    if chunk is None:
        slots = bundles.places(keys.get("resource"), center)
        chunk = chunk_size(len(rows), slots)
    if chunk < 1:
        raise ValueError("chunk must be 1 or more")
    chunks = [rows[begin : begin + chunk] for begin in range(0, len(rows), chunk)]
    folder: Spool = in_thread(created, spool)
    bundle = ChunkBundle(folder, [len(items) for items in chunks])
    try:
        in_thread(packing.send, folder, worker.MAP, function, chunks)
        if chunks:
            if keys.get("resource") is None and (part := bundles.part_of_a_core(center)):
                keys = {**keys, "resource": part}
            job = job_of(bundle, name_of(function), python, keys)
            bundles.submit(bundle, job, "", center)
    except BaseException:
        folder.clear()
        raise
    return bundle


class Results(Generic[R]):
    """The results of a map: an iterator in the order of the items.

    An exception of the function is raised in place of its result, with the traceback of the task as its cause, and ends
    the map. With ``return_exceptions`` it is returned as the result instead. A task that died in every attempt raises
    ``TaskDied``, and a result that does not arrive in time raises ``TimeoutError``.

    Running tasks are cancelled at ``close`` and at the end of a ``with``, and when the program ends, also by Ctrl-C. In
    asyncio they are cancelled with the reading task, otherwise when the iterator is collected.
    """

    def __init__(
        self,
        center: PatientHttp,
        bundle: ChunkBundle,
        job: JobHandle | None,
        *,
        errors: bool,
        deadline: Patience | None = None,
    ) -> None:
        self.job = job
        self._deadline = deadline
        self._center = center
        self._bundle = bundle
        self._errors = errors
        self._chosen: Iterator[tuple[int, R]] | None = None
        # A center that is away at the end is waited for briefly; tasks that it starts later find nothing to do.
        self._close = AtEnd(self, _end, bundle, center)

    def __len__(self) -> int:
        """Return the total number of results."""
        return sum(self._bundle.sizes)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if self._chosen is None:
            self._chosen = self._results(ordered=True)
        _, result = next(self._chosen)
        return result

    def as_completed(self) -> Iterator[tuple[int, R]]:
        """Yield positions of items with their results, as they arrive."""
        if self._chosen is not None:
            raise RuntimeError("these results are read already, in their order")
        self._chosen = self._results(ordered=False)
        return self._chosen

    def close(self) -> None:
        """End the map: cancel running tasks, and remove the files that were sent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _results(self, *, ordered: bool) -> Iterator[tuple[int, R]]:
        line = OrderedChunks(self._bundle.sizes, ordered=ordered)
        try:
            with closing(bundles.parts(self._bundle, self._center, self._deadline)) as parts:
                for part in parts:
                    for position, outcome in line.add(part):
                        yield position, value_of(outcome, errors=self._errors)
        finally:
            self.close()


def _end(bundle: ChunkBundle, center: PatientHttp) -> None:
    bundles.end(bundle, center.at_most(GONE))
