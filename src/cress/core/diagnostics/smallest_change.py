"""The smallest change that lets a unit start which clauses over domains hold back."""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import FREE, USABLE
from cress.core.placing.gangs import ruled_rooms
from cress.core.placing.match import rules_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.shape import Shape
from cress.core.tables import devices
from cress.core.tables.arrays import Ints


def smallest_change(core: Books, job: JobEntry) -> tuple[str, ...]:
    """Return the change that would help, as the end of a sentence; empty if no single clause over domains is the
    obstacle.
    """
    match = job.shape.match
    if match is None:
        return ()
    comparing = [each for each in match.predicates if each.compares]
    for each in comparing:
        rest = [other for other in match.predicates if other is not each]
        places = _places(core, job.shape, rest)
        if job.shape.size > 1:
            told = _for_gang(core, job.shape, each, rest, places)
        else:
            told = each.change(places) if len(places) else ""
        if told:
            # The clause to which a number belongs, if there are several.
            return (told if len(comparing) == 1 or each.text in told else f"{told} ({each.text})",)
    return ()


def _places(core: Books, shape: Shape, predicates: list[Predicate]) -> Ints:
    """Return the nodes allowed by these predicates with enough free for one task."""
    cluster = core.cluster
    n, k = cluster.node_count, cluster.k_count
    fits = (cluster.nodes[:n, USABLE] > 0) & np.all(cluster.nodes[:n, FREE : FREE + k] >= shape.request_array, axis=1)
    if devices.cares(cluster, shape.ask):
        fits &= devices.copies(cluster, shape.ask, empty=False)[:n] > 0
    places = np.flatnonzero(fits)
    for each in predicates:
        places = places[~each.excludes(places)]
    return places


def _for_gang(core: Books, shape: Shape, left_out: Predicate, rest: list[Predicate], places: Ints) -> str:
    """Return the text about a predicate if the gang would fit now without it."""
    cluster = core.cluster
    free = cluster.nodes[places, FREE : FREE + cluster.k_count]
    asked = shape.request_array > 0
    copies = np.zeros(cluster.node_count, np.int64)
    copies[places] = np.min(free[:, asked] // shape.request_array[asked], axis=1, initial=shape.size)
    if devices.cares(cluster, shape.ask):
        copies = np.minimum(copies, devices.copies(cluster, shape.ask, empty=False)[: len(copies)])
    for cap in (each.caps() for each in rest):
        if cap is not None:
            copies = np.minimum(copies, cap[: len(copies)])
    fits = next(ruled_rooms(rules_of(rest, ()), shape.size, copies), None)
    return f"without {left_out.text} it would start" if fits is not None else ""
