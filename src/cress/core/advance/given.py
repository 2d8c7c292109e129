"""Advance reservations from their text: node names by patterns, amounts in the dimensions of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import tzinfo

from cress.language.namepatterns import is_pattern, parse_pattern
from cress.language.parser import check_names_of_jobs, parse_requirement
from cress.model.advance import AdvanceReservation
from cress.model.advancetext import ReservationText, check_name, parse_at_end, parse_span
from cress.model.errors import InputError
from cress.model.resources import Dimensions
from cress.model.units import one_of
from cress.model.vectors import parse_vector

# The most copies in one reservation.
MOST_COPIES = 100_000


def reservation_of(
    text: ReservationText, names: Collection[str], dimensions: Dimensions, now: int, zone: tzinfo
) -> AdvanceReservation:
    """Return the reservation submitted at ``now`` (µs since the epoch) on clocks of ``zone``.

    Raises ``InputError`` with its field.
    """
    name = check_name(text.name)
    count = text.count or (1 if text.resource and not text.nodes else 0)
    if bool(text.nodes) == bool(count):
        what = "nodes are named, and a number of them given" if text.nodes else "it has no nodes"
        raise InputError(
            what, hint="either names (nodes), or how many (count), with resource for parts of nodes", field="nodes"
        )
    if text.nodes and text.requirement:
        raise InputError("a requirement chooses nodes, and these are named", hint="without nodes", field="requirement")
    if not 0 <= count <= MOST_COPIES:
        raise InputError(f"a count of {count}", hint=f"1 to {MOST_COPIES:,}", field="count")
    amounts: tuple[int, ...] = ()
    if text.resource:
        try:
            amounts = parse_vector(text.resource, dimensions)
        except InputError as error:
            raise error.at(field="resource") from None
        if not any(amounts):
            raise InputError("it reserves nothing", hint="amounts such as <4, 8G>", field="resource")
    if text.requirement:
        try:
            check_names_of_jobs(text.requirement, parse_requirement(text.requirement), dimensions)
        except InputError as error:
            raise error.at(field="requirement") from None
    start, end, days = parse_span(text.start, text.until, text.length, text.every, now, zone)
    return AdvanceReservation(
        name=name,
        group=text.group,
        start=start,
        end=end,
        days=days,
        zone=str(zone),
        places=tuple((node, 1) for node in named(text.nodes, names)),
        amounts=amounts,
        count=count,
        requirement=text.requirement,
        at_end=parse_at_end(text.at_end),
        by=text.by,
    )


def named(texts: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the nodes for names and patterns, in the order of the cluster; raises ``InputError``."""
    found: set[str] = set()
    for text in texts:
        if is_pattern(text):
            fitting = [name for name in names if parse_pattern(text).fits(name)]
            if not fitting:
                raise InputError(f"no node has a name like {text}", hint="`cress nodes` lists them", field="nodes")
            found.update(fitting)
        elif text not in names:
            hint = one_of(text, names) if names else "no node has registered yet"
            raise InputError(f"there is no node {text!r}", hint=hint, field="nodes")
        else:
            found.add(text)
    return [name for name in names if name in found]
