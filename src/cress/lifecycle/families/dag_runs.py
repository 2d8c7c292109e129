"""Runs of cron jobs that are dags (design note 0078): made by the machine from the steps of the cron job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.families import dags, family_ends
from cress.lifecycle.jobs import deadlines, group_limits, members
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.family import Dag
from cress.model.job import Condition, Job, JobType


def jobs_of(context: Context, cron: Job) -> list[Job]:
    """Return the dag of a run that begins now and its steps, which refer to each other by places as in a submit."""
    prefix = f"{cron.name}."
    plan = Dag(steps=tuple(step.name.removeprefix(prefix) for step in cron.steps))
    whole = msgspec.structs.replace(cron, type=JobType.DAG, plan=plan, steps=(), tasks=len(cron.steps))
    # The group may have got a time limit after the cron job was submitted.
    return group_limits.with_limit(context, deadlines.resolved([whole, *cron.steps], context.utc))


def make(
    context: Context, family: Family, jobs: Sequence[Job], index: int, scheduled: tuple[int, int], behind: Sequence[int]
) -> Family | None:
    """Make a run of a cron job; it starts when the unfinished jobs ``behind`` have ended.

    Return ``None`` if the scheduler refuses one of its steps; then the cron job has the reason.
    """
    first = context.take_id(len(jobs))
    unmet = tuple((predecessor, Condition.ANY) for predecessor in behind)
    spec = msgspec.structs.replace(jobs[0], id=first, family=family.job.id, after=unmet, hold=family.held)
    dag = Family(
        job=spec,
        submitted=context.utc,
        template=family.template,
        index=index,
        held=family.held,
        held_by=family.held_by,
        unmet=unmet,
        scheduled=scheduled,
    )
    context.families[first] = dag
    context.group_load.add(spec)
    family.members[index] = first
    for predecessor in behind:
        context.behind.setdefault(predecessor, []).append(first)
    deadlines.watch(context, spec)
    for place, step in enumerate(jobs[1:]):
        if not _enter(context, dag, step, place, unmet):
            family.reason = dag.reason
            family_ends.cancel(context, dag, dag.reason)
            return None
    if not unmet:
        dags.begin(context, dag)
    context.unsettled.touched[first] = None
    return dag


def _enter(context: Context, dag: Family, step: Job, place: int, unmet: tuple[tuple[int, Condition], ...]) -> bool:
    """Enter a step; return False if the scheduler refuses it, then the dag has the reason."""
    first = dag.job.id
    own = tuple((first - number - 1, condition) for number, condition in step.after)
    after = (*own, *unmet)
    spec = msgspec.structs.replace(
        step, id=first + 1 + place, user=dag.job.user, family=first, after=after, hold=step.hold or dag.held
    )
    live = LiveJob(
        job=spec,
        submitted=context.utc,
        held=spec.hold,
        held_by=dag.held_by if dag.held else spec.user * spec.hold,
        unmet=after,
        template=dag.template,
        index=place,
        scheduled=dag.scheduled,
        awaits=spec.wait_for,
    )
    return members.enter(context, dag, live)
