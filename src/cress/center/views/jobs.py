"""Views of jobs, tasks, nodes and groups."""

from __future__ import annotations

from typing import Any

import msgspec

from cress.center.access.redaction import redacted
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, FoundTask, id_of, state_of
from cress.center.dns.labels import dns_name
from cress.center.keeping.history_reader import HistoryJob
from cress.center.views.deadlines import deadline_view
from cress.center.views.devices import device_views, held, held_then, load_view, overload
from cress.center.views.families import (
    counts_of,
    cron_view,
    dag_view,
    is_ready,
    last_state,
    reason_of,
    reason_of_job,
    service_view,
    whole_dag_view,
)
from cress.center.views.node_settings import set_here
from cress.core.advance.telling import say_on_node
from cress.core.jobs import WorkloadLease
from cress.core.scheduler import Scheduler
from cress.lifecycle.families import families
from cress.lifecycle.jobs.jobs import record_of
from cress.lifecycle.name_service import Place, ports_of
from cress.lifecycle.nodes.cordons import why_closed
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveNode
from cress.lifecycle.tables.timers import DRAIN
from cress.model.decisions import Choice, Kept
from cress.model.errors import InputError
from cress.model.estimates import RunEstimate
from cress.model.events import AWAY
from cress.model.job import Job, JobType
from cress.model.jobfile.ports import DYNAMIC, named
from cress.model.node import DISK_KIND
from cress.model.parts import part_of
from cress.model.records import AttemptRecord, JobRecord
from cress.model.resources import Dimensions, ResourceVector
from cress.model.run import Run, SecretUse
from cress.model.step_values import in_reason
from cress.model.times import NEVER, SECOND
from cress.model.units import format_amount
from cress.protocol.cluster_views import MatchView, NodeTask, NodeView, PlaceView
from cress.protocol.job_views import AttemptView, EstimateView, JobView, PartView, TaskCounts, TaskView
from cress.protocol.views import Resources

# Most tasks shown for one node.
MOST_NODE_TASKS = 1_000


def moment(utc: int) -> float | None:
    """Return microseconds since the epoch as seconds; None for 0, which means not yet."""
    return utc / SECOND if utc else None


def resources(vector: ResourceVector, dimensions: Dimensions) -> Resources:
    """Return the amounts above 0 as texts by dimension; a job that ended long ago may have fewer dimensions."""
    return {
        name: format_amount(amount, dimensions.measure(name))
        for name, amount in zip(dimensions.names, vector, strict=False)
        if amount
    }


async def whole_job_view(committer: Committer, job: AnyJob) -> JobView:
    """Return the full view of a single job."""
    view = job_view(committer, job)
    if view.type == JobType.DAG.value:
        return msgspec.structs.replace(view, dag=await whole_dag_view(committer, job))
    if view.cron is not None and view.cron.last_job is not None and not view.cron.last_state:
        # The record of its last run may be in the history by now.
        last = await last_state(committer, view.cron.last_job)
        return msgspec.structs.replace(view, cron=msgspec.structs.replace(view.cron, last_state=last))
    return view


def job_view(committer: Committer, job: AnyJob) -> JobView:
    """Return the view of a job, live or finished."""
    if isinstance(job, JobRecord):
        run = run_of(committer, job)
        return msgspec.structs.replace(_job(committer, job, run), deadline=deadline_view(committer, job, run))
    if isinstance(job, Family):
        return _family(committer, job)
    spec, machine = job.job, committer.machine
    run = run_of(committer, job)
    view = _job(committer, record_of(job, machine.utc), run)
    now = machine.core.constraints(spec.id)
    why = reason_of_job(committer, job)
    return msgspec.structs.replace(
        view,
        state=state_of(committer, job).value,
        tasks=msgspec.structs.replace(view.tasks, waiting=job.waiting, running=job.running),
        ended=None,
        reason=redacted(why.text),
        reason_kind=why.kind,
        requirement_now=now.requirement if now else "",
        rank_now=now.rank if now else "",
        relaxes=None if now is None or now.until is None else (now.until - machine.now + machine.utc) / SECOND,
        estimate=_estimate(machine.core.estimate_of(spec.id)),
        deadline=deadline_view(committer, job),
        held=job.held,
        **_as_submitted(spec, run, machine.core.dimensions),
    )


def _estimate(found: RunEstimate | None) -> EstimateView | None:
    """Return an estimate in seconds; None if it is empty."""
    if found is None or found.pessimistic >= NEVER:
        return None
    return EstimateView(
        optimistic=found.optimistic / SECOND,
        median=found.run / SECOND,
        mean=found.mean / SECOND,
        pessimistic=found.pessimistic / SECOND,
    )


