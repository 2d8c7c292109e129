"""Fetching of the files that tasks leave in their directories."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cress.client import calls
from cress.client.aio.http import LOG_SECONDS, AsyncHttp
from cress.client.aio.runtime import in_thread
from cress.client.errors import ClientError
from cress.client.fetched import PROBE, FetchedFile, NewFile, Wanted, make_link, target_of
from cress.model.errors import InputError, NotAccepted
from cress.protocol.file_views import FilesPage, TaskFile
from cress.protocol.queries import FileQuery, FilesQuery


async def fetch(
    job: int,
    paths: Sequence[str],
    to: Path,
    center: AsyncHttp,
    *,
    task: int = 0,
    attempt: int | None = None,
) -> list[FetchedFile]:
    """Fetch files of a task into the folder ``to``; return them with their paths there.

    ``paths`` are files, folders or patterns (``*``, ``?``, ``[…]``, ``**``) in the directory of the task; without any,
    all that the program wrote there. If this machine sees the directory itself, the files are copied from there. Raises
    ClientError, and InputError for a path that matches nothing.
    """
    wanted = Wanted(paths)
    found: list[FetchedFile] = []
    links: list[TaskFile] = []
    shared: Path | None = None
    probed = False
    for start in wanted.starts:
        query = FilesQuery(task=task, attempt=attempt, path=start, written=not paths)
        while True:
            page = await center.ask(calls.files(job, query))
            if page.directory and not probed:
                probed, shared = True, await _shared(job, page, query, center)
                if not paths:
                    raise _in_directory(job, page, is_here=shared is not None)
            for file in page.files:
                if not wanted.takes(file.path):
                    continue
                place = target_of(to, file.path)
                if file.link:
                    links.append(file)
                elif file.folder:
                    await in_thread(place.mkdir, parents=True, exist_ok=True)
                elif shared is not None:
                    found.append(await in_thread(NewFile.copied, shared / file.path, place, file))
                else:
                    found.append(await _fetch(job, file, place, page, center))
            if page.next is None:
                break
            query = FilesQuery(task=task, attempt=page.attempt, path=start, after=page.next, written=not paths)
    wanted.check(job, task)
    return found + [await in_thread(make_link, to, file) for file in links]


def _in_directory(job: int, page: FilesPage, *, is_here: bool) -> Exception:
    """Return the error for a job whose directory may contain files of others, if no path is named."""
    where = f"task {page.task} of job {job} ran in {page.directory} of node {page.node}"
    if is_here:
        return NotAccepted(f"{where}, which this machine sees too: its files are there")
    return InputError(f"{where}, where other files may be, too", hint="name the files to fetch: out/*.csv, say")


async def _shared(job: int, page: FilesPage, query: FilesQuery, center: AsyncHttp) -> Path | None:
    """Return the directory of the task if this machine sees the same one; ``None`` if not.

    It does if the node sees a file that was made here a moment ago.
    """
    folder = Path(page.directory)
    probe = folder / f"{PROBE}{secrets.token_hex(12)}"
    try:
        await in_thread(probe.touch, 0o600, exist_ok=False)
    except OSError:
        return None
    try:
        asked = FilesQuery(task=query.task, attempt=page.attempt, path=probe.name)
        with suppress(ClientError):
            found = await center.ask(calls.files(job, asked))
            if [file.path for file in found.files] == [probe.name]:
                return folder
        return None
    finally:
        await in_thread(probe.unlink, missing_ok=True)


async def _fetch(job: int, file: TaskFile, place: Path, page: FilesPage, center: AsyncHttp) -> FetchedFile:
    """Fetch one file."""
    task_query = FileQuery(path=file.path, task=page.task, attempt=page.attempt)
    new = await in_thread(NewFile, place)
    try:
        async with center.answer(calls.file(job, task_query), LOG_SECONDS) as answer:
            async for data in answer.aiter_bytes():
                await in_thread(new.write, data)
        return await in_thread(new.keep, file)
    finally:
        await in_thread(new.close)
