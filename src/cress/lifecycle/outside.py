"""What is found out beside nodes and tasks: measured load, where data lies, how many licences there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cress.lifecycle import cordons
from cress.lifecycle.inputs import DataFound, LoadReported, LocateData, SetLicences
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def take(machine: Machine, word: LoadReported | LocateData | DataFound | SetLicences) -> None:
    """Hand it on to the scheduler."""
    match word:
        case LoadReported():
            node = cordons.node_of(machine, word.name)
            if node.load != word.load:
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
