"""Reasons why a task runs where it runs: the best nodes for it now, term by term, as if it did not run yet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import FREE
from cress.core.placing.match import Match
from cress.core.placing.shape import Shape
from cress.core.scheduler import Scheduler
from cress.core.tables.arrays import Floats, Ints
from cress.model.events import Outcome, TaskEnded
from cress.model.explanation import NodeScore
from cress.model.options import Options

MOST_NODES = 5
# The value of a node by the option ``node_order``; without one, nodes are taken in the order of registration.
ORDERS = {
    "balance": "imbalance with it (less is better)",
    "fragmentation": "imbalance with it (less is better)",
    "best_fit": "mean use with it (more is better)",
    "spread": "mean use with it (less is better)",
}


def best_nodes(core: Scheduler, attempt: int) -> tuple[NodeScore, ...]:
    """Return the best nodes for the task of a running attempt, the best one first, and its own node in any case.

    It consumes ``core``, a copy, in which the attempt ends and its task waits again.
    """
    entry = core.attempts[attempt]
    job, here = entry.job, entry.node
    if job.job.parts:
        return ()
    core.observe(core.now, [TaskEnded(attempt, Outcome.PREEMPTED)])
    books = core.books
    shape = job.shape
    books.balance.refresh()
    fits = books.fit.free_copies(shape) > 0
    fits[here] = True
    order: Ints = books.balance.preferred(shape)
    best = order[fits[order]]
    places = best[:MOST_NODES]
    if here not in places:
        places = np.append(places, here)
    return _scored(books, job, shape, places, here)


def _scored(books: Books, job: JobEntry, shape: Shape, places: Ints, here: int) -> tuple[NodeScore, ...]:
    context, wants = books.matching.context, shape.wants
    terms = [(str(term), Match(context, replace(wants, hard=(), terms=(term,))).score(places)) for term in wants.terms]
    values = _values(books, shape, job.group.options)
    names = books.cluster.names
    return tuple(
        NodeScore(
            node=names[f],
            here=f == here,
            terms=tuple((text, round(float(scores[at]), 6)) for text, scores in terms),
            order="" if values is None else ORDERS[books.options.node_order],
            value=None if values is None else round(float(values[f]), 6),
        )
        for at, f in enumerate(places.tolist())
    )


def _values(books: Books, shape: Shape, options: Options) -> Floats | None:
    """Return the value of each node in the order of nodes; ``None`` if that is the order of registration."""
    order = options.node_order
    if order in ("balance", "fragmentation"):
        return np.sqrt(books.balance.squares(shape))
    if order == "first":
        return None
    cluster, k = books.cluster, books.cluster.k_count
    dims = list(cluster.dims)
    nodes = cluster.nodes[: cluster.node_count]
    free = nodes[:, [FREE + d for d in dims]].astype(np.float64)
    most = nodes[:, [FREE + k + d for d in dims]].astype(np.float64)
    used = most - free + np.array([shape.request[d] for d in dims], np.float64)
    shares: Floats = np.divide(used, most, out=np.zeros_like(used), where=most > 0).mean(axis=1)
    return shares
