"""``Client.map``: apply a function to items, with results in order or as they arrive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from cress.client import bundle as bundles
from cress.client.bundle import Bundle, Deadline, Part
from cress.client.effects import Operation, RetryBudget, RunBlocking, iterate, run
from cress.client.frames import CallResult
from cress.client.handles import JobHandle
from cress.client.http import Client as Http
from cress.client.spool import Spool, created

R = TypeVar("R")


def start(
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    chunk: int | None,
    python: str,
    spool: Any,
    keys: Mapping[str, Any],
    budget: RetryBudget,
) -> Operation[Bundle]:
    """Send a function with its items and submit the job for them.

    Raises ``CannotSend``, ``ClientError``, ``OSError``.
    """
    from cress.client import packing, worker

    if chunk is None:
        slots = yield from bundles.places(keys.get("resource"), budget)
        chunk = bundles.chunk_size(len(rows), slots)
    if chunk < 1:
        raise ValueError("chunk must be 1 or more")
    chunks = [rows[begin : begin + chunk] for begin in range(0, len(rows), chunk)]
    folder: Spool = yield RunBlocking(partial(created, spool))
    bundle = Bundle(folder, [len(each) for each in chunks])
    try:
        yield RunBlocking(partial(packing.send, folder, worker.MAP, function, chunks))
        if chunks:
            job = bundles.job_of(bundle, bundles.name_of(function), python, keys)
            yield from bundles.submit(bundle, job, "", budget)
    except BaseException:
        folder.clear()
        raise
    return bundle


class Line:
    """Puts the parts of a bundle into the order of its items, or gives them as they come."""

    def __init__(self, sizes: Sequence[int], *, ordered: bool) -> None:
        self._firsts = [0, *accumulate(sizes)]
        self._ordered = ordered
        self._early: dict[int, Part] = {}
        self._next = 0

    def add(self, part: Part) -> Iterator[tuple[int, CallResult]]:
        """Positions and outcomes of the items whose turn it is now."""
        self._early[part.chunk] = part
        while self._early:
            chunk = self._next if self._ordered else part.chunk
            if chunk not in self._early:
                return
            first = self._firsts[chunk]
            for number, outcome in enumerate(self._early.pop(chunk).outcomes):
                yield first + number, bundles.settled(outcome)
            self._next = chunk + 1


class Results(Generic[R]):
    """The results of a map: an iterator in the order of the items.

    An exception of the function is raised in the place of its result, with the traceback of the task as its cause, and
    ends everything; with ``return_exceptions`` it is given as the result instead. A task that died as often as it was
    tried raises ``TaskDied``, and ``TimeoutError`` is raised where no result is there in time. Tasks that still run are
    cancelled at ``close``, at the end of a ``with``, when the iterator is collected, and when the program ends, by
    Ctrl-C too.
    """

    def __init__(
        self,
        http: Http,
        budget: RetryBudget,
        bundle: Bundle,
        job: JobHandle | None,
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
        self._chosen: Iterator[tuple[int, R]] | None = None
        self._close = weakref.finalize(self, _end, bundle, budget, http)

    def __len__(self) -> int:
        """Return the total number of results."""
        return sum(self._bundle.sizes)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if self._chosen is None:
            self._chosen = self._results(ordered=True)
        return next(self._chosen)[1]

    def as_completed(self) -> Iterator[tuple[int, R]]:
        """Positions of items and their results, as they come."""
        if self._chosen is not None:
            raise RuntimeError("these results are read already, in their order")
        self._chosen = self._results(ordered=False)
        return self._chosen

    def close(self) -> None:
        """Want no more: cancel what still runs, remove what was sent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _results(self, *, ordered: bool) -> Iterator[tuple[int, R]]:
        line = Line(self._bundle.sizes, ordered=ordered)
        try:
            for part in iterate(bundles.parts(self._bundle, self._budget, self._deadline), self._http):
                for position, outcome in line.add(part):
                    yield position, value_of(outcome, errors=self._errors)
        finally:
            self.close()


def brief(budget: RetryBudget) -> RetryBudget:
    """For the end: a center that is away now is waited for a little; what it does later finds nothing to do."""
    made = RetryBudget(min(budget.seconds, bundles.GONE))
    made.met = budget.met
    return made


def value_of(outcome: CallResult, *, errors: bool) -> Any:
    """The result, or its exception: raised, or as a value."""
    if outcome.error is None:
        return outcome.value
    if errors:
        return outcome.error
    raise outcome.error


def _end(bundle: Bundle, budget: RetryBudget, http: Http) -> None:
    run(bundles.end(bundle, brief(budget)), http)
