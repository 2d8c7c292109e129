"""Results of a map in the order of its items, or as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from cress.client.bundle import ChunkResult, settled
from cress.client.frames import CallResult


class OrderedChunks:
    """Puts the chunks of a bundle into the order of its items, or passes them on as they arrive."""

    def __init__(self, sizes: Sequence[int], *, ordered: bool) -> None:
        self._firsts = [0, *accumulate(sizes)]
        self._ordered = ordered
        self._early: dict[int, ChunkResult] = {}
        self._next = 0

    def add(self, result: ChunkResult) -> Iterator[tuple[int, CallResult]]:
        """Yield positions and outcomes of the items whose turn has come."""
        self._early[result.chunk] = result
        while self._early:
            chunk = self._next if self._ordered else result.chunk
            if chunk not in self._early:
                return
            first = self._firsts[chunk]
            for number, outcome in enumerate(self._early.pop(chunk).outcomes):
                yield first + number, settled(outcome)
            self._next = chunk + 1


def value_of(outcome: CallResult, *, errors: bool) -> Any:
    """Return the result, or its exception: raised, or as a value."""
    if outcome.error is None:
        return outcome.value
    if errors:
        return outcome.error
    raise outcome.error
