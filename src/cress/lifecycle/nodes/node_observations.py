"""Observations: measured load, locations of data, counts of licences."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import DataFound, LoadReported, LocateData, SetLicences
from cress.lifecycle.nodes import cordons
from cress.lifecycle.tables.rows import LiveNode
from cress.lifecycle.tables.timers import MEASURED
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged
from cress.model.times import MINUTE

# An executor that measures load reports it within seconds.
FIRST_REPORT = MINUTE


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
                context.timers.drop(MEASURED, word.name)
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
    """Nobody measures the node any more; an overloaded one stays so until somebody does."""
    if node.load is not None:
        context.noticed.load(context.core, node.node.name)
        node.load = None
        context.observe(LoadSeen(node.node.name, None))
        if context.as_version_5:
            not_measured(context, node.node.name)


def expect_load(context: Context, name: str) -> None:
    """The executor of an overloaded node is back: it reports the load of the node soon, or never."""
    if context.core.cluster.index[name] in context.core.loads.over:
        context.timers.set(MEASURED, name, context.now + FIRST_REPORT)


def not_measured(context: Context, name: str) -> None:
    """The executor measures no load, so the node does not stay overloaded."""
    node = context.nodes.get(name)
    if node is not None and node.load is None:
        context.noticed.load(context.core, name)
        context.observe(LoadSeen(name, None))
