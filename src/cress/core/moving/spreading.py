"""Moves that spread the tasks of services over nodes: after a restart all may be on the node that came first."""

from __future__ import annotations

import numpy as np

from cress.core.jobs import Attempt
from cress.core.moving.emptying import is_within
from cress.core.moving.plan import Budget, Goal
from cress.core.moving.trial import MoveTrial
from cress.model.job import JobType


def spread(trial: MoveTrial, budget: Budget) -> list[int]:
    """Move tasks of services to nodes with fewer of them, within a budget; return the ids of these services."""
    services: dict[int, list[Attempt]] = {}
    for attempt in trial.core.attempts.values():
        if attempt.job.job.type is JobType.SERVICE and attempt.job.job.family and not attempt.stopping:
            services.setdefault(attempt.job.job.counted_as, []).append(attempt)
    found = []
    for number, tasks in sorted(services.items()):
        mark = trial.mark
        while len(tasks) > 1 and trial.mark < budget.moves and _move_one(trial, tasks):
            if not is_within(trial, budget):
                trial.unmake(trial.mark - 1)
                break
        if trial.mark > mark:
            found.append(number)
    return found


def _move_one(trial: MoveTrial, tasks: list[Attempt]) -> bool:
    """Move a task from the node with most of them to one with at least two fewer; return True if there was one."""
    count = np.zeros(trial.cluster.node_count, np.int64)
    for task in tasks:
        count[task.node] += 1
    for task in sorted(tasks, key=lambda task: (-count[task.node], -task.id)):
        if count[task.node] < 2 or not trial.may_move(task):
            continue
        fits = trial.places(task) & (count <= count[task.node] - 2)
        if fits.any():
            fits &= count == count[fits].min()
            f = trial.fullest(task, fits)
            if f >= 0:
                trial.make(task, f, Goal.SPREAD)
                return True
    return False
