"""Invariants of the context, in addition to the scheduler's; tests check them after every step."""

from __future__ import annotations

from collections.abc import Iterator

from cress.lifecycle.context import Context
from cress.lifecycle.families.family_invariants import families
from cress.lifecycle.jobs.waits import behind
from cress.lifecycle.moving.rounds import present
from cress.lifecycle.tables.group_load import GroupLoad
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import AWAITED, DRAIN, MEASURED, MOVES, OF_DEADLINES, REST, TERM
from cress.lifecycle.tables.user_load import UserLoad


def broken_invariants(context: Context) -> list[str]:
    """Return the broken invariants as sentences."""
    return [
        *context.core.validate(),
        *_same(context),
        *_jobs(context),
        *_order(context),
        *_nodes(context),
        *_timers(context),
        *families(context),
    ]


def _same(context: Context) -> Iterator[str]:
    if context.attempts.keys() != context.core.attempts.keys():
        yield "attempts: the machine and the scheduler do not have the same ones"
    if context.jobs.keys() != context.core.jobs.keys():
        yield "jobs: the machine and the scheduler do not have the same ones"
    users = UserLoad()
    for job in context.jobs.values():
        users.add(job.job)
    if (users.jobs.users, users.tasks.users) != (context.user_load.jobs.users, context.user_load.tasks.users):
        yield "users: the counts of their jobs are wrong"
    load = GroupLoad()
    for job in context.jobs.values():
        load.add(job.job)
    for family in context.families.values():
        load.add(family.job)
    if load.items() != context.group_load.items():
        yield "groups: the counts of their jobs are wrong"
    if context.unsettled.gone or context.unsettled.touched:
        yield "families: something of them changed, and they were not looked after"
    if context.unsettled.asked:
        yield "dags: conditions of steps were not decided"
    if context.unsettled.over or context.unsettled.tasks:
        yield "dependencies: jobs or tasks are over, and those behind them have not heard of it"


def _jobs(context: Context) -> Iterator[str]:
    for number, job in context.jobs.items():
        core = context.core.jobs.get(number)
        if core is None:
            continue
        waiting = core.waiting + len(core.later) + len(core.carried) + sum(len(claim.tasks) for claim in core.claims)
        if job.waiting != waiting:
            yield f"waiting: job {number} has {job.waiting} here and {waiting} in the scheduler"
        if job.ending != core.cancelled:
            yield f"ending: job {number} ends here or in the scheduler, not in both"
        if not job.ending and (job.held, behind(job)) != (core.held, core.behind):
            yield f"waiting: job {number} waits for other reasons here than in the scheduler"
        if (job.job.group or "default") != core.group.name:
            yield f"groups: job {number} is in {job.job.group} here and in {core.group.name} in the scheduler"
        yield from _tries(context, number, job)


def _tries(context: Context, number: int, job: LiveJob) -> Iterator[str]:
    options = context.core.options
    if any(count > job.job.retries for count in job.failures.values()):
        yield f"retries: a task of job {number} was tried more often than it may be"
    if any(count >= options.start_tries for count in job.unstarted.values()):
        yield f"starts: a task of job {number} could not be started too often, and is not failed"
    if not job.started and not job.ending and job.start_failures >= options.start_failures:
        yield f"starts: no program of job {number} can be started, and it is not failed"


def _order(context: Context) -> Iterator[str]:
    for number, job in context.jobs.items():
        for first, _ in job.unmet:
            if first not in context.jobs and first not in context.families and not job.ending:
                yield f"dependencies: job {number} waits for job {first}, which is over"
            if number not in context.behind.get(first, ()):
                yield f"dependencies: nobody will tell job {number} of the end of job {first}"


def _nodes(context: Context) -> Iterator[str]:
    cluster = context.core.cluster
    for name, node in context.nodes.items():
        if node.closed != (cluster.cordoned[cluster.index[name]] is not None):
            yield f"nodes: {name} takes tasks here or in the scheduler, not in both"
        f = cluster.index[name]
        differs = context.core.loads.seen.get(f) != node.load
        kept = node.load is None and (f in context.core.loads.over or not node.connected)
        if (differs and not kept) or (node.load and not node.connected):
            yield f"nodes: {name} has another load here than in the scheduler, or one although it is away"
        if node.draining and not node.cordoned:
            yield f"nodes: {name} is to get empty and takes tasks"
    for attempt in context.attempts.values():
        where = context.nodes.get(attempt.node)
        if where is None:
            yield f"nodes: attempt {attempt.id} is on {attempt.node}, which is not a node"
        elif (
            where.draining
            and not where.patient
            and not attempt.halted
            and context.timers.get(DRAIN, attempt.node) is None
        ):
            yield f"drains: attempt {attempt.id} on {attempt.node} was not told to stop"


def _timer(context: Context, kind: str, name: str) -> Iterator[str]:
    if kind in (REST, DRAIN, MEASURED):
        if name not in context.nodes:
            yield f"timers: {kind} of {name}, which is not a node"
    elif kind in OF_DEADLINES:
        if int(name) not in context.jobs and int(name) not in context.families:
            yield f"timers: {kind} of job {name}, which is over"
    elif kind == MOVES:
        if present(context) is None:
            yield "timers: tasks that are moved should arrive, and none is"
    elif kind == AWAITED:
        job = context.jobs.get(int(name))
        if job is None or not job.awaits:
            yield f"timers: job {name} waits for something, and does not"
    elif kind == TERM:
        if int(name) not in context.leases:
            yield f"timers: the term of job {name}, which is not a lease"
    elif int(name.partition(".")[0]) not in context.families:
        yield f"timers: {kind} of family {name}, which is over"


def _timers(context: Context) -> Iterator[str]:
    for kind, name in context.timers.times:
        yield from _timer(context, kind, name)
    for number, lease in ((n, job.job.inside) for n, job in context.jobs.items() if job.job.inside and not job.ending):
        if lease[0] not in context.leases or number not in context.inside.get(lease[0], ()):
            yield f"leases: job {number} is to run inside lease {lease[0]}, which has ended"
    due = context.timers.next()
    if due is not None and due <= context.now:
        yield "timers: a time has passed, and nothing happened"
