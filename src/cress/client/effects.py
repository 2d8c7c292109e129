"""Operations of a client as generators that yield effects and receive their results.

Submitting, waiting and reconnecting are written once (``operations.py``). ``run`` and ``iterate`` carry out the effects
of an operation and block; ``arun`` and ``aiterate`` do it for asyncio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from cress.client.calls import Call
from cress.client.errors import ClientError, Unreachable
from cress.protocol.logs import Piece

if TYPE_CHECKING:
    from cress.client.asynchttp import AsyncHttp
    from cress.client.http import Client as Http

T = TypeVar("T")
# Between two calls to a center that is away, in seconds.
PAUSE, LONGEST_PAUSE = 0.1, 2.0


@dataclass(frozen=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class RunBlocking:
    """Call a function that may block, for instance on files."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Emit:
    """Hand a value to the caller that iterates."""

    value: Any


@dataclass(frozen=True)
class Read:
    """Read the first piece of the answer to a call; ``ReadMore`` reads the others. ``None`` is the end."""

    call: Call[bytes]
    follow: bool


@dataclass(frozen=True)
class ReadMore:
    """Read the next piece of the answer that ``Read`` has begun."""


@dataclass(frozen=True)
class FindCenter:
    """Look up the address of the center again."""


Effect: TypeAlias = Call[Any] | Sleep | RunBlocking | Emit | Read | ReadMore | FindCenter
Operation: TypeAlias = Generator[Effect, Any, T]


class RetryBudget:
    """The number of seconds for which a center that has answered before may be unreachable."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.met = False


def retried(effect: Call[T], budget: RetryBudget) -> Operation[T]:
    """Return the answer to a call, which is repeated while the center is unreachable."""
    answer: T = yield from _again(effect, budget, again=effect.again)
    return answer


def read_log(call: Call[bytes], budget: RetryBudget, *, follow: bool) -> Operation[Piece | None]:
    """Return the first piece of a log; the call is repeated while the center is unreachable."""
    piece: Piece | None = yield from _again(Read(call, follow), budget, again=True)
    return piece


def _again(effect: Effect, budget: RetryBudget, *, again: bool) -> Operation[Any]:
    since: float | None = None
    pause = PAUSE
    while True:
        try:
            answer = yield effect
        except ClientError as error:
            sent = isinstance(error, Unreachable) and not again
            now = time.monotonic()
            since = now if since is None else since
            if not error.passing or sent or not budget.met or now - since >= budget.seconds:
                raise
        else:
            budget.met = True
            return answer
        yield Sleep(pause)
        yield FindCenter()
        pause = min(pause * 1.5, LONGEST_PAUSE)


def iterate(operation: Operation[T], http: Http) -> Generator[Any, None, T]:
    """Carry out an operation: yield the values that it emits, return its result."""
    pieces: Iterator[Piece] = iter(())
    value: Any = None
    error: Exception | None = None
    with closing(operation):
        try:
            while True:
                try:
                    effect = operation.throw(error) if error is not None else operation.send(value)
                except StopIteration as over:
                    result: T = over.value
                    return result
                value = error = None
                if isinstance(effect, Emit):
                    yield effect.value
                    continue
                try:
                    if isinstance(effect, Read):
                        _close(pieces)
                        pieces = http.read(effect.call, follow=effect.follow)
                    value = next(pieces, None) if isinstance(effect, (Read, ReadMore)) else _one(effect, http)
                except Exception as caught:  # noqa: BLE001 – the operation decides
                    error = caught
        finally:
            _close(pieces)


def run(operation: Operation[T], http: Http) -> T:
    """Carry out an operation that emits nothing; return its result."""
    steps = iterate(operation, http)
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result


def _one(effect: Effect, http: Http) -> Any:
    match effect:
        case Call():
            return http.ask(effect)
        case Sleep(seconds):
            time.sleep(seconds)
        case RunBlocking(function):
            return function()
        case FindCenter():
            http.look()
        case _:  # pragma: no cover – there are no others
            raise AssertionError(effect)
    return None


def _close(pieces: Iterator[Piece]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()


async def arun(operation: Operation[T], http: AsyncHttp) -> T:
    """Like ``run``, for asyncio."""
    steps = _Steps(operation, http)
    async with aclosing(steps):
        while not steps.over:
            await steps.step()
    result: T = steps.result
    return result


async def aiterate(operation: Operation[Any], http: AsyncHttp) -> AsyncIterator[Any]:
    """Like ``iterate``, for asyncio; the result is dropped."""
    steps = _Steps(operation, http)
    async with aclosing(steps):
        while not steps.over:
            emitted = await steps.step()
            if emitted is not None:
                yield emitted.value


class _Steps:
    """An operation that is carried out effect by effect."""

    def __init__(self, operation: Operation[Any], http: AsyncHttp) -> None:
        self._flow = operation
        self._http = http
        self._value: Any = None
        self._error: Exception | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self.over = False
        self.result: Any = None

    async def step(self) -> Emit | None:
        """Carry out one effect; an ``Emit`` is returned to the caller instead."""
        try:
            effect = self._flow.throw(self._error) if self._error is not None else self._flow.send(self._value)
        except StopIteration as over:
            self.over, self.result = True, over.value
            return None
        self._value = self._error = None
        if isinstance(effect, Emit):
            return effect
        try:
            self._value = await self._one(effect)
        except Exception as caught:  # noqa: BLE001 – the operation decides
            self._error = caught
        return None

    async def _one(self, effect: Effect) -> Any:
        match effect:
            case Call():
                return await self._http.ask(effect)
            case Sleep(seconds):
                await asyncio.sleep(seconds)
            case RunBlocking(function):
                return await asyncio.to_thread(function)
            case FindCenter():
                await asyncio.to_thread(self._http.look)
            case Read(call, follow):
                await self._close()
                self._pieces = self._http.read(call, follow=follow)
                return await anext(self._pieces, None)
            case ReadMore():
                return await anext(self._pieces, None) if self._pieces is not None else None
            case _:  # pragma: no cover – there are no others
                raise AssertionError(effect)
        return None

    async def _close(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()

    async def aclose(self) -> None:
        """Close the operation and the answer that it reads."""
        self._flow.close()
        await self._close()
