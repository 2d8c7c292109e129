"""What a client does, as generators: they say what is to be done and go on with what came of it.

So submitting, waiting, reconnecting are written once, for those who wait (``run``, ``iterate``) and for asyncio (``arun``,
``aiterate``): only these know how an effect is carried out.
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
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True)
class Do:
    """Call a function that may block: files."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Emit:
    """Give a value to whoever iterates."""

    value: Any


@dataclass(frozen=True)
class Read:
    """Read the answer to a call piece by piece: the first one now, the others by ``More``; ``None`` is its end."""

    call: Call[bytes]
    follow: bool


@dataclass(frozen=True)
class More:
    """The next piece of what ``Read`` has begun."""


@dataclass(frozen=True)
class Look:
    """Look again where the center is."""


Effect: TypeAlias = Call[Any] | Sleep | Do | Emit | Read | More | Look
Flow: TypeAlias = Generator[Effect, Any, T]


class Patience:
    """For how many seconds a center that was there before may be away."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.met = False


def patiently(effect: Call[T], patience: Patience) -> Flow[T]:
    """The answer to a call, sent again while the center is away."""
    answer: T = yield from _again(effect, patience, again=effect.again)
    return answer


def reading(call: Call[bytes], patience: Patience, *, follow: bool) -> Flow[Piece | None]:
    """The first piece of a log, asked for again while the center is away."""
    piece: Piece | None = yield from _again(Read(call, follow), patience, again=True)
    return piece


def _again(effect: Effect, patience: Patience, *, again: bool) -> Flow[Any]:
    since: float | None = None
    pause = PAUSE
    while True:
        try:
            answer = yield effect
        except ClientError as error:
            sent = isinstance(error, Unreachable) and not again
            now = time.monotonic()
            since = now if since is None else since
            if not error.passing or sent or not patience.met or now - since >= patience.seconds:
                raise
        else:
            patience.met = True
            return answer
        yield Sleep(pause)
        yield Look()
        pause = min(pause * 1.5, LONGEST_PAUSE)


def iterate(flow: Flow[T], http: Http) -> Generator[Any, None, T]:
    """Carry out a flow; what it emits, and at the end what it returns."""
    pieces: Iterator[Piece] = iter(())
    value: Any = None
    error: Exception | None = None
    with closing(flow):
        try:
            while True:
                try:
                    effect = flow.throw(error) if error is not None else flow.send(value)
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
                    value = next(pieces, None) if isinstance(effect, (Read, More)) else _one(effect, http)
                except Exception as caught:  # noqa: BLE001 – the flow decides
                    error = caught
        finally:
            _close(pieces)


def run(flow: Flow[T], http: Http) -> T:
    """Carry out a flow that emits nothing; what it returns."""
    steps = iterate(flow, http)
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
        case Do(function):
            return function()
        case Look():
            http.look()
        case _:  # pragma: no cover – there are no others
            raise AssertionError(effect)
    return None


def _close(pieces: Iterator[Piece]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()


async def arun(flow: Flow[T], http: AsyncHttp) -> T:
    """The same as ``run``."""
    steps = _Steps(flow, http)
    async with aclosing(steps):
        while not steps.over:
            await steps.step()
    result: T = steps.result
    return result


async def aiterate(flow: Flow[Any], http: AsyncHttp) -> AsyncIterator[Any]:
    """The same as ``iterate``, without what the flow returns."""
    steps = _Steps(flow, http)
    async with aclosing(steps):
        while not steps.over:
            emitted = await steps.step()
            if emitted is not None:
                yield emitted.value


class _Steps:
    """A flow that is carried out effect by effect."""

    def __init__(self, flow: Flow[Any], http: AsyncHttp) -> None:
        self._flow = flow
        self._http = http
        self._value: Any = None
        self._error: Exception | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self.over = False
        self.result: Any = None

    async def step(self) -> Emit | None:
        """Carry out one effect; it is given back when that is for somebody else to do."""
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
        except Exception as caught:  # noqa: BLE001 – the flow decides
            self._error = caught
        return None

    async def _one(self, effect: Effect) -> Any:
        match effect:
            case Call():
                return await self._http.ask(effect)
            case Sleep(seconds):
                await asyncio.sleep(seconds)
            case Do(function):
                return await asyncio.to_thread(function)
            case Look():
                await asyncio.to_thread(self._http.look)
            case Read(call, follow):
                await self._close()
                self._pieces = self._http.read(call, follow=follow)
                return await anext(self._pieces, None)
            case More():
                return await anext(self._pieces, None) if self._pieces is not None else None
            case _:  # pragma: no cover – there are no others
                raise AssertionError(effect)
        return None

    async def _close(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()

    async def aclose(self) -> None:
        """Let go of what is open."""
        self._flow.close()
        await self._close()
