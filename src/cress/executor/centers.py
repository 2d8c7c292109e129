"""The centers of an executor: it connects to the leader, and notices when another center leads."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from cress.executor.center_wire import CenterWire, Impostor, NotReached, open_wire
from cress.protocol.proof import ProofError

# Seconds without an answer after which the next address is tried in parallel.
STAGGER = 0.1
# Seconds for which the new leader is searched silently, and the pause between two tries: at first, and later.
HURRY, SOON, PAUSE = 10.0, 0.03, 0.1
# Seconds between two checks for another center that listens for executors; only the leader does. The second number is
# for the first seconds in which an executor's own center is silent: all executors of one whose store hangs would else
# knock at the others as often for as long as it hangs.
LOOK, SILENT, FIRST = 0.2, 0.05, 2.0


class Centers:
    """The addresses ``urls`` of centers, one of which leads."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str,
        bundle: Path | None = None,
        *,
        ping_interval: float,
        ping_timeout: float,
    ) -> None:
        self._urls = list(urls)
        self._token, self._bundle = token, bundle
        self._pings = {"ping_interval": ping_interval, "ping_timeout": ping_timeout}
        self._connected = ""
        self._quiet: set[str] = set()  # addresses without a listener since the current connection was made
        self._next: CenterWire | None = None  # to the new leader

    async def connect(self) -> CenterWire:
        """Connect to the leader.

        After a lost connection each address is tried for a while, since another center takes over. A center that does
        not answer does not delay the others.

        Raise as ``open_wire`` does; a ``NotReached`` is that of the last address.
        """
        if len(self._urls) == 1:
            return await self._open(self._urls[0])
        if self._next is not None:
            wire, self._next = self._next, None
            return wire
        begin = asyncio.get_running_loop().time()
        end = begin + (HURRY if self._connected else 0.0)
        self._connected, self._quiet = "", set()
        # The others are tried as soon as one does not listen: the wait is for the one that leads and is slow.
        refused = asyncio.Event()
        trying = {
            asyncio.create_task(self._try(url, begin + number * STAGGER, end, refused)): url
            for number, url in enumerate(self._urls)
        }
        failures: dict[str, NotReached] = {}
        try:
            while trying:
                done, _ = await asyncio.wait(trying, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    url = trying.pop(task)
                    try:
                        wire = task.result()
                    except NotReached as error:
                        failures[url] = error
                    else:
                        self._found(url)
                        return wire
        finally:
            for task in trying:
                task.add_done_callback(_drop)
                task.cancel()
        raise failures[self._urls[-1]]

    async def _try(self, url: str, begin: float, end: float, refused: asyncio.Event) -> CenterWire:
        """Connect to one address: first at ``begin`` or when another one has ``refused``, then repeatedly until
        ``end``.
        """
        now = asyncio.get_running_loop().time
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(begin):
                await refused.wait()
        while True:
            try:
                return await self._open(url)
            except NotReached as error:
                self._quiet.add(url)
                refused.set()
                if error.permanent or now() >= end:
                    raise
            pause = SOON if now() < begin + 1 else PAUSE
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 – only spreads them out

    async def connect_again(self) -> CenterWire:
        """Open a further connection to the center of the last one. Raise as ``open_wire`` does."""
        return await self._open(self._connected or self._urls[0])

    async def _open(self, url: str) -> CenterWire:
        return await open_wire(url, self._token, self._bundle, **self._pings)

    def _found(self, url: str) -> None:
        self._connected = url
        # Try it last next time: by then it is gone or no longer the leader.
        self._urls.remove(url)
        self._urls.append(url)

    async def moved(self, is_silent: Callable[[], bool] = lambda: False) -> str:
        """Wait until another center begins to lead; return its address. ``connect`` takes that center next.

        ``is_silent`` says whether the present center owes an answer; then it may have stopped, and checks are frequent
        for a while.

        Only the leader listens. A check costs a standby nothing, since its kernel refuses the connection. Only a center
        that has begun to listen is asked whether it leads: one that wakes from sleep still listens, but is no longer
        the leader.
        """
        now = asyncio.get_running_loop().time
        heard = now()
        while True:
            if not is_silent():
                heard = now()
            await asyncio.sleep(SILENT if now() - heard < FIRST else LOOK)
            others = [url for url in self._urls if self._is_another(url)]
            for url, listens in zip(others, await asyncio.gather(*map(_listens, others)), strict=True):
                if not listens:
                    self._quiet.add(url)
                elif url in self._quiet:
                    with contextlib.suppress(NotReached, ProofError, Impostor):
                        self._next = await self._open(url)
                        self._found(url)
                        return url

    def _is_another(self, url: str) -> bool:
        return len(self._urls) > 1 and url != self._connected and url.startswith("ws")


async def _listens(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    try:
        async with asyncio.timeout(LOOK):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def _drop(opened: asyncio.Task[CenterWire]) -> None:
    """Close a connection that was opened too late."""
    with contextlib.suppress(asyncio.CancelledError, NotReached, ProofError, Impostor):
        wire = opened.result()
        wire.abort()