def _family(committer: Committer, family: Family) -> JobView:
    spec, machine = family.job, committer.machine
    run = run_of(committer, family)
    view = _job(committer, families.record_of(family, machine.utc), run)
    why = reason_of(committer, family)
    return msgspec.structs.replace(
        view,
        state=state_of(committer, family).value,
        tasks=counts_of(committer, family),
        ended=None,
        reason=redacted(why.text),
        reason_kind=why.kind,
        held=family.held,
        deadline=deadline_view(committer, family),
        within=spec.within / SECOND if spec.within else None,
        **_as_submitted(spec, run, machine.core.dimensions),
        service=service_view(committer, family),
        cron=cron_view(committer, family),
        dag=dag_view(family),
    )


def _as_submitted(spec: Job, run: Run | None, dimensions: Dimensions) -> dict[str, Any]:
    """Return the fields of a live job or family that are keys of its job file."""
    return {
        "retries": spec.retries,
        "after": {str(number): condition.value for number, condition in spec.after},
        "max_running": spec.max_running,
        "max_per_node": spec.max_per_node,
        "max_per_rack": spec.max_per_rack,
        "licences": dict(spec.licences),
        "labels": dict(spec.labels),
        "workload": spec.workload,
        "job_failure": spec.job_failure,
        **({"parts": _parts(spec, run, dimensions)} if spec.parts else {}),
    }


def _parts(spec: Job, run: Run | None, dimensions: Dimensions) -> tuple[PartView, ...]:
    """Return the parts of a live gang."""
    commands = {part.name: part.command for part in run.parts} if run else {}
    return tuple(
        PartView(
            name=part.name,
            tasks=part.tasks,
            resource=resources(part.request, dimensions),
            command=commands.get(part.name, ()),
            requirement=part.requirement,
            rank=part.rank,
        )
        for part in spec.parts
    )


def _parts_then(run: Run, dimensions: Dimensions) -> tuple[PartView, ...]:
    """Return the parts of an ended gang, from its run."""
    return tuple(
        PartView(
            name=part.name,
            tasks=part.tasks,
            resource={
                name: format_amount(amount, dimensions.measure(name))
                for name, amount in part.limits
                if name in dimensions.index
            },
            command=part.command,
            requirement=part.requirement,
            rank=part.rank,
        )
        for part in run.parts
    )


def _secret(use: SecretUse) -> str | dict[str, str]:
    """Return the use of a secret in the form of a job file."""
    return {"secret": use.secret, "as": "file"} if use.file else use.secret


def _job(committer: Committer, job: JobRecord, run: Run | None) -> JobView:
    values = in_reason(job.reason)
    return JobView(
        id=job.id,
        name=job.name,
        group=job.group,
        user=job.user,
        type=job.type,
        state=job.state.value,
        tasks=TaskCounts(total=job.tasks, succeeded=job.succeeded, failed=job.failed, cancelled=job.cancelled),
        priority=job.priority,
        gang=job.gang,
        resource=resources(job.request, committer.machine.core.dimensions),
        time_limit=None if job.time_limit is None else job.time_limit / SECOND,
        submitted=job.submitted / SECOND,
        started=moment(job.started),
        ended=moment(job.ended),
        preempted=job.preempted,
        reason="" if values else redacted(job.reason),
        command=run.command if run else (),
        image=run.image.name if run and run.image else "",
        environment=dict(run.environment) if run else {},
        secrets={use.name: _secret(use) for use in run.secrets} if run else {},
        directory=run.directory if run else "",
        requirement=job.requirement,
        rank=job.rank,
        ports={name: number or DYNAMIC for name, number in run.ports} if run else {},
        labels=dict(run.labels) if run else {},
        parts=_parts_then(run, committer.machine.core.dimensions) if run else (),
        application=job.application,
        values=dict(values),
        family=job.family or None,
        index=job.index if job.family else None,
    )


def run_of(committer: Committer, job: AnyJob) -> Run | None:
    """Return a job's run; None if it is no longer known."""
    return job.run if isinstance(job, HistoryJob) else committer.run(id_of(job))


