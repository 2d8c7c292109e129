"""Observations: measured load, locations of data, counts of licences."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import DataFound, LoadReported, LocateData, SetLicences
from cress.lifecycle.nodes import cordons
from cress.lifecycle.tables.rows import LiveNode
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged


def take(context: Context, word: LoadReported | LocateData | DataFound | SetLicences) -> None:
    """Hand it on to the scheduler."""
    match word:
        case LoadReported():
            node = cordons.node_of(context, word.name)
            if word.load is None:
                forget_load(context, node)
            elif node.connected:
                # The same load too: what its tasks were promised may be other than before.
                context.noticed.load(context.core, word.name)
                node.load = word.load
                context.observe(LoadSeen(word.name, word.load))
        case LocateData():
            context.noticed.data(context.core, word.data)
            context.observe(DataLocated(word.data, word.places, word.problem))
        case DataFound():
            node = cordons.node_of(context, word.name)
            if node.node.data != word.data:
                context.noticed.load(context.core, word.name)
                node.node = msgspec.structs.replace(node.node, data=word.data)
                context.observe(NodeChanged(node.node))
        case SetLicences():
            context.observe(LicencesSet(word.counts))


def forget_load(context: Context, node: LiveNode) -> None:
    """Nobody measures the node any more."""
    if node.load is not None:
        context.noticed.load(context.core, node.node.name)
        node.load = None
        context.observe(LoadSeen(node.node.name, None))
