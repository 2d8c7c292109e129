"""The tables of results: ``jobs.csv`` in the order of submission, ``dags.csv``, ``attempts.csv``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from cress.simulator.attempts import NOT_YET, How
from cress.simulator.dags import Dags
from cress.simulator.files import whole_file
from cress.simulator.groups import NOWHERE
from cress.simulator.measures import Analysis, MeasuredRun
from cress.simulator.series import Ints
from cress.simulator.workload import NO_LIMIT

SECOND = 1_000_000
SPECIAL = re.compile(r'[,"\n\r]')

# Column → meaning; docs/simulate.md shows the same list.
COLUMNS: dict[str, str] = {
    "job": "the trace's own id",
    "group": "its group",
    "user": "the user in the trace",
    "submit": "submit time",
    "start": "first start of its first task to start; empty when it never started",
    "end": "end of its last task; empty when it did not finish",
    "state": "finished, killed (cut at its time limit), failed, waiting, cancelled (a dependency failed, or "
    "`until` was reached), kept (a service or cron job at the end), rejected (fits no node), refused (not accepted)",
    "wait_s": "start − submit, or − the last end of the jobs that it depends on; empty for services and cron jobs",
    "run_s": "run time of one task; empty when it runs until it is stopped",
    "time_limit_s": "time limit; empty when there is none",
    "bounded_slowdown": "as in summary.json, four decimals; empty when it did not finish",
    "tasks": "number of tasks",
    "cpu": "cores of one task",
    "priority": "priority",
    "attempts": "attempts of its tasks, those that ended early included",
    "preemptions": "attempts that were preempted",
    "deadline": "when it should have ended; empty when it has no deadline; a column only where some job has one",
}
DAG_COLUMNS: dict[str, str] = {
    "dag": "its name",
    "steps": "number of steps",
    "submit": "when its first step was submitted",
    "end": "end of its last step; empty when not all finished",
    "makespan_s": "end − submit",
    "critical_path_s": "time if every task starts as soon as its dependencies allow",
    "stretch": "makespan / critical path, four decimals",
}
ATTEMPT_COLUMNS: dict[str, str] = {
    "job": "the trace's own id",
    "task": "the index of the task in the job, from 0",
    "node": "the node on which it ran",
    "start": "when it started",
    "end": "when it ended",
    "ended": "finished, preempted, lost (with its node), stopped (with its gang, by a drain, or because its job was "
    "cancelled), failed, or running (when the simulation ended)",
}


def write_jobs(path: Path, run: MeasuredRun, analysis: Analysis) -> None:
    """Write the table. Times are seconds of the trace, as integers when whole."""
    workload, times = run.workload, analysis.times
    started = times.start != NOT_YET
    groups = [*run.group_names, ""]
    cores = [_number(request[0], 1000) for request in workload.requests]
    columns: list[Iterable[str]] = [
        _quoted(workload.ids),
        _picked(_quoted(groups), run.group_of),
        _picked(_quoted(workload.users), workload.user_index),
        _seconds(workload.submit),
        _where(started, _seconds(times.start)),
        _where(times.finished, _seconds(times.end)),
        _states(run, analysis),
        _where(times.waited, _seconds(times.wait)),
        _where(workload.run >= 0, _seconds(workload.run)),
        _where(workload.limit >= 0, _seconds(workload.limit)),
        _where(times.finished, [f"{value:.4f}" for value in times.slowdown.tolist()]),
        _integers(workload.tasks),
        _picked(cores, workload.request_index),
        _integers(workload.priority),
        _integers(times.attempts),
        _integers(times.preempted),
    ]
    names = list(COLUMNS)
    if workload.deadline is None:
        names.remove("deadline")
    else:
        columns.append(_where(workload.deadline != NO_LIMIT, _seconds(workload.deadline)))
    with whole_file(path) as file:
        rows = "\n".join(map(",".join, zip(*columns, strict=True)))
        file.write(f"{','.join(names)}\n{rows}\n".encode())


def write_dags(path: Path, run: MeasuredRun, dags: Dags) -> None:
    """Write the table of dags; times as in the table of jobs."""
    there = dags.finished
    makespan = np.where(there, dags.end - dags.submit, 0)
    stretch = makespan / np.maximum(dags.path, 1)
    columns: list[Iterable[str]] = [
        _picked(_quoted(run.workload.family_names), dags.family),
        _integers(dags.steps),
        _seconds(dags.submit),
        _where(there, _seconds(dags.end)),
        _where(there, _seconds(makespan)),
        _seconds(dags.path),
        _where(there & (dags.path > 0), [f"{value:.4f}" for value in stretch.tolist()]),
    ]
    with whole_file(path) as file:
        rows = "\n".join(map(",".join, zip(*columns, strict=True)))
        file.write(f"{','.join(DAG_COLUMNS)}\n{rows}\n".encode())


def write_attempts(path: Path, run: MeasuredRun) -> None:
    """Write the table of attempts; times as in the table of jobs."""
    workload, attempts = run.workload, run.attempts
    columns: list[Iterable[str]] = [
        _picked(_quoted(workload.ids), attempts.job),
        _integers(attempts.task),
        _picked(_quoted([node.name for node in workload.cluster.nodes]), attempts.node),
        _seconds(attempts.start),
        _seconds(attempts.end),
        _picked([how.name.lower() for how in How], attempts.how),
    ]
    with whole_file(path) as file:
        rows = "\n".join(map(",".join, zip(*columns, strict=True)))
        file.write(f"{','.join(ATTEMPT_COLUMNS)}\n{rows}\n".encode())


def _states(run: MeasuredRun, analysis: Analysis) -> list[str]:
    names = ["waiting", "finished", "failed", "cancelled", "kept", "refused", "killed", "rejected"]
    state = run.history.ends.copy()
    state[analysis.times.finished & run.workload.killed] = names.index("killed")
    state[run.rejected] = names.index("rejected")
    state[run.group_of == NOWHERE] = names.index("refused")
    return _picked(names, state)


def _integers(values: Ints) -> list[str]:
    # Most of these columns are constant.
    if len(values) and values.min() == values.max():
        return [str(values[0])] * len(values)
    return list(map(str, values.tolist()))


def _seconds(times: Ints) -> list[str]:
    if not (times % SECOND).any():
        return list(map(str, (times // SECOND).tolist()))
    return [_number(time, SECOND) for time in times.tolist()]


def _number(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{part:0{digits}d}".rstrip("0")


def _where(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], texts: list[str]) -> list[str]:
    if mask.all():
        return texts
    return [text if there else "" for text, there in zip(texts, mask.tolist(), strict=True)]


def _picked(texts: Sequence[str], index: Ints) -> list[str]:
    return [texts[i] for i in index.tolist()]


def _quoted(texts: Sequence[str]) -> Sequence[str]:
    # Searched once, since ids that need quotes are rare.
    if not SPECIAL.search("".join(texts)):
        return texts
    return ['"' + text.replace('"', '""') + '"' if SPECIAL.search(text) else text for text in texts]
