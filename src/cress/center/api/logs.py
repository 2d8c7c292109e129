"""Calls about the output of tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from cress.center.api.context import committer_of, own_job
from cress.center.api.errors import NotFound
from cress.center.api.jobs import check_task
from cress.center.api.routes import Routes
from cress.center.executors.logs import LogReader, NoAttempt, answered
from cress.center.views.members import place_of
from cress.model.bounds import MOST
from cress.model.errors import InputError
from cress.model.units import one_of
from cress.protocol.calls import job_calls

STREAMS = ("stdout", "stderr")

router = Routes()


@router.answers(job_calls.LOGS)
async def logs(
    request: Request,
    id: str,
    task: Annotated[int, Query(ge=0, le=MOST)] = 0,
    stream: str = "stdout",
    offset: Annotated[int, Query(ge=0, le=MOST)] = 0,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    since: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    framed: bool = False,
) -> Response:
    """Return the output of the last attempt of a task, or of this ``attempt``, from byte ``offset`` on.

    With ``follow`` the answer goes on until the task is over, through all further attempts. To resume a broken
    connection, give the attempt as ``since``: ``offset`` counts in that attempt. ``framed``: in parts that name their
    attempt and offset, as in ``protocol/logs.py``; a follower gets one without data after each 5 s of silence. The
    connection breaks off when this center cannot go on: another one leads, it stops, or the node is away for long.
    """
    committer = committer_of(request)
    if stream not in STREAMS:
        raise InputError(f"{stream[:40]!r} is not a stream", hint=one_of(stream, STREAMS), field="stream")
    job = await own_job(request, id)
    check_task(job, task)
    number, index = await place_of(committer, job, task)
    reader = LogReader(committer, number, index, stream, offset, attempt, since)
    try:
        parts = await answered(reader, follow=follow, framed=framed, abort=request.scope["state"].get("abort"))
    except NoAttempt as error:
        raise NotFound(str(error)) from None
    return StreamingResponse(parts, media_type="application/x-cress-log" if framed else "text/plain; charset=utf-8")
