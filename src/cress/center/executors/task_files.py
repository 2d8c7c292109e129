"""Files in the directories of tasks, read from the node of an attempt over the connection for bulk data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import find_tasks
from cress.center.connections.bulk import ChunkSize
from cress.center.executors.logs import PATIENCE, NoAttempt
from cress.model.errors import NotAccepted
from cress.model.run import Run
from cress.protocol.messages import FileList, ListFiles, LogData, ReadFile


class AttemptPlace(NamedTuple):
    """An attempt, its node, and the directory and the runtime that its job names."""

    attempt: int
    node: str
    directory: str
    runtime: str


async def place_of_attempt(committer: Committer, run: Run, job: int, task: int, attempt: int | None) -> AttemptPlace:
    """Return where the last attempt of a task, or this one, has its files. Raises NoAttempt and NotAccepted."""
    (found,) = await find_tasks(committer, job, task, task)
    known = [(ended.attempt, ended.node) for ended in found.finished]
    if found.live is not None:
        known.append((found.live.id, found.live.node))
    if attempt is not None:
        known = [entry for entry in known if entry[0] == attempt]
        if not known:
            raise NoAttempt(f"task {task} of job {job} has no attempt {attempt}")
    if not known:
        raise NotAccepted(f"task {task} of job {job} has not been started yet")
    return AttemptPlace(*known[-1], run.directory, run.runtime)


async def listed(
    committer: Committer, place: AttemptPlace, path: str, after: str, limit: int, *, written: bool
) -> FileList:
    """Return files of an attempt. Raises Away and NotAccepted."""
    order = ListFiles(
        id=0,
        attempt=place.attempt,
        directory=place.directory,
        runtime=place.runtime,
        path=path,
        after=after,
        limit=limit,
        written=written,
    )
    found = await committer.connections.to(place.node).list_files(order, patience=PATIENCE)
    if found.error:
        raise NotAccepted(f"node {place.node}: {found.error}")
    return found


async def content(committer: Committer, place: AttemptPlace, path: str, offset: int) -> AsyncIterator[bytes]:
    """Return the content of a file of an attempt from ``offset`` on, part by part.

    Raises Away and NotAccepted before the first part; an iterator that raises Away later has not yielded all.
    """
    chunk = ChunkSize()

    async def read(offset: int) -> LogData:
        order = ReadFile(
            id=0,
            attempt=place.attempt,
            path=path,
            directory=place.directory,
            runtime=place.runtime,
            offset=offset,
            limit=chunk.now,
        )
        begun = asyncio.get_running_loop().time()
        data = await committer.connections.to(place.node).read_file(order, patience=PATIENCE)
        if data.error:
            raise NotAccepted(f"node {place.node}: {data.error}")
        chunk.answered(len(data.data), asyncio.get_running_loop().time() - begun)
        await committer.connections.pace.passed(len(data.data))
        return data

    first = await read(offset)

    async def parts() -> AsyncIterator[bytes]:
        data, place_now = first, offset
        while data.data:
            yield data.data
            place_now += len(data.data)
            if data.over:
                return
            data = await read(place_now)

    return parts()
