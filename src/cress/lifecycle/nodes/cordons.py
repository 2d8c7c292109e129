"""Reasons that keep new tasks off a node: an operator's cordon, a rest after failed starts, an executor that is away."""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt
from cress.lifecycle.inputs import Cordon, Drain
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.tables.rows import LiveNode
from cress.lifecycle.tables.timers import DRAIN, REST
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.units import one_of


def node_of(context: Context, name: str) -> LiveNode:
    """The node of that name; raises ``InputError``."""
    nodes = context.nodes
    if name not in nodes:
        raise InputError(f"there is no node {name!r}", hint=one_of(name, nodes) if nodes else "")
    return nodes[name]


def tell(context: Context, name: str) -> None:
    """Tell the scheduler whether a node takes new tasks."""
    node = context.nodes[name]
    context.observe(NodeCordoned(name, node.closed, node.why))


def cordon(context: Context, word: Cordon) -> None:
    """An operator keeps new tasks off a node; or lets them in, whatever kept them off before."""
    node = node_of(context, word.name)
    context.noticed.cordon(node)
    node.cordoned, node.reason = word.cordoned, word.reason if word.cordoned else ""
    if not word.cordoned:
        node.draining = False
        context.timers.drop(DRAIN, word.name)
        forgive(context, node)
    tell(context, word.name)


def drain(context: Context, word: Drain) -> None:
    """An operator wants a node empty by a time."""
    node = node_of(context, word.name)
    if word.deadline < 0:
        raise InputError(f"a deadline {word.deadline} µs from now", hint="0 or more", field="deadline")
    context.noticed.cordon(node)
    node.cordoned, node.draining, node.reason = True, True, word.reason
    context.timers.set(DRAIN, word.name, context.now + word.deadline)
    tell(context, word.name)


def forgive(context: Context, node: LiveNode) -> None:
    """Forget the node's failed starts: it rests no longer. The caller tells the scheduler."""
    context.noticed.cordon(node)
    node.failures, node.rests, node.rest, node.failed_jobs = 0, 0, "", ()
    context.timers.drop(REST, node.node.name)


def due(context: Context, kind: str, name: str) -> None:
    """The time for something about a node has come."""
    if kind == REST:
        node = context.nodes[name]
        context.noticed.cordon(node)
        # Its failures are remembered: the next one makes a longer rest.
        node.rest = ""
        tell(context, name)
    else:
        _empty(context, name)


def _empty(context: Context, name: str) -> None:
    """Stop what still runs on a node; it runs elsewhere."""
    for attempt in context.on_node(name):
        if not attempt.halted:
            attempt.halted = "drained"
            mark(context, context.jobs[attempt.job])
            context.out.halts.append(Halt(attempt.id, attempt.job, name))
