"""Ports of tasks, foreign ports, and the places at which the tasks of a gang find each other."""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.context import Context
from cress.lifecycle.effects import Launch
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob, LiveNode
from cress.model.events import PortsSeen
from cress.model.run import Host


def launch(context: Context, attempt: LiveAttempt) -> Launch:
    """Return the order to start an attempt: equal each time."""
    job = context.jobs[attempt.job]
    task = attempt.task if job.kept is None else job.index
    restarts = job.restarts.get(attempt.task, 0)
    return Launch(attempt.id, attempt.job, task, attempt.node, attempt.ports, job.hosts, attempt.devices, restarts)


def gather(context: Context, job: LiveJob) -> None:
    """Store the places of the tasks of a gang that start together, in their order."""
    together = sorted(
        (attempt for attempt in job.attempts.values() if not attempt.halted), key=lambda attempt: attempt.task
    )
    job.hosts = tuple(Host(_address(context.nodes[attempt.node]), attempt.ports) for attempt in together)


def seen(context: Context, node: LiveNode, ports: Iterable[int]) -> None:
    """Note all foreign ports of a node."""
    now = tuple(sorted(set(ports)))
    if now != node.ports:
        node.ports = now
        context.observe(PortsSeen(node.node.name, now))


def taken(context: Context, attempt: LiveAttempt, port: int) -> None:
    """Note a port that prevented the start of a task: it counts as foreign until its node reports otherwise."""
    node = context.nodes.get(attempt.node)
    if node is not None and port:
        seen(context, node, (*node.ports, port))


def _address(node: LiveNode) -> str:
    return node.node.address or node.node.name
