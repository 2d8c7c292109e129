"""The few things that a program that blocks does otherwise than asyncio: ``aio.runtime`` is the other half."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar, TypeVarTuple, Unpack

P = ParamSpec("P")
T = TypeVar("T")
Given = TypeVarTuple("Given")


def sleep(seconds: float) -> None:
    """Wait for so long; no time is no call, which costs nothing and no library that shifts clocks can refuse."""
    if seconds > 0:
        time.sleep(seconds)


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function; whoever blocks needs no thread for it."""
    return function(*args, **kwargs)


class AtEnd:
    """A last call for an object: made once, by itself when the object is collected or the program ends."""

    def __init__(self, owner: object, call: Callable[[Unpack[Given]], None], *args: *Given) -> None:
        self._finalize = weakref.finalize(owner, call, *args)

    def __call__(self) -> None:
        """Make the call, unless it was made already."""
        self._finalize()