def task_view(task: FoundTask, run: Run | None, member: int | None = None) -> TaskView:
    """Return a task with its attempts, oldest first; ``member`` is its own job in a service or database."""
    names = [name for name, _ in run.ports] if run else []
    attempts = [_finished(record, names) for record in task.finished]
    if task.live is not None:
        attempts.append(_running(task.live, names))
    ready = None if member is None else task.live is not None and is_ready(task.live)
    why = task.live.unwell if task.live is not None and ready is False else ""
    part = part_of(run.parts, task.index) if run is not None else None
    return TaskView(
        index=task.index,
        state=task.state,
        attempts=tuple(attempts),
        job=member,
        ready=ready,
        why=redacted(why),
        part=part[0].name if part else "",
        part_index=part[1] if part else None,
        listed=run.index_of(task.index) if run is not None and run.indices else None,
    )


def _finished(record: AttemptRecord, names: list[str]) -> AttemptView:
    return AttemptView(
        id=record.attempt,
        node=record.node,
        outcome=record.outcome.value,
        placed=record.placed / SECOND,
        started=moment(record.started),
        ended=moment(record.ended),
        code=record.code,
        error=redacted(record.error),
        cpu=record.cpu / SECOND,
        memory=record.memory,
        ports=named(names, record.ports),
        devices=held_then(record.devices),
    )


def with_loans(committer: Committer, task: TaskView) -> TaskView:
    """Return the view of a task, with the leases that it uses while it runs."""
    core = committer.machine.core
    last = task.attempts[-1] if task.attempts else None
    known = core.attempts.get(last.id) if last is not None and last.outcome == "running" else None
    if last is None or known is None or not (known.parts or known.inside):
        return task
    lent = [part for part in known.parts if part.lease is not None]
    seen = msgspec.structs.replace(
        last,
        inside=tuple(dict.fromkeys(lease_id(committer, lease) for lease, _ in known.inside)),
        borrows=resources(tuple(map(sum, zip(*(part.amounts for part in lent), strict=True))), core.dimensions),
        lenders=tuple(dict.fromkeys(lease_id(committer, part.lease) for part in lent if part.lease is not None)),
    )
    return msgspec.structs.replace(task, attempts=(*task.attempts[:-1], seen))


def lease_id(committer: Committer, lease: WorkloadLease) -> str:
    """Return the API's name for a lease: JOB.TASK of its holder, or ``@ATTEMPT``."""
    holder = None if lease.holder is None else committer.machine.attempts.get(lease.holder.id)
    return f"@{lease.id}" if holder is None else f"{holder.job}.{holder.task}"


def _running(attempt: LiveAttempt, names: list[str]) -> AttemptView:
    return AttemptView(
        id=attempt.id,
        node=attempt.node,
        outcome="running",
        placed=attempt.placed / SECOND,
        started=moment(attempt.started),
        ports=named(names, attempt.ports),
        devices=held(attempt.devices),
        chosen=why_chosen(attempt.chosen, attempt.kept),
    )


def why_chosen(chosen: Choice | None, kept: Kept | None = None) -> str:
    """Return why a node was chosen: ``chosen for least fragmentation 0.012, balance 0.31; 14 others fit``.

    It may also name room that was kept; it is empty for other orders.
    """
    if kept is not None:
        why, number = kept
        tasks = "1 task" if number == 1 else f"{number:,} tasks"
        return {
            "preempted": f"chosen for the room of {tasks}, which had to stop for it",
            "moves": f"chosen for the room of {tasks}, moved away for it",
            "moved": "chosen as the place to which it was moved",
            "planned": "chosen when its start was planned",
        }.get(why, "")
    if chosen is None:
        return ""
    fragments, balance, others = chosen
    rest = {0: "no other fits", 1: "1 other fits"}.get(others, f"{others:,} others fit")
    return f"chosen for least fragmentation {fragments:.3f}, balance {balance:.2f}; {rest}"


def place_view(place: Place, domain: str = "") -> PlaceView:
    """Return the place of a task; with its DNS name in ``domain`` if the center answers DNS questions there."""
    values = msgspec.structs.asdict(place)
    del values["user"]
    shown = {"ports": dict(place.ports), "since": place.since / SECOND, "devices": held(place.devices)}
    return PlaceView(**values | shown, dns=dns_name(place, domain) if domain else "")


def node_view(committer: Committer, node: LiveNode) -> NodeView:
    """Return the view of a node with its use."""
    return _node(committer, node, len(committer.machine.attempts_on.get(node.node.name, ())))


