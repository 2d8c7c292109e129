"""Calls that hold and release one job or several."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read_ids, reply, reply_with_jobs
from cress.center.api.cancel import all_jobs
from cress.center.api.context import committer_of, own_job, seen_job, user_of
from cress.center.api.routes import Routes
from cress.center.committing.lookup import id_of
from cress.center.process.turns import in_turns
from cress.center.views.jobs import job_view
from cress.lifecycle.inputs import Hold
from cress.protocol.calls import job_calls

# Most jobs of one call.
MOST_JOBS = 10_000

router = Routes()


@router.answers(job_calls.HOLD_JOBS)
async def hold_jobs(request: Request) -> Response:
    """Hold jobs, all or none: none if an id is unknown or its job has ended."""
    return await _hold_all(request, held=True)


@router.answers(job_calls.RELEASE_JOBS)
async def release_jobs(request: Request) -> Response:
    """Release held jobs, all or none: none if an id is unknown or its job has ended."""
    return await _hold_all(request, held=False)


async def _hold_all(request: Request, *, held: bool) -> Response:
    committer = committer_of(request)
    first, *others = numbers = await read_ids(request, committer.turns, MOST_JOBS)
    what = "held" if held else "released"
    await all_jobs(request, numbers, what)
    await committer.submit(Hold(job=first, more=tuple(others), held=held, by=user_of(request)))
    after = await all_jobs(request, numbers, what)
    return await reply_with_jobs(job_view(committer, job) async for job in in_turns(after))


@router.answers(job_calls.HOLD)
async def hold(request: Request, id: str) -> Response:
    """Hold a job: none of its tasks starts until it is released; running tasks go on."""
    return await _hold(request, id, held=True)


@router.answers(job_calls.RELEASE)
async def release(request: Request, id: str) -> Response:
    """Release a held job."""
    return await _hold(request, id, held=False)


async def _hold(request: Request, id: str, *, held: bool) -> Response:
    committer = committer_of(request)
    number = id_of(await own_job(request, id))
    await committer.submit(Hold(job=number, held=held, by=user_of(request)))
    return reply(job_view(committer, await seen_job(request, id)))
