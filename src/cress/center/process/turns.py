"""Turns: long work on the event loop gives way to other work, and blocking work runs in a thread."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from cress.center.process.garbage import no_collection
from cress.lifecycle.slices import Slices

# Seconds that work on the event loop may take before other work has its turn.
SLICE = 0.005
# Most bytes of a body that is read and checked on the event loop; larger ones are checked in a thread.
INLINE = 4 * 2**10
# Long answers made at the same time; further ones wait.
AT_ONCE = 2
# Items in one part of a long list.
CHUNK = 1_000

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield the items; after each slice of time the event loop does other work first."""
    begun = time.perf_counter()
    for item in items:
        yield item
        if time.perf_counter() - begun > SLICE:
            await asyncio.sleep(0)
            begun = time.perf_counter()


def chunks(items: Sequence[_T], size: int = CHUNK) -> Iterator[Sequence[_T]]:
    """Yield the items in parts, for work that takes less time for an item than a look at the clock."""
    return (items[first : first + size] for first in range(0, len(items), size))


async def all_in_turns(work: Slices[_T]) -> _T:
    """Return the result of work in slices; the event loop does other work in between."""
    begun = time.perf_counter()
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: _T = done.value
            return result
        if time.perf_counter() - begun > SLICE:
            await asyncio.sleep(0)
            begun = time.perf_counter()


class _UserQueue:
    """The large requests of one user, one after another; ``there`` is their number."""

    def __init__(self) -> None:
        self.place = asyncio.Lock()
        self.there = 0


def _uncollected(work: Callable[[], _T]) -> _T:
    """Return the result of ``work`` on a large body, whose thousands of objects no garbage collection examines.

    A collection holds all threads. What ``work`` made is freed when nothing refers to it any more.
    """
    with no_collection():
        try:
            return work()
        finally:
            gc.freeze()


class LongRequests:
    """Shared resources for long requests: a thread that checks bodies, and the places for long answers."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="check")
        self._places = asyncio.Semaphore(AT_ONCE)
        self._users: dict[str, _UserQueue] = {}

    @asynccontextmanager
    async def of_user(self, user: str, size: int) -> AsyncIterator[None]:
        """Hold a user's only place for large requests, so that others wait for at most one request of each user.

        ``size`` is the body's size in bytes; small requests do not wait.
        """
        if size <= INLINE:
            yield
            return
        line = self._users.setdefault(user, _UserQueue())
        line.there += 1
        try:
            async with line.place:
                yield
        finally:
            line.there -= 1
            if not line.there:
                del self._users[user]

    async def check(self, size: int, work: Callable[[], _T]) -> _T:
        """Return the result of ``work`` on a body of ``size`` bytes, computed in a thread if the body is large."""
        if size <= INLINE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, _uncollected, work)

    @asynccontextmanager
    async def long_answer(self) -> AsyncIterator[None]:
        """Hold one of the few places for long answers that the event loop makes; nothing else is waited for in one."""
        async with self._places:
            yield

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
