"""The process that looks for what jobs wait for; it ends with its center. ``python -m cress.center.waiting.looker``.

Every connection is checked by the guard. A file is looked for without following links out of the operator's folders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import httpx

import cress
from cress.center.process.line_process import answer, orders_of_center
from cress.center.waiting.looks import LookOrder, LookResult, decode_order, decode_settings, encode
from cress.model.allowed_sources import ANY, AllowedSources
from cress.model.waits import PATH, URL
from cress.network.connection_guard import ConnectionGuard, refusal_in

OPTION = "(--wait-host)"
# Seconds for one look; looks at the same time, and those of one user: hosts that hang hold up nobody else.
PATIENCE, AT_ONCE, AT_ONE_USER = 10.0, 32, 8


class Looker:
    """Looks for things; ``folders`` are real paths."""

    def __init__(self, folders: Sequence[Path], client: httpx.AsyncClient) -> None:
        self._folders = folders
        self._client = client
        self._places = asyncio.Semaphore(AT_ONCE)
        self._users: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def look(self, order: LookOrder) -> LookResult:
        """Look for one thing."""
        own = self._users.setdefault(order.user, asyncio.Semaphore(AT_ONE_USER))
        try:
            async with own, self._places, asyncio.timeout(PATIENCE):
                if order.kind == PATH:
                    return await asyncio.to_thread(self._file, order)
                if order.kind == URL:
                    async with self._client.stream("GET", order.name) as page:
                        return LookResult(order.id, page.status_code < 400)
                host, _, port = order.name.rpartition(":")
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                writer.close()
                return LookResult(order.id, True)
        except (httpx.HTTPError, OSError, TimeoutError, UnicodeError, httpx.InvalidURL) as error:
            return LookResult(order.id, False, refusal_in(error, OPTION))

    def _file(self, order: LookOrder) -> LookResult:
        real = Path(order.name).resolve()
        if not any(real.is_relative_to(folder) for folder in self._folders):
            return LookResult(order.id, False, "it is not in a folder in which jobs may wait for files (--wait-folder)")
        return LookResult(order.id, real.exists())


async def _serve() -> None:
    lines = await orders_of_center()
    settings = decode_settings(await lines.readline())
    folders = await asyncio.to_thread(lambda: [Path(folder).resolve() for folder in settings.folders])
    tasks: set[asyncio.Task[None]] = set()
    # A proxy of the environment would connect for this process, past the guard.
    headers = {"User-Agent": f"cress/{cress.__version__}"}
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE, headers=headers, follow_redirects=True) as client:
        ConnectionGuard(AllowedSources(hosts=settings.hosts or (ANY,)), OPTION).install()
        looker = Looker(folders, client)

        async def look(order: LookOrder) -> None:
            answer(encode(await looker.look(order)))

        while line := await lines.readline():
            task = asyncio.create_task(look(decode_order(line)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(_serve())
