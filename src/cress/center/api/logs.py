"""Calls about the output of tasks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cress.center.api.context import committer_of, own_job
from cress.center.api.errors import UnknownResource
from cress.center.api.jobs import check_task
from cress.center.api.routes import Routes, query_of
from cress.center.executors.logs import LogReader, NoAttempt, answered
from cress.center.views.members import place_of
from cress.model.errors import InputError
from cress.model.units import one_of
from cress.protocol.calls import job_calls
from cress.protocol.queries import LogsQuery

STREAMS = ("stdout", "stderr", "times")

router = Routes()


@router.answers(job_calls.LOGS)
async def logs(request: Request, id: str) -> Response:
    """Return the output of a task's last attempt, or of this ``attempt``, from byte ``offset`` on.

    With ``follow`` the answer goes on until the task ends, through all further attempts. To resume a broken connection,
    give the attempt as ``since``: ``offset`` counts in that attempt. With ``framed`` the output comes in parts with
    their attempt and offset, as in ``protocol/logs.py``; a follower gets one without data after each 5 s of silence.
    The stream ``times`` says when the node saw which sizes of the others, as in ``model/log_times.py``.
    The connection breaks off if this center cannot go on: it stops, it loses the lead, or the node is away for long.
    """
    committer, query = committer_of(request), query_of(request, LogsQuery)
    stream, framed = query.stream, query.framed
    if stream not in STREAMS:
        raise InputError(f"{stream[:40]!r} is not a stream", hint=one_of(stream, STREAMS), field="stream")
    job = await own_job(request, id)
    check_task(job, query.task)
    number, index = await place_of(committer, job, query.task)
    reader = LogReader(committer, number, index, stream, query.offset, query.attempt, query.since)
    try:
        parts = await answered(reader, follow=query.follow, framed=framed, abort=request.scope["state"].get("abort"))
    except NoAttempt as error:
        raise UnknownResource(str(error)) from None
    return StreamingResponse(parts, media_type="application/x-cress-log" if framed else "text/plain; charset=utf-8")
