"""The live log of a task."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError, NotFound, Unauthorized
from cress.portal.job_view import OVER
from cress.portal.pages.jobs import number_of
from cress.portal.sessions import BrowserSession
from cress.portal.web import event, page, signed_in

STREAMS = ("stdout", "stderr")
# Seconds between two tries while a task has no log yet, or the center is away.
AGAIN = 1.0


@signed_in
async def log(request: Request, session: BrowserSession) -> Response:
    """Show the page of a log; the script fills it."""
    id = number_of(request.path_params["id"], "job")
    job = await session.viewer.ask(calls.job(id, 0.0))
    task, stream, attempt = _asked(request)
    return await page(request, session, "log.html", job=job, task=task, stream=stream, streams=STREAMS, attempt=attempt)


@signed_in
async def log_stream(request: Request, session: BrowserSession) -> Response:
    """Stream the output of a task: ``text``, ``attempt`` when another one begins, ``note``, and ``over`` at the end."""
    id = number_of(request.path_params["id"], "job")
    task, stream, attempt = _asked(request)
    client = session.viewer.client

    async def output() -> AsyncIterator[str]:
        offset, since = 0, None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                async for piece in client.logs(id, task, stream, offset, follow=True, attempt=attempt, since=since):
                    if not piece:
                        yield event("alive", {})
                        continue
                    if piece.attempt != since:
                        if attempt is None:
                            yield event("attempt", {"attempt": piece.attempt})
                        decoder.reset()
                    since, offset = piece.attempt, piece.end
                    yield event("text", {"text": decoder.decode(piece)})
                yield event("over", {})
                return
            except NotFound as error:
                view = await client.job(id)
                if view.state in OVER:
                    yield event("note", {"text": str(error)})
                    yield event("over", {})
                    return
                yield event("note", {"text": "The task has no output yet. It appears here when the task starts."})
            except Unauthorized as error:
                yield event("note", {"text": str(error)})
                yield event("over", {})
                return
            except ClientError as error:
                yield event("note", {"text": f"{error}. The log goes on when the center is back."})
            await asyncio.sleep(AGAIN)

    return StreamingResponse(output(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _asked(request: Request) -> tuple[int, str, int | None]:
    given = request.query_params
    stream = given.get("stream", "stdout")
    attempt = given.get("attempt", "")
    return (
        number_of(given.get("task", "0"), "task"),
        stream if stream in STREAMS else "stdout",
        number_of(attempt, "attempt", 1) if attempt else None,
    )


ROUTES = [Route("/jobs/{id}/log", log, methods=["GET"]), Route("/jobs/{id}/log/stream", log_stream, methods=["GET"])]
