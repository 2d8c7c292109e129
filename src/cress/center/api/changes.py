"""Calls that change submitted jobs: new values of keys, and running tasks that wait again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import MOST_ID_BYTES, read, reply
from cress.center.api.cancel import all_jobs
from cress.center.api.context import committer_of, own_job, user_of
from cress.center.api.job_files import entry_of
from cress.center.api.jobs import digest_of, key_of, submit_all, submitted
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, id_of
from cress.center.process.turns import in_turns
from cress.center.requests.used import check_used
from cress.center.requests.validation import read_jobs
from cress.center.views.jobs import job_view, run_of
from cress.center.views.members import tasks_page
from cress.lifecycle.inputs import ChangeJobs, Requeue, Submit
from cress.lifecycle.tables.rows import LiveJob
from cress.model.changeable import CHANGEABLE
from cress.model.errors import InputError, InputErrors, NotAccepted
from cress.model.job import Job, JobType
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.keys import ALIASES, KEYS, TABLE
from cress.model.jobfile.reader import plain
from cress.model.jobfile.values import ranges_of
from cress.model.records import JobRecord, JobState
from cress.model.run import Run
from cress.protocol.bodies import RequeueBody, RetryBody, UpdateBody
from cress.protocol.calls import job_calls
from cress.protocol.views import to_json

# Most jobs of one call.
MOST_JOBS = 1_000
# Most tasks that a retry repeats by their indices; most that are looked at, and most of them at a time.
MOST_RETRIED, MOST_LOOKED, MOST_PAGE = 10_000, 1_000_000, 1_000
_PLACE = "jobs[0]."

router = Routes()


@router.answers(job_calls.UPDATE_JOBS)
async def update_jobs(request: Request) -> Response:
    """Give jobs new values of keys, all or none: none if one of them cannot have them now."""
    committer, user = committer_of(request), user_of(request)
    body = await read(request, UpdateBody, MOST_ID_BYTES)
    numbers = _ids(body.jobs)
    values = _canonical(body.values)
    found = await all_jobs(request, numbers, "changed")
    first = next((job.job for job in found if isinstance(job, LiveJob)), None)
    spec, wanted = _read(committer, first, values, user)
    # Without an await from here on, the runs are those of the jobs that are changed.
    runs: list[Run] = []
    if all(isinstance(job, LiveJob) for job in found):
        runs = [run for number in numbers if (run := committer.run(number)) is not None]
        runs = [_run_with(run, spec, wanted, values) for run in runs]
    what = ChangeJobs(
        jobs=tuple(numbers),
        values=wanted,
        keys=tuple(values),
        new_runs=bool(runs) and len(runs) == len(numbers),
        what=" ".join(f"{key}={_said(value)}" for key, value in values.items()),
        by=user,
    )
    await committer.submit(what, runs if what.new_runs else ())
    return await _answer(request, numbers, "changed")


@router.answers(job_calls.REQUEUE_JOBS)
async def requeue_jobs(request: Request) -> Response:
    """Stop the running tasks of jobs, all or none; they wait again."""
    body = await read(request, RequeueBody, MOST_ID_BYTES)
    numbers = _ids(body.jobs)
    await all_jobs(request, numbers, "requeued")
    await committer_of(request).submit(Requeue(jobs=tuple(numbers), hold=body.hold, by=user_of(request)))
    return await _answer(request, numbers, "requeued")


@router.answers(job_calls.RETRY)
async def retry(request: Request, id: str) -> Response:
    """Submit an ended batch job once more; with ``failed`` only its tasks that did not succeed."""
    committer, user = committer_of(request), user_of(request)
    key, body = key_of(request), await read(request, RetryBody)
    found = await own_job(request, id)
    entry = _entry_of(committer, found)
    if body.failed:
        entry |= await _failed_tasks(committer, found, entry, user)
    specs, jobs = _parsed(committer, entry, user)
    if jobs[0].deadline and jobs[0].deadline <= committer.clock.utc():
        # The deadline was for the first time.
        jobs = (msgspec.structs.replace(jobs[0], deadline=0),)
    check_used(committer, specs)
    committer.machine.user_load.check(jobs, committer.settings.user_jobs, committer.settings.user_tasks)
    digest = digest_of(key, [{"retry": id_of(found), "failed": body.failed}])
    what = Submit(jobs=jobs, key=key and f"{user} {key}", digest=digest)
    return reply(await submitted(committer, await submit_all(committer, what, specs), jobs), 201)


def _entry_of(committer: Committer, found: AnyJob) -> dict[str, Any]:
    """Return an ended batch job as it would be submitted now, without its dependencies. Raises NotAccepted."""
    number = id_of(found)
    if not isinstance(found, JobRecord):
        hint = f"`cress requeue {number}` starts its running tasks anew" if isinstance(found, LiveJob) else ""
        raise NotAccepted(f"job {number} has not ended", hint=hint)
    if found.type != JobType.BATCH.value:
        hint = f"`cress resume {number}`" if found.type == JobType.DAG.value else "only batch jobs can be retried"
        raise NotAccepted(f"job {number} is a {found.type}", hint=hint)
    run = run_of(committer, found)
    if run is None or not run.source:
        if found.family:
            what = f"job {number} is a part of job {found.family} and cannot be submitted alone"
            raise NotAccepted(what, hint=f"`cress resume {found.family}` repeats steps of a dag")
        hint = "`cress submit` its file"
        raise NotAccepted(f"the submission of job {number} is not known", hint=hint)
    entry = entry_of(found, run)
    # The run of a cron job becomes a job of its own.
    batch = {plain(key.name) for key in TABLE if JobType.BATCH in key.types} | {plain(alias) for alias in ALIASES}
    dropped = {plain(name) for name in ("type", "after", "hold")}
    return {name: value for name, value in entry.items() if plain(name) in batch - dropped}


async def _failed_tasks(committer: Committer, found: AnyJob, entry: dict[str, Any], user: str) -> dict[str, Any]:
    """Return the keys for those tasks that did not succeed. Raises NotAccepted."""
    (spec,), (job,) = _parsed(committer, entry, user)
    number = id_of(found)
    if job.gang:
        raise NotAccepted(f"job {number} is a gang", hint=f"`cress retry {number}` repeats all of its tasks")
    indices: list[int] = []
    after = -1
    async with committer.turns.long_answer():
        while True:
            page, more = await tasks_page(committer, found, limit=MOST_PAGE, after=after, state="")
            indices += [spec.run.index_of(task.index) for task, _ in page if task.state != JobState.SUCCEEDED.value]
            if len(indices) > MOST_RETRIED or (more or 0) > MOST_LOOKED:
                what = f"job {number} has more than {MOST_RETRIED:,} such tasks, or than {MOST_LOOKED:,} tasks in all"
                raise NotAccepted(what, hint=f"`cress retry {number}` repeats all of them")
            if more is None:
                break
            after = more
    if not indices:
        raise NotAccepted(f"every task of job {number} has succeeded", hint=f"`cress retry {number}` repeats all")
    bound = {"max_running": job.max_running} if job.max_running else {}
    return {"tasks": ranges_of(indices), **bound}


def _parsed(committer: Committer, entry: dict[str, Any], user: str) -> tuple[list[JobSpec], tuple[Job, ...]]:
    core = committer.machine.core
    accounts = committer.settings.run_as
    zone = core.groups.cluster_zone
    try:
        return read_jobs([entry], dimensions=core.dimensions, user=user, accounts=accounts, zone=zone)
    except InputError as error:
        raise NotAccepted(f"the job cannot be submitted any more: {error}", hint="`cress submit` its file") from None


def _ids(jobs: Sequence[int]) -> list[int]:
    if not 0 < len(jobs) <= MOST_JOBS:
        raise InputError(f"{len(jobs)} jobs", hint=f"1 to {MOST_JOBS} ids", field="jobs")
    return list(dict.fromkeys(jobs))


async def _answer(request: Request, numbers: list[int], what: str) -> Response:
    committer = committer_of(request)
    views = [to_json(job_view(committer, job)) async for job in in_turns(await all_jobs(request, numbers, what))]
    return Response(b'{"jobs":[' + b",".join(views) + b"]}", media_type="application/json")


def _canonical(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by the names of their keys. Raises InputError for keys that cannot be changed."""
    if not values:
        raise InputError("no key is given", hint=f"one of {', '.join(CHANGEABLE)}", field="values")
    spellings = {plain(name): name for name in KEYS} | {plain(alias): name for alias, name in ALIASES.items()}
    found: dict[str, Any] = {}
    for written, value in values.items():
        key = spellings.get(plain(written), written)
        if key in KEYS and key not in CHANGEABLE:
            raise InputError(
                f"{key} of a submitted job cannot be changed",
                hint=f"these can: {', '.join(CHANGEABLE)}; for others cancel it, and submit it again",
                field=key,
            )
        if key in found:
            raise InputError("is given twice", hint="once", field=key)
        found[key] = value
    return found


