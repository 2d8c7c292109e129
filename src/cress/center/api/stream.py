"""Streams of server-sent events: answers that go on until the reader disconnects."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod

from starlette.responses import Response

from cress.center.api.errors import TooMany
from cress.center.committing.committer import Committer, NotStored
from cress.center.web.asgi import Receive, Scope, Send

# Seconds between signs of life, and after which a reader that takes nothing is disconnected.
HEARTBEAT, STALLED = 15.0, 30.0
# Most streams at a time, and those of one user.
MOST_READERS, MOST_OF_USER = 500, 250
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Stream(Response):
    """An answer as a stream; each part is read from the committer when it is sent, so a slow reader costs no memory."""

    def __init__(self, committer: Committer, user: str) -> None:
        """``user`` is the user who reads. Raises TooMany or NotStored if there are too many streams."""
        super().__init__(media_type="text/event-stream")
        readers = committer.events.readers
        if readers[user] >= MOST_OF_USER:
            raise TooMany(f"{MOST_OF_USER} programs of {user} follow the events already; end one of them")
        if readers.total() >= MOST_READERS:
            raise NotStored(f"{MOST_READERS} readers follow the events already; try again")
        self.committer = committer
        self._user = user

    @abstractmethod
    def greeting(self) -> bytes:
        """Return the beginning of the answer, which is sent at once even if nothing happens for long."""

    @abstractmethod
    def part(self) -> bytes:
        """Return the next part; empty while there is none."""

    def sign(self) -> bytes:
        """Return a sign of life."""
        return b": \n\n"

    def over(self) -> bool:
        """Return whether the stream has ended."""
        return self.committer.stopping

    @abstractmethod
    async def wait(self) -> None:
        """Wait until there may be a part, at most ``HEARTBEAT`` seconds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader disconnects, takes nothing more, or the stream ends."""
        gone = asyncio.ensure_future(_until_gone(receive))
        readers = self.committer.events.readers
        readers[self._user] += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            part = self.greeting()
            while not gone.done():
                async with asyncio.timeout(STALLED):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                # Sending to a reader that keeps up does not wait.
                await asyncio.sleep(0)
                part = self.part()
                if not part:
                    if self.over():
                        await send({"type": "http.response.body", "body": b"", "more_body": False})
                        return
                    await self._news(gone)
                    part = self.part() or self.sign()
        except TimeoutError:
            # The reader resumes when it reads again; until then nothing is kept for it.
            return
        finally:
            readers[self._user] -= 1
            if not readers[self._user]:
                del readers[self._user]
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    async def _news(self, gone: asyncio.Future[None]) -> None:
        news = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait((news, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
