"""Small workloads, logs and runs for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cress.model.group import Group, Quota, SchedPolicy
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.simulator.attempts import AttemptHistory, Attempts, How, JobEnd
from cress.simulator.measures import MeasuredRun
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import SimulatedCluster, Workload
from tests.simulator.plain import LogJob

SECOND = 1_000_000


def swf_line(
    job: int, submit: float, run: float, procs: int, limit: float, *, user: int = 1, allocated: int | None = None
) -> str:
    """One line of a log."""
    used = procs if allocated is None else allocated
    return f"{job} {submit} -1 {run} {used} -1 -1 {procs} {limit} -1 1 {user} -1 -1 -1 -1 -1 -1"


def write_swf(path: Path, lines: Sequence[str], processors: int | None = 10) -> Path:
    """A log with a header; the first job is on line 3 (line 2 without a number of processors)."""
    header = ["; Version: 2.2"] + ([f"; MaxProcs: {processors}"] if processors else [])
    path.write_text("\n".join([*header, *lines]) + "\n")
    return path


def log_text(jobs: Sequence[LogJob]) -> list[str]:
    """The lines of a log of these jobs, numbered from 1."""
    return [swf_line(i + 1, job.submit, job.run, job.procs, job.limit) for i, job in enumerate(jobs)]


def workload(jobs: Sequence[LogJob], processors: int = 10, *, groups: Sequence[str] = ("default",)) -> Workload:
    """Jobs of one task on one node of processors; job i belongs to group i modulo their number."""
    dimensions = Dimensions()
    n = len(jobs)
    sizes = sorted({job.procs for job in jobs})
    whole = processors * 1000
    return Workload(
        name="test",
        cluster=SimulatedCluster(dimensions, (Node(name="machine", capacity=dimensions.vector(cpu=whole)),)),
        ids=[str(i + 1) for i in range(n)],
        submit=np.array([job.submit for job in jobs], dtype=np.int64) * SECOND,
        run=np.array([job.run for job in jobs], dtype=np.int64) * SECOND,
        limit=np.array([job.limit for job in jobs], dtype=np.int64) * SECOND,
        tasks=np.ones(n, dtype=np.int64),
        gang=np.zeros(n, dtype=np.bool_),
        killed=np.zeros(n, dtype=np.bool_),
        priority=np.zeros(n, dtype=np.int64),
        request_index=np.array([sizes.index(job.procs) for job in jobs], dtype=np.int64),
        requests=[dimensions.vector(cpu=size * 1000) for size in sizes],
        user_index=np.zeros(n, dtype=np.int64),
        users=["ann"],
        group_index=np.arange(n, dtype=np.int64) % len(groups),
        group_names=list(groups),
        line=np.arange(n, dtype=np.int64) + 2,
        notes=TraceNotes(),
        groups=tuple(
            Group(name=name, quota=Quota(scalar=whole // len(groups)), policy=SchedPolicy.BACKFILL) for name in groups
        ),
    )


def finished_run(work: Workload, attempts: Sequence[tuple[int, int, int, bool]]) -> MeasuredRun:
    """A run in which these attempts happened: (job, start, end, preempted), in seconds, in order of start."""
    columns = list(zip(*attempts, strict=True)) if attempts else [(), (), (), ()]
    zeros = np.zeros(len(attempts), dtype=np.int64)
    job, preempted = np.array(columns[0], dtype=np.int64), np.array(columns[3], dtype=np.bool_)
    done = np.bincount(job[~preempted], minlength=len(work))
    return MeasuredRun(
        label="BackFill",
        workload=work,
        groups=work.groups,
        group_names=tuple(work.group_names),
        group_of=work.group_index,
        rejected=np.zeros(len(work), dtype=np.bool_),
        history=AttemptHistory(
            attempts=Attempts(
                job=job,
                task=zeros,
                node=zeros,
                start=np.array(columns[1], dtype=np.int64) * SECOND,
                end=np.array(columns[2], dtype=np.int64) * SECOND,
                how=np.where(preempted, How.PREEMPTED, How.FINISHED).astype(np.int64),
            ),
            ends=np.where(done == work.tasks, JobEnd.FINISHED, JobEnd.WAITING).astype(np.int64),
            events=2 * len(work),
            refusals={},
        ),
        accounting="cpu",
        loop_s=0.5,
    )
