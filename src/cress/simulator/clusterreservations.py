"""Advance reservations in a cluster file, as ``cress reserve`` makes them; times may be those of the trace."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from cress.core.advance.given import reservation_of
from cress.model.advancetext import ReservationText, split_names
from cress.model.errors import InputError
from cress.model.units import parse_duration
from cress.simulator.clusterbuilder import Builder
from cress.simulator.workload import UNDATED_START
from cress.simulator.yamltext import check_keys, line_of, plain_text

KEYS = {
    "name": "name", "group": "group", "nodes": "nodes", "count": "count", "resource": "resource",
    "requirement": "requirement", "from": "start", "until": "until", "for": "length", "every": "every", "at_end": "at_end",
}  # fmt: skip
# Those that are a time of the trace if they are a duration.
MOMENTS = ("from", "until")


def read_reservations(builder: Builder, document: Any) -> None:
    """Read the reservations of a cluster whose nodes are known."""
    known: set[str] = set()
    for entry in document.get("reservations") or ():
        try:
            text = _entry(entry, known)
            # Times are checked as far as they can be: the clock and the zone come with the trace.
            reservation_of(text, [node.name for node in builder.nodes], builder.dimensions, UNDATED_START, UTC)
        except InputError as error:
            line = int(entry.lc.line) + 1 if isinstance(entry, Mapping) else line_of(document, "reservations")  # type: ignore[attr-defined]
            builder.wrong(error.at(line=line) if error.field else error.at(line=line, field="reservations"))
            continue
        known.add(text.name)
        builder.reservations.append(text)


def _entry(entry: Any, known: set[str]) -> ReservationText:
    if not isinstance(entry, Mapping):
        raise InputError("is not a mapping", hint="{name: exam, group: b, nodes: n1, from: 2h, for: 1h}")
    wrong: list[InputError] = []
    check_keys(entry, tuple(KEYS), wrong)
    if wrong:
        raise wrong[0]
    if plain_text(entry.get("name")) in known:
        raise InputError(
            f"there are two reservations {plain_text(entry.get('name'))}", hint="unique names", field="name"
        )
    fields: dict[str, Any] = {}
    for key, field in KEYS.items():
        if key not in entry:
            continue
        value = entry[key]
        if key == "nodes":
            listed = value if isinstance(value, list) else split_names(plain_text(value))
            fields[field] = tuple(plain_text(each) for each in listed)
        elif key == "count":
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"{plain_text(value)!r} is not a number", hint="4", field="count")
            fields[field] = int(value)
        else:
            fields[field] = _of_trace(plain_text(value)) if key in MOMENTS else plain_text(value)
    return ReservationText(**{"name": "", **fields})


def _of_trace(text: str) -> str:
    try:
        parse_duration(text)
    except InputError:
        return text
    return f"+{text}"
