"""Views of the settings of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.nodes.settings import reported_of, settings_of
from cress.lifecycle.tables.rows import LiveNode
from cress.model.attributes import plain
from cress.model.node_settings import NOTHING_SET, NodeRevision
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.units import format_amount
from cress.protocol.cluster_views import NodeReportView, NodeSettingsPage, NodeSettingsView
from cress.protocol.views import Resources


def set_here(node: LiveNode, dimensions: Dimensions) -> tuple[NodeSettingsView | None, NodeReportView | None]:
    """Return the settings of a node, and the executor's values that they replace; None for both without settings."""
    if settings_of(node) == NOTHING_SET:
        return None, None
    return _settings(node.revisions[-1], dimensions), _reported(node, dimensions)


def settings_page(node: LiveNode, dimensions: Dimensions) -> NodeSettingsPage:
    """Return the settings of a node with their revisions."""
    revisions = tuple(_settings(revision, dimensions) for revision in reversed(node.revisions))
    return NodeSettingsPage(
        node=node.node.name,
        settings=revisions[0] if revisions else NodeSettingsView(),
        reported=_reported(node, dimensions),
        revisions=revisions,
    )


def _settings(revision: NodeRevision, dimensions: Dimensions) -> NodeSettingsView:
    settings = revision.settings
    return NodeSettingsView(
        revision=revision.number,
        at=revision.utc / SECOND,
        by=revision.by,
        what=revision.what,
        labels=dict(settings.labels),
        rack=settings.rack,
        reserve=_texts(settings.reserve, dimensions),
        judged=settings.judged,
        note=settings.note,
        accepts=settings.accepts,
        repels=settings.repels,
    )


def _reported(node: LiveNode, dimensions: Dimensions) -> NodeReportView:
    reported = reported_of(node)
    labelled = {plain(name) for name, _ in settings_of(node).labels}
    return NodeReportView(
        attributes={name: value for name, value in reported.attributes if plain(name) in labelled},
        rack=reported.rack,
        judged=reported.judged,
        accepts=reported.accepts,
        repels=reported.repels,
        capacity=_texts(zip(dimensions.names, reported.capacity, strict=True), dimensions),
    )


def _texts(amounts: Iterable[tuple[str, int]], dimensions: Dimensions) -> Resources:
    return {name: format_amount(amount, dimensions.measure(name)) for name, amount in amounts if amount}
