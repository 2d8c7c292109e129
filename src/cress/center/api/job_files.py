"""The call that gives back the job file of a job."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, own_job
from cress.center.api.routes import Routes
from cress.center.committing.lookup import id_of
from cress.center.views.jobs import run_of
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import NotAccepted
from cress.model.jobfile.reader import plain
from cress.protocol.calls import job_calls
from cress.protocol.job_views import JobFileView

router = Routes()


@router.answers(job_calls.JOB_FILE)
async def job_file(request: Request, id: str) -> Response:
    """Return the job file of a job as it was submitted or last changed."""
    found = await own_job(request, id)
    run = run_of(committer_of(request), found)
    if run is None or not run.source:
        number, family = id_of(found), found.job.family if isinstance(found, (LiveJob, Family)) else found.family
        if family:
            what = f"job {number} is a part of job {family} and has no job file of its own"
            raise NotAccepted(what, hint=f"`cress job {family} -o yaml`")
        raise NotAccepted(f"the submission of job {number} is not known", hint=f"`cress job {number} --json`")
    entry = msgspec.json.decode(run.source, type=dict[str, Any])
    # Names of other jobs belong to the submit of then.
    entry = {key: value for key, value in entry.items() if plain(key) != "after"}
    if isinstance(found, (LiveJob, Family)) and found.job.after:
        entry["after"] = {str(number): condition.value for number, condition in found.job.after}
    return reply(JobFileView(job=entry))
