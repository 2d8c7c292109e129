"""Effects of the clauses of a waiting unit, and the nodes that are nearest to holding one of its tasks."""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import USABLE
from cress.core.tables.arrays import Bools, Ints
from cress.model.explanation import ClauseEffect, NearNode
from cress.model.units import format_amount

MOST_NEAREST = 3


def clause_effects(core: Books, job: JobEntry) -> tuple[ClauseEffect, ...]:
    """Return what each clause excludes among the present nodes."""
    places, texts, excluded = _excluded(core, job)
    by_how_many = excluded.sum(axis=0)
    return tuple(
        ClauseEffect(text, int(row.sum()), len(places), int((row & (by_how_many == 1)).sum()))
        for text, row in zip(texts, excluded, strict=True)
    )


def nearest_nodes(core: Books, job: JobEntry) -> tuple[NearNode, ...]:
    """Return the nodes with the fewest clauses against them, then with the smallest part of the request lacking."""
    cluster = core.cluster
    places, texts, excluded = _excluded(core, job)
    if not len(places):
        return ()
    request = np.array(job.job.request, np.int64)
    lacking = np.maximum(0, request - cluster.free_now()[places])
    part = (lacking / np.maximum(1, request)).sum(axis=1)
    closed = cluster.nodes[places, USABLE] == 0
    order = np.lexsort((places, part, (lacking > 0).sum(axis=1), excluded.sum(axis=0), closed))
    return tuple(
        NearNode(
            node=cluster.names[int(places[at])],
            lacks=_said(core, lacking[at]),
            excluded_by=tuple(text for text, row in zip(texts, excluded, strict=True) if row[at]),
            closed=bool(closed[at]),
        )
        for at in order[:MOST_NEAREST].tolist()
    )


def _excluded(core: Books, job: JobEntry) -> tuple[Ints, list[str], Bools]:
    """Return the present nodes, the texts of the clauses, and which nodes each excludes, ``[clauses, nodes]``."""
    places = core.cluster.present()
    match = job.shape.match
    # What is equal for all nodes, as licences are, is no property of a node; it is the reason itself.
    predicates = [] if match is None else [predicate for predicate in match.predicates if predicate.of_nodes]
    rows = [np.asarray(predicate.excludes(places), np.bool_) for predicate in predicates]
    return (
        places,
        [predicate.text for predicate in predicates],
        np.array(rows, np.bool_).reshape(len(rows), len(places)),
    )


def _said(core: Books, lacking: Ints) -> tuple[str, ...]:
    dimensions = core.dimensions
    return tuple(
        f"{name} {format_amount(int(amount), dimensions.measure(name))}"
        for name, amount in zip(dimensions.names, lacking.tolist(), strict=True)
        if amount
    )
