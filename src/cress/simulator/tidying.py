"""Tidying of workloads after reading: cut runs, submissions in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cress.simulator.dependencies import in_order
from cress.simulator.workload import NO_LIMIT, Workload


def tidy(workload: Workload) -> Workload:
    """Return the workload in order of submission, with runs cut at their time limits; changes are noted.

    Jobs of equal submit times keep the order of the file. A run that exceeds its limit is cut there and the job marked
    as ``killed``, as in a real system.
    """
    limited = workload.limit != NO_LIMIT
    over = limited & (workload.run > workload.limit)
    workload.notes.add("run time above time limit", workload.line[over].tolist())
    workload = replace(
        workload, run=np.where(over, workload.limit, workload.run), killed=np.asarray(workload.killed | over)
    )
    workload = _behind_predecessors(workload)
    late = workload.submit < np.maximum.accumulate(workload.submit)
    if not late.any():
        return workload
    workload.notes.add("submit out of order", workload.line[late].tolist())
    return workload.select(np.argsort(workload.submit, kind="stable"))


def _behind_predecessors(workload: Workload) -> Workload:
    """Return the workload with no job submitted before its predecessors, which a live cluster would not know yet."""
    if workload.after is None:
        return workload
    submit: list[int] = workload.submit.tolist()
    for i in in_order(workload.after, workload.ids):
        submit[i] = max([submit[i], *(submit[first] for first, _ in workload.after[i])])
    moved = np.array(submit, dtype=np.int64)
    early = moved > workload.submit
    workload.notes.add("submitted before its predecessor", workload.line[early].tolist())
    return replace(workload, submit=moved) if early.any() else workload
