"""The smallest change that lets a unit start which clauses over domains hold back."""

from __future__ import annotations

import numpy as np

from cress.core.advance.gaps import kept_before_end, left_now
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.fit import capped
from cress.core.placing.gang_rules import GangRules
from cress.core.placing.match import least, merged
from cress.core.placing.predicates import Predicate
from cress.core.placing.shape import Shape
from cress.core.placing.together import Asked, Levels, places_in
from cress.core.tables import devices
from cress.core.tables.arrays import Ints


def smallest_change(core: Books, job: JobEntry) -> tuple[str, ...]:
    """Return the change that would help, as the end of a sentence; empty if no single clause over domains is the
    obstacle.
    """
    kinds = [kind.match.predicates if kind.match is not None else [] for kind in job.shape.every_kind]
    # Clauses about all tasks of a gang are the same in each kind.
    comparing = {clause.text: clause for predicates in kinds for clause in predicates if clause.compares}
    if not comparing:
        return ()
    free = left_now(core, job, kept_before_end(core, job))
    for text, clause in comparing.items():
        rest = [[other for other in predicates if not other.compares or other.text != text] for predicates in kinds]
        if job.shape.size > 1:
            told = f"without {text} it would start" if _fits(core, job.shape, rest, free) else ""
        else:
            places = _places(core, job.shape, rest[0], free)
            told = clause.change(places) if len(places) else ""
        if told:
            # The clause to which a number belongs, if there are several.
            return (told if len(comparing) == 1 or text in told else f"{told} ({text})",)
    return ()


def _places(core: Books, shape: Shape, predicates: list[Predicate], free: Ints) -> Ints:
    """Return the nodes allowed by these predicates with enough ``free`` (N, K) for one task."""
    cluster = core.cluster
    fits = cluster.usable() & np.all(free >= shape.request_array, axis=1)
    if devices.cares(cluster, shape.ask):
        fits &= devices.copies(cluster, shape.ask, empty=False)[: len(fits)] > 0
    places = np.flatnonzero(fits)
    for each in predicates:
        places = places[~each.excludes(places)]
    return places


def _fits(core: Books, shape: Shape, predicates: list[list[Predicate]], free: Ints) -> bool:
    """Return True if a gang would fit into ``free`` (N, K) with these predicates, by kind."""
    cluster = core.cluster
    asked, alone = [], []
    for kind, those in zip(shape.every_kind, predicates, strict=True):
        caps = least(predicate.caps(empty=False) for predicate in those)
        asked.append(Asked(kind.request_array, kind.size, caps))
        copies = np.zeros(cluster.node_count, np.int64)
        places = _places(core, kind, those, free)
        copies[places] = asked[-1].copies_in(free[places])
        if devices.cares(cluster, kind.ask):
            copies = np.minimum(copies, devices.copies(cluster, kind.ask, empty=False)[: len(copies)])
        alone.append(capped(copies, caps))
    rules = GangRules(merged(predicate for those in predicates for predicate in those))
    return places_in(Levels(asked, alone, free, rules)) is not None
