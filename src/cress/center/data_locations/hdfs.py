"""A client of WebHDFS that finds the hosts with a file, or with the files of a folder.

Answers are not trusted: their size and number are bounded, and so is the time of each query.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from cress.center.data_locations.namenodes import Gateway, Namenodes
from cress.center.data_locations.webhdfs import (
    BlockLocations,
    FileStatus,
    FileStatuses,
    HttpErrorBody,
    Places,
    blocks_of,
    shares,
)
from cress.model.datanames import WEBHDFS, DataName

# Most bytes of one answer: a file of 10 TB has 80,000 blocks.
MOST_BYTES = 64 * 2**20
# Limits of a folder: entries listed, folders listed, and largest files whose hosts are queried.
MOST_LISTED, MOST_FOLDERS, MOST_FILES = 50_000, 1_000, 1_000
# Concurrent queries for one piece of data.
AT_ONCE = 8
# Seconds for one answer to begin or continue, and for all answers together.
PATIENCE, LONGEST = 10.0, 60.0
MOST_REDIRECTS = 3
# Bytes above which an answer is decoded in a thread.
LONG = 2**18

_T = TypeVar("_T")
_CLASS = re.compile(r"[A-Za-z]{1,60}")
_OLD = ("IllegalArgumentException", "UnsupportedOperationException")


class UnlocatedError(Exception):
    """The location of data was not found; the message says why. ``lasting`` if the server's own answer says so."""

    def __init__(self, what: str, *, lasting: bool = False) -> None:
        super().__init__(what)
        self.lasting = lasting


class _RemoteError(Exception):
    """An HTTP error, with the class of the server's exception."""

    def __init__(self, code: int, kind: str) -> None:
        super().__init__(f"HTTP {code}{f' ({kind})' if kind else ''}")
        self.code = code
        self.kind = kind


