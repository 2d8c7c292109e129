"""Calls about leases: a framework requests parts of nodes, reports its use of them, and returns them (design note
0024).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.guard import MOST_BODY
from cress.center.api.bodies import decoded_jobs, read, receive, reply
from cress.center.api.context import check_steers, committer_of, seen_job, sees, sees_number, sight_of, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.jobs import LOOK_AGAIN, check_submit, digest_of, key_of, submit_all, submitted
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.process.turns import in_turns
from cress.center.requests.lease_requests import lease_specs, pinned, read_one
from cress.center.requests.used import check_used
from cress.center.views.jobs import run_of
from cress.center.views.leases import WorkloadSums, kept_lease, leases_of_job, stamp_of
from cress.lifecycle.inputs import ReleaseLeases, RenewLeases, Submit, UseLease
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError, NotAccepted
from cress.model.group import DEFAULT_GROUP
from cress.model.jobfile.job import below
from cress.model.vectors import parse_vector
from cress.model.whole_numbers import whole_number
from cress.protocol.bodies import CountBody, UseBody
from cress.protocol.calls import lease_calls
from cress.protocol.lease_views import LeasesPage, LeaseView, WorkloadsPage
from cress.protocol.queries import WAITING_FIRST, DryRunQuery, LeaseQuery, LeasesQuery, WorkloadsQuery

router = Routes()


@router.answers(lease_calls.REQUEST)
async def request_leases(request: Request) -> Response:
    """Request ``count`` leases for a workload; the other keys are those of a job file (docs/api.md).

    A ``dry_run`` gives the answer with errors and note, but requests nothing.
    """
    committer = committer_of(request)
    data = await receive(request, MOST_BODY)
    async with committer.turns.of_user(user_of(request), len(data)):
        (body,) = decoded_jobs([msgspec.Raw(data)])
        return await _ask(request, body, dry_run=query_of(request, DryRunQuery).dry_run)


async def _ask(request: Request, body: Mapping[str, Any], *, dry_run: bool = False) -> Response:
    committer, user, key = committer_of(request), user_of(request), key_of(request)
    core, settings = committer.machine.core, committer.settings
    specs, jobs = lease_specs(body, core.dimensions, user=user, accounts=settings.run_as, zone=core.groups.cluster_zone)
    committer.machine.user_load.check(jobs, settings.user_jobs, settings.user_tasks)
    check_used(committer, specs, dry_run=dry_run)
    if dry_run:
        await check_submit(committer, specs, jobs, (), strict=False)
        (told,) = (await submitted(committer, [0], jobs)).jobs
        return reply(LeasesPage(leases=(), stamp=stamp_of(()), note=told.note))
    what = Submit(jobs=jobs, key=key and f"{user} {key}", digest=digest_of(key, [{"lease": dict(body)}]))
    (number,) = ids = await submit_all(committer, what, specs)
    note = (await submitted(committer, ids, jobs)).jobs[0].note
    job = committer.machine.leases.get(number)
    page = _page_of(request, job) if job is not None else LeasesPage(leases=())
    return reply(msgspec.structs.replace(page, note=note), 201)


@router.answers(lease_calls.LEASES)
async def leases(request: Request) -> Response:
    """List leases: waiting ones, held ones, and those that the center keeps for workloads itself.

    With ``wait`` (seconds) and the ``stamp`` of an earlier answer, the answer comes when the list has changed.
    """
    committer, query = committer_of(request), query_of(request, LeasesQuery)

    async def page() -> LeasesPage:
        return await _all(request, query)

    async with committer.turns.long_answer():
        found = await page()
    return reply(await _changed(request, found, page, query))


@router.answers(lease_calls.WORKLOADS)
async def workloads(request: Request) -> Response:
    """Return what each workload holds in all, of the leases that the caller sees."""
    committer, query, sight = committer_of(request), query_of(request, WorkloadsQuery), sight_of(request)
    sums = WorkloadSums(committer)

    def wanted(group: str, workload: str) -> bool:
        return _wanted(group, workload, query) and sight.has("", group)

    async with committer.turns.long_answer():
        async for job in in_turns(list(committer.machine.leases.values())):
            if _wanted(job.job.group or DEFAULT_GROUP, job.job.workload, query) and sees(request, job):
                sums.add_request(job)
        async for kept in in_turns(list(committer.machine.core.pool.leases.values())):
            if kept.holder is None and wanted(kept.workload.group.name, kept.workload.name):
                sums.add_kept(kept)
        return reply(WorkloadsPage(workloads=tuple(sums.views(wanted))))


@router.answers(lease_calls.LEASE)
async def lease(request: Request, id: str) -> Response:
    """Return a lease (JOB.TASK), or all leases of one request (JOB); ``wait`` and ``stamp`` work as in the list.

    An answer without leases means that they have ended.
    """
    number, task = _parsed(id)

    async def page() -> LeasesPage:
        found = await seen_job(request, str(number))
        if not isinstance(found, LiveJob):
            _check_lease(found)
            return LeasesPage(leases=(), stamp=stamp_of(()))
        _check_lease(found)
        return _page_of(request, found, task)

    return reply(await _changed(request, await page(), page, query_of(request, LeaseQuery)))


@router.answers(lease_calls.USE)
async def use(request: Request, id: str) -> Response:
    """Report the holder's own use of a lease; the rest is idle."""
    body = await read(request, UseBody)
    committer = committer_of(request)
    job, task = await _own(request, id)
    try:
        amounts = parse_vector(body.amounts, committer.machine.core.dimensions)
    except InputError as error:
        raise below(error, "amounts") from None
    await committer.submit(UseLease(job=job.job.id, task=_task_of(job, task), amounts=amounts))
    return reply(_page_of(request, job, task))


