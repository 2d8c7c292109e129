"""Plans: one goal after the other on a copy of the scheduler, which cannot be used afterwards."""

from __future__ import annotations

from collections.abc import Collection

from cress.core.books import Books
from cress.core.groups.running_limits import head_of
from cress.core.jobs import JobEntry
from cress.core.moving.emptying import free_devices, free_nodes
from cress.core.moving.making_place import make_place
from cress.core.moving.plan import Budget, Candidates, Goal, MovePlan, Stays
from cress.core.moving.spreading import spread
from cress.core.moving.trial import MoveTrial

GOALS = (Goal.SPREAD, Goal.DEVICES, Goal.NODES)


def plan_moves(
    copy: Books, found: Candidates, goals: Collection[Goal] = GOALS, budget: Budget | None = None
) -> MovePlan:
    """Return moves that spread services and free devices and nodes within a budget.

    They are tried on ``copy``, which must not be used afterwards.
    """
    budget = budget or Budget()
    _reserve(copy)
    trial = MoveTrial(copy, found.lost)
    before = trial.free()
    spread_out = spread(trial, budget) if Goal.SPREAD in goals else []
    # A freed device may make its node free.
    parts = free_devices(trial, budget) if Goal.DEVICES in goals else []
    nodes = free_nodes(trial, budget) if Goal.NODES in goals else []
    gone = {name for name, _, _ in parts}.intersection(nodes)
    return MovePlan(
        moves=trial.moves(),
        before=before,
        after=trial.free(),
        nodes=tuple(nodes),
        devices=tuple(part for part in parts if part[0] not in gone),
        spread=tuple(spread_out),
        movable=len(found.lost),
        stays=_counted(found),
    )


def plan_place(copy: Books, found: Candidates, job: int, budget: Budget | None = None) -> MovePlan:
    """Return the cheapest moves found that let the next unit of a waiting job start; without ``place`` if there are
    none.
    """
    budget = budget or Budget()
    unit = copy.jobs[job]
    _reserve(copy, unit)
    trial = MoveTrial(copy, found.lost, unit)
    before = trial.free()
    place = make_place(trial, unit, budget)
    return MovePlan(
        moves=trial.moves(),
        before=before,
        after=trial.free(),
        job=job,
        place=tuple((copy.cluster.names[f], count) for f, count in place or ()),
        movable=len(found.lost),
        stays=_counted(found),
    )


def _reserve(copy: Books, but: JobEntry | None = None) -> None:
    """Make the reservations of the first units of all groups, which a scheduler makes only when a later unit could
    start.
    """
    heads = [head_of(group) for group in copy.groups.in_order() if not group.policy.plans]
    copy.reservations.heed([head for head in heads if head is not None and head is not but], copy.now)


def _counted(found: Candidates) -> dict[Stays, int]:
    return {reason: found.stays[reason] for reason in Stays if found.stays[reason]}
