"""What is found out beside nodes and tasks: measured load, where data lies, how many licences there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cress.lifecycle import cordons
from cress.lifecycle.inputs import DataFound, LoadReported, LocateData, SetLicences
from cress.lifecycle.live import LiveNode
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def take(machine: Machine, word: LoadReported | LocateData | DataFound | SetLicences) -> None:
    """Hand it on to the scheduler."""
    match word:
        case LoadReported():
            node = cordons.node_of(machine, word.name)
            if word.load is None:
                forget_load(machine, node)
            elif node.connected:
                # The same load too: what its tasks were promised may be other than before.
                node.load = word.load
                machine.observe(LoadSeen(word.name, word.load))
        case LocateData():
            machine.observe(DataLocated(word.data, word.places, word.problem))
        case DataFound():
            node = cordons.node_of(machine, word.name)
            if node.node.data != word.data:
                node.node = msgspec.structs.replace(node.node, data=word.data)
                machine.observe(NodeChanged(node.node))
        case SetLicences():
            machine.observe(LicencesSet(word.counts))


def forget_load(machine: Machine, node: LiveNode) -> None:
    """Nobody measures the node any more."""
    if node.load is not None:
        node.load = None
        machine.observe(LoadSeen(node.node.name, None))
