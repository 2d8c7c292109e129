"""Observations: measured load, locations of data, counts of licences, racks that are neighbours."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import DataFound
from cress.lifecycle.nodes import cordons, settings
from cress.lifecycle.tables.rows import LiveNode
from cress.lifecycle.tables.timers import MEASURED
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged, RacksSet
from cress.model.times import MINUTE

# An executor that measures load reports it within seconds.
FIRST_REPORT = MINUTE


def take(context: Context, word: LoadSeen | DataLocated | DataFound | LicencesSet | RacksSet) -> None:
    """Hand it on to the scheduler."""
    match word:
        case LoadSeen():
            node = cordons.node_of(context, word.name)
            if word.load is None:
                forget_load(context, node)
                not_measured(context, word.name)
            elif node.connected:
                # The same load too: what its tasks were promised may be other than before.
                context.noticed.load(context.core, word.name)
                context.timers.drop(MEASURED, word.name)
                node.load = word.load
                context.observe(word)
        case DataLocated():
            context.noticed.data(context.core, word.data)
            context.observe(word)
        case DataFound():
            node = cordons.node_of(context, word.name)
            if node.node.data != word.data:
                context.noticed.load(context.core, word.name)
                reported = settings.reported_of(node)
                settings.describe(context, node, msgspec.structs.replace(reported, data=word.data))
                context.observe(NodeChanged(node.node))
        case LicencesSet():
            context.observe(word)
        case RacksSet():
            context.general.neighbours = word.neighbours
            context.general.distances = word.distances
            context.observe(word)


def forget_load(context: Context, node: LiveNode) -> None:
    """The load of a node is no longer known.

    To the scheduler an overloaded one stays so until it is measured again: it may come back as busy as it was.
    """
    name = node.node.name
    if node.load is not None:
        context.noticed.load(context.core, name)
        node.load = None
        if context.as_version_5 or not _is_overloaded(context, name):
            context.observe(LoadSeen(name, None))


def expect_load(context: Context, name: str) -> None:
    """The executor of an overloaded node is back: it reports the load of the node soon, or never."""
    if _is_overloaded(context, name):
        context.timers.set(MEASURED, name, context.now + FIRST_REPORT)
    else:
        not_measured(context, name)


def not_measured(context: Context, name: str) -> None:
    """The executor of a node measures no load, so the node does not stay overloaded."""
    context.timers.drop(MEASURED, name)
    if context.nodes[name].load is None and context.core.cluster.index[name] in context.core.loads.seen:
        context.noticed.load(context.core, name)
        context.observe(LoadSeen(name, None))


def _is_overloaded(context: Context, name: str) -> bool:
    return context.core.cluster.index[name] in context.core.loads.over
