"""Jobs in a fixed order, with cheap arrival at the end and cheap removal anywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from cress.core.placing.shape import Shape
from cress.model.job import Job


class QueuedJob(Protocol):
    """The parts of a job that policies read; ``key`` is its place in the order, which they set."""

    key: tuple[int, int]
    job: Job
    submitted: int
    shape: Shape
    limit: int


J = TypeVar("J", bound=QueuedJob)


class Queue(Generic[J]):
    """Jobs by ``key`` (unique). Removed jobs leave a gap that is closed when half of the places are gaps."""

    __slots__ = ("_count", "_first", "_jobs", "_keys")

    def __init__(self) -> None:
        self._keys: list[tuple[int, int]] = []
        self._jobs: list[J | None] = []
        self._first = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[J]:
        return (job for job in self._jobs[self._first :] if job is not None)

    def add(self, job: J) -> int:
        """Put the job into its place; return the position, or -1 if positions of others changed."""
        key = job.key
        self._count += 1
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
            self._jobs.append(job)
            return len(self._keys) - 1
        i = bisect_left(self._keys, key)
        if self._keys[i] == key and self._jobs[i] is None:
            self._jobs[i] = job
            self._first = min(self._first, i)
            return i
        self._keys.insert(i, key)
        self._jobs.insert(i, job)
        # Places in front of the first job are gaps: the new one may have gone among them.
        self._first = min(self._first, i)
        return -1

    def remove(self, job: J) -> int:
        """Take the job out; return the position that is a gap now, or -1 if positions changed."""
        i = bisect_left(self._keys, job.key)
        self._jobs[i] = None
        self._count -= 1
        while self._first < len(self._jobs) and self._jobs[self._first] is None:
            self._first += 1
        if len(self._jobs) > 64 and self._count < len(self._jobs) // 2:
            self._close_gaps()
            return -1
        return i

    def position(self, job: J) -> int:
        """Return the position of the job."""
        return bisect_left(self._keys, job.key)

    def _close_gaps(self) -> None:
        kept = [(key, job) for key, job in zip(self._keys, self._jobs, strict=True) if job is not None]
        self._keys = [key for key, _ in kept]
        self._jobs = [job for _, job in kept]
        self._first = 0

    def head(self) -> J | None:
        """Return the first job."""
        return self._jobs[self._first] if self._count else None

    @property
    def first(self) -> int:
        """Return the position of the head."""
        return self._first

    @property
    def end(self) -> int:
        """Return the position behind the last job."""
        return len(self._jobs)

    def at(self, position: int) -> J | None:
        """Return the job at a position, ``None`` for a gap."""
        return self._jobs[position]
