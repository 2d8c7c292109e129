"""Calls about jobs and their tasks."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.guard import MOST_BODY
from cress.center.access.redaction import redacted
from cress.center.api.bodies import RawSubmitBody, decoded, decoded_jobs, read, receive, reply
from cress.center.api.context import committer_of, may_steer, own_job, seen_job, sees, sees_number, sight_of, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, find_all, find_jobs, id_of, members_of, recent_job, still_there
from cress.center.connections.connection_table import Away
from cress.center.process.turns import all_in_turns, in_turns
from cress.center.requests.used import check_used
from cress.center.requests.validation import placed, read_jobs
from cress.center.views.deadlines import deadline_view, foreseen_views
from cress.center.views.explanation import start_view
from cress.center.views.jobs import job_view, run_of, task_view, whole_job_view, with_loans
from cress.center.views.members import attempts_of, count_of, task_of, tasks_page
from cress.core.diagnostics.unresolved_names import remarks
from cress.lifecycle.explaining import waiting_job
from cress.lifecycle.foretelling import resumes
from cress.lifecycle.inputs import Submit
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError, NotAccepted
from cress.model.explanation import ExpectedStart
from cress.model.family import Dag
from cress.model.job import LEASE, Condition, Job, JobType
from cress.model.jobfile.job import JobSpec
from cress.model.records import JobRecord, JobState, canonical_state
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.task_dependencies import check_indices
from cress.model.times import SECOND
from cress.model.units import one_of
from cress.model.whole_numbers import whole_number
from cress.protocol.bodies import SignalBody
from cress.protocol.calls import job_calls
from cress.protocol.job_views import (
    DeadlineView,
    JobsPage,
    JobView,
    Submitted,
    SubmittedPage,
    TasksPage,
)
from cress.protocol.queries import JobQuery, JobsQuery, SubmitQuery, TasksQuery
from cress.store.base import JobFilter

# Seconds between two checks that a waiting client is still connected.
LOOK_AGAIN = 10.0
# The most jobs of one submit whose expected starts are in the answer.
MOST_STARTS = 10
# Most characters of an idempotency key.
MOST_KEY = 200
TASK_STATES = ("starting", *(job_state.value for job_state in JobState))

_T = TypeVar("_T")

router = Routes()


@router.answers(job_calls.SUBMIT)
async def submit(request: Request) -> Response:
    """Submit jobs, all or none. They are stored before the answer is sent.

    With the header ``Idempotency-Key`` a submit can be repeated for a day and gets the same answer. A ``dry_run`` gives
    the answer with ids 0 and stores nothing. ``strict`` refuses jobs whose deadlines cannot be met.
    """
    committer, user = committer_of(request), user_of(request)
    query, key = query_of(request, SubmitQuery), key_of(request)
    data = await receive(request, MOST_BODY)

    def checked(dimensions: Dimensions) -> tuple[list[JobSpec], tuple[Job, ...], str]:
        entries = decoded_jobs(decoded(data, RawSubmitBody).jobs)
        accounts, zone = committer.settings.run_as, committer.machine.core.groups.cluster_zone
        specs, jobs = read_jobs(entries, dimensions=dimensions, user=user, accounts=accounts, zone=zone)
        return specs, jobs, digest_of(key, entries)

    async with committer.turns.of_user(user, len(data)):
        specs, jobs, digest = await checked_body(committer, len(data), checked)
        known = await known_states(request, specs)
        settings = committer.settings
        committer.machine.user_load.check(jobs, settings.user_jobs, settings.user_tasks)
        check_used(committer, specs, dry_run=query.dry_run)
        if query.dry_run:
            await check_submit(committer, specs, jobs, known, strict=query.strict)
            return reply(await submitted(committer, [0] * len(jobs), jobs))
        what = Submit(jobs=jobs, known=known, key=key and f"{user} {key}", digest=digest, strict=query.strict)
        page = await submitted(committer, await submit_all(committer, what, specs), jobs)
    return reply(await _with_starts(request, page) if query.starts else page, 201)


async def _with_starts(request: Request, page: SubmittedPage) -> SubmittedPage:
    """Return the answer to a submit with the expected starts of its first jobs."""
    committer, explainer = committer_of(request), request.app.state.explainer
    told: list[Submitted] = []
    for one in page.jobs[:MOST_STARTS]:
        found = recent_job(committer, one.id)
        waiting = waiting_job(committer.machine, found) if isinstance(found, (LiveJob, Family)) else None
        start: ExpectedStart | None = None
        if _runs(committer, found):
            # It has started, whenever its other tasks or steps do.
            utc = committer.machine.utc
            start = ExpectedStart(utc, utc, utc)
        elif waiting is not None:
            with suppress(NotAccepted):
                start = await explainer.start(waiting, at_once=True)
        view = None if start is None else start_view(start, partial(sees_number, request))
        told.append(msgspec.structs.replace(one, expected_start=view))
    return SubmittedPage(jobs=(*told, *page.jobs[MOST_STARTS:]))


def _runs(committer: Committer, job: AnyJob | None) -> bool:
    """Return True if a task of a job, or of a dag, has been placed."""
    if isinstance(job, Family):
        return isinstance(job.job.plan, Dag) and any(member.attempts for member in members_of(committer, job))
    return isinstance(job, LiveJob) and bool(job.attempts)


async def checked_body(committer: Committer, size: int, work: Callable[[Dimensions], _T]) -> _T:
    """Return the result of checking a body of this size, with the dimensions that the cluster has at the end."""
    while True:
        dimensions = committer.machine.core.dimensions
        found = await committer.turns.check(size, partial(work, dimensions))
        if committer.machine.core.dimensions == dimensions:
            return found


async def submit_all(committer: Committer, what: Submit, specs: Sequence[JobSpec]) -> tuple[int, ...]:
    """Submit jobs; return their ids, steps of dags included. Raises InputError with the place in the submit."""
    try:
        return await committer.submit(what, [_run_of(spec, job) for spec, job in zip(specs, what.jobs, strict=True)])
    except InputError as error:
        raise placed(error, specs) from None


def _run_of(spec: JobSpec, job: Job) -> Run:
    """Return the run of a job with its deadline as a moment: the job file may give only a wall-clock time."""
    run = spec.run
    if (run.deadline, run.within) == (job.deadline, job.within):
        return run
    return msgspec.structs.replace(run, deadline=job.deadline, within=job.within)


async def check_submit(
    committer: Committer,
    specs: Sequence[JobSpec],
    jobs: tuple[Job, ...],
    known: tuple[tuple[int, JobState], ...],
    *,
    strict: bool,
) -> None:
    """Raise InputError if the machine would refuse these jobs."""
    try:
        await all_in_turns(committer.machine.checking(jobs, known, strict=strict))
    except InputError as error:
        raise placed(error, specs) from None


async def submitted(committer: Committer, ids: Sequence[int], jobs: Sequence[Job]) -> SubmittedPage:
    """Return the answer to a submit: one entry for each job, with remarks on it and its steps."""
    core = committer.machine.core
    notes: dict[int, dict[str, None]] = {}
    async for place, job in in_turns(enumerate(jobs)):
        said = {} if isinstance(job.plan, Dag) else dict.fromkeys(remarks(core.books, job))
        notes.setdefault(-job.family - 1 if job.family else place, {}).update(said)
    due = await _deadlines(committer, ids, jobs, list(notes))
    told = [
        Submitted(id=ids[place], name=jobs[place].name, note=redacted("; ".join(said)), deadline=due.get(place))
        async for place, said in in_turns(notes.items())
    ]
    return SubmittedPage(jobs=tuple(told))


async def _deadlines(
    committer: Committer, ids: Sequence[int], jobs: Sequence[Job], places: Sequence[int]
) -> dict[int, DeadlineView]:
    """Return the forecasts for submitted jobs with deadlines by place; for a dry run (ids 0), the expected ones."""
    if not any(job.deadline or job.within for job in jobs):
        return {}
    if not any(ids):
        return await foreseen_views(committer, jobs)
    views: dict[int, DeadlineView] = {}
    async for place in in_turns(places):
        found = recent_job(committer, ids[place]) if jobs[place].deadline or jobs[place].within else None
        view = None if found is None else deadline_view(committer, found)
        if view is not None:
            views[place] = view
    return views


@router.answers(job_calls.JOBS)
async def jobs(request: Request) -> Response:
    """List jobs, newest first; ``next`` of a page is ``before`` of the following one.

    ``since`` and ``until`` bound the submission time, in seconds since the epoch. Members of services and databases are
    listed only for their ``family``.
    """
    query = query_of(request, JobsQuery)
    state = canonical_state(query.state)
    _check_word(state, [job_state.value for job_state in JobState], "state")
    _check_word(query.type, [*(job_type.value for job_type in JobType), LEASE], "type")
    committer, sight = committer_of(request), sight_of(request)
    filters = JobFilter(
        group=query.group,
        user=query.user,
        state=state,
        name=query.name,
        type=query.type,
        family=query.family or 0,
        since=None if query.since is None else round(query.since * SECOND),
        until=None if query.until is None else round(query.until * SECOND),
        seen=None if sight.everything else (sight.user, sight.groups),
    )
    async with committer.turns.long_answer():
        found = await find_jobs(committer, filters, limit=query.limit + 1, before=query.before)
        page = found.jobs[: query.limit]
        more = id_of(page[-1]) if len(found.jobs) > query.limit else None
        views = [_listed(request, still_there(committer, job)) async for job in in_turns(page)]
        return reply(JobsPage(jobs=tuple(views), next=more, problem=found.problem))


@router.answers(job_calls.JOB)
async def job(request: Request, id: Annotated[str, "a number"]) -> Response:
    """Return one job; with ``wait`` (seconds) the answer comes when the job has ended or the time has passed."""
    committer = committer_of(request)
    found = await seen_job(request, id)
    deadline = asyncio.get_running_loop().time() + query_of(request, JobQuery).wait
    while isinstance(found, (LiveJob, Family)) and not committer.stopping:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            break
        number = id_of(found)
        change = committer.watch(number)
        try:
            await asyncio.wait((change,), timeout=min(left, LOOK_AGAIN))
        finally:
            committer.unwatch(number, change)
        if await request.is_disconnected():
            break
        found = await seen_job(request, id)
    return reply(_for_caller(request, found, await whole_job_view(committer, found)))


def _listed(request: Request, job: AnyJob) -> JobView:
    return _for_caller(request, job, job_view(committer_of(request), job))


def _for_caller(request: Request, job: AnyJob, view: JobView) -> JobView:
    """Return the view of a job with its expected start.

    Environment, secrets and values are hidden from callers who may only see it.
    """
    committer = committer_of(request)
    # That of a service or database is the start of its first waiting task.
    waiting = waiting_job(committer.machine, job) if isinstance(job, Family) and view.service else view.id
    start = None
    if waiting is not None and not view.ended:
        start = committer.expected_starts.of(waiting, committer.clock.utc(), resumes(committer.machine, waiting))
    if start is not None and view.tasks.waiting:
        view = msgspec.structs.replace(view, expected_start=start_view(start, partial(sees_number, request)))
    return view if may_steer(request, job) else msgspec.structs.replace(view, environment={}, secrets={}, values={})


@router.answers(job_calls.TASKS)
async def tasks(request: Request, id: str) -> Response:
    """List tasks by index; ``next`` of a page is ``after`` of the following one.

    With ``state`` a page may have fewer tasks than ``limit``, even none, and still have a ``next``.
    """
    query = query_of(request, TasksQuery)
    state = canonical_state(query.state)
    _check_word(state, TASK_STATES, "state")
    first = 0 if query.after is None else query.after + 1
    committer = committer_of(request)
    found = await seen_job(request, id)
    _has_tasks(found)
    async with committer.turns.long_answer():
        page, more = await tasks_page(committer, found, limit=query.limit, after=first - 1, state=state)
        run = run_of(committer, found)
        views = [with_loans(committer, task_view(task, run, member)) async for task, member in in_turns(page)]
        return reply(TasksPage(tasks=tuple(views), next=more))


@router.answers(job_calls.TASK)
async def task(request: Request, id: str, task: str) -> Response:
    """Return one task with all its attempts, oldest first."""
    committer = committer_of(request)
    found = await seen_job(request, id)
    number = -1 if (given := whole_number(task)) is None else given
    check_task(found, number, task)
    one, member = await task_of(committer, found, number)
    return reply(with_loans(committer, task_view(one, run_of(committer, found), member)))


@router.answers(job_calls.SIGNAL)
async def send_signal(request: Request, id: str) -> Response:
    """Send a signal to the processes of the running tasks, or of one task."""
    committer = committer_of(request)
    body = await read(request, SignalBody)
    number = signal_number(body.signal)
    found = await own_job(request, id)
    if body.task is not None:
        check_task(found, body.task)
    targets = attempts_of(committer, found, body.task)
    if not targets:
        which = f"task {body.task}" if body.task is not None else "no task"
        what = f"{which} of job {id_of(found)} {'does not run' if body.task is not None else 'runs'}"
        raise NotAccepted(what, hint="signals reach running tasks only", field="task")
    missed = [attempt.node for attempt in targets if not committer.connections.signal(attempt.node, attempt.id, number)]
    if missed:
        raise Away(f"the signal did not reach the tasks on {', '.join(sorted(set(missed)))}: the node is away")
    return reply(job_view(committer, found))


def signal_number(word: str | int) -> int:
    """Return the number of a signal given by name, with or without ``SIG``, or by number."""
    names = {known.name.removeprefix("SIG"): int(known) for known in signal.Signals}
    if isinstance(word, int):
        if word not in names.values():
            raise InputError(f"{word} is not a signal", hint="1 (HUP) to 64 (RTMAX)", field="signal")
        return word
    plain = word.strip().upper().removeprefix("SIG")
    if plain not in names:
        raise InputError(f"{word[:40]!r} is not a signal", hint=one_of(plain, names), field="signal")
    return names[plain]


def _has_tasks(job: AnyJob) -> None:
    """Raise NotAccepted if the tasks of a job are jobs themselves."""
    number, type_ = id_of(job), job.type if isinstance(job, JobRecord) else job.job.kind
    if type_ in (JobType.CRON.value, JobType.DAG.value):
        noun, parts = ("cron job", "runs") if type_ == JobType.CRON.value else ("dag", "steps")
        raise NotAccepted(
            f"job {number} is a {noun}, whose {parts} are jobs", hint=f"`cress jobs --family {number}` lists them"
        )


def check_task(job: AnyJob, task: int, written: str = "") -> None:
    """Raise NotFound if the job lacks this task (``written`` as the user gave it); NotAccepted if it has no tasks."""
    _has_tasks(job)
    count = count_of(job)
    if not 0 <= task < count:
        known = "only task 0" if count == 1 else f"tasks 0 to {count - 1}" if count else "it has none now"
        raise UnknownResource(f"job {id_of(job)} has no task {written[:40] or task} ({known})")


def key_of(request: Request) -> str:
    """Return the ``Idempotency-Key`` of a request, empty if it has none."""
    key = request.headers.get("idempotency-key", "")
    if len(key) > MOST_KEY or not (key.isascii() and key.isprintable()):
        raise InputError(
            f"{key[:40]!r} is not a key", hint=f"at most {MOST_KEY} characters of ASCII", field="Idempotency-Key"
        )
    return key


def digest_of(key: str, entries: Iterable[object]) -> str:
    """Return the digest of a submit's body in a fixed order, by which equal submits are recognised."""
    if not key:
        return ""
    digest = hashlib.sha256(b'{"jobs":[')
    for position, entry in enumerate(entries):
        digest.update(b"," * (position > 0) + msgspec.json.encode(entry, order="deterministic"))
    digest.update(b"]}")
    return digest.hexdigest()


