"""The load of a trace.

It is the work that its jobs request / the work that the cluster could do from the first submission to the last.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cress.model.errors import InputError
from cress.simulator.workload import NO_LIMIT, Ints, Workload

DEFAULT_LOAD = 0.9


def span(workload: Workload) -> int:
    """Return the time from the first submission to the last one (µs)."""
    return int(workload.submit.max() - workload.submit.min())


def demand(workload: Workload) -> list[float]:
    """Return the work of all jobs in each dimension: amount × run time × tasks."""
    requests = np.array(workload.requests, dtype=np.float64)[workload.request_index]
    weights = workload.run.astype(np.float64) * workload.tasks
    found: list[float] = (requests * weights[:, None]).sum(axis=0).tolist()
    return found


def overload(workload: Workload, jobs: Ints) -> tuple[str, float] | None:
    """Return the dimension with the highest load by the jobs at these positions, and this load, if it is above 1.

    ``None`` as well if the load says nothing: all jobs are submitted at once, some run until they are stopped, or the
    cluster could do the work within the span of the submissions and one longest run.
    """
    if not len(jobs) or workload.until is not None or (workload.run[jobs] == NO_LIMIT).any():
        return None
    chosen = workload.select(jobs)
    room = span(chosen)
    if not room:
        return None
    longest = int(chosen.run.max())
    loads = [
        (work / (whole * room), work / (whole * (room + longest)), name)
        for work, whole, name in zip(
            demand(chosen), workload.cluster.total(), workload.cluster.dimensions.names, strict=True
        )
        if whole
    ]
    load, lasting, name = max(loads)
    return (name, load) if lasting > 1 else None


def load_of(workload: Workload) -> float:
    """Return the highest load of any dimension."""
    total = workload.cluster.total()
    room = float(max(1, span(workload)))
    return max(
        (work / (whole * room) for work, whole in zip(demand(workload), total, strict=True) if whole), default=0.0
    )


def at_load(workload: Workload, load: float) -> Workload:
    """Return the workload with all times between submissions scaled by one factor, so that it has this load.

    Raise ``InputError`` if other times would have to change too.
    """
    cluster = workload.cluster
    if cluster.outages or cluster.drains or workload.until is not None or (workload.run == NO_LIMIT).any():
        raise InputError(
            "needs a trace in which all jobs end and all nodes stay",
            hint="without --load",
            field="--load",
        )
    factor = load_of(workload) / load
    first = workload.submit.min()
    submit: Ints = first + np.rint((workload.submit - first) * factor).astype(np.int64)
    due = workload.deadline
    if due is not None:
        due = np.where(due == NO_LIMIT, NO_LIMIT, due + submit - workload.submit)
    return replace(workload, submit=submit, deadline=due)
