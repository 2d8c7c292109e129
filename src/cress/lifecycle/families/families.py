"""The life of all families: they enter, are held and cancelled, follow the ends of their members, and end.

Each plan has its own module with the handlers of ``FamilyHandlers``. They are called between inputs, never in the
middle of one, and may make members (``members.make``), cancel them (``jobs.cancel``) and set timers.
"""

from __future__ import annotations

from typing import Protocol

from cress.lifecycle.context import Context
from cress.lifecycle.families import crons, dags, databases, family_ends, services
from cress.lifecycle.inputs import Cancel, Hold
from cress.lifecycle.jobs import deadlines, jobs, members
from cress.lifecycle.jobs.reasons import comes_after, held
from cress.lifecycle.slices import Slices, parts
from cress.lifecycle.tables.family_rows import Family, ReplicaState, key_of, needs_name
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError, NotAccepted
from cress.model.events import JobHeld
from cress.model.family import Cron, Dag, Database, FamilySpec, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.records import FAILURES, JobRecord, JobState


class FamilyHandlers(Protocol):
    """The handlers of the families of one type."""

    def check(self, context: Context, job: Job) -> None:
        """Raise ``InputError`` if the plan of a submitted job, or of an update, is invalid."""

    def begin(self, context: Context, family: Family) -> None:
        """Begin: the family is accepted and has no open dependency."""

    def member_over(self, context: Context, family: Family, member: LiveJob | Family, record: JobRecord) -> None:
        """Handle the end of a member, which has been removed; not called for a cancelled family."""

    def tend(self, context: Context, family: Family) -> None:
        """Bring a changed family up to date; called after all other handlers, also after a release."""

    def due(self, context: Context, family: Family, kind: str, index: int) -> None:
        """Handle a timer (``kind``, ``timer_name(family, index)``) that is due; ``index`` is -1 if there is none."""

    def updated(self, context: Context, family: Family, before: Job) -> None:
        """Handle new values of ``family.job``, ``template`` and ``version``."""

    def wall_stepped(self, context: Context, family: Family) -> None:
        """Handle a set wall clock: moments are due at other times of the machine's clock."""

    def why(self, context: Context, family: Family, now: int) -> str:
        """Return what it waits for, as a sentence; empty: nothing."""


_KINDS: dict[type[FamilySpec], FamilyHandlers] = {Service: services, Database: databases, Cron: crons, Dag: dags}


