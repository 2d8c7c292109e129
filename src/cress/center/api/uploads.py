"""Calls about uploads: files that submitters send for their jobs, and that executors fetch for their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cress.center.access.guard import MOST_BODY
from cress.center.api.bodies import decoded, receive, reply
from cress.center.api.context import caller_of, committer_of, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes, query_of
from cress.model.errors import InputError
from cress.model.uploads import is_digest, uploads_of
from cress.protocol.bodies import UploadBody
from cress.protocol.calls import file_calls
from cress.protocol.file_views import UploadsPage
from cress.protocol.queries import UploadQuery

# Bytes of one part of an answer.
PART = 1 << 20

router = Routes()


@router.answers(file_calls.UPLOADS)
async def uploads(request: Request) -> Response:
    """List the caller's uploads, latest use first."""
    kept = committer_of(request).uploads
    found = await asyncio.to_thread(kept.of, user_of(request))
    limits = kept.limits
    return reply(
        UploadsPage(
            uploads=tuple(found),
            file_most=limits.file,
            user_most=limits.user,
            total_most=limits.total,
            kept=limits.kept,
        )
    )


@router.answers(file_calls.UPLOAD)
async def upload(request: Request, digest: str) -> Response:
    """Keep a part of a file for jobs of the caller. The answer says where the next part begins."""
    if not is_digest(digest):
        raise InputError(f"{digest[:80]!r} is not a digest", hint="the SHA-256 of the file: 64 hexadecimal digits")
    committer, user = committer_of(request), user_of(request)
    data = await receive(request, MOST_BODY)
    async with committer.turns.of_user(user, len(data)):
        body = await committer.turns.check(len(data), partial(decoded, data, UploadBody))
        return reply(await committer.uploads.receive(user, digest, body.size, body.offset, body.data))


@router.answers(file_calls.UPLOAD_CONTENT)
async def content(request: Request, digest: str) -> Response:
    """Return an upload of the caller from byte ``offset`` on; with a job token, of one that the task fetches."""
    path, offset = await _found(request, digest), query_of(request, UploadQuery).offset
    size = path.stat().st_size
    headers = {"Content-Length": str(max(0, size - offset))}
    return StreamingResponse(_parts(path, offset, size), media_type="application/octet-stream", headers=headers)


async def _found(request: Request, digest: str) -> Path:
    """Return the path of an upload. Raises NotFound, also for one that the caller may not read."""
    caller, committer = caller_of(request), committer_of(request)
    found: Path | None = None
    if caller.attempt:
        attempt = committer.machine.attempts.get(caller.attempt)
        job = None if attempt is None else committer.machine.jobs.get(attempt.job)
        run = None if job is None else committer.loop.resolved(job)
        if run is not None and any(digest == used for _, used in uploads_of(run)):
            found = await asyncio.to_thread(committer.uploads.path_of, digest)
    else:
        found = await asyncio.to_thread(committer.uploads.path_of, digest, caller.user)
    if found is None:
        raise UnknownResource(
            f"{caller.user} has no upload {digest[:64]} here: unused files are removed after a while (submit it again)"
        )
    return found


async def _parts(path: Path, offset: int, size: int) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        file.seek(offset)
        while offset < size:
            data = await asyncio.to_thread(file.read, min(PART, size - offset))
            if not data:
                return
            offset += len(data)
            yield data
    finally:
        file.close()