class Hdfs:
    """A client of the namenodes; ``places`` may be called concurrently."""

    def __init__(self, namenodes: Namenodes, *, patience: float = PATIENCE, longest: float = LONGEST) -> None:
        self._namenodes = namenodes
        self._longest = longest
        self._old: set[str] = set()  # servers that know only the older query
        self._patience = patience
        self._made: httpx.AsyncClient | None = None

    @property
    def _client(self) -> httpx.AsyncClient:
        """Return the client, made at first use: reading certificates takes a while."""
        if self._made is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
            timeout = httpx.Timeout(self._patience)
            self._made = httpx.AsyncClient(timeout=timeout, follow_redirects=False, trust_env=False, limits=limits)
        return self._made

    async def close(self) -> None:
        """Close all connections."""
        if self._made is not None:
            await self._made.aclose()

    async def places(self, data: DataName) -> Places:
        """Return the hosts with a part of the data, with their shares in thousandths. Raises UnlocatedError."""
        problem: UnlocatedError | None = None
        for gateway in self._namenodes.of(data):
            try:
                async with asyncio.timeout(self._longest):
                    return await self._places(gateway, data.path)
            except TimeoutError:
                problem = UnlocatedError(f"{gateway.url} did not answer in time")
            except _RemoteError as error:
                problem = _problem(gateway, error)
                if error.kind != "StandbyException":
                    break
            except httpx.TimeoutException:
                problem = UnlocatedError(f"the namenode at {gateway.url} does not answer")
            except httpx.TransportError:
                problem = UnlocatedError(f"the namenode at {gateway.url} cannot be reached")
            except (msgspec.MsgspecError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
                problem = UnlocatedError(f"the server at {gateway.url} does not answer as WebHDFS does")
        raise problem or UnlocatedError(f"the center may not ask {data.place} (--webhdfs)", lasting=True)

    async def _places(self, gateway: Gateway, path: str) -> Places:
        status = (await self._ask(gateway, path, "GETFILESTATUS", FileStatus)).FileStatus
        files = [path] if status.type != "DIRECTORY" else await self._files(gateway, path)
        blocks: list[tuple[int, frozenset[str]]] = []
        waiting = iter(files)

        async def work() -> None:
            for query in waiting:
                try:
                    blocks.extend(await self._blocks(gateway, query))
                except _RemoteError as error:
                    # The file was deleted since the folder was listed.
                    if error.kind != "FileNotFoundException" or query == path:
                        raise

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, len(files))):
                    group.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        found = shares(blocks)
        if not found:
            raise UnlocatedError("it is empty, so it has no location", lasting=True)
        return found

    async def _files(self, gateway: Gateway, folder: str) -> list[str]:
        """Return the largest files in a folder and its subfolders."""
        found: list[tuple[int, str]] = []
        folders, listed = [folder], 0
        for place in folders:
            for status in (await self._ask(gateway, place, "LISTSTATUS", FileStatuses)).FileStatuses.FileStatus:
                name, listed = status.pathSuffix, listed + 1
                if not name or "/" in name or name in (".", "..") or not name.isprintable():
                    raise ValueError(f"{name!r} is not a name in a folder")
                if listed > MOST_LISTED:
                    break
                if status.type == "DIRECTORY":
                    folders += [f"{place}/{name}"] if len(folders) < MOST_FOLDERS else []
                elif status.type == "FILE" and status.length:
                    found.append((status.length, f"{place}/{name}"))
        return [path for _, path in heapq.nlargest(MOST_FILES, found)]

    async def _blocks(self, gateway: Gateway, path: str) -> list[tuple[int, frozenset[str]]]:
        if gateway.url not in self._old:
            try:
                return blocks_of(await self._ask(gateway, path, "GETFILEBLOCKLOCATIONS", BlockLocations))
            except _RemoteError as error:
                if error.kind not in _OLD:
                    raise
                self._old.add(gateway.url)
        return blocks_of(await self._ask(gateway, path, "GET_BLOCK_LOCATIONS", BlockLocations))

    async def _ask(self, gateway: Gateway, path: str, question: str, kind: type[_T]) -> _T:
        url = f"{gateway.url}{WEBHDFS}{quote(path)}?op={question}&user.name={quote(gateway.user)}"
        for _ in range(MOST_REDIRECTS + 1):
            async with self._answer(url) as (answer, body):
                if not answer.is_redirect:
                    break
                target = answer.url.join(answer.headers.get("Location", ""))
                url = str(target)
                if not self._namenodes.allow(url):
                    origin = f"{target.scheme}://{target.netloc.decode('ascii', 'replace')}"
                    raise UnlocatedError(
                        f"{gateway.url} redirects to {origin}, which the center may not ask (--webhdfs)", lasting=True
                    )
        else:
            raise ValueError("too many redirects")
        if answer.status_code != 200:
            raise _RemoteError(answer.status_code, _kind(body))
        if len(body) > LONG:
            return await asyncio.to_thread(msgspec.json.decode, body, type=kind)
        return msgspec.json.decode(body, type=kind)

    @asynccontextmanager
    async def _answer(self, url: str) -> AsyncIterator[tuple[httpx.Response, bytes]]:
        """Return an answer with its body. Raises ValueError for one that is too long."""
        async with self._client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            body = bytearray()
            async for part in answer.aiter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise ValueError("too long an answer")
            yield answer, bytes(body)


def _kind(body: bytes) -> str:
    try:
        kind = msgspec.json.decode(body, type=HttpErrorBody).RemoteException.exception
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return kind if _CLASS.fullmatch(kind) else ""


def _problem(gateway: Gateway, error: _RemoteError) -> UnlocatedError:
    """Return the problem in the center's own words, since users must not read a server's answers through the center."""
    if error.kind == "FileNotFoundException" or (error.code == 404 and not error.kind):
        return UnlocatedError("no such file (according to the namenode)", lasting=True)
    if error.kind in ("AccessControlException", "SecurityException") or error.code in (401, 403):
        if error.kind == "StandbyException":
            return UnlocatedError(f"the namenode at {gateway.url} is not the active one")
        return UnlocatedError(f"{gateway.user} may not read it (according to the namenode)", lasting=True)
    return UnlocatedError(f"the namenode at {gateway.url} answers with {error}")
