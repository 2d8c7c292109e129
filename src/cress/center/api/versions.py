"""Calls about versions of services and databases: restart, the list, an earlier version, promotion of canaries."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read, reply
from cress.center.api.context import committer_of, own_job, seen_job, user_of
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, id_of
from cress.center.requests.differences import differences_of
from cress.center.requests.used import check_used
from cress.center.requests.validation import read_jobs
from cress.center.views.jobs import job_view
from cress.lifecycle.inputs import Promote, Update
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.model.errors import InputError, NotAccepted
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol.bodies import RevertBody
from cress.protocol.calls import job_calls
from cress.protocol.job_views import VersionsPage, VersionView

router = Routes()


@router.answers(job_calls.RESTART)
async def restart(request: Request, id: str) -> Response:
    """Replace all tasks of a service or database by new ones, as an update does."""
    committer = committer_of(request)
    family = _kept(await own_job(request, id))
    run = _run(committer, family, family.template)
    spec = msgspec.structs.replace(family.job, user=user_of(request))
    await committer.submit(Update(job=family.job.id, spec=spec, anew=True), [run])
    return reply(job_view(committer, await seen_job(request, id)))


@router.answers(job_calls.VERSIONS)
async def versions(request: Request, id: str) -> Response:
    """List the last versions of a service or database, the newest first."""
    committer = committer_of(request)
    family = _kept(await seen_job(request, id))
    good = family.state.good if isinstance(family.state, ReplicaState) else None
    views: list[VersionView] = []
    before: Run | None = None
    for entry in family.versions:
        run = committer.loop.runs.template(entry.template)
        changes = () if before is None or run is None else differences_of(before.source, run.source)
        view = VersionView(
            version=entry.number,
            at=entry.at / SECOND,
            by=entry.by,
            now=entry.number == family.version,
            good=good is not None and good.template == entry.template,
            command=() if run is None else run.command,
            changes=changes,
        )
        views.append(view)
        before = run
    return reply(VersionsPage(versions=tuple(reversed(views))))


@router.answers(job_calls.REVERT)
async def revert(request: Request, id: str) -> Response:
    """Update a service or database to an earlier version; its number of tasks stays."""
    committer, user = committer_of(request), user_of(request)
    body = await read(request, RevertBody)
    family = _kept(await own_job(request, id))
    entry = next((entry for entry in family.versions if entry.number == body.version), None)
    if entry is None:
        known = ", ".join(str(entry.number) for entry in family.versions)
        what = f"job {family.job.id} has no version {body.version} in its list"
        raise InputError(what, hint=f"one of {known}", field="version")
    if entry.template == family.template:
        what = f"job {family.job.id} has version {body.version} already"
        raise NotAccepted(what, hint=f"`cress versions {family.job.id}` lists the others", field="version")
    run = _run(committer, family, entry.template)
    core = committer.machine.core
    mapping = msgspec.json.decode(run.source, type=dict[str, Any])
    zone, accounts = core.groups.cluster_zone, committer.settings.run_as
    specs, jobs = read_jobs([mapping], dimensions=core.dimensions, user=user, accounts=accounts, zone=zone)
    check_used(committer, specs)
    spec = msgspec.structs.replace(jobs[0], tasks=family.job.tasks)
    await committer.submit(Update(job=family.job.id, spec=spec), [specs[0].run])
    return reply(job_view(committer, await seen_job(request, id)))


@router.answers(job_calls.PROMOTE)
async def promote(request: Request, id: str) -> Response:
    """Let an update that waits after its canaries replace all tasks."""
    committer = committer_of(request)
    family = _kept(await own_job(request, id))
    await committer.submit(Promote(job=family.job.id, by=user_of(request)))
    return reply(job_view(committer, await seen_job(request, id)))


def _kept(found: AnyJob) -> Family:
    """Return a live service or database. Raises NotAccepted for any other job."""
    if not isinstance(found, Family) or not isinstance(found.state, ReplicaState):
        raise NotAccepted(f"job {id_of(found)} is no service or database that runs", hint="`cress jobs --type service`")
    return found


def _run(committer: Committer, family: Family, template: int) -> Run:
    run = committer.loop.runs.template(template)
    if run is None or not run.source:
        number = family.job.id
        raise NotAccepted(f"this version of job {number} is not known any more", hint="`cress apply` its file")
    return run
