"""The cancelling of families, with all their members, which may be families themselves: the dags of a cron job."""

from __future__ import annotations

from collections.abc import Iterator

from cress.lifecycle.context import Context
from cress.lifecycle.jobs import jobs, members
from cress.lifecycle.tables.family_rows import Family, ReplicaState, key_of
from cress.lifecycle.tables.timers import OF_FAMILIES, OF_TASKS


def cancel(context: Context, family: Family, reason: str = "") -> None:
    """Cancel a family with all its members."""
    if family.cancelling:
        return
    family.cancelling, family.reason = True, reason
    if context.named.get(key_of(family.job)) == family.job.id:
        del context.named[key_of(family.job)]
    context.unsettled.touched[family.job.id] = None
    drop_timers(context, family)
    for run in runs_of(context, family):
        cancel(context, run, reason)
    for member in members.of(context, family):
        jobs.cancel(context, member.job.id, reason)


def cancel_any(context: Context, number: int, reason: str) -> None:
    """Cancel a job or family."""
    if number in context.families:
        cancel(context, context.families[number], reason)
    else:
        jobs.cancel(context, number, reason)


def runs_of(context: Context, family: Family) -> Iterator[Family]:
    """Yield the unfinished members of a family that are families themselves."""
    for number in list(family.members.values()):
        run = context.families.get(number)
        if run is not None:
            yield run


def drop_timers(context: Context, family: Family) -> None:
    """Drop all timers of a family."""
    for kind in OF_FAMILIES:
        context.timers.drop(kind, members.timer_name(family))
    known = family.state.ran if isinstance(family.state, ReplicaState) else {}
    for index in {*family.members, *known}:
        for kind in OF_TASKS:
            context.timers.drop(kind, members.timer_name(family, index))