def _read(committer: Committer, job: Job | None, values: Mapping[str, Any], user: str) -> tuple[Run, Job]:
    """Return a run and a job with these values. Raises InputError, or InputErrors with all mistakes."""
    core = committer.machine.core
    # A key that does not exist has no default either; the reader of jobs says which one may be meant.
    written = {key: value for key, value in values.items() if value is not None or key not in KEYS}
    entry: dict[str, Any] = {"command": "true", **written}
    if job is not None:
        entry |= {"name": job.name or "job", "tasks": job.tasks} | ({"gang": True} if job.gang else {})
    try:
        specs, jobs = read_jobs([entry], dimensions=core.dimensions, user=user, zone=core.groups.cluster_zone)
    except InputErrors as errors:
        raise InputErrors([_unplaced(error) for error in errors.errors]) from None
    except InputError as error:
        raise _unplaced(error) from None
    wanted = jobs[0]
    if wanted.within:
        wanted = msgspec.structs.replace(wanted, deadline=committer.clock.utc() + wanted.within, within=0)
    return specs[0].run, wanted


def _unplaced(error: InputError) -> InputError:
    return type(error)(error.what, hint=error.hint, field=error.field.removeprefix(_PLACE))


def _run_with(run: Run, given: Run, job: Job, values: Mapping[str, Any]) -> Run:
    """Return a run with the values that executors and the history read."""
    # The job as it would be submitted now, for `cress retry`.
    source = msgspec.json.decode(run.source, type=dict[str, Any]) if run.source else {}
    if source:
        names = {plain(name) for name in values} | {plain(alias) for alias, key in ALIASES.items() if key in values}
        source = {name: value for name, value in source.items() if plain(name) not in names}
        source |= {key: value for key, value in values.items() if value is not None}
        if "max_running" in values:
            source = {name: _unbound(value) if plain(name) == "tasks" else value for name, value in source.items()}
    fields: dict[str, Any] = {"source": msgspec.json.encode(source).decode() if source else ""}
    for key in values:
        if key == "resource":
            fields |= {"limits": given.limits, "memory_limit": given.memory_limit}
        elif key == "deadline":
            fields |= {"deadline": job.deadline, "within": 0}
        elif CHANGEABLE[key].in_run:
            fields[key] = getattr(given, key)
    return msgspec.structs.replace(run, **fields)


def _unbound(tasks: object) -> object:
    """Return a number of tasks without the limit of running ones, as in ``100%10``; ``max_running`` has it now."""
    return tasks.partition("%")[0].rstrip() if isinstance(tasks, str) else tasks


def _said(value: object) -> str:
    if value is None:
        return "default"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
