"""A change of a what-if as inputs of the machine: those that the change itself would make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cress.center.committing.committer import Committer
from cress.center.files.config_document import Document, with_counts, with_values
from cress.lifecycle.inputs import Configure, Drain, Input, NodeDead, NodeJoined, NodeLeft, SetGroup
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.groups.change import canonical
from cress.model.node import Node
from cress.model.times import SECOND
from cress.model.units import one_of
from cress.model.vectors import parse_vector

# Most nodes that one what-if may add.
MOST_NODES = 10_000
BOOT = "what-if"
_NODES = re.compile(r"\s*(?:(\d{1,9})\s*[x×]\s*)?(.+?)\s*", re.DOTALL)


def added(machine: Machine, texts: Sequence[str]) -> Iterator[Input]:
    """Yield the arrival of nodes such as ``10x<16, 64G>``, or ``10xn1``: like node n1. Raises InputError."""
    number = 0
    for text in texts:
        found = _NODES.fullmatch(text)
        if found is None:
            raise InputError(f"{text[:60]!r} names no nodes", hint="such as '10x<16, 64G>' or 10xn1", field="add_nodes")
        count, node = int(found[1] or 1), _like(machine, found[2])
        if count < 1 or number + count > MOST_NODES:
            raise InputError(f"{count:,} nodes", hint=f"1 to {MOST_NODES:,} in all", field="add_nodes")
        for _ in range(count):
            number += 1
            yield NodeJoined(node=msgspec.structs.replace(node, name=_free_name(machine, number)), boot=BOOT)


def _like(machine: Machine, text: str) -> Node:
    """Return a node with the resources of a text, or one like the named node."""
    if text.startswith("<"):
        try:
            return Node(name="", capacity=parse_vector(text, machine.core.dimensions))
        except InputError as error:
            raise error.at(field="add_nodes") from None
    live = _known(machine, text, "add_nodes")
    return msgspec.structs.replace(live, address="", data=())


def _free_name(machine: Machine, number: int) -> str:
    name = f"new-{number}"
    while name in machine.nodes:
        name = f"new-{name}"
    return name


def _known(machine: Machine, name: str, field: str) -> Node:
    if name not in machine.nodes:
        names = list(machine.nodes)[:20]
        hint = one_of(name, names) if names else "no node has registered yet"
        raise InputError(f"there is no node {name[:100]!r}", hint=hint, field=field)
    return machine.nodes[name].node


def removed(machine: Machine, names: Sequence[str]) -> Iterator[Input]:
    """Yield the departure of nodes: their tasks run elsewhere at once. Raises InputError."""
    for name in dict.fromkeys(names):
        _known(machine, name, "remove_nodes")
        yield NodeLeft(name=name)
        yield NodeDead(name=name, forget=True)


def drained(machine: Machine, deadlines: Mapping[str, float]) -> Iterator[Input]:
    """Yield drains of nodes with their deadlines in seconds. Raises InputError."""
    for name, seconds in deadlines.items():
        _known(machine, name, "drain")
        yield Drain(name=name, deadline=round(seconds * SECOND))


def configured(
    committer: Committer,
    options: Mapping[str, str | None],
    licences: Mapping[str, int | None],
    document: Document,
    moves: tuple[tuple[str, str], ...],
) -> Iterator[Input]:
    """Yield the configuration with other options, licences and groups, if some are given. Raises InputError.

    Sections of a document replace the present ones.
    """
    core, groups = committer.machine.core, document.groups
    if not options and not licences and document == Document():
        return
    counts = with_counts(core.relations.licences.counts, dict(licences))
    yield Configure(
        options=document.options or with_values(core.options, dict(options)),
        licences=counts if document.licences is None else document.licences,
        groups=core.groups.configured if groups is None else groups.groups,
        moves=moves,
        zone=core.groups.own_zone if groups is None else groups.zone,
    )


def set_groups(machine: Machine, changes: Mapping[str, Mapping[str, str | None]], user: str) -> Iterator[Input]:
    """Yield new values of keywords of groups. Raises InputError."""
    known = (*machine.core.groups.by_name, *machine.core.groups.tree.inner)
    for name, values in changes.items():
        if name not in known:
            raise InputError(f"there is no group {name[:40]!r}", hint=one_of(name, known), field="set_group")
        word = SetGroup(name=name, values=tuple((canonical(key), value) for key, value in values.items()), by=user)
        machine.check_groups(machine.changed_groups(word))
        yield word
