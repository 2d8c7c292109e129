"""Advance reservations in a cluster file, as ``cress reserve`` makes them; times may be those of the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

from cress.core.advance.choice import Conflict
from cress.core.advance.given import reservation_of
from cress.formats.yaml_text import LinedMapping, line_of
from cress.model.advancetext import ReservationText, split_names
from cress.model.errors import InputError, InputErrors
from cress.model.events import AdvanceReserved
from cress.model.units import DURATION_LIMIT, format_duration, parse_duration
from cress.simulator.clusterbuilder import Builder
from cress.simulator.workload import UNDATED_START, SimulatedCluster, WrittenReservation
from cress.simulator.yamltext import check_keys, plain_text

KEYS = {
    "name": "name",
    "group": "group",
    "nodes": "nodes",
    "count": "count",
    "resource": "resource",
    "requirement": "requirement",
    "from": "start",
    "until": "until",
    "for": "length",
    "every": "every",
    "at_end": "at_end",
}
# Keys whose value is a time of the trace if it is a duration.
MOMENTS = ("from", "until")


def read_reservations(builder: Builder, document: Any) -> None:
    """Read the reservations of a cluster whose nodes are known."""
    known: set[str] = set()
    for entry in document.get("reservations") or ():
        line = entry.line if isinstance(entry, LinedMapping) else line_of(document, "reservations")
        try:
            text = _entry(entry, known)
            # The times are checked only in part, since clock and zone come with the trace.
            reservation_of(text, [node.name for node in builder.nodes], builder.dimensions, UNDATED_START, UTC)
        except InputError as error:
            builder.wrong(error.at(line=line) if error.field else error.at(line=line, field="reservations"))
            continue
        known.add(text.name)
        builder.reservations.append(WrittenReservation(text, builder.file, line))


def reserve_all(cluster: SimulatedCluster, utc: int, zone: tzinfo) -> list[AdvanceReserved]:
    """Return the events that make the reservations of a trace which begins at ``utc`` (µs since the epoch).

    Raise ``InputError`` with file and line.
    """
    names = [node.name for node in cluster.nodes]
    words: list[AdvanceReserved] = []
    for written in cluster.reservations:
        try:
            words.append(
                AdvanceReserved(reservation=reservation_of(written.text, names, cluster.dimensions, utc, zone))
            )
        except InputError as error:
            raise _placed(error, written, utc) from None
    return words


def check_replies(cluster: SimulatedCluster, replies: Sequence[object], utc: int) -> None:
    """Raise ``InputError`` with file and line for refused reservations.

    ``replies`` are those to the results of ``reserve_all``.
    """
    refused = [
        _placed(reply, written, utc)
        for written, reply in zip(cluster.reservations, replies, strict=True)
        if isinstance(reply, InputError)
    ]
    if refused:
        raise refused[0] if len(refused) == 1 else InputErrors(refused)


def _placed(error: InputError, written: WrittenReservation, utc: int) -> InputError:
    """Return the error with its place in the file; with times of the trace if the clock of the trace is unknown."""
    what = error.what
    if isinstance(error, Conflict) and utc == UNDATED_START:
        times = f"from {_in_trace(error.start, utc)} to {_in_trace(error.end, utc)}"
        what = f"node {error.node} is reserved by {error.name} {times}"
    return InputError(
        what, hint=error.hint, file=written.file, line=written.line, field=error.field or "reservations"
    )  # fmt: skip


def _in_trace(at: int, utc: int) -> str:
    return format_duration(min(max(0, at - utc), DURATION_LIMIT))


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
            fields[field] = tuple(plain_text(name) for name in listed)
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