def kind_of(family: Family) -> FamilyHandlers:
    """Return the handlers of its plan."""
    return _KINDS[type(family.job.plan)]  # type: ignore[index]  # a family has a plan


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` if a job with a plan is invalid, ``NotAccepted`` if its name is taken."""
    if job.plan is None:
        return
    _KINDS[type(job.plan)].check(context, job)
    if needs_name(job):
        other = named(context, job.name, job.group or DEFAULT_GROUP)
        if other is not None and other.job.id != job.id:
            if other.job.user != job.user:
                raise taken(job)
            raise NotAccepted(
                f"there is a {other.job.type.value} {job.name} in group {job.group or DEFAULT_GROUP} already, "
                f"job {other.job.id}",
                hint="`cress apply FILE` changes it to what a file says",
                field="name",
            )


def taken(job: Job) -> NotAccepted:
    """Return the refusal of a name that another user's job has; it says nothing about that job, which may be hidden."""
    return NotAccepted(
        f"the name {job.name} is taken in group {job.group or DEFAULT_GROUP}", hint="another name", field="name"
    )


def take(context: Context, word: Cancel | Hold) -> Slices[None]:
    """Cancel, hold or release jobs, which may be families."""
    if isinstance(word, Hold):
        yield from _hold_all(context, word)
    elif word.job in context.families:
        cancel(context, context.families[word.job], _by(word))
    else:
        jobs.cancel(context, word.job, _by(word))


def _hold_all(context: Context, word: Hold) -> Slices[None]:
    """Hold or release jobs, which may be families: all, or none if one of them cannot be."""
    numbers = (word.job, *word.more)
    for part in parts(numbers):
        for number in part:
            try:
                _check_hold(context, number, held=word.held)
            except InputError as error:
                none = f"; none was {'held' if word.held else 'released'}" if word.more else ""
                raise type(error)(error.what + none, hint=error.hint) from None
        yield
    for part in parts(numbers):
        for number in part:
            if number in context.families:
                hold(context, context.families[number], word)
            else:
                jobs.hold(context, context.jobs[number], word)
        yield


def _check_hold(context: Context, number: int, *, held: bool) -> None:
    """Raise ``InputError`` for an unknown job, ``NotAccepted`` if it can be neither held nor released."""
    family = context.families.get(number)
    if family is not None:
        if family.cancelling:
            raise NotAccepted(f"job {number} is ending", hint="only waiting or running jobs can be held or released")
        return
    job = context.jobs.get(number)
    if job is not None and job.kept is not None:
        # It would be made anew, without the hold.
        raise NotAccepted(
            f"job {number} is task {job.index} of {job.job.type.value} {job.job.family}",
            hint=f"`cress {'hold' if held else 'release'} {job.job.family}` applies to all of it",
        )
    jobs.check_hold(context, number)


def _by(word: Cancel) -> str:
    return f"cancelled by {word.by}" if word.by else ""


def named(context: Context, name: str, group: str) -> Family | None:
    """Return the service, database or cron job with this name."""
    number = context.named.get((group, name))
    return None if number is None else context.families[number]


def enter(context: Context, family: Family) -> None:
    """Enter an unfinished family in the indices."""
    context.families[family.job.id] = family
    context.group_load.add(family.job)
    if needs_name(family.job):
        context.named[key_of(family.job)] = family.job.id


def begin(context: Context, family: Family) -> None:
    """Begin a family that has no open dependency."""
    if family.cancelling:
        return
    kind_of(family).begin(context, family)
    context.unsettled.touched[family.job.id] = None


def cancel(context: Context, family: Family, reason: str = "") -> None:
    """Cancel a family with all its members."""
    family_ends.cancel(context, family, reason)


def give_up(context: Context, number: int, reason: str) -> None:
    """Cancel a job or family that cannot meet its deadline."""
    family_ends.cancel_any(context, number, reason)


def hold(context: Context, family: Family, word: Hold) -> None:
    """Hold or release a family with its members; running tasks go on."""
    family.held, family.held_by = word.held, word.by if word.held else ""
    for run in family_ends.runs_of(context, family):
        hold(context, run, word)
    for member in members.of(context, family):
        if not member.ending:
            member.held, member.held_by = family.held, family.held_by
            context.observe(JobHeld(member.job.id, word.held))
    context.unsettled.touched[family.job.id] = None


def member_over(context: Context, member: LiveJob | Family, record: JobRecord) -> None:
    """Handle the end of a member."""
    family = members.family_of(context, member)
    if family is None:
        return
    if family.members.get(member.index) == member.job.id:
        del family.members[member.index]
    family.started = family.started or member.started
    if record.state is JobState.SUCCEEDED:
        family.succeeded += 1
    elif record.state in FAILURES:
        family.failed += 1
    else:
        family.cancelled += 1
    if not family.cancelling:
        kind_of(family).member_over(context, family, member, record)
    if isinstance(member, LiveJob):
        members.touch(context, member)
    else:
        context.unsettled.touched[family.job.id] = None


def tend(context: Context, number: int) -> None:
    """Bring a changed family up to date."""
    family = context.families.get(number)
    if family is None:
        return
    if not family.cancelling and not family.unmet:
        kind_of(family).tend(context, family)
    over = family.cancelling or isinstance(family.job.plan, Dag)
    if over and not family.members:
        _over(context, family)


def _over(context: Context, family: Family) -> None:
    number = family.job.id
    record = record_of(family, context.utc)
    del context.families[number]
    context.group_load.add(family.job, -1)
    context.replica_indices.pop(number, None)
    if isinstance(family.state, ReplicaState):
        for name in family.state.nodes.values():
            context.homes[name].discard(number)
    family_ends.drop_timers(context, family)
    deadlines.ended(context, family.job, record)
    context.out.jobs.append(record)
    context.unsettled.over.append((number, record.state))
    jobs.remember(context, number, record.state)
    if family.job.family:
        context.unsettled.gone.append((family, record))


def record_of(family: Family, utc: int) -> JobRecord:
    """Return the record of a family that ended at ``utc``; for an unfinished one, as if it ended then.

    The counts of a dag are of its steps; in all other families the tasks count as cancelled.
    """
    spec = family.job
    state, counts = JobState.CANCELLED, (0, 0, spec.tasks)
    if isinstance(spec.plan, Dag):
        state, counts = dags.result(family)
    return JobRecord(
        id=spec.id,
        name=spec.name,
        group=spec.group or DEFAULT_GROUP,
        user=spec.user,
        type=spec.type.value,
        tasks=sum(counts),
        gang=spec.gang,
        priority=spec.priority,
        time_limit=spec.time_limit,
        request=spec.mean_request,
        state=state,
        submitted=family.submitted,
        started=family.started,
        ended=utc,
        succeeded=counts[0],
        failed=counts[1],
        cancelled=counts[2],
        reason=family.reason,
        requirement=spec.requirement,
        rank=spec.rank,
        application=spec.application,
        family=spec.family,
        index=family.index,
        template=family.template if family.template != spec.id else 0,
    )


def why(context: Context, family: Family, now: int | None = None) -> str:
    """Return why a family waits, or another remark on its state; may be empty."""
    if family.cancelling:
        return ""
    if family.unmet:
        return comes_after(context, family)
    if family.held:
        return held(family.job.id, family.held_by)
    return kind_of(family).why(context, family, max(context.now, now or 0)) or family.reason


def due(context: Context, kind: str, name: str) -> None:
    """Handle a timer of a family that is due."""
    number, _, index = name.partition(".")
    family = context.families.get(int(number))
    if family is not None and not family.cancelling:
        kind_of(family).due(context, family, kind, int(index) if index else -1)
        context.unsettled.touched[family.job.id] = None


def wall_stepped(context: Context, by: int) -> None:
    """Tell all families that the wall clock was set, by ``by`` µs."""
    for family in context.families.values():
        family.submitted += by
        family.started += by if family.started else 0
        if not family.cancelling and not family.unmet:
            kind_of(family).wall_stepped(context, family)
