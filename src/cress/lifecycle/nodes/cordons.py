"""Reasons that keep new tasks off a node: an operator's cordon, a rest after failed starts, an executor
that is away.
"""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt
from cress.lifecycle.inputs import Drain
from cress.lifecycle.jobs.reasons import lasting
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.tables.rows import LiveNode
from cress.lifecycle.tables.timers import DRAIN, REST
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.units import one_of


def node_of(context: Context, name: str) -> LiveNode:
    """Return the node with this name. Raises ``InputError``."""
    nodes = context.nodes
    if name not in nodes:
        raise InputError(f"there is no node {name!r}", hint=one_of(name, nodes) if nodes else "")
    return nodes[name]


def tell(context: Context, name: str, *, awaited: bool = True) -> None:
    """Tell the scheduler whether a node takes new tasks; ``awaited``: a node that is away may be back
    within its term.
    """
    node = context.nodes[name]
    # Without terms the time is unknown.
    away = awaited and not node.connected and node.terms and not node.cordoned and not node.rest
    context.observe(NodeCordoned(name, node.closed, node.why, away))


def take(context: Context, word: NodeCordoned | Drain) -> None:
    """Cordon or drain a node by order of an operator."""
    if isinstance(word, NodeCordoned):
        cordon(context, word)
    else:
        drain(context, word)


def cordon(context: Context, word: NodeCordoned) -> None:
    """Cordon a node, or reopen it after any closing."""
    node = node_of(context, word.name)
    context.noticed.cordon(node)
    node.cordoned, node.reason = word.cordoned, word.reason if word.cordoned else ""
    if not word.cordoned:
        node.draining, node.drained_by, node.patient = False, "", False
        context.timers.drop(DRAIN, word.name)
        forgive(context, node)
    tell(context, word.name)


def drain(context: Context, word: Drain) -> None:
    """Drain a node, by a time if one is given."""
    node = node_of(context, word.name)
    if word.deadline is not None and word.deadline < 0:
        raise InputError(f"a deadline {word.deadline} µs from now", hint="0 or more", field="deadline")
    context.noticed.cordon(node)
    node.cordoned, node.draining, node.reason, node.drained_by = True, True, word.reason, word.by
    context.noticed.emptier(word.name)
    node.patient = word.deadline is None
    if word.deadline is None:
        context.timers.drop(DRAIN, word.name)
    else:
        context.timers.set(DRAIN, word.name, context.now + word.deadline)
    tell(context, word.name)


def why_closed(context: Context, node: LiveNode, now: int) -> str:
    """Return why a node takes no new tasks at ``now`` (µs, the machine's clock), with the deadline of its drain."""
    until = context.timers.get(DRAIN, node.node.name)
    there = context.on_node(node.node.name)
    if not there or not node.draining or not node.connected:
        return node.why
    if until is not None:
        return f"{node.why}; running tasks are stopped in {lasting(until - now)}"
    # It may have had a deadline before, at which its tasks were told to stop.
    goes_on = node.patient and not any(attempt.halted == "drained" for attempt in there)
    return node.why + ("; running tasks go on to their end" if goes_on else "; running tasks are being stopped")


def forgive(context: Context, node: LiveNode) -> None:
    """Forget the node's failed starts and end its rest. The caller tells the scheduler."""
    context.noticed.cordon(node)
    node.failures, node.rests, node.rest, node.failed_jobs = 0, 0, "", ()
    context.timers.drop(REST, node.node.name)


def due(context: Context, kind: str, name: str) -> None:
    """Handle a timer of a node: the end of its rest, or of its drain."""
    if kind == REST:
        node = context.nodes[name]
        context.noticed.cordon(node)
        # Its failures are remembered: the next rest is longer.
        node.rest = ""
        tell(context, name)
    else:
        _empty(context, name)


def _empty(context: Context, name: str) -> None:
    """Stop the remaining tasks of a node; they run elsewhere."""
    node = context.nodes[name]
    by = f" by {node.drained_by}" if node.drained_by else ""
    why = f"node {name} was drained{by}" + (f": {node.reason}" if node.reason else "")
    for attempt in context.on_node(name):
        if not attempt.halted:
            attempt.halted, attempt.halted_for = "drained", why
            mark(context, context.jobs[attempt.job])
            context.out.halts.append(Halt(attempt.id, attempt.job, name))
