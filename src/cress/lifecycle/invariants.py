"""What must always hold of the machine, beside the scheduler's own invariants; tests ask after every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cress.lifecycle.dependencies import behind
from cress.lifecycle.keeping import families
from cress.lifecycle.live import LiveJob
from cress.lifecycle.timers import DRAIN, REST

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def broken_invariants(machine: Machine) -> list[str]:
    """Every sentence that should not be true."""
    return [
        *machine.core.validate(),
        *_same(machine),
        *_jobs(machine),
        *_order(machine),
        *_nodes(machine),
        *families(machine),
    ]


def _same(machine: Machine) -> Iterator[str]:
    if machine.attempts.keys() != machine.core.attempts.keys():
        yield "attempts: the machine and the scheduler do not have the same ones"
    if machine.jobs.keys() != machine.core.jobs.keys():
        yield "jobs: the machine and the scheduler do not have the same ones"
    if machine.gone or machine.touched:
        yield "families: something of them changed, and they were not looked after"
    if machine.over:
        yield "dependencies: jobs are over, and those behind them have not heard of it"


def _jobs(machine: Machine) -> Iterator[str]:
    for number, job in machine.jobs.items():
        core = machine.core.jobs.get(number)
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
        yield from _tries(machine, number, job)


def _tries(machine: Machine, number: int, job: LiveJob) -> Iterator[str]:
    options = machine.core.options
    if any(count > job.job.retries for count in job.failures.values()):
        yield f"retries: a task of job {number} was tried more often than it may be"
    if any(count >= options.start_tries for count in job.unstarted.values()):
        yield f"starts: a task of job {number} could not be started too often, and is not failed"
    if not job.started and not job.ending and job.start_failures >= options.start_failures:
        yield f"starts: no program of job {number} can be started, and it is not failed"


def _order(machine: Machine) -> Iterator[str]:
    for number, job in machine.jobs.items():
        for first, _ in job.unmet:
            if first not in machine.jobs and first not in machine.families and not job.ending:
                yield f"dependencies: job {number} waits for job {first}, which is over"
            if number not in machine.behind.get(first, ()):
                yield f"dependencies: nobody will tell job {number} of the end of job {first}"


def _nodes(machine: Machine) -> Iterator[str]:
    cluster = machine.core.cluster
    for name, node in machine.nodes.items():
        if node.closed != (cluster.cordoned[cluster.index[name]] is not None):
            yield f"nodes: {name} takes tasks here or in the scheduler, not in both"
        if machine.core.loads.seen.get(cluster.index[name]) != node.load or (node.load and not node.connected):
            yield f"nodes: {name} has another load here than in the scheduler, or one although it is away"
        if node.draining and not node.cordoned:
            yield f"nodes: {name} is to get empty and takes tasks"
    for attempt in machine.attempts.values():
        where = machine.nodes.get(attempt.node)
        if where is None:
            yield f"nodes: attempt {attempt.id} is on {attempt.node}, which is not a node"
        elif where.draining and not attempt.halted and machine.timers.get(DRAIN, attempt.node) is None:
            yield f"drains: attempt {attempt.id} on {attempt.node} was not told to stop"
    for kind, name in machine.timers.times:
        if kind in (REST, DRAIN):
            if name not in machine.nodes:
                yield f"timers: {kind} of {name}, which is not a node"
        elif int(name.partition(".")[0]) not in machine.families:
            yield f"timers: {kind} of family {name}, which is over"
    due = machine.timers.next()
    if due is not None and due <= machine.now:
        yield "timers: a time has passed, and nothing happened"
