"""Views of services, databases, cron jobs and dags."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from cress.center.access.redaction import redacted
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, find_job, find_jobs, id_of, members_of, recent_job, spec_of, state_of
from cress.center.keeping.history_reader import HistoryJob
from cress.core.placing.vetoes import Verdict
from cress.lifecycle.families import families, readiness
from cress.lifecycle.families.family_ends import runs_of
from cress.lifecycle.families.moments import next_after
from cress.lifecycle.jobs.reasons import USES, Told, held, told
from cress.lifecycle.tables.family_rows import CronState, DagState, Family, ReplicaState
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError
from cress.model.family import Cron, Dag, Service, StepEnd
from cress.model.jobfile.submit import parse_jobs
from cress.model.records import JobRecord
from cress.model.run import Run
from cress.model.step_values import in_reason
from cress.model.times import SECOND
from cress.protocol.job_views import CronView, DagView, ServiceView, StepView, TaskCounts
from cress.store.base import JobFilter

# Moments of a cron job that are shown.
MOST_MOMENTS = 3


def counts_of(committer: Committer, family: Family) -> TaskCounts:
    """Count by state the tasks of a service, the steps of a dag, or the tasks of the live runs of a cron job."""
    members = members_of(committer, family)
    if isinstance(family.job.plan, Dag):
        running = sum(member.running > 0 for member in members)
        over = family.succeeded + family.failed + family.cancelled
        return TaskCounts(
            total=over + len(members),
            waiting=len(members) - running,
            running=running,
            succeeded=family.succeeded,
            failed=family.failed,
            cancelled=family.cancelled,
        )
    if family.job.steps:
        return _steps_of_runs(committer, family)
    running = sum(member.running for member in members)
    if isinstance(family.job.plan, Cron):
        total = sum(member.job.tasks for member in members)
        over = sum(member.succeeded + member.failed + member.cancelled for member in members)
        return TaskCounts(
            total=total,
            waiting=total - running - over,
            running=running,
            succeeded=sum(member.succeeded for member in members),
            failed=sum(member.failed for member in members),
            cancelled=sum(member.cancelled for member in members),
        )
    total = max(family.job.tasks, running)
    return TaskCounts(total=total, waiting=total - running, running=running)


def _steps_of_runs(committer: Committer, family: Family) -> TaskCounts:
    """Count the steps of the live runs of a cron job whose runs are dags."""
    runs = [counts_of(committer, run) for run in runs_of(committer.machine, family)]
    return TaskCounts(**{name: sum(getattr(run, name) for run in runs) for name in TaskCounts.__struct_fields__})


def reason_of(committer: Committer, family: Family) -> Told:
    """Return the reason why a family waits, or its problem, which has no kind."""
    if family.cancelling:
        return Told("", family.reason)
    if family.held:
        return Told(Verdict.HELD.value, held(family.job.id, family.held_by))
    if family.unmet:
        number, _ = family.unmet[0]
        first = recent_job(committer, number)
        name = "" if first is None else spec_of(first).name
        more = f", and {len(family.unmet) - 1} more" if len(family.unmet) > 1 else ""
        return Told(Verdict.AFTER.value, f"waiting for job {number}{f' ({name})' if name else ''}{more}")
    why = families.kind_of(family).why(committer.machine, family, committer.clock.now())
    waits = _first_reason(committer, family)
    return Told(waits.kind, why or waits.text or family.reason)


def _first_reason(committer: Committer, family: Family) -> Told:
    """Return the waiting reason of the first waiting member; of a dag, of the first step that waits for no other."""
    if isinstance(family.job.plan, Cron):
        return Told()
    found = (
        (member, reason_of_job(committer, member))
        for member in members_of(committer, family)
        if not (member.ending or member.unmet)
    )
    member, why = next(((member, reason) for member, reason in found if reason.text), (None, Told()))
    if member is None or not isinstance(family.job.plan, Dag):
        return why
    return Told(why.kind, f"step {member.job.name.removeprefix(f'{family.job.name}.')}: {why.text}")


def reason_of_job(committer: Committer, job: LiveJob) -> Told:
    """Return why tasks of a job wait, or why a placed one does not start yet; empty if none waits."""
    found = told(committer.machine, job.job.id, committer.clock.now())
    if found.text or not committer.materials.waits:
        return found
    waits = (committer.materials.waits.get(number) for number in job.attempts)
    return next((Told(USES, text) for text in waits if text), found)


def service_view(committer: Committer, family: Family) -> ServiceView | None:
    """Return the part of the view that only services and databases have; None for other families."""
    plan, kept = family.job.plan, family.state
    if isinstance(plan, (Cron, Dag)) or plan is None:
        return None
    # An update may run tasks in addition (`surge`), which end with it.
    members = [
        member for member in members_of(committer, family) if not member.ending and member.index < family.job.tasks
    ]
    ready = sum(any(is_ready(attempt) for attempt in member.attempts.values()) for member in members)
    updated = sum((member.template or family.template) == family.template for member in members)
    why = families.kind_of(family).why(committer.machine, family, committer.clock.now())
    following = _next_count(plan, committer.machine.utc) if isinstance(plan, Service) else None
    failing, failures = readiness.never_ready(committer.machine, family)
    return ServiceView(
        wanted=family.job.tasks,
        ready=ready,
        version=family.version,
        updated=updated,
        updating=updated < len(members),
        waits=redacted(why),
        returned=isinstance(kept, ReplicaState) and bool(kept.failed),
        returned_because=family.reason if isinstance(kept, ReplicaState) and kept.failed else "",
        returned_version=(kept.failed_version or None) if isinstance(kept, ReplicaState) else None,
        returned_job=(kept.failed_member or None) if isinstance(kept, ReplicaState) else None,
        next=following[0] / SECOND if following else None,
        next_tasks=following[1] if following else None,
        zone=plan.zone if isinstance(plan, Service) else "UTC",
        failing=failing,
        failures=failures,
    )


def is_ready(attempt: LiveAttempt) -> bool:
    """Return whether a task of a service is ready."""
    return attempt.ready_at is not None and not attempt.halted


def _next_count(plan: Service, utc: int) -> tuple[int, int] | None:
    """Return the time and the task count of the next moment of the timetable."""
    coming = ((next_after(at, plan.zone, utc), tasks) for at, tasks in plan.timetable)
    return min(((at, tasks) for at, tasks in coming if at is not None), default=None)


def cron_view(committer: Committer, family: Family) -> CronView | None:
    """Return the part of the view that only cron jobs have; None for other families."""
    plan, clock = family.job.plan, family.state
    if not isinstance(plan, Cron):
        return None
    clock = clock if isinstance(clock, CronState) else CronState()
    last = recent_job(committer, clock.last_job) if clock.last_job else None
    coming: list[float] = []
    at: int | None = clock.next or None
    while at is not None and len(coming) < MOST_MOMENTS:
        coming.append(at / SECOND)
        at = next_after(plan.when, plan.zone, at)
    return CronView(
        when=plan.when,
        zone=plan.zone,
        overlap=plan.overlap.value,
        missed_runs=plan.missed.value,
        next=tuple(coming),
        last=clock.last / SECOND if clock.last else None,
        last_job=clock.last_job or None,
        last_state="" if last is None else state_of(committer, last).value,
        runs=clock.runs,
        skipped=clock.skipped,
        missed=clock.missed,
    )


def dag_view(family: Family) -> DagView | None:
    """Return the part of the view that only dags have, without the steps; None for other families."""
    plan = family.job.plan
    return DagView(resumed=plan.resumed or None) if isinstance(plan, Dag) else None


async def whole_dag_view(committer: Committer, job: AnyJob) -> DagView:
    """Return a dag with its steps, live or finished."""
    number, spec = id_of(job), spec_of(job)
    found = await find_jobs(committer, JobFilter(family=number), limit=spec.tasks + 1, before=None)
    steps = sorted((member for member in found.jobs if not isinstance(member, Family)), key=id_of)
    plan = job.job.plan if isinstance(job, Family) else None
    there = {spec_of(step).name.removeprefix(f"{spec.name}.") for step in steps}
    run = job.run if isinstance(job, HistoryJob) else committer.run(number)
    written = _conditions(committer, run, f"{spec.name}.")
    # A resumed dag lacks the steps that succeeded before.
    after = {
        name: {key: word for key, word in conditions.items() if key in there} for name, conditions in written.items()
    }
    needless = _needless(job)
    return DagView(
        steps=tuple(_step(committer, step, f"{spec.name}.", after, needless) for step in steps),
        resumed=(plan.resumed or None) if isinstance(plan, Dag) else None,
    )


def _needless(job: AnyJob) -> frozenset[int]:
    known = isinstance(job, Family) and isinstance(job.state, DagState)
    return frozenset(job.state.needless) if known else frozenset()  # type: ignore[union-attr]  # checked above


def _step(
    committer: Committer,
    job: LiveJob | JobRecord,
    prefix: str,
    after: Mapping[str, dict[str, str]],
    needless: frozenset[int],
) -> StepView:
    name = spec_of(job).name.removeprefix(prefix)
    reason = _reason(job) if isinstance(job, JobRecord) else reason_of_job(committer, job).text
    if job.index in needless:
        reason = f"not needed: {reason}" if reason else "not needed"
    return StepView(
        name=name,
        id=id_of(job),
        state=state_of(committer, job).value,
        after=after.get(name, {}),
        reason=redacted(reason),
    )


def _reason(record: JobRecord) -> str:
    """Return the reason of an ended step; the values of a successful one are none."""
    return "" if in_reason(record.reason) else record.reason


def _conditions(committer: Committer, run: Run | None, prefix: str) -> dict[str, dict[str, str]]:
    """Return the dependencies of each step of a dag as submitted; empty if they are no longer known."""
    if run is None or not run.source:
        return {}
    with contextlib.suppress(InputError, msgspec.DecodeError):
        entry = msgspec.json.decode(run.source)
        specs = parse_jobs([entry], dimensions=committer.machine.core.dimensions, user=run.user)
        # The steps of a run of a cron job are part of its spec.
        specs = [specs[0], *specs[0].steps] if specs[0].steps else specs
        names = [spec.job.name.removeprefix(prefix) for spec in specs]
        return {
            name: {names[-number - 1]: condition.value for number, condition in spec.job.after if number < -1}
            for name, spec in zip(names, specs, strict=True)
        }
    return {}


async def ends_of_steps(committer: Committer, job: JobRecord) -> dict[str, StepEnd]:
    """Return the ends of all steps of a finished dag by name."""
    found = await find_jobs(committer, JobFilter(family=job.id), limit=job.tasks + 1, before=None)
    ends: dict[str, StepEnd] = {}
    for member in found.jobs:
        name = spec_of(member).name.removeprefix(f"{job.name}.")
        values = in_reason(member.reason) if isinstance(member, JobRecord) else ()
        ends[name] = StepEnd(name, state_of(committer, member).value, values)
    return ends


async def last_state(committer: Committer, number: int) -> str:
    """Return the state of the last run of a cron job, wherever its record is."""
    job = await find_job(committer, number)
    return "" if job is None else state_of(committer, job).value
