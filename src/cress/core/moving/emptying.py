"""Moves that free whole nodes and whole devices: the cheapest gain first, each only if all its tasks find room."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cress.core.jobs import Attempt
from cress.core.kernels.devices import LEFT, WHOLE, WIDTH, first_device
from cress.core.moving.plan import Budget, Goal
from cress.core.moving.trial import MoveTrial
from cress.core.tables.arrays import Bools
from cress.model.node import DISK_KIND


def is_within(trial: MoveTrial, budget: Budget) -> bool:
    """Return True if the moves made so far are within a budget."""
    moves = trial.moves()
    return len(moves) <= budget.moves and sum(move.cost for move in moves) <= budget.lost


def free_nodes(trial: MoveTrial, budget: Budget) -> list[str]:
    """Empty nodes within a budget, and return them; tasks go to nodes in use."""
    cluster = trial.cluster
    order: list[tuple[int, int, int, int, int]] = []
    for f in np.flatnonzero(trial.occupied() & ~trial.closed).tolist():
        tasks = trial.on(f)
        if tasks:
            lost, room = sum(trial.lost[task.id] for task in tasks), sum(task.charge[0] for task in tasks)
            order.append((-_size(trial, f), lost, len(tasks), room, f))
    freed = []
    # The largest first, because small ones would use up the room that these need.
    for _, _, count, _, f in sorted(order):
        tasks = trial.on(f)
        # Tasks that arrived meanwhile must stay.
        if tasks is None or len(tasks) != count or len(tasks) + trial.mark > budget.moves:
            continue
        trial.closed[f] = True
        if _move_all(trial, tasks, Goal.NODES, budget, lambda task: trial.places(task) & trial.occupied()):
            freed.append(cluster.names[f])
        else:
            trial.closed[f] = False
    return freed


def _size(trial: MoveTrial, f: int) -> int:
    """Return the number of devices of a node, without disks."""
    return sum(device.kind != DISK_KIND for device in trial.cluster.devices[f])


def free_devices(trial: MoveTrial, budget: Budget) -> list[tuple[str, str, str]]:
    """Free partly used devices within a budget, and return them; tasks go to other devices in use."""
    cluster = trial.cluster
    begin = first_device(cluster.k_count)
    order: list[tuple[int, int, int, int]] = []
    for f in np.flatnonzero(~trial.closed).tolist():
        for d, device in enumerate(cluster.devices[f]):
            if device.kind == DISK_KIND or not 0 < cluster.nodes[f, begin + d * WIDTH + LEFT] < WHOLE:
                continue
            users = trial.on(f, d)
            if users:
                order.append((sum(trial.lost[user.id] for user in users), len(users), f, d))
    freed = []
    for _, count, f, d in sorted(order):
        users = trial.on(f, d)
        if users is None or len(users) != count or count + trial.mark > budget.moves:
            continue
        if _move_all(trial, users, Goal.DEVICES, budget, lambda user: trial.places(user) & trial.with_part(user)):
            device = cluster.devices[f][d]
            freed.append((cluster.names[f], device.kind, device.id))
    return freed


def _move_all(
    trial: MoveTrial, tasks: list[Attempt], goal: Goal, budget: Budget, places: Callable[[Attempt], Bools]
) -> bool:
    """Move all tasks, each to the fullest of its ``places``, or none of them.

    None is moved also if no whole device is gained.
    """
    mark = trial.mark
    used: dict[int, int] = {}
    for task in tasks:
        f = trial.fullest(task, places(task))
        if f < 0:
            trial.unmake(mark)
            return False
        if goal is Goal.DEVICES and f not in used:
            used[f] = len(trial.whole_devices(f))
        trial.make(task, f, goal)
    if not is_within(trial, budget) or any(len(trial.whole_devices(f)) < count for f, count in used.items()):
        trial.unmake(mark)
        return False
    return True
