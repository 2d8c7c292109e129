"""Slices: long work as a generator that pauses between its parts, so that its driver can do other work."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeAlias, TypeVar

# Number of jobs or rows in one slice: some milliseconds of work, also for jobs that each have constraints of their own.
SLICE = 25

T = TypeVar("T")

# Work that yields at each pause and returns its result.
Slices: TypeAlias = Generator[None, None, T]


def whole(work: Slices[T]) -> T:
    """Do work without pauses; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the items in parts of one slice each."""
    return (items[first : first + SLICE] for first in range(0, len(items), SLICE))
