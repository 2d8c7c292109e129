"""The differences between asyncio and blocking programs; ``blocking.runtime`` is the other half."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, TypeVarTuple, Unpack

P = ParamSpec("P")
T = TypeVar("T")
Given = TypeVarTuple("Given")


async def sleep(seconds: float) -> None:
    """Wait for ``seconds``."""
    await asyncio.sleep(seconds)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function that may block, for instance on files."""
    return await asyncio.to_thread(function, *args, **kwargs)


class AsyncAtEnd:
    """The last call for an object. A program in asyncio makes it explicitly, since nothing can be awaited at exit."""

    def __init__(self, owner: object, call: Callable[[Unpack[Given]], Awaitable[None]], *args: *Given) -> None:
        self._call: Callable[[], Awaitable[None]] | None = lambda: call(*args)

    async def __call__(self) -> None:
        """Make the call, unless it was made already."""
        call = self._call
        if call is not None:
            await call()
            self._call = None
