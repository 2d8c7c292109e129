"""The call that gives back the job file of a job, and the job as it would be submitted now."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, own_job
from cress.center.api.routes import Routes
from cress.center.committing.lookup import AnyJob, group_of, id_of, spec_of, tasks_of
from cress.center.views.jobs import run_of
from cress.model.errors import NotAccepted
from cress.model.group import DEFAULT_GROUP
from cress.model.job import KEPT_RUNNING
from cress.model.jobfile.reader import plain
from cress.model.records import JobRecord
from cress.model.run import Run
from cress.protocol.calls import job_calls
from cress.protocol.job_views import JobFileView

# The types whose number of tasks a scale changes.
_KEPT = frozenset(type_.value for type_ in KEPT_RUNNING)

router = Routes()


@router.answers(job_calls.JOB_FILE)
async def job_file(request: Request, id: str) -> Response:
    """Return the job file of a job as it was submitted or last changed."""
    found = await own_job(request, id)
    number, spec = id_of(found), spec_of(found)
    # Members of a family may share its submission, which is not theirs.
    if spec.family:
        what = f"job {number} is a part of job {spec.family} and has no job file of its own"
        raise NotAccepted(what, hint=f"`cress job {spec.family} -o yaml`")
    if _kind(found) == "lease":
        raise NotAccepted(f"job {number} is a request of leases and has no job file", hint=f"`cress job {number}`")
    run = run_of(committer_of(request), found)
    if run is None or not run.source:
        raise NotAccepted(f"the submission of job {number} is not known", hint=f"`cress job {number} --json`")
    # Names of other jobs belong to the submit of then.
    entry = {key: value for key, value in entry_of(found, run).items() if plain(key) != "after"}
    if not isinstance(spec, JobRecord) and spec.after:
        entry["after"] = {str(other): condition.value for other, condition in spec.after}
    return reply(JobFileView(job=entry))


def entry_of(found: AnyJob, run: Run) -> dict[str, Any]:
    """Return a job as submitted or last changed, from its run with a source.

    A scale changes the number of tasks, and new groups may move the job; neither makes a new run.
    """
    entry = msgspec.json.decode(run.source, type=dict[str, Any])
    group, tasks = group_of(found), tasks_of(found)
    if str(_written(entry, "group", DEFAULT_GROUP)) != group:
        entry = _with(entry, "group", group)
    # A timetable sets the number of tasks in any case, and no file can have 0.
    scaled = _kind(found) in _KEPT and tasks and not _written(entry, "timetable", ())
    if scaled and str(_written(entry, "tasks", 1)) != str(tasks):
        entry = _with(entry, "tasks", tasks)
    return entry


def _kind(found: AnyJob) -> str:
    spec = spec_of(found)
    return spec.type if isinstance(spec, JobRecord) else spec.kind


def _written(entry: dict[str, Any], key: str, default: object) -> object:
    return next((value for name, value in entry.items() if plain(name) == key), default)


def _with(entry: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    """Return a job with the value of a key, at its place if it is there."""
    name = next((name for name in entry if plain(name) == key), key)
    return entry | {name: value}