@router.answers(lease_calls.SUBMIT_INSIDE)
async def submit_inside(request: Request, id: str) -> Response:
    """Submit a job whose tasks run in a lease: on its node, first in its idle parts. It ends with the lease."""
    committer, user, key = committer_of(request), user_of(request), key_of(request)
    job, task = await _own(request, id)
    data = await receive(request, MOST_BODY)
    async with committer.turns.of_user(user, len(data)):
        (entry,) = decoded_jobs([msgspec.Raw(data)])
        attempt = _attempt(job, task)
        core, settings = committer.machine.core, committer.settings
        specs, jobs = read_one(
            pinned(entry, job.job, attempt.node),
            core.dimensions,
            user=user,
            accounts=settings.run_as,
            zone=core.groups.cluster_zone,
            given=entry,
        )
        for name, amount, held in zip(core.dimensions.names, jobs[0].request, job.job.request, strict=True):
            if amount > held:
                raise NotAccepted(
                    f"a task is larger than lease {job.job.id}.{attempt.task}: more {name}",
                    hint="a smaller task, or a job of the workload without a lease",
                    field="resource",
                )
        committer.machine.user_load.check(jobs, settings.user_jobs, settings.user_tasks)
        check_used(committer, specs)
        jobs = tuple(msgspec.structs.replace(made, inside=(job.job.id, attempt.task)) for made in jobs)
        specs = [msgspec.structs.replace(spec, job=made) for spec, made in zip(specs, jobs, strict=True)]
        what = Submit(jobs=jobs, key=key and f"{user} {key}", digest=digest_of(key, [entry]))
        ids = await submit_all(committer, what, specs)
        await _heard(committer, job)
        return reply(await submitted(committer, ids, jobs), 201)


@router.answers(lease_calls.GROW)
async def grow(request: Request, id: str) -> Response:
    """Request ``count`` more leases of the same kind, as a new request."""
    committer = committer_of(request)
    body = await read(request, CountBody)
    job, _ = await _own(request, id)
    run = run_of(committer, job)
    if run is None or not run.source:
        raise NotAccepted(f"the request of lease {job.job.id} is no longer known", hint="request new ones")
    await _heard(committer, job)
    return await _ask(request, msgspec.json.decode(run.source) | {"count": body.count})


@router.answers(lease_calls.SHRINK)
async def shrink(request: Request, id: str) -> Response:
    """Release ``count`` held leases of one request, unused ones first, the youngest first."""
    body = await read(request, CountBody)
    job, _ = await _own(request, id)
    held = [attempt for attempt in job.attempts.values() if not attempt.halted]
    if body.count > len(held):
        raise NotAccepted(
            f"{len(held)} leases of {job.job.id} are held, not {body.count}",
            hint="release the whole request, to withdraw waiting leases too",
            field="count",
        )
    pool = committer_of(request).machine.core.pool
    known = {attempt.id: pool.leases.get(attempt.id) for attempt in held}
    tasks = {number: 0 if lease is None else len(lease.tasks) for number, lease in known.items()}
    held.sort(key=lambda attempt: (tasks[attempt.id], -attempt.id))
    return await _release(request, job, tuple(attempt.task for attempt in held[: body.count]))


@router.answers(lease_calls.RENEW)
async def renew(request: Request, id: str) -> Response:
    """Report that the holder is alive: the terms of its leases of that workload begin anew.

    Every other change has the same effect.
    """
    job, task = await _own(request, id)
    await _heard(committer_of(request), job)
    return reply(_page_of(request, job, task))


@router.answers(lease_calls.GIVE_BACK)
async def release(request: Request, id: str) -> Response:
    """Return a lease (JOB.TASK), or all leases of one request (JOB), waiting ones included.

    A lease that has ended is already returned.
    """
    number, _ = _parsed(id)
    try:
        job, task = await _own(request, id)
        return await _release(request, job, None if task is None else (task,))
    except NotAccepted:
        if number in committer_of(request).machine.leases:
            raise
        return reply(LeasesPage(leases=(), stamp=stamp_of(())))


