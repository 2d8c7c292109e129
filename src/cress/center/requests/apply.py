"""Apply: create or change services, databases and cron jobs to match a file.

Everything is checked before anything is changed, and all changes go into one step. A part can still fail only if
another user changes something in between (cancels a service); then the error names the parts that were done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from cress.center.committing.committer import Committer
from cress.center.process.turns import all_in_turns, in_turns
from cress.center.requests.differences import changes_of_keys, scaled_back
from cress.center.requests.validation import placed
from cress.core.diagnostics.unresolved_names import remarks
from cress.lifecycle.families import families
from cress.lifecycle.inputs import Input, Scale, Submit, Update
from cress.lifecycle.jobs.group_limits import with_limit
from cress.lifecycle.slices import Slices
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.model.errors import InputError, InputErrors, NotAccepted
from cress.model.family import Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job, JobType
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.reader import below
from cress.model.records import JobState
from cress.model.run import Run
from cress.protocol.job_views import AppliedJob, KeyChange
from cress.shell.center.commit import InputCall
from cress.shell.center.runs import same_run

KINDS = (JobType.SERVICE, JobType.DATABASE, JobType.CRON)


class What(Enum):
    """The kind of change that a job of the file needs."""

    CREATED = "created"
    UPDATED = "updated"
    SCALED = "scaled"
    UNCHANGED = "unchanged"


# Changes that set the number of tasks of a running job.
_COUNTED = (What.UPDATED, What.SCALED)


class Change(msgspec.Struct, frozen=True):
    """The change that one job needs; ``before`` is the existing job of that name, and ``run`` its run."""

    what: What
    spec: JobSpec
    job: Job
    before: Job | None = None
    run: Run | None = None

    @property
    def id(self) -> int:
        """The id of the existing job; 0 if there is none."""
        return self.before.id if self.before is not None else 0


def changes_of(
    committer: Committer, specs: Sequence[JobSpec], jobs: Sequence[Job], check_caller: Callable[[Family], None]
) -> Slices[list[Change]]:
    """Return the changes in the order of the file, in slices. Raises InputError(s) for jobs that cannot be applied.

    ``check_caller`` raises an error unless the caller may change the existing job of a name.
    """
    changes: list[Change] = []
    errors: list[InputError] = []
    names: set[tuple[str, str]] = set()
    for spec, job in zip(specs, jobs, strict=True):
        if job.family:
            continue
        key = (job.group or DEFAULT_GROUP, job.name)
        try:
            changes.append(_change(committer, spec, job, check_caller))
        except InputError as error:
            errors.append(below(error, spec.place))
        else:
            if key in names:
                twice = InputError(f"two jobs have the name {job.name}", hint="job names must be unique", field="name")
                errors.append(below(twice, spec.place))
            names.add(key)
        yield
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return changes


def _change(committer: Committer, spec: JobSpec, job: Job, check_caller: Callable[[Family], None]) -> Change:
    if job.type not in KINDS:
        hint = "only services, databases and cron jobs can be applied; use `cress submit` for jobs that end"
        raise InputError(f"a {job.type.value} job is run once", hint=hint, field="type")
    family = families.named(committer.machine, job.name, job.group or DEFAULT_GROUP)
    if family is None:
        return Change(What.CREATED, spec, job)
    # Before any answer that depends on this job.
    check_caller(family)
    before = family.job
    (job,) = with_limit(committer.machine, [job])
    if before.type is not job.type:
        what = f"there is a {before.type.value} {job.name} already, job {before.id}"
        raise NotAccepted(what, hint=f"`cress cancel {before.id}` first", field="type")
    run = committer.run(before.id)
    if run is None or not same_run(run, spec.run) or _what_counts(job) != _what_counts(before):
        return Change(What.UPDATED, spec, job, before, run)
    # A timetable overrides the count in the file.
    timed = isinstance(job.plan, Service) and job.plan.timetable
    if job.tasks != before.tasks and not timed:
        return Change(What.UPDATED if job.type is JobType.CRON else What.SCALED, spec, job, before, run)
    return Change(What.UNCHANGED, spec, job, before)


def _what_counts(job: Job) -> Job:
    """Return the job without the fields that do not matter when it is applied."""
    return msgspec.structs.replace(job, id=0, tasks=1, after=(), hold=False, user="", group=job.group or DEFAULT_GROUP)


def check(committer: Committer, changes: Sequence[Change], known: tuple[tuple[int, JobState], ...]) -> Slices[None]:
    """Raise InputError if the machine would refuse any of the changes; in slices."""
    machine = committer.machine
    created = [change for change in changes if change.what is What.CREATED]
    try:
        if created:
            yield from machine.checking(_alone(created), known)
    except InputError as error:
        raise placed(
            error if len(created) > 1 else below(error, "jobs[0]"), [create.spec for create in created]
        ) from None
    for change in changes:
        if change.what is not What.UPDATED:
            continue
        try:
            yield from machine.checking([msgspec.structs.replace(change.job, id=change.id, after=())])
        except InputError as error:
            raise below(error, change.spec.place) from None


def _alone(created: Sequence[Change]) -> list[Job]:
    """Return the created jobs, with dependencies that refer to places among these."""
    places = {create.spec.place: place for place, create in enumerate(created)}
    alone: list[Job] = []
    for create in created:
        after = []
        for number, condition in create.job.after:
            if number > 0:
                after.append((number, condition))
                continue
            behind = places.get(f"jobs[{-number - 1}]")
            if behind is not None:  # an existing job started long ago
                after.append((-behind - 1, condition))
        alone.append(msgspec.structs.replace(create.job, after=tuple(after)))
    return alone


async def carry_out(
    committer: Committer, changes: Sequence[Change], known: tuple[tuple[int, JobState], ...]
) -> tuple[AppliedJob, ...]:
    """Make the changes in one step. Raises NotAccepted, with the completed ones, if the state has changed."""
    created = [change for change in changes if change.what is What.CREATED]
    work: list[_Work] = []
    if created:
        what = Submit(jobs=tuple(_alone(created)), known=known)
        work.append(_Work(created, what, [create.spec.run for create in created]))
    async for change in in_turns(changes):
        if change.what is What.UPDATED:
            work.append(_Work([change], Update(job=change.id, spec=change.job), [change.spec.run]))
        elif change.what is What.SCALED:
            work.append(_Work([change], Scale(job=change.id, tasks=change.job.tasks), []))
    await committer.submit_together([entry.call for entry in work])
    failed = None
    done: list[str] = []
    async for entry in in_turns(work):
        error = entry.error
        failed = failed or error
        if error is None:
            done += (f"{change.job.name} is {change.what.value}" for change in entry.changes)
    if failed is not None:
        if done and isinstance(failed, InputError):
            raise NotAccepted(f"{failed.what}; {', '.join(done)} anyway", hint="apply the file again")
        raise failed
    ids: dict[str, int] = {}
    for entry in work:
        if isinstance(entry.call.input, Submit):
            ids |= {change.spec.place: number for change, number in zip(entry.changes, entry.reply, strict=True)}
    return await all_in_turns(told(committer, changes, ids))


class _Work:
    """An input, its changes, and its answer."""

    def __init__(self, changes: Sequence[Change], what: Input, runs: Sequence[Run]) -> None:
        self.changes = changes
        self._answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self.call = InputCall(what, runs, caller=self._answer)

    @property
    def reply(self) -> tuple[int, ...]:
        """The ids of new jobs."""
        return self._answer.result()

    @property
    def error(self) -> BaseException | None:
        """The reason why the input was refused or not stored; None if it was stored."""
        return self._answer.exception()


def told(
    committer: Committer, changes: Sequence[Change], ids: dict[str, int], *, done: bool = True
) -> Slices[tuple[AppliedJob, ...]]:
    """Return a view of the changes, done or planned, in slices; ``ids`` are those of new jobs, by place."""
    views: list[AppliedJob] = []
    for change in changes:
        views.append(_told(committer, change, change.id or ids.get(change.spec.place, 0), done=done))
        yield
    return tuple(views)


def _told(committer: Committer, change: Change, number: int, *, done: bool) -> AppliedJob:
    view = AppliedJob(
        id=number,
        name=change.job.name,
        what=change.what.value,
        note=_note(committer, change),
        changes=_changes(change),
    )
    family = committer.machine.families.get(number)
    if not done or family is None or not isinstance(family.state, ReplicaState):
        return view
    return msgspec.structs.replace(view, version=family.version, updating=family.state.updating)


def _changes(change: Change) -> tuple[KeyChange, ...]:
    if change.before is None or change.what is What.UNCHANGED:
        return ()
    return changes_of_keys(change.before, change.run, change.job, change.spec)


def _note(committer: Committer, change: Change) -> str:
    notes: list[str] = []
    before = change.before
    timed = isinstance(change.job.plan, Service) and change.job.plan.timetable
    if before is not None and before.tasks != change.job.tasks and change.what in _COUNTED and not timed:
        if scaled_back(before, change.run, change.job):
            notes.append(f"back to {change.job.tasks} tasks from {before.tasks}, which was set by scaling")
        else:
            notes.append(f"{before.tasks} to {change.job.tasks} tasks")
    if change.what in (What.CREATED, What.UPDATED):
        notes += remarks(committer.machine.core.books, change.job)
    return "; ".join(notes)
