"""Settings of a node that operators make in the center, on top of its executor's report, and their revisions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cress.model.attributes import MOST, check_attributes, plain, with_labels
from cress.model.bounds import Amount
from cress.model.errors import InputError
from cress.model.node import Node, Value
from cress.model.resources import Dimensions

# Maximum number of stored revisions of a node, and of labels that the center may set on it.
MOST_REVISIONS, MOST_LABELS = 20, 64
MOST_RACK, MOST_NOTE = 253, 1_000
# Dimensions of which an amount can be reserved; devices are given out one by one.
RESERVABLE = ("cpu", "memory", "network")


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of one node: each overrides the executor's report; by default nothing is set.

    ``reserve`` are raw amounts by dimension that no task gets. ``rack``, ``judged``, ``accepts`` and ``repels`` as in
    ``Node``; ``None``: as reported by the executor. ``note`` is shown to users and has no effect.
    """

    labels: tuple[tuple[str, Value], ...] = ()
    rack: str | None = None
    reserve: tuple[tuple[str, Amount], ...] = ()
    judged: bool | None = None
    note: str = ""
    accepts: str | None = None
    repels: tuple[str, ...] | None = None


class NodeRevision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a node from a time on (µs), with the user and action that set them."""

    number: int
    utc: int
    by: str = ""
    what: str = ""
    settings: NodeSettings = NodeSettings()


NOTHING_SET = NodeSettings()


def with_settings(node: Node, settings: NodeSettings, dimensions: Dimensions) -> Node:
    """Return a node, as its executor reports it, with the settings of the center applied."""
    if settings == NOTHING_SET:
        return node
    # Labels of the center are last; if there are too many attributes, detected ones make room.
    attributes = with_labels(dict(node.attributes), dict(settings.labels))
    reserve = dict(settings.reserve)
    return msgspec.structs.replace(
        node,
        attributes=tuple(attributes.items())[-MOST:],
        rack=node.rack if settings.rack is None else settings.rack,
        judged=node.judged if settings.judged is None else settings.judged,
        accepts=node.accepts if settings.accepts is None else settings.accepts,
        repels=node.repels if settings.repels is None else settings.repels,
        capacity=tuple(
            max(0, amount - reserve.get(name, 0)) for name, amount in zip(dimensions.names, node.capacity, strict=True)
        ),
    )


def check_settings(settings: NodeSettings, dimensions: Dimensions) -> None:
    """Raise InputError unless a node of a cluster with these dimensions may have these settings."""
    if len(settings.labels) > MOST_LABELS:
        hint = f"at most {MOST_LABELS} are set in the center; an executor may have more"
        raise InputError(f"{len(settings.labels)} labels are too many", hint=hint, field="labels")
    try:
        check_attributes(dict(settings.labels), dimensions)
    except InputError as error:
        raise error.at(field="labels") from None
    rack = settings.rack or ""
    if len(rack) > MOST_RACK or not rack.isprintable() or " " in rack or "," in rack:
        raise InputError(
            f"{rack[:MOST_RACK]!r} is not a valid rack", hint="a name without spaces and commas", field="rack"
        )
    if len(settings.note) > MOST_NOTE or not settings.note.isprintable():
        raise InputError("is not a line of text", hint=f"at most {MOST_NOTE:,} printable characters", field="note")
    for name, _ in settings.reserve:
        if name not in RESERVABLE:
            hint = f"{', '.join(RESERVABLE)}; a device is kept back by the node file of its executor"
            raise InputError(f"{name} cannot be kept back", hint=hint, field="reserve")


def patched_labels(
    labels: Iterable[tuple[str, Value]], changes: Iterable[tuple[str, Value | None]]
) -> tuple[tuple[str, Value], ...]:
    """Return labels with some set, or removed (``None``).

    Raises InputError for the removal of a label that is not set.
    """
    names = {plain(name): name for name, _ in labels}
    found = dict(labels)
    for name, value in changes:
        before = names.pop(plain(name), None)
        if before is not None and (value is None or before != name):
            del found[before]
        elif before is None and value is None:
            hint = f"set here: {', '.join(names.values())}" if names else "no label of the node is set here"
            raise InputError(f"the label {name} is not set in the center", hint=hint, field="labels")
        if value is not None:
            names[plain(name)] = name
            found[name] = value
    return tuple(found.items())