async def known_states(request: Request, specs: Sequence[JobSpec]) -> tuple[tuple[int, JobState], ...]:
    """Return the states of the finished jobs that these jobs depend on.

    Raises InputError for a job that the caller does not see, and for one whose tasks have other indices than those that
    wait for them.
    """
    jobs = [spec.job for spec in specs]
    wanted = {number for job in jobs for number, _ in job.after if number > 0}
    found = await find_all(committer_of(request), sorted(wanted)) if wanted else {}
    hidden = {number for number, job in found.items() if not sees(request, job)}
    for position, job in enumerate(jobs if hidden else ()):
        for number, _ in job.after:
            if number in hidden:
                place = f"jobs[{position}].after" if len(jobs) > 1 else "after"
                raise InputError(f"there is no job {number}", hint="an id that `cress jobs` shows", field=place)
    for position, spec in enumerate(specs if wanted else ()):
        for number, condition in spec.job.after:
            if condition is Condition.TASKS and isinstance(first := found.get(number), LiveJob):
                _check_indices(
                    committer_of(request), first, spec, "after" if len(jobs) == 1 else f"jobs[{position}].after"
                )
    return tuple((number, job.state) for number, job in sorted(found.items()) if isinstance(job, JobRecord))


def _check_indices(committer: Committer, first: LiveJob, then: JobSpec, place: str) -> None:
    run = run_of(committer, first)
    if run is None:
        return
    number = first.job.id
    try:
        check_indices(first.job, run.indices, then.job, then.run.indices, f"job {number}")
    except InputError as error:
        raise error.at(field=place) from None


def _check_word(word: str, known: list[str] | tuple[str, ...], field: str) -> None:
    if word and word not in known:
        raise InputError(f"{word[:40]!r} is not a valid {field}", hint=one_of(word, known), field=field)
