"""What keeps new tasks off a node: the word of an operator, a rest after failed starts, an executor that is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.lifecycle.effects import Halt
from cress.lifecycle.inputs import Cordon, Drain
from cress.lifecycle.live import LiveNode
from cress.lifecycle.standing import mark
from cress.lifecycle.timers import DRAIN, REST
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.units import one_of

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def node_of(machine: Machine, name: str) -> LiveNode:
    """The node of that name; raises ``InputError``."""
    nodes = machine.nodes
    if name not in nodes:
        raise InputError(f"there is no node {name!r}", hint=one_of(name, nodes) if nodes else "")
    return nodes[name]


def tell(machine: Machine, name: str) -> None:
    """Tell the scheduler whether a node takes new tasks."""
    node = machine.nodes[name]
    machine.observe(NodeCordoned(name, node.closed, node.why))


def cordon(machine: Machine, word: Cordon) -> None:
    """An operator keeps new tasks off a node; or lets them in, whatever kept them off before."""
    node = node_of(machine, word.name)
    node.cordoned, node.reason = word.cordoned, word.reason if word.cordoned else ""
    if not word.cordoned:
        node.draining = False
        machine.timers.drop(DRAIN, word.name)
        forgive(machine, node)
    tell(machine, word.name)


def drain(machine: Machine, word: Drain) -> None:
    """An operator wants a node empty by a time."""
    node = node_of(machine, word.name)
    if word.deadline < 0:
        raise InputError(f"a deadline {word.deadline} µs from now", hint="0 or more", field="deadline")
    node.cordoned, node.draining, node.reason = True, True, word.reason
    machine.timers.set(DRAIN, word.name, machine.now + word.deadline)
    tell(machine, word.name)


def forgive(machine: Machine, node: LiveNode) -> None:
    """Forget the node's failed starts: it rests no longer. The caller tells the scheduler."""
    node.failures, node.rests, node.rest = 0, 0, ""
    node.failed_jobs.clear()
    machine.timers.drop(REST, node.node.name)


def due(machine: Machine, kind: str, name: str) -> None:
    """The time for something about a node has come."""
    if kind == REST:
        # Its failures are remembered: the next one makes a longer rest.
        machine.nodes[name].rest = ""
        tell(machine, name)
    else:
        _empty(machine, name)


def _empty(machine: Machine, name: str) -> None:
    """Stop what still runs on a node; it runs elsewhere."""
    for attempt in machine.attempts.values():
        if attempt.node == name and not attempt.halted:
            attempt.halted = "drained"
            mark(machine, machine.jobs[attempt.job])
            machine.out.halts.append(Halt(attempt.id, attempt.job, name))
