"""Changes of unfinished jobs by their users: new values of some keys, and running tasks that wait again (design note
0066).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.core.admission import check_job as check_amounts
from cress.core.facts.changes import is_placed_anew
from cress.core.placing.kinds import constraints_of
from cress.core.placing.placement_clauses import relation_of
from cress.core.placing.submitted_constraints import replaced
from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt, NewLimit
from cress.lifecycle.inputs import Awaited, ChangeJobs, Requeue
from cress.lifecycle.jobs import deadlines, group_limits, jobs, waits
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.submits import deadlines as submitted_deadlines
from cress.lifecycle.submits import submits
from cress.lifecycle.tables.rows import LiveJob
from cress.model.changeable import CHANGEABLE, When, keys_in, with_values
from cress.model.errors import InputError, NotAccepted
from cress.model.events import JobChanged, RunEstimated
from cress.model.family import Dag
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job

REQUEUED = "requeued"


def take(context: Context, word: ChangeJobs | Requeue | Awaited) -> tuple[int, ...] | None:
    """Change jobs, or let their running tasks wait again: all of them, or none; or note that a thing is there."""
    if isinstance(word, ChangeJobs):
        return change(context, word)
    if isinstance(word, Requeue):
        requeue(context, word)
    else:
        waits.awaited(context, word)
    return None


def change(context: Context, word: ChangeJobs) -> tuple[int, ...] | None:
    """Change jobs: all of them, or none; return the ids of their new runs, if they have new ones."""
    pairs = check(context, word)
    first = context.take_id(len(pairs)) if word.new_runs else 0
    for place, (live, new) in enumerate(pairs):
        if word.new_runs:
            live.template = first + place
        if new != live.job:
            _apply(context, live, new)
    return tuple(range(first, first + len(pairs))) if word.new_runs else None


def check(context: Context, word: ChangeJobs) -> list[tuple[LiveJob, Job]]:
    """Return the jobs with their new descriptions. Raises ``InputError``, ``NotAccepted`` for a change that is
    refused.
    """
    pairs = []
    for number in word.jobs:
        live = _changeable(context, number, "changed")
        try:
            pairs.append((live, _changed(context, live, word)))
        except InputError as error:
            raise _of_several(word.jobs, number, error, "changed") from None
    group_limits.check_new(context, [new for live, new in pairs if _group(new) != _group(live.job)])
    relations = (
        relation_of(new, constraints_of(new, context.core.dimensions), _group(new))
        for live, new in pairs
        if is_placed_anew(live.job, new)
    )
    context.core.relations.dependencies.check(relations)
    return pairs


def _changeable(context: Context, number: int, what: str) -> LiveJob:
    """Return an unfinished job of its own. Raises ``InputError``, ``NotAccepted`` for all others."""
    family = context.families.get(number)
    if family is not None:
        kind = family.job.type.value
        ways = {
            "dag": f"name its steps: `cress jobs --family {number}` lists them",
            "cron": f"`cress apply FILE` changes it; `cress jobs --family {number}` lists its runs",
        }
        raise NotAccepted(
            f"job {number} is a {kind}{' job' * (kind == 'cron')} and cannot be {what} as a whole",
            hint=ways.get(kind, "`cress apply FILE` changes it to what a file says"),
        )
    live = jobs.find(context, number)
    if live is None:
        raise NotAccepted(f"job {number} has ended", hint=f"only waiting or running jobs can be {what}")
    if live.ending:
        raise NotAccepted(f"job {number} is ending", hint=f"only waiting or running jobs can be {what}")
    if live.kept is not None:
        raise NotAccepted(
            f"job {number} is task {live.index} of {live.job.type.value} {live.job.family}",
            hint=f"`cress apply FILE` or `cress restart {live.job.family}` changes all of it",
        )
    if live.job.is_lease:
        raise NotAccepted(f"job {number} is a lease and cannot be {what}", hint="release it, and request another one")
    return live


def _changed(context: Context, live: LiveJob, word: ChangeJobs) -> Job:
    """Return the new description of a job. Raises ``InputError``, ``NotAccepted``."""
    old, number = live.job, live.job.id
    late = [key for key in word.keys if CHANGEABLE[key].when is When.WAITING]
    if live.attempts and late:
        raise NotAccepted(
            f"job {number} runs, and its {late[0]} may be changed only {When.WAITING.value}",
            hint=f"of a running job: {', '.join(keys_in(When.ALIVE))}; or first `cress requeue --hold {number}`",
            field=late[0],
        )
    if old.parts and (wrong := [key for key in ("resource", "requirement", "rank") if key in word.keys]):
        raise NotAccepted(
            f"job {number} has parts, each with its own {wrong[0]}",
            hint="cancel it, and submit it again",
            field=wrong[0],
        )
    new = deadlines.timed(with_values(old, word.values, word.keys), context.utc)
    if "requirement" in word.keys:
        new = msgspec.structs.replace(new, requirement=replaced(old.requirement, new.requirement))
    check_amounts(new, context.core.dimensions)
    if "deadline" in word.keys:
        owner = context.families.get(live.job.family)
        if owner is not None and isinstance(owner.job.plan, Dag):
            raise NotAccepted(
                f"job {number} is a step, and the deadline belongs to dag {owner.job.id}",
                hint="it cannot be changed once the dag has begun",
                field="deadline",
            )
        submitted_deadlines.check(context, new)
    if is_placed_anew(old, new):
        submits.check_job(context, new)
    elif {"time_limit", "max_running"}.intersection(word.keys):
        group_limits.check_job(context, new)
    return new


def _apply(context: Context, live: LiveJob, new: Job) -> None:
    old, number = live.job, live.job.id
    context.user_load.add(old, -1)
    context.group_load.add(old, -1)
    live.job = new
    for task, count in list(live.failures.items()):
        if count > new.retries:
            # Its next failure is its last one, as for a task that has used up its retries.
            live.failures[task] = new.retries
    context.user_load.add(new)
    context.group_load.add(new)
    context.observe(JobChanged(new))
    if _group(new) != _group(old) or new.request != old.request or new.time_limit != old.time_limit:
        estimate = context.submitted(new, None).estimate
        if estimate is not None:
            context.observe(RunEstimated((number,), estimate))
    if new.deadline != old.deadline:
        deadlines.forget(context, number)
        deadlines.watch(context, new)
    if new.time_limit != old.time_limit:
        for attempt in live.attempts.values():
            attempt.limited = True
            context.out.limits.append(NewLimit(attempt.id, number, attempt.node, new.time_limit))


def requeue(context: Context, word: Requeue) -> None:
    """Stop the running tasks of jobs, which then wait again: of all of these jobs, or of none."""
    found = []
    for number in word.jobs:
        live = _changeable(context, number, "requeued")
        if not live.attempts and not word.hold:
            error = NotAccepted(f"no task of job {number} runs", hint="it waits already; `cress hold` keeps it waiting")
            raise _of_several(word.jobs, number, error, "requeued")
        found.append(live)
    for live in found:
        if word.hold:
            jobs.hold_one(context, live, held=True, by=word.by)
        for attempt in live.attempts.values():
            if not attempt.halted:
                attempt.halted, attempt.halted_for = REQUEUED, f"requeued by {word.by}" if word.by else "requeued"
                context.out.halts.append(Halt(attempt.id, attempt.job, attempt.node))
        mark(context, live)


def _of_several(numbers: Sequence[int], number: int, error: InputError, what: str) -> InputError:
    """Return an error about one of several jobs, of which none was changed."""
    if len(numbers) == 1:
        return error
    about = "" if f"job {number}" in error.what else f"job {number}: "
    return type(error)(f"{about}{error.what}; none was {what}", hint=error.hint, field=error.field)


def _group(job: Job) -> str:
    return job.group or DEFAULT_GROUP
