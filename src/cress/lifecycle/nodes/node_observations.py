"""Observations: measured load, locations of data, counts of licences, neighbouring racks."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import DataFound
from cress.lifecycle.nodes import cordons, settings
from cress.lifecycle.tables.rows import LiveNode
from cress.lifecycle.tables.timers import MEASURED
from cress.model.events import DataLocated, LicencesSet, LoadSeen, NodeChanged, RacksSet
from cress.model.times import MINUTE

# An executor that measures load reports it within this time (µs).
FIRST_REPORT = MINUTE


def take(context: Context, word: LoadSeen | DataLocated | DataFound | LicencesSet | RacksSet) -> None:
    """Pass an observation on to the scheduler."""
    match word:
        case LoadSeen():
            node = cordons.node_of(context, word.name)
            if word.load is None:
                forget_load(context, node)
                not_measured(context, word.name)
            elif node.connected:
                # Also an unchanged load: the promised amounts on the node may have changed.
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
    """Forget the load of a node.

    For the scheduler an overloaded node stays overloaded until it is measured again: it may come back as busy as
    before.
    """
    name = node.node.name
    if node.load is not None:
        context.noticed.load(context.core, name)
        node.load = None
        if context.as_version_5 or not _is_overloaded(context, name):
            context.observe(LoadSeen(name, None))


def expect_load(context: Context, name: str) -> None:
    """Wait for the load of an overloaded node whose executor is back: it is reported soon, or never."""
    if _is_overloaded(context, name):
        context.timers.set(MEASURED, name, context.now + FIRST_REPORT)
    else:
        not_measured(context, name)


def not_measured(context: Context, name: str) -> None:
    """Clear the load of a node without measurements, so that it does not stay overloaded."""
    context.timers.drop(MEASURED, name)
    if context.nodes[name].load is None and context.core.cluster.index[name] in context.core.loads.seen:
        context.noticed.load(context.core, name)
        context.observe(LoadSeen(name, None))


def _is_overloaded(context: Context, name: str) -> bool:
    return context.core.cluster.index[name] in context.core.loads.over
