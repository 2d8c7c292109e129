"""The rule for which no moves let a waiting unit start, found by plans without one rule after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cress.core.kernels.holding import FREE
from cress.core.moving.plan import Budget, MovePlan, Prevented, Stays
from cress.core.moving.planner import plan_place
from cress.core.moving.room import promised
from cress.lifecycle.context import Context
from cress.lifecycle.moving.movable import candidates


def prevented(context: Context, plan: MovePlan, budget: Budget) -> Prevented:
    """Return why a plan has no place for its unit. The context is a copy; a plan without a place leaves it as it was.

    Each further plan consumes the copy if it has a place, so that one is made on a copy of its own.
    """
    short = _short(context, plan.job)
    if short:
        return Prevented(short=short)
    if budget != Budget():
        larger = _plan(context, plan.job, ())
        if larger.place:
            return Prevented(moves=len(larger.moves), cost=sum(move.cost for move in larger.moves))
    needed: list[Stays] = [reason for reason in plan.stays if reason not in (Stays.STOPPING, Stays.FOREIGN)]
    if not needed or not _plan(context, plan.job, needed).place:
        return Prevented()
    for reason in tuple(needed):
        fewer = [other for other in needed if other is not reason]
        if fewer and _plan(context, plan.job, fewer).place:
            needed = fewer
    return Prevented(stays=tuple(needed))


def _plan(context: Context, job: int, although: Sequence[Stays]) -> MovePlan:
    """Return a plan without a budget in which these reasons to stay do not count, on a copy of its own."""
    core = context.core
    return plan_place(core.restore(core.export()).books, candidates(context, although), job)


def _short(context: Context, job: int) -> tuple[str, ...]:
    """Return the dimensions of which all usable nodes together have less left than the unit requests."""
    books = context.core.books
    cluster, unit = books.cluster, books.jobs[job]
    usable = cluster.usable()
    free = cluster.nodes[: cluster.node_count, FREE : FREE + cluster.k_count] - promised(books, unit)
    left = np.maximum(0, free[usable]).sum(axis=0)
    needs = unit.shape.request_array * unit.shape.size
    names = cluster.dimensions.names
    return tuple(names[k] for k in np.flatnonzero((needs > 0) & (left < needs)).tolist())
