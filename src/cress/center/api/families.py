"""Calls about services, databases, cron jobs and dags, and the schema of job files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.guard import MOST_BODY
from cress.center.api.bodies import RawApplyBody, decoded, decoded_jobs, read, receive, reply
from cress.center.api.context import check_steers, committer_of, note, own_job, seen_job, sees, user_of
from cress.center.api.jobs import checked_body, digest_of, key_of, known_states, submit_all, submitted
from cress.center.api.routes import Routes
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, id_of, spec_of
from cress.center.process.turns import all_in_turns
from cress.center.requests import apply as applying
from cress.center.requests.used import check_used
from cress.center.requests.validation import jobs_of, placed, read_jobs
from cress.center.views.families import ends_of_steps
from cress.center.views.jobs import job_view, run_of
from cress.lifecycle.families import families
from cress.lifecycle.families.moments import next_after
from cress.lifecycle.inputs import Scale, Submit, Trigger
from cress.lifecycle.tables.family_rows import CronState, Family
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Cron, Dag
from cress.model.job import LEASE, Job, JobType
from cress.model.jobfile.dag import as_dag, behind, without_done
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.reader import plain
from cress.model.jobfile.schema import schema_text
from cress.model.jobfile.submit import parse_jobs
from cress.model.jobfile.values import most_tasks
from cress.model.records import JobRecord, JobState
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.times import SECOND
from cress.model.units import one_of, parse_count
from cress.protocol.bodies import ResumeBody, ScaleBody, TriggerBody
from cress.protocol.calls import job_calls
from cress.protocol.job_views import AppliedJobs, Submitted, SubmittedPage
from cress.shell.center.runs import TIMES, times_of_run

# Most bytes of a corrected dag.
MOST_DAG = 4 * 2**20
# Most runs of a cron job that one call makes.
MOST_RUNS = 1_000

router = Routes()


@router.answers(job_calls.SCHEMA)
async def schema() -> Response:
    """Return the JSON Schema of a job file."""
    return Response(schema_text(), media_type="application/schema+json")


@router.answers(job_calls.APPLY)
async def apply(request: Request) -> Response:
    """Create or change the services, databases and cron jobs of the body, all or none; a dry run shows the changes."""
    committer, user = committer_of(request), user_of(request)
    data = await receive(request, MOST_BODY)

    def checked(dimensions: Dimensions) -> tuple[list[JobSpec], tuple[Job, ...], bool]:
        body = decoded(data, RawApplyBody)
        accounts = committer.settings.run_as
        return *read_jobs(decoded_jobs(body.jobs), dimensions=dimensions, user=user, accounts=accounts), body.dry_run

    async with committer.turns.of_user(user, len(data)):
        specs, jobs, dry_run = await checked_body(committer, len(data), checked)
        known = await known_states(request, specs)
        # A small file is checked without a pause. If somebody changes a service during a pause in the check of a large
        # one, the machine refuses that part.
        changes = await all_in_turns(applying.changes_of(committer, specs, jobs, partial(_check_caller, request)))
        await all_in_turns(applying.check(committer, changes, known))
        check_used(committer, [change.spec for change in changes], dry_run=dry_run)
        created = [change.job for change in changes if not change.id]
        committer.machine.user_load.check(created, committer.settings.user_jobs, committer.settings.user_tasks)
        if dry_run:
            return reply(AppliedJobs(jobs=await all_in_turns(applying.told(committer, changes, {}, done=False))))
        return reply(AppliedJobs(jobs=await applying.carry_out(committer, changes, known)))


def _check_caller(request: Request, family: Family) -> None:
    """Raise an error unless the caller may change a job; one that the caller does not see is not described."""
    if not sees(request, family):
        note(request, f"job {family.job.id} is not visible to the caller")
        raise families.taken(family.job)
    check_steers(request, family)


@router.answers(job_calls.SCALE)
async def scale(request: Request, id: str) -> Response:
    """Set the number of tasks of a service or database; a timetable may change it at its next moment."""
    committer = committer_of(request)
    body = await read(request, ScaleBody)
    found = await own_job(request, id)
    try:
        parse_count(str(body.tasks), least=0, most=most_tasks(_type_of(found)))
    except InputError as error:
        raise error.at(field="tasks") from None
    await committer.submit(Scale(job=id_of(found), tasks=body.tasks))
    return reply(job_view(committer, await seen_job(request, id)))


@router.answers(job_calls.TRIGGER)
async def trigger(request: Request, id: str) -> Response:
    """Make a run of a cron job for a moment, or for each of its moments in a span of time."""
    committer = committer_of(request)
    body = await read(request, TriggerBody)
    found = await own_job(request, id)
    plan = found.job.plan if isinstance(found, Family) else None
    if not isinstance(found, Family) or not isinstance(plan, Cron):
        what = f"job {id_of(found)} is no cron job that is alive"
        raise NotAccepted(what, hint="only cron jobs are triggered; `cress submit` submits a job again")
    if body.since is None and body.until is None:
        times = [committer.clock.utc() if body.at is None else round(body.at * SECOND)]
    elif body.at is not None:
        raise InputError("cannot be combined with a span of time", hint="one or the other", field="at")
    else:
        first = round((body.since or 0) * SECOND)
        last = committer.clock.utc() if body.until is None else round(body.until * SECOND)
        times = _moments(plan, first, last)
    word = Trigger(job=id_of(found), moments=tuple(times), by=user_of(request))
    ids = await committer.submit(word)
    return reply(SubmittedPage(jobs=tuple(Submitted(id=number, name=found.job.name) for number in ids)), 201)


def _moments(plan: Cron, first: int, last: int) -> list[int]:
    """Return the moments of a cron job in a span of time. Raises InputError for none or too many."""
    found: list[int] = []
    at = next_after(plan.when, plan.zone, first - 1)
    while at is not None and at < last:
        found.append(at)
        if len(found) > MOST_RUNS:
            hint = f"at most {MOST_RUNS:,} runs; a shorter span of time"
            raise InputError(f"{plan.when} has too many moments in this span of time", hint=hint, field="since")
        at = next_after(plan.when, plan.zone, at)
    if not found:
        raise InputError(f"{plan.when} has no moment in this span of time", hint="a longer one", field="since")
    return found


@router.answers(job_calls.RESUME)
async def resume(request: Request, id: str) -> Response:
    """Submit the unsuccessful steps of a finished dag as a new dag."""
    committer, user = committer_of(request), user_of(request)
    key, body = key_of(request), await read(request, ResumeBody, MOST_DAG)
    found = await own_job(request, id)
    specs = await _left_of(committer, found, user, body)
    check_used(committer, specs)
    machine = committer.machine
    jobs = jobs_of(specs, committer.settings.run_as, machine.core.groups.cluster_zone)
    if jobs[0].deadline and jobs[0].deadline <= committer.clock.utc():
        # The deadline was for the first run; with it the rest would be refused as too late.
        jobs = (msgspec.structs.replace(jobs[0], deadline=0), *jobs[1:])
    digest = digest_of(key, [{"resume": id_of(found), "how": msgspec.to_builtins(body)}])
    what = Submit(jobs=jobs, known=await known_states(request, specs), key=key and f"{user} {key}", digest=digest)
    return reply(await submitted(committer, await submit_all(committer, what, specs), jobs), 201)


def _type_of(found: AnyJob) -> JobType:
    word = found.type if isinstance(found, JobRecord) else found.job.type.value
    return JobType.BATCH if word == LEASE else JobType(word)


def _steps_of(source: str) -> list[str]:
    """Return the names of the steps of a dag as submitted."""
    entry = msgspec.json.decode(source, type=dict[str, Any])
    found: list[str] = []
    for key, value in entry.items():
        if plain(key) == "steps":
            found += value
    return found


async def _left_of(committer: Committer, found: object, user: str, body: ResumeBody) -> Sequence[JobSpec]:
    """Return the rest of a dag as a new dag."""
    number, type_ = id_of(found), spec_of(found).type  # type: ignore[arg-type]
    if type_ not in (JobType.DAG, JobType.DAG.value):
        word = type_.value if isinstance(type_, JobType) else type_
        raise NotAccepted(f"job {number} is a {word} job", hint="dags are resumed")
    if not isinstance(found, JobRecord):
        raise NotAccepted(f"job {number} has not ended", hint="a dag can be resumed when all its steps have ended")
    run = run_of(committer, found)
    if run is None or not run.source:
        raise NotAccepted(f"the submission of job {number} is no longer known", hint="`cress submit` its file")
    entry = as_dag(msgspec.json.decode(run.source) if body.job is None else body.job)
    try:
        specs = parse_jobs([entry], dimensions=committer.machine.core.dimensions, user=user)
    except InputError as error:
        raise placed(error, ()) from None
    plan = specs[0].job.plan
    if not isinstance(plan, Dag):
        raise InputError(f"the job of the file is a {specs[0].job.type.value}", hint="the dag, corrected", field="type")
    unknown = [name for name in body.steps if name not in plan.steps]
    if unknown:
        raise InputError(f"there is no step {unknown[0]}", hint=one_of(unknown[0], plan.steps), field="steps")
    ends = await ends_of_steps(committer, found)
    succeeded = {name for name, end in ends.items() if end.state == JobState.SUCCEEDED.value}
    before = set(_steps_of(run.source))
    done = ((set(plan.steps) & before) - ends.keys()) | succeeded
    if body.only:
        if not body.steps:
            raise InputError("no step is named", hint="the steps that are to run", field="steps")
        done = set(plan.steps) - set(body.steps)
    elif body.steps:
        done -= behind(specs, body.steps)
    # Steps that the earlier dag did not have ended in the one before it.
    left = without_done(specs, done, number, ({end.name: end for end in run.before} | ends).values())
    if not left:
        raise NotAccepted(
            f"job {number} has no unfinished steps that could start", hint="every step that could start has succeeded"
        )
    if times := _times_of(committer, found, run):
        return [_with_variables(spec, times) for spec in left]
    return left


def _times_of(committer: Committer, found: JobRecord, run: Run) -> tuple[tuple[str, str], ...]:
    """Return the variables with the moment of an ended run of a cron job, or of what was resumed of one."""
    cron = committer.machine.families.get(found.family)
    if cron is not None and isinstance(cron.state, CronState) and found.index in cron.state.moments:
        return tuple(times_of_run(*cron.state.moments[found.index]))
    return tuple(pair for pair in run.environment if pair[0] in TIMES)


def _with_variables(spec: JobSpec, variables: tuple[tuple[str, str], ...]) -> JobSpec:
    run = msgspec.structs.replace(spec.run, environment=(*spec.run.environment, *variables))
    return msgspec.structs.replace(spec, run=run)
