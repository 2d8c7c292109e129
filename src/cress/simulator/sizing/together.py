"""Separate clusters as one: their attempts are combined, so that they are measured like a shared cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec.structs import replace as changed

from cress.simulator.attempts import AttemptHistory, Attempts, JobEnd
from cress.simulator.groups import NOWHERE, PolicyChoice
from cress.simulator.measures import MeasuredRun, analyse
from cress.simulator.request import Plan, Result
from cress.simulator.services import ServiceCounts
from cress.simulator.sizing.request import Sized

SEPARATE, SHARED = "separate", "shared"


def together(plan: Plan, policy: str, subsets: Sequence[Sized]) -> Result:
    """Return the result of all subsets, as if their nodes were one cluster."""
    whole = plan.workload
    nodes = tuple(
        changed(node, name=f"{sized.subset}-{node.name}")
        for sized in subsets
        for node in sized.result.run.workload.cluster.nodes
    )
    workload = replace(whole, cluster=replace(whole.cluster, nodes=nodes))
    group_of = np.full(len(whole), NOWHERE, dtype=np.int64)
    rejected = np.zeros(len(whole), dtype=np.bool_)
    for sized in subsets:
        group_of[sized.positions] = sized.result.run.group_of
        rejected[sized.positions] = sized.result.run.rejected
    notes = whole.notes.copy()
    run = MeasuredRun(
        label=PolicyChoice(f"{policy} {SEPARATE}").label,
        workload=workload,
        groups=whole.groups,
        group_names=plan.group_names,
        group_of=group_of,
        rejected=rejected,
        history=_history(len(whole), subsets),
        accounting=plan.options.accounting,
        loop_s=sum(sized.result.run.loop_s for sized in subsets),
    )
    directory = plan.request.out / PolicyChoice(run.label).directory
    return Result(run=run, analysis=analyse(run), notes=notes, directory=directory)


def _history(n: int, subsets: Sequence[Sized]) -> AttemptHistory:
    ends = np.full(n, JobEnd.WAITING, dtype=np.int64)
    columns: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
    refusals: dict[int, str] = {}
    counts: list[ServiceCounts] = []
    nodes = 0
    for sized in subsets:
        history, positions = sized.result.run.history, sized.positions
        ends[positions] = history.ends
        refusals |= {int(positions[i]): reason for i, reason in history.refusals.items()}
        own = history.attempts
        found = {
            "job": positions[own.job],
            "task": own.task,
            "node": own.node + nodes,
            "start": own.start,
            "end": own.end,
            "how": own.how,
        }
        for name, column in found.items():
            columns.setdefault(name, []).append(column)
        if history.services is not None:
            counts.append(replace(history.services, job=positions[history.services.job]))
        nodes += len(sized.result.run.workload.cluster.nodes)
    joined = {name: np.concatenate(column) for name, column in columns.items()}
    order = np.argsort(joined["start"], kind="stable")
    return AttemptHistory(
        attempts=Attempts(**{name: column[order] for name, column in joined.items()}),
        ends=ends,
        events=sum(sized.result.run.history.events for sized in subsets),
        refusals=refusals,
        services=_joined(counts),
    )


def _joined(counts: Sequence[ServiceCounts]) -> ServiceCounts | None:
    if not counts:
        return None
    job, time, tasks = (np.concatenate([getattr(count, name) for count in counts]) for name in ("job", "time", "tasks"))
    order = np.argsort(time, kind="stable")
    return ServiceCounts(job=job[order], time=time[order], tasks=tasks[order])
