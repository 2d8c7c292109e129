"""Calls that change submitted jobs: new values of keys, and running tasks that wait again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import MOST_ID_BYTES, read
from cress.center.api.cancel import all_jobs
from cress.center.api.context import committer_of, user_of
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.process.turns import in_turns
from cress.center.requests.validation import read_jobs
from cress.center.views.jobs import job_view
from cress.lifecycle.inputs import ChangeJobs, Requeue
from cress.lifecycle.tables.rows import LiveJob
from cress.model.changeable import CHANGEABLE
from cress.model.errors import InputError, InputErrors
from cress.model.job import Job
from cress.model.jobfile.keys import ALIASES, KEYS
from cress.model.jobfile.reader import plain
from cress.model.run import Run
from cress.protocol.bodies import RequeueBody, UpdateBody
from cress.protocol.calls import job_calls
from cress.protocol.views import to_json

# Most jobs of one call.
MOST_JOBS = 1_000
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
    if any(CHANGEABLE[key].in_run for key in values) and all(isinstance(job, LiveJob) for job in found):
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
    entry: dict[str, Any] = {"command": "true", **{key: value for key, value in values.items() if value is not None}}
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
    fields: dict[str, Any] = {}
    for key in values:
        if key == "resource":
            fields |= {"limits": given.limits, "memory_limit": given.memory_limit}
        elif key == "deadline":
            fields |= {"deadline": job.deadline, "within": 0}
        elif CHANGEABLE[key].in_run:
            fields[key] = getattr(given, key)
    return msgspec.structs.replace(run, **fields)


def _said(value: object) -> str:
    if value is None:
        return "default"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
