"""Updates of unfinished families: a new version, or a new task count."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.families import crons, replicas, rolling_updates
from cress.lifecycle.families.families import kind_of
from cress.lifecycle.inputs import Promote, Scale, Trigger, Update
from cress.lifecycle.jobs import group_limits
from cress.lifecycle.submits import submits
from cress.lifecycle.tables.family_rows import CronState, Family, ReplicaState
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Cron, Dag, Database, Service
from cress.model.group import DEFAULT_GROUP


def take(context: Context, word: Update | Scale | Promote | Trigger) -> tuple[int, ...] | None:
    """Handle an order about a family; return the ids of its new runs, if it has some."""
    match word:
        case Update():
            return update(context, word)
        case Scale():
            scale(context, word)
        case Promote():
            promote(context, word)
        case Trigger():
            return trigger(context, word)
    return None


def scale(context: Context, word: Scale) -> None:
    """Change the task count of a service or database."""
    family = _alive(context, word.job)
    if not isinstance(family.job.plan, (Service, Database)):
        raise NotAccepted(
            (
                f"job {word.job} is a {family.job.type.value}{' job' * isinstance(family.job.plan, Cron)}, which "
                "has no number of tasks"
            ),
            hint="only services and databases can be scaled",
        )
    if word.tasks < 0:
        raise InputError(f"{word.tasks} tasks", hint="0 or more", field="tasks")
    wanted = msgspec.structs.replace(family.job, tasks=word.tasks)
    if word.tasks > family.job.tasks:
        group_limits.check_job(context, wanted)
    family.job = wanted
    replicas.replace_lost(context, family)
    context.unsettled.touched[word.job] = None


def update(context: Context, word: Update) -> tuple[int, ...]:
    """Update a family to a new job; return the id of its new run."""
    family = _alive(context, word.job)
    before, old = family.job, family.template
    # A run without changes keeps its user; a changed one belongs to the user who changes it.
    user = before.user if word.same_as == old else word.spec.user or before.user
    spec = msgspec.structs.replace(word.spec, id=before.id, group=word.spec.group or before.group, user=user)
    if type(spec.plan) is not type(before.plan) or isinstance(spec.plan, Dag):
        what = spec.type.value if type(spec.plan) is not type(before.plan) else "other dag"
        raise NotAccepted(
            (
                f"job {word.job} is a {before.type.value}{' job' * isinstance(before.plan, Cron)}, it cannot "
                f"become a {what}"
            ),
            hint=f"`cress cancel {word.job}` first",
            field="type",
        )
    if (spec.group or DEFAULT_GROUP, spec.name) != (before.group or DEFAULT_GROUP, before.name):
        raise NotAccepted(
            (
                f"job {word.job} is {before.name} of group {before.group or DEFAULT_GROUP}; an update cannot "
                "change name or group"
            ),
            hint="submit a new job under the other name",
            field="name",
        )
    (spec,) = group_limits.with_limit(context, [spec])
    submits.check_job(context, spec)
    number = context.take_id()
    context.group_load.add(before, -1)
    family.job = msgspec.structs.replace(spec, after=before.after, hold=before.hold)
    context.group_load.add(family.job)
    family.template, family.version = number, family.version + 1
    kind_of(family).updated(context, family, before)
    if word.same_as == old and isinstance(spec.plan, (Service, Database)) and rolling_updates.is_alike(before, spec):
        rolling_updates.relabel(context, family, old)
    if isinstance(spec.plan, (Service, Database)):
        family.publish(context.utc, word.spec.user)
    context.unsettled.touched[word.job] = None
    return (number,)


def _alive(context: Context, number: int) -> Family:
    family = context.families.get(number)
    if family is None:
        if number in context.jobs:
            raise NotAccepted(
                f"job {number} is a {context.jobs[number].job.type.value} job",
                hint="services, databases and cron jobs can be changed",
            )
        if not 0 < number < context.next_job:
            raise InputError(f"there is no job {number}", hint="see `cress jobs`")
        raise NotAccepted(f"job {number} has ended", hint="only waiting or running jobs can be changed")
    if family.cancelling:
        raise NotAccepted(f"job {number} is ending", hint="only waiting or running jobs can be changed")
    return family


def promote(context: Context, word: Promote) -> None:
    """Let an update that waits after its canaries replace all tasks."""
    family = _alive(context, word.job)
    plan, state = family.job.plan, family.state
    waits = isinstance(plan, Service) and isinstance(state, ReplicaState) and state.updating and not state.promoted
    if not isinstance(plan, Service) or not isinstance(state, ReplicaState) or not (waits and plan.canary):
        hint = "an update of a service with `canary` waits for it" if isinstance(plan, Service) else "a service"
        raise NotAccepted(f"job {word.job} has no update that waits for a promotion", hint=hint)
    state.promoted = True
    context.unsettled.touched[word.job] = None


def trigger(context: Context, word: Trigger) -> tuple[int, ...]:
    """Make runs of a cron job for these moments, all or none; return their ids."""
    family = _alive(context, word.job)
    if not isinstance(family.state, CronState):
        what = f"job {word.job} is a {family.job.type.value}" + " that has not begun" * isinstance(
            family.job.plan, Cron
        )
        raise NotAccepted(what, hint="only cron jobs are triggered; `cress submit` submits a job again")
    return crons.trigger(context, family, family.state, word.moments)
