"""Calls that cancel one job, or several that are checked together."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read_ids, reply, reply_with_jobs
from cress.center.api.context import check_steers, committer_of, own_job, seen_job, sees, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, find_all, id_of, spec_of, state_of
from cress.center.process.turns import in_turns
from cress.center.views.jobs import job_view
from cress.lifecycle.inputs import Cancel
from cress.model.records import FINAL, JobRecord, JobState
from cress.protocol.calls import job_calls
from cress.protocol.job_views import CancelledJob

# Most jobs of one call; most ids in an error.
MOST_JOBS = 100_000
MOST_NAMED = 5

router = Routes()


@router.answers(job_calls.CANCEL_JOBS)
async def cancel_jobs(request: Request) -> Response:
    """Cancel jobs with all their tasks; finished jobs stay as they are.

    If one id is unknown, no job is cancelled. Otherwise the jobs are cancelled in order. If the center fails in
    between, the answer is an error, the first jobs are cancelled, and the call can be repeated.
    """
    committer = committer_of(request)
    numbers = await read_ids(request, committer.turns, MOST_JOBS)
    before = await all_jobs(request, numbers, "cancelled")
    ending = committer.loop.uncommitted.jobs
    alive = [
        number
        async for number, job in in_turns(zip(numbers, before, strict=True))
        if not isinstance(job, JobRecord) or number in ending
    ]
    user = user_of(request)
    await committer.submit_each([Cancel(job=number, by=user) async for number in in_turns(alive)])
    after = await all_jobs(request, numbers, "cancelled")
    pairs = in_turns(zip(before, after, strict=True))
    return await reply_with_jobs(_told(committer, *pair) async for pair in pairs)


async def all_jobs(request: Request, numbers: list[int], what: str) -> list[AnyJob]:
    """Return these jobs; ``what`` is the participle of the error message, such as "cancelled".

    Raises NotFound with the ids that are not visible jobs of the caller, and Forbidden for jobs of others.
    """
    committer = committer_of(request)
    end = committer.machine.next_job
    given_out = [number async for number in in_turns(numbers) if 0 < number < end]
    found = await find_all(committer, given_out)
    missing = [number async for number in in_turns(numbers) if number not in found or not sees(request, found[number])]
    if missing:
        named = ", ".join(map(str, missing[:MOST_NAMED])) + (" …" if len(missing) > MOST_NAMED else "")
        raise UnknownResource(f"there is no job {named}; none was {what}")
    jobs = [found[number] for number in numbers]
    async for job in in_turns(jobs):
        check_steers(request, job)
    return jobs


def _told(committer: Committer, before: AnyJob, after: AnyJob) -> CancelledJob:
    spec, state = spec_of(after), state_of(committer, after)
    # A job that ended by itself in the meantime counts as not cancelled.
    over = isinstance(before, JobRecord) or (state in FINAL and state is not JobState.CANCELLED)
    return CancelledJob(id=id_of(after), name=spec.name, state=state.value, was_over=over)


@router.answers(job_calls.CANCEL)
async def cancel(request: Request, id: str) -> Response:
    """Cancel a job and all its tasks; a finished job stays as it is."""
    committer = committer_of(request)
    number = id_of(await own_job(request, id))
    # An end that is being stored may still be lost, so the answer waits for it.
    known = (committer.machine.jobs, committer.machine.families, committer.loop.uncommitted.jobs)
    if any(number in jobs for jobs in known):
        await committer.submit(Cancel(job=number, by=user_of(request)))
    return reply(job_view(committer, await seen_job(request, id)))