def whole_node_view(committer: Committer, node: LiveNode) -> NodeView:
    """Return one node with its tasks and the holders of its ports."""
    view = node_view(committer, node)
    there = sorted(committer.machine.attempts_on.get(node.node.name, {}).values(), key=lambda attempt: attempt.id)
    devices = device_views(committer.machine, node)
    disks = [device for device in devices if device.kind == DISK_KIND]
    return msgspec.structs.replace(
        view,
        tasks=tuple(_node_task(committer, attempt) for attempt in there[:MOST_NODE_TASKS]),
        ports_seen=node.ports,
        disks=len(disks),
        disks_free=sum(disk.state == "free" for disk in disks),
        unlimited=node.node.unlimited,
        strangers=tuple(
            f"process {stranger.pid} ({stranger.command}): {stranger.what}"
            for stranger in committer.sessions.strangers.get(node.node.name, ())
        ),
        devices=devices,
        data=node.node.data,
    )


def match_views(committer: Committer, where: str, rank: str) -> dict[str, MatchView]:
    """Match every node against a requirement and a rank; return the results by name. Raises InputError.

    A node that is away matches nothing, since its data are out of date.
    """
    away = {name for name, node in committer.machine.nodes.items() if not is_up(committer, node)}
    core = committer.machine.core
    try:
        fits = core.match(where, rank)
    except InputError as error:
        raise error.at(field=_wrong_one(core, where)) from None
    return {
        fit.node: MatchView(
            satisfied=fit.satisfied and fit.node not in away,
            clause=fit.failing or (AWAY if fit.node in away else ""),
            undefined=fit.undefined,
            has=dict(fit.has),
            score=fit.score,
            rank=fit.rank,
        )
        for fit in fits
    }


def _wrong_one(core: Scheduler, where: str) -> str:
    try:
        core.match(where)
    except InputError:
        return "where"
    return "rank"


def _node_task(committer: Committer, attempt: LiveAttempt) -> NodeTask:
    job = committer.machine.jobs[attempt.job]
    return NodeTask(
        job=attempt.job,
        task=attempt.task,
        attempt=attempt.id,
        name=job.job.name,
        started=moment(attempt.started),
        ports=dict(ports_of(job, attempt)),
        devices=held(attempt.devices),
    )


def is_up(committer: Committer, node: LiveNode) -> bool:
    """Return whether a node's executor is connected to the leader."""
    return node.connected and (committer.loop.is_aside or node.node.name in committer.connections)


def used_of(committer: Committer, node: LiveNode) -> ResourceVector:
    """Return the amounts in use on a node."""
    cluster = committer.machine.core.cluster
    f = cluster.index.get(node.node.name)
    if f is None:
        return (0,) * len(cluster.dimensions)
    return tuple(total - free for total, free in zip(cluster.capacity_of(f), cluster.free(f), strict=True))


def node_state(committer: Committer, node: LiveNode, running: int) -> tuple[str, str]:
    """Return the state of a node with ``running`` tasks, and its reason if there is one."""
    if not is_up(committer, node):
        return "away", AWAY
    machine = committer.machine
    if node.closed:
        why = why_closed(machine, node, committer.clock.now())
        if not node.draining:
            return "cordoned", why
        return ("draining", why) if running else ("drained", why.replace("draining", "drained", 1))
    if why := overload(machine.core, node.node.name):
        return "overloaded", why
    if machine.core.advance_reservations:
        maintained, why = say_on_node(machine.core.books, node.node.name)
        return "cordoned" if maintained else "up", why
    return "up", ""


def _node(committer: Committer, node: LiveNode, running: int) -> NodeView:
    dimensions = committer.machine.core.dimensions
    used = used_of(committer, node)
    state, why = node_state(committer, node, running)
    settings, reported = set_here(node, dimensions)
    name, sessions = node.node.name, committer.sessions
    return NodeView(
        name=name,
        state=state,
        rack=node.node.rack,
        reason=redacted(why),
        capacity=resources(node.node.capacity, dimensions),
        used=resources(used, dimensions),
        running=running,
        address=node.node.address,
        attributes=dict(node.node.attributes),
        # The last measurement, since the machine is told of noticeable changes only.
        load=load_view(sessions.loads.get(name, node.load), sessions.full.get(name, 0)),
        judged=node.node.judged,
        accepts=node.node.accepts,
        repels=node.node.repels,
        drained_at=_drained_at(committer, node),
        settings=settings,
        reported=reported,
        capacity_amounts=dict(zip(dimensions.names, node.node.capacity, strict=True)),
        used_amounts=dict(zip(dimensions.names, used, strict=True)),
    )


def _drained_at(committer: Committer, node: LiveNode) -> float | None:
    """Return when the remaining tasks of a node are stopped, in seconds since the epoch."""
    machine = committer.machine
    until = machine.timers.get(DRAIN, node.node.name)
    return None if until is None else (until - machine.now + machine.utc) / SECOND
