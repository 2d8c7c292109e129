"""Calls about the files that tasks leave in their directories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, own_job
from cress.center.api.errors import UnknownResource
from cress.center.api.jobs import check_task
from cress.center.api.routes import Routes, query_of
from cress.center.connections.connection_table import Away
from cress.center.executors import task_files
from cress.center.executors.logs import NoAttempt
from cress.center.executors.task_files import AttemptPlace
from cress.center.views.jobs import run_of
from cress.center.views.members import place_of
from cress.model.errors import InputError, NotAccepted
from cress.protocol.calls import file_calls
from cress.protocol.file_views import FilesPage
from cress.protocol.queries import FileQuery, FilesQuery

router = Routes()


@router.answers(file_calls.FILES)
async def files(request: Request, id: str) -> Response:
    """List the files in the directory of a task's last attempt, or of this ``attempt``, by path."""
    query = query_of(request, FilesQuery)
    place = await _place(request, id, query.task, query.attempt)
    found = await task_files.listed(
        committer_of(request), place, query.path, query.after, query.limit, written=query.written
    )
    return reply(
        FilesPage(
            files=found.files,
            next=found.files[-1].path if found.more and found.files else None,
            task=query.task,
            attempt=place.attempt,
            node=place.node,
            directory=place.directory,
        )
    )


@router.answers(file_calls.FILE)
async def file(request: Request, id: str) -> Response:
    """Return the content of one file from byte ``offset`` on.

    The connection breaks off if the node goes away before the end.
    """
    query = query_of(request, FileQuery)
    if not query.path:
        raise InputError("is missing", hint="a path as in the list of files", field="path")
    place = await _place(request, id, query.task, query.attempt)
    parts = await task_files.content(committer_of(request), place, query.path, query.offset)
    abort = request.scope["state"].get("abort")
    return StreamingResponse(_whole(parts, abort), media_type="application/octet-stream")


async def _whole(parts: AsyncIterator[bytes], abort: Callable[[], None] | None) -> AsyncIterator[bytes]:
    """Yield the parts; cut the connection if the rest cannot be read, since a part must not look complete."""
    try:
        async for part in parts:
            yield part
    except (Away, NotAccepted):
        if abort is not None:
            abort()


async def _place(request: Request, id: str, task: int, attempt: int | None) -> AttemptPlace:
    """Return where a task has its files. Raises NotFound, NotAccepted and Forbidden."""
    committer, job = committer_of(request), await own_job(request, id)
    check_task(job, task)
    run = run_of(committer, job)
    if run is None:
        raise NotAccepted(f"the description of job {id} is no longer kept")
    number, index = await place_of(committer, job, task)
    try:
        return await task_files.place_of_attempt(committer, run, number, index, attempt)
    except NoAttempt as error:
        raise UnknownResource(str(error)) from None