async def _release(request: Request, job: LiveJob, tasks: tuple[int, ...] | None) -> Response:
    word = ReleaseLeases(job=job.job.id, tasks=tasks, by=user_of(request))
    await committer_of(request).submit(word)
    return reply(_page_of(request, job))


# --- leases in addresses ----------------------------------------------------------------------------------------------


def _parsed(id: str) -> tuple[int, int | None]:
    """Return the job, and the task if one is named. Raises NotFound."""
    job, dot, task = id.partition(".")
    number, index = whole_number(job), whole_number(task)
    if number is None or (dot and index is None):
        kept = id.startswith("@")
        raise UnknownResource(
            f"lease {id[:40]} is kept by the center" if kept else f"there is no lease {id[:40]} (JOB or JOB.TASK)"
        )
    return number, index


def _check_lease(job: Any) -> None:
    kind = job.type if not hasattr(job, "job") else job.job.kind
    if kind != "lease":
        raise UnknownResource("it is not a lease")


async def _own(request: Request, id: str) -> tuple[LiveJob, int | None]:
    """Return the job of a lease that the caller may change, and the named task."""
    number, task = _parsed(id)
    found = await seen_job(request, str(number))
    check_steers(request, found)
    _check_lease(found)
    if not isinstance(found, LiveJob):
        raise NotAccepted(f"lease {id} has ended", hint="see `cress leases`")
    return found, task


def _attempt(job: LiveJob, task: int | None) -> LiveAttempt:
    """Return the attempt that holds a lease. Raises NotAccepted."""
    wanted = _task_of(job, task)
    for attempt in job.attempts.values():
        if attempt.task == wanted and not attempt.halted:
            return attempt
    raise NotAccepted(f"lease {job.job.id}.{wanted} is not held now", hint="see `cress leases`")


def _task_of(job: LiveJob, task: int | None) -> int:
    if task is None and job.job.tasks > 1:
        raise NotAccepted(f"{job.job.id} has {job.job.tasks} leases", hint=f"one of them: {job.job.id}.0")
    return task or 0


async def _heard(committer: Committer, job: LiveJob) -> None:
    await committer.submit(RenewLeases(job=job.job.id))


# --- answers ----------------------------------------------------------------------------------------------------------


def _page_of(request: Request, job: LiveJob, task: int | None = None) -> LeasesPage:
    committer = committer_of(request)
    views = []
    if job.job.id in committer.machine.leases:
        views = leases_of_job(committer, job, partial(sees_number, request))
    shown = tuple(view for view in views if task is None or view.task in (task, None))
    return LeasesPage(leases=shown, stamp=stamp_of(shown))


async def _all(request: Request, query: LeasesQuery) -> LeasesPage:
    """Return a page of all leases that the caller sees."""
    committer, sight = committer_of(request), sight_of(request)
    machine, known = committer.machine, partial(sees_number, request)
    found: list[LeaseView] = []
    async for job in in_turns(list(machine.leases.values())):
        if _wanted(job.job.group or DEFAULT_GROUP, job.job.workload, query) and sees(request, job):
            found += leases_of_job(committer, job, known)
    pool = machine.core.pool
    async for kept in in_turns(list(pool.leases.values())):
        name = kept.workload.group.name
        if kept.holder is None and _wanted(name, kept.workload.name, query) and sight.has("", name):
            found.append(kept_lease(committer, kept, known))
    found.sort(key=_place)
    stamp = stamp_of(found)
    left = [view for view in found if query.after is None or _place(view) > query.after]
    page, more = left[: query.limit], len(left) > query.limit
    return LeasesPage(leases=tuple(page), stamp=stamp, next=_place(page[-1]) if more else None)


def _place(view: LeaseView) -> int:
    """Return the rank of a lease in the order of the list: waiting ones first, by request, then the others by age."""
    return (view.job or 0) + WAITING_FIRST if view.attempt is None else view.attempt


def _wanted(group: str, workload: str, query: LeasesQuery | WorkloadsQuery) -> bool:
    return query.group in ("", group) and query.workload in ("", workload)


async def _changed(request: Request, found: LeasesPage, page: Any, query: LeaseQuery) -> LeasesPage:
    """Return the page; with ``wait``, as soon as its stamp differs or the time has passed."""
    committer, loop = committer_of(request), asyncio.get_running_loop()
    deadline = loop.time() + query.wait
    while query.wait and found.stamp == query.stamp and not committer.stopping:
        left = deadline - loop.time()
        if left <= 0 or await request.is_disconnected():
            break
        await committer.events.wait(committer.events.last, min(left, LOOK_AGAIN))
        found = await page()
    return found
