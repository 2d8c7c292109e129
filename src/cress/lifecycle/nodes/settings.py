"""Settings of nodes: those that operators make in the center override the executors' reports; with revisions."""

from __future__ import annotations

import msgspec

from cress.core.placing.node_choices import check_choice, check_names
from cress.lifecycle.context import Context
from cress.lifecycle.inputs import SetNode
from cress.lifecycle.nodes.cordons import node_of
from cress.lifecycle.tables.rows import LiveNode
from cress.model.errors import InputError, NotAccepted
from cress.model.events import NodeChanged
from cress.model.node import Node
from cress.model.node_settings import (
    MOST_REVISIONS,
    NOTHING_SET,
    NodeRevision,
    NodeSettings,
    check_settings,
    patched_labels,
    with_settings,
)


def settings_of(node: LiveNode) -> NodeSettings:
    """Return the settings of a node in the center."""
    return node.revisions[-1].settings if node.revisions else NOTHING_SET


def reported_of(node: LiveNode) -> Node:
    """Return a node as its executor reports it."""
    return node.node if node.reported is None else node.reported


def describe(context: Context, node: LiveNode, reported: Node) -> bool:
    """Apply the executor's report of a node, below the settings of the center; return whether the node has changed."""
    settings = settings_of(node)
    now = with_settings(reported, settings, context.core.dimensions)
    kept = None if settings == NOTHING_SET else reported
    if node.reported != kept:
        node.reported = kept
    if now == node.node:
        return False
    node.node = now
    return True


def set_node(context: Context, word: SetNode) -> None:
    """Change the settings of a node, all or nothing; its running tasks go on."""
    node = node_of(context, word.name)
    last = node.revisions[-1].number if node.revisions else 0
    if word.base not in (-1, last):
        raise NotAccepted(
            f"the settings of node {word.name} are at revision {last}, and the change is based on {word.base}",
            hint="read them again, and repeat the change",
            field="revision",
        )
    settings = _changed(node, word)
    check_settings(settings, context.core.dimensions)
    as_before = settings.accepts == settings_of(node).accepts
    check_choice(settings.accepts or "", settings.repels or (), stored=as_before)
    if settings == settings_of(node):
        return
    revision = NodeRevision(number=last + 1, utc=context.utc, by=word.by, what=word.what, settings=settings)
    reported = reported_of(node)
    if settings.accepts and not as_before:
        check_names(with_settings(reported, settings, context.core.dimensions), context.core.dimensions)
    context.noticed.load(context.core, word.name)
    node.revisions = (*node.revisions, revision)[-MOST_REVISIONS:]
    if describe(context, node, reported):
        context.observe(NodeChanged(node.node))


def _changed(node: LiveNode, word: SetNode) -> NodeSettings:
    """Return the settings of a node after a change. Raises InputError."""
    if word.revert is not None:
        if word.revert == 0:
            return NOTHING_SET
        for revision in node.revisions:
            if revision.number == word.revert:
                return revision.settings
        kept = (
            f"{node.revisions[0].number} to {node.revisions[-1].number} are kept" if node.revisions else "none is kept"
        )
        raise InputError(f"node {word.name} has no revision {word.revert}", hint=f"{kept}; 0: nothing is set")
    settings = settings_of(node)
    values: dict[str, object] = {"labels": patched_labels(settings.labels, word.labels)}
    for name in ("rack", "reserve", "judged", "note", "accepts", "repels"):
        value = getattr(word, name)
        if value is not msgspec.UNSET:
            values[name] = value
    return msgspec.structs.replace(settings, **values)
