"""Nodes: executors that join, leave, come back with what they know, or are known to be dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.lifecycle import cordons, databases, outside, ports
from cress.lifecycle.attempts import lost, reported
from cress.lifecycle.effects import Halt
from cress.lifecycle.inputs import NodeDead, NodeJoined, NodeLeft, Ports
from cress.lifecycle.live import LiveAttempt, LiveNode
from cress.lifecycle.timers import DRAIN, REST
from cress.model.devices import devices_of
from cress.model.errors import NotAccepted
from cress.model.events import NodeAdded, NodeChanged, NodeLost
from cress.model.job import OnPartition

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine

UNKNOWN_THERE = "its executor does not know it any more"
SILENT = "its node was not heard of for longer than a term"
DEAD = "its node is dead"


def take(machine: Machine, word: NodeJoined | NodeLeft | NodeDead | Ports) -> None:
    """Something is said about a node."""
    match word:
        case NodeJoined():
            joined(machine, word)
        case NodeLeft():
            left(machine, word)
        case NodeDead():
            dead(machine, word)
        case Ports():
            ports.seen(machine, cordons.node_of(machine, word.name), word.ports)


def joined(machine: Machine, word: NodeJoined) -> None:
    """An executor connected: what it knows and what should be are made one again."""
    name = word.node.name
    known = machine.nodes.get(name)
    if known is not None and known.connected:
        raise NotAccepted(f"node {name} is connected already", hint="executor names must be unique")
    mine = [attempt for attempt in machine.attempts.values() if attempt.node == name]
    if known is None:
        machine.observe(NodeAdded(word.node))
        known = machine.nodes[name] = LiveNode(node=word.node, boot=word.boot)
    known.connected, known.boot, known.away_since = True, word.boot, None
    databases.node_changed(machine, name)
    known.terms, known.local = word.terms, word.local
    machine.terms.joined(name)
    cordons.tell(machine, name)
    for report in word.reports:
        reported(machine, name, report)
    _repair(machine, mine, {report.attempt for report in word.reports})
    if known.node != word.node:
        _change(machine, known, word)
    ports.seen(machine, known, word.ports)


def _repair(machine: Machine, mine: list[LiveAttempt], told: set[int]) -> None:
    """Order again what its executor has not heard of; give up what ran and is not known there any more."""
    for attempt in mine:
        if attempt.id in told or attempt.id not in machine.attempts:
            continue
        if attempt.started:
            # It ran, and the executor knows nothing of it: its journal is gone, or the machine was made anew.
            lost(machine, attempt, UNKNOWN_THERE)
        elif not attempt.halted:
            machine.out.launches.append(ports.launch(machine, attempt))
    for attempt in mine:
        if attempt.halted and attempt.id in machine.attempts:
            machine.out.halts.append(Halt(attempt.id, attempt.job, attempt.node, attempt.grace))


def _change(machine: Machine, known: LiveNode, word: NodeJoined) -> None:
    """A node came back as another one. With other resources or devices that is possible only while nothing runs on it."""
    name, before, now = word.node.name, known.node, word.node
    dimensions = machine.core.dimensions
    # A label may say how many disks there are.
    same_devices = devices_of(before, dimensions) == devices_of(now, dimensions)
    if before.capacity == now.capacity and same_devices:
        known.node = word.node
        machine.observe(NodeChanged(word.node))
        return
    if any(attempt.node == name for attempt in machine.attempts.values()):
        known.connected = False
        cordons.tell(machine, name)
        what = "resources" if before.capacity != now.capacity else "devices"
        raise NotAccepted(
            f"node {name} offers other {what} than before while tasks run on it",
            hint="what it offered before, until they have ended",
        )
    known.node, known.ports, known.load = word.node, (), None
    machine.observe(NodeLost(name))
    machine.observe(NodeAdded(word.node))


def left(machine: Machine, word: NodeLeft) -> None:
    """The connection to an executor is gone; its tasks may go on."""
    node = machine.nodes.get(word.name)
    if node is None:
        return
    _away(machine, word.name)
    if node.terms:
        machine.terms.left(word.name, machine.now, word.granted, machine.core.options.term_margin)


def dead(machine: Machine, word: NodeDead) -> None:
    """Nothing of a node is left: what it ran is lost, whatever its jobs say about partitions."""
    node = cordons.node_of(machine, word.name)
    if node.connected:
        raise NotAccepted(
            f"node {word.name} is connected, so it is not dead", hint="`cress nodes cordon` keeps new tasks off it"
        )
    machine.terms.forget(word.name)
    lose(machine, word.name, DEAD, kept=True)
    if word.forget:
        del machine.nodes[word.name]
        for kind in (REST, DRAIN):
            machine.timers.drop(kind, word.name)
        machine.observe(NodeLost(word.name))
        databases.node_changed(machine, word.name)


def lose(machine: Machine, name: str, why: str, *, kept: bool) -> None:
    """The attempts on a node are not waited for any more; those of jobs that keep theirs only if ``kept``."""
    for attempt in [each for each in machine.attempts.values() if each.node == name]:
        if kept or machine.jobs[attempt.job].job.on_partition is OnPartition.STOP:
            lost(machine, attempt, why)


def all_away(machine: Machine) -> None:
    """Another center took over: no executor is connected to it yet."""
    for name, node in machine.nodes.items():
        if node.connected:
            _away(machine, name)


def _away(machine: Machine, name: str) -> None:
    node = machine.nodes[name]
    if node.connected:
        node.away_since = machine.now
    node.connected = False
    outside.forget_load(machine, node)
    cordons.tell(machine, name)
    databases.node_changed(machine, name)
