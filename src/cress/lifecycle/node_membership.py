"""Membership of nodes: executors that join, leave, come back with their attempts, or are known to be dead."""

from __future__ import annotations

from cress.lifecycle.attempts.reports import lost, reported
from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt, NewLimit
from cress.lifecycle.families import databases
from cress.lifecycle.inputs import NodeDead, NodeJoined, NodeLeft, SetNode
from cress.lifecycle.nodes import cordons, node_observations, ports, settings
from cress.lifecycle.tables.rows import LiveAttempt, LiveNode
from cress.lifecycle.tables.timers import DRAIN, MEASURED, REST
from cress.model.devices import devices_of
from cress.model.errors import NotAccepted
from cress.model.events import NodeAdded, NodeChanged, NodeLost, PortsSeen
from cress.model.job import OnPartition
from cress.model.node import Node

UNKNOWN_THERE = "its executor has no record of it"
SILENT = "its node was not heard from for longer than a term"
DEAD = "its node is dead"


def take(context: Context, word: NodeJoined | NodeLeft | NodeDead | PortsSeen | SetNode) -> None:
    """Handle an input about a node."""
    match word:
        case NodeJoined():
            joined(context, word)
        case NodeLeft():
            left(context, word)
        case NodeDead():
            dead(context, word)
        case PortsSeen():
            ports.seen(context, cordons.node_of(context, word.name), word.ports)
        case SetNode():
            settings.set_node(context, word)


def joined(context: Context, word: NodeJoined) -> None:
    """Register an executor that connected, and reconcile its attempts with the machine's."""
    name = word.node.name
    known = context.nodes.get(name)
    if known is not None and known.connected:
        raise NotAccepted(f"node {name} is connected already", hint="executor names must be unique")
    mine = context.on_node(name)
    if known is None:
        context.observe(NodeAdded(word.node))
        known = context.nodes[name] = LiveNode(node=word.node, boot=word.boot)
    known.connected, known.boot, known.away_since = True, word.boot, None
    databases.node_changed(context, name)
    known.terms, known.local = word.terms, word.local
    # Orders in this step may belong to an earlier connection that is gone; they are worked out anew.
    out = context.out
    out.launches = [launch for launch in out.launches if launch.node != name]
    out.halts = [halt for halt in out.halts if halt.node != name]
    out.limits = [limit for limit in out.limits if limit.node != name]
    context.terms.joined(name)
    cordons.tell(context, name)
    for report in word.reports:
        reported(context, name, report)
    _repair(context, mine, {report.attempt for report in word.reports})
    _change(context, known, word.node)
    ports.seen(context, known, word.ports)
    node_observations.expect_load(context, name)


def _repair(context: Context, mine: list[LiveAttempt], told: set[int]) -> None:
    """Repeat orders that the executor has not got; end attempts that ran and are unknown to it now."""
    for attempt in mine:
        if attempt.id in told or attempt.id not in context.attempts:
            continue
        if attempt.started:
            # It ran, and the executor does not know it: its journal is lost, or the machine was set up anew.
            lost(context, attempt, UNKNOWN_THERE)
        elif not attempt.halted:
            context.out.launches.append(ports.launch(context, attempt))
    for attempt in mine:
        if attempt.id not in context.attempts:
            continue
        if attempt.halted:
            context.out.halts.append(Halt(attempt.id, attempt.job, attempt.node, attempt.grace))
        elif attempt.limited:
            limit = context.jobs[attempt.job].job.time_limit
            context.out.limits.append(NewLimit(attempt.id, attempt.job, attempt.node, limit))


def _change(context: Context, known: LiveNode, node: Node) -> None:
    """Change the description of a node; its running tasks go on.

    A node with less capacity than its tasks hold gets no new ones until enough of them end.
    """
    if context.as_version_5:
        if known.node != node:
            _change_as_version_5(context, known, node)
    elif settings.describe(context, known, node):
        context.observe(NodeChanged(known.node))


def _change_as_version_5(context: Context, known: LiveNode, node: Node) -> None:
    """Decide as releases whose logs have no facts: they refuse other resources or devices while tasks run."""
    name, before, dimensions = node.name, known.node, context.core.dimensions
    if before.capacity == node.capacity and devices_of(before, dimensions) == devices_of(node, dimensions):
        known.node = node
        context.observe(NodeChanged(node))
        return
    if context.on_node(name):
        known.connected = False
        cordons.tell(context, name)
        raise NotAccepted(f"node {name} offers other resources or devices than before while tasks run on it")
    known.node, known.ports, known.load = node, (), None
    context.observe(NodeLost(name))
    context.observe(NodeAdded(node))


def left(context: Context, word: NodeLeft) -> None:
    """Note that the connection to an executor is gone; its tasks may go on."""
    node = context.nodes.get(word.name)
    if node is None or not node.connected:
        # A refused executor leaves each time without having joined.
        context.out.repeated.add(len(context.out.replies))
    if node is None:
        return
    _away(context, word.name)
    if node.terms:
        context.terms.left(word.name, context.now, word.granted, context.core.options.term_margin)


def dead(context: Context, word: NodeDead) -> None:
    """Declare a node dead: its attempts are lost, also those that jobs keep in a partition."""
    node = cordons.node_of(context, word.name)
    if node.connected:
        raise NotAccepted(
            f"node {word.name} is connected, so it cannot be declared dead",
            hint="`cress nodes cordon` keeps new tasks off it",
        )
    context.terms.forget(word.name)
    lose(context, word.name, DEAD, kept=True)
    cordons.tell(context, word.name, awaited=False)
    if word.forget:
        context.noticed.cordon(node)
        del context.nodes[word.name]
        for kind in (REST, DRAIN, MEASURED):
            context.timers.drop(kind, word.name)
        context.observe(NodeLost(word.name))
        databases.node_changed(context, word.name)


def lose(context: Context, name: str, why: str, *, kept: bool) -> None:
    """End the attempts on a node as lost; those of jobs that keep them only if ``kept``."""
    for attempt in context.on_node(name):
        if kept or context.jobs[attempt.job].job.on_partition is OnPartition.STOP:
            lost(context, attempt, why)


def all_away(context: Context) -> None:
    """Mark all nodes as away, since another center took over."""
    for name, node in context.nodes.items():
        if node.connected:
            _away(context, name)


def _away(context: Context, name: str) -> None:
    node = context.nodes[name]
    if node.connected:
        node.away_since = context.now
    node.connected = False
    node_observations.forget_load(context, node)
    cordons.tell(context, name)
    databases.node_changed(context, name)
