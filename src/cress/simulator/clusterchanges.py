"""Outages and drains in a cluster file: nodes that fail or are emptied at times of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cress.formats.yaml_text import LinedMapping, line_of
from cress.model.errors import InputError
from cress.model.times import NEVER
from cress.model.units import one_of, parse_duration
from cress.simulator.clusterbuilder import Builder
from cress.simulator.workload import Outage, PlannedDrain
from cress.simulator.yamltext import check_keys, plain_text

OUTAGE_KEYS = ("node", "from", "to")
DRAIN_KEYS = ("node", "from", "deadline", "to")


def read_changes(builder: Builder, document: Any) -> None:
    """Read the outages and drains of a cluster whose nodes are known."""
    for node, start, end, _ in _spans(builder, document, "outages", OUTAGE_KEYS):
        builder.outages.append(Outage(node, start, end))
    for node, start, end, deadline in _spans(builder, document, "drains", DRAIN_KEYS):
        builder.drains.append(PlannedDrain(node, start, deadline, end))


def _spans(
    builder: Builder, document: Any, section: str, keys: tuple[str, ...]
) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the valid entries of a section: node, start, end (``None``: for good) and deadline."""
    names = {node.name: i for i, node in enumerate(builder.nodes)}
    spans: dict[int, list[tuple[int, int]]] = {}
    for entry in document.get(section) or ():
        try:
            node, start, end, deadline = _entry(entry, keys, names)
            others = spans.setdefault(node, [])
            last = NEVER if end is None else end
            _check_span(start, last, others, builder.nodes[node].name)
        except InputError as error:
            line = entry.line if isinstance(entry, LinedMapping) else line_of(document, section)
            builder.wrong(error.at(line=line) if error.field else error.at(line=line, field=section))
            continue
        others.append((start, last))
        yield node, start, end, deadline


def _check_span(start: int, end: int, others: list[tuple[int, int]], name: str) -> None:
    if start >= end:
        raise InputError("ends before it begins", hint="`to` later than `from`", field="to")
    if any(start <= other[1] and other[0] <= end for other in others):
        hint = "one at a time, with time between them"
        raise InputError(f"overlaps with another entry of node {name}", hint=hint, field="from")


def _entry(entry: Any, keys: tuple[str, ...], names: Mapping[str, int]) -> tuple[int, int, int | None, int]:
    """Return the values of one entry. Raise ``InputError``."""
    if not isinstance(entry, Mapping):
        raise InputError("is not a mapping", hint="{node: web-1, from: 10min}")
    mistakes: list[InputError] = []
    check_keys(entry, keys, mistakes)
    if mistakes:
        raise mistakes[0]
    name = plain_text(entry.get("node"))
    if name not in names:
        raise InputError(f"there is no node {name!r}", hint=one_of(name, names), field="node")
    start = _time(entry, "from")
    deadline = _time(entry, "deadline") if "deadline" in entry else 0
    return names[name], start, _time(entry, "to") if "to" in entry else None, deadline


def _time(entry: Mapping[str, Any], key: str) -> int:
    try:
        return parse_duration(plain_text(entry.get(key)))
    except InputError as error:
        raise error.at(field=key) from error
