"""Makespans of dags, compared with their critical paths, which are a lower bound for any scheduler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cress.model.job import Condition
from cress.simulator.attempts import NOT_YET, Attempts
from cress.simulator.dependencies import in_order, pairs
from cress.simulator.series import Ints
from cress.simulator.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Dags:
    """``d`` dags in the order of their names' first steps, in microseconds.

    ``end`` is ``NOT_YET`` unless all steps finished. ``path`` is the critical path: the time that the dag takes from
    its submission if every task starts as soon as it may.
    """

    family: Ints
    steps: Ints
    submit: Ints
    end: Ints
    path: Ints

    @property
    def finished(self) -> npt.NDArray[np.bool_]:
        """Return whether all steps of each dag were completed, ``[d]``."""
        return np.asarray(self.end != NOT_YET)

    @property
    def makespan(self) -> Ints:
        """Return the times from submission to last end of the finished dags, ``[f]``."""
        return (self.end - self.submit)[self.finished]

    @property
    def stretch(self) -> npt.NDArray[np.float64]:
        """Return makespan / critical path of the finished dags whose critical path is above 0."""
        path = self.path[self.finished]
        return np.asarray(self.makespan[path > 0] / path[path > 0], dtype=np.float64)


def ready_times(workload: Workload, end: Ints, attempts: Attempts) -> Ints:
    """Return the time when each job ``[n]`` could start; ``NOT_YET``: never.

    This is its submission, or the last end of its predecessors and its think time; for a job that waits for single
    tasks, the end of the first of these. ``end`` ``[n]`` are the ends of jobs, ``NOT_YET`` for jobs that did not
    finish.
    """
    if workload.after is None:
        return workload.submit
    first, then = pairs(workload.after)
    over = end[first]
    by_task = np.array(
        [how is Condition.TASKS for conditions in workload.after for _, how in conditions], dtype=np.bool_
    )
    if by_task.any():
        over[by_task] = _first_ends(attempts, first[by_task], workload.tasks[then[by_task]])
    ready = workload.submit.copy()
    np.maximum.at(ready, then, over if workload.think is None else over + workload.think[then])
    ready[then[over == NOT_YET]] = NOT_YET
    return ready


def _first_ends(attempts: Attempts, jobs: Ints, tasks: Ints) -> list[int]:
    """Return when the first of so many tasks of each of these jobs was done; ``NOT_YET``: none was."""
    done = np.flatnonzero(attempts.finished)
    done = done[np.argsort(attempts.job[done], kind="stable")]
    low = np.searchsorted(attempts.job[done], jobs)
    high = np.searchsorted(attempts.job[done], jobs, side="right")
    found = []
    for begin, end, count in zip(low.tolist(), high.tolist(), tasks.tolist(), strict=True):
        rows = done[begin:end]
        ends = attempts.end[rows[attempts.task[rows] < count]]
        found.append(int(ends.min()) if len(ends) else NOT_YET)
    return found


def dags_of(workload: Workload, end: Ints) -> Dags | None:
    """Return the dags of a workload with these ends of jobs (as in ``ready_times``); ``None`` if it has none."""
    if workload.family_index is None:
        return None
    member = np.array([bool(workload.family_names[i]) for i in workload.family_index.tolist()], dtype=np.bool_)
    if not member.any():
        return None
    families, first, where, steps = np.unique(
        workload.family_index[member], return_index=True, return_inverse=True, return_counts=True
    )
    count = len(families)
    submit = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(submit, where, workload.submit[member])
    last, least = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.maximum.at(last, where, end[member])
    np.maximum.at(least, where, _earliest_ends(workload)[member])
    last[where[end[member] == NOT_YET]] = NOT_YET
    order = np.argsort(first, kind="stable")
    return Dags(
        family=families[order],
        steps=steps[order].astype(np.int64),
        submit=submit[order],
        end=last[order],
        path=(least - submit)[order],
    )


def _earliest_ends(workload: Workload) -> Ints:
    """Return the time when each job ``[n]`` would end if none ever waited for resources."""
    end: list[int] = (workload.submit + workload.run).tolist()
    if workload.after is not None:
        run: list[int] = workload.run.tolist()
        for i in in_order(workload.after, workload.ids):
            for first, _ in workload.after[i]:
                end[i] = max(end[i], end[first] + run[i])
    return np.array(end, dtype=np.int64)
