"""The process that looks for what jobs wait for; it ends with its center. ``python -m cress.center.waiting.looker``.

Every connection is checked by the guard. A file is looked for without following links out of the operator's folders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import httpx

import cress
from cress.center.process.line_process import answer, orders_of_center
from cress.center.waiting.looks import LookOrder, LookResult, decode_order, decode_settings, encode
from cress.center.web.no_cookies import no_cookies
from cress.model.allowed_sources import ANY, AllowedSources
from cress.model.waits import PATH, URL
from cress.network.connection_guard import ConnectionGuard, refusal_in

OPTION = "(--wait-host)"
# Seconds for one look; looks at the same time, and those of one user: hosts that hang hold up nobody else.
PATIENCE, AT_ONCE, AT_ONE_USER = 10.0, 32, 8
# Looks into one folder at the same time.
AT_ONE_FOLDER = 2

_T = TypeVar("_T")


class FolderThreads:
    """The threads for looks into one folder: a file system that hangs may hold them as long as it likes."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONE_FOLDER)
        self._late: set[Future[Any]] = set()

    @property
    def hangs(self) -> bool:
        """Return whether a look for which nobody waits any more has not come back."""
        return bool(self._late)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return the result of a look, done in a thread."""
        future = self._pool.submit(work)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if not future.cancel() and not future.done():
                self._late.add(future)
                future.add_done_callback(self._late.discard)


class Looker:
    """Looks for things; ``folders`` are real paths, ``names`` those that the operator gave."""

    def __init__(self, folders: Sequence[Path], client: httpx.AsyncClient, names: Sequence[Path] = ()) -> None:
        self._folders = folders
        self._client = client
        self._threads = {folder: FolderThreads() for folder in (*folders, *names)}
        # For paths that lead into the folders by links, if at all.
        self._other_threads = FolderThreads()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._users: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def look(self, order: LookOrder) -> LookResult:
        """Look for one thing."""
        own = self._users.setdefault(order.user, asyncio.Semaphore(AT_ONE_USER))
        try:
            async with own, self._places, asyncio.timeout(PATIENCE):
                if order.kind == PATH:
                    threads = self._threads_for(Path(order.name))
                    # While the folder hangs, further looks would take the places of others.
                    found = LookResult(order.id, False)
                    return found if threads.hangs else await threads.run(partial(self._file, order))
                if order.kind == URL:
                    async with self._client.stream("GET", order.name) as page:
                        return LookResult(order.id, page.status_code < 400)
                host, _, port = order.name.rpartition(":")
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                writer.close()
                return LookResult(order.id, True)
        except (httpx.HTTPError, OSError, TimeoutError, UnicodeError, httpx.InvalidURL) as error:
            return LookResult(order.id, False, refusal_in(error, OPTION))
        except Exception:  # noqa: BLE001 - a link to itself, or whatever else a library raises
            # A look without an answer would take a place of its user for ever.
            return LookResult(order.id, False)

    def _threads_for(self, path: Path) -> FolderThreads:
        places = () if ".." in path.parts else path.parents
        return next((self._threads[place] for place in places if place in self._threads), self._other_threads)

    def _file(self, order: LookOrder) -> LookResult:
        real = Path(order.name).resolve()
        if not any(real.is_relative_to(folder) for folder in self._folders):
            return LookResult(order.id, False, "it is not in a folder in which jobs may wait for files (--wait-folder)")
        return LookResult(order.id, real.exists())


def open_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return a client for the pages of all users; ``transport`` is that of a test."""
    headers = {"User-Agent": f"cress/{cress.__version__}"}
    # A proxy of the environment would connect for this process, past the guard.
    return httpx.AsyncClient(
        trust_env=False,
        timeout=PATIENCE,
        headers=headers,
        follow_redirects=True,
        cookies=no_cookies(),
        transport=transport,
    )


async def _serve() -> None:
    lines = await orders_of_center()
    settings = decode_settings(await lines.readline())
    folders = await asyncio.to_thread(lambda: [Path(folder).resolve() for folder in settings.folders])
    tasks: set[asyncio.Task[None]] = set()
    async with open_client() as client:
        ConnectionGuard(AllowedSources(hosts=settings.hosts or (ANY,)), OPTION).install()
        looker = Looker(folders, client, [Path(folder) for folder in settings.folders])

        async def look(order: LookOrder) -> None:
            answer(encode(await looker.look(order)))

        while line := await lines.readline():
            task = asyncio.create_task(look(decode_order(line)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(_serve())
