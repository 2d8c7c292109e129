"""The files that a task has in its directory, and each of them as a download."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.portal.pages.jobs import number_of
from cress.portal.sessions import BrowserSession
from cress.portal.web import page, sentences, signed_in, status_of
from cress.protocol.file_views import FilesPage
from cress.protocol.queries import FileQuery, FilesQuery

# Files of one page, and seconds for which a part of a file is waited for.
FILES, PATIENCE = 200, 60.0


@signed_in
async def files(request: Request, session: BrowserSession) -> Response:
    """Show the files of a task: those that it has written, or all."""
    id, given = number_of(request.path_params["id"], "job"), request.query_params
    job = await session.viewer.ask(calls.job(id, 0.0))
    task, attempt = _asked(request)
    query = FilesQuery(
        task=task,
        attempt=attempt,
        path=given.get("path", ""),
        after=given.get("after", ""),
        limit=FILES,
        written="all" not in given,
    )
    found, problem, status = FilesPage(task=task), "", 200
    try:
        found = await session.viewer.client.ask(calls.files(id, query))
    except ClientError as error:
        problem, status = "; ".join(sentences(error)), status_of(error)
    return await page(
        request,
        session,
        "files.html",
        status,
        job=job,
        task=task,
        attempt=attempt,
        found=found,
        problem=problem,
        written=query.written,
        below=query.path,
        about=None,
    )


@signed_in
async def content(request: Request, session: BrowserSession) -> Response:
    """Send a file as a download, so that no browser shows what a task wrote as a page of the portal."""
    id, path = number_of(request.path_params["id"], "job"), request.query_params.get("path", "")
    task, attempt = _asked(request)
    call = calls.file(id, FileQuery(path=path, task=task, attempt=attempt))
    async with AsyncExitStack() as stack:
        # A refusal comes before the first byte, and is a page.
        answer = await stack.enter_async_context(session.viewer.client.answer(call, PATIENCE))
        kept = stack.pop_all()

    async def parts() -> AsyncIterator[bytes]:
        async with kept:
            async for data in answer.aiter_bytes():
                yield data

    name = quote(path.rpartition("/")[2] or "file", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(parts(), media_type="application/octet-stream", headers=headers)


def _asked(request: Request) -> tuple[int, int | None]:
    given = request.query_params
    attempt = given.get("attempt", "")
    return number_of(given.get("task", "0"), "task"), number_of(attempt, "attempt", 1) if attempt else None


ROUTES = [
    Route("/jobs/{id}/files", files, methods=["GET"]),
    Route("/jobs/{id}/files/content", content, methods=["GET"]),
]
