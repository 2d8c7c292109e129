"""Courses of a live cluster as results of a simulation: the same tables, the same report (design note 0052)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cress.model.course import CourseDetails
from cress.model.group import Group
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.simulator.attempts import AttemptHistory, Attempts, How, JobEnd
from cress.simulator.files import make_directory
from cress.simulator.groups import PolicyChoice
from cress.simulator.measures import MeasuredRun, analyse
from cress.simulator.report.page import write_report
from cress.simulator.request import Plan, Request, Result
from cress.simulator.run import write_result
from cress.simulator.series import Ints
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload

_HOW = {how.name.lower(): int(how) for how in How}
NAME = "what-if"


def write_courses(out: Path, courses: Sequence[tuple[str, CourseDetails, tuple[Group, ...], Options]]) -> Path:
    """Write tables and report of courses, each with its label, groups and options; return the path of the report.

    Raises ``InputError`` if a file cannot be written.
    """
    make_directory(out)
    request = Request(trace=NAME, out=out, attempts=True)
    results = []
    for label, details, groups, options in courses:
        run = _run(label, details, groups, options)
        result = Result(run=run, analysis=analyse(run), notes=run.workload.notes, directory=out / label)
        choice = PolicyChoice(label)
        make_directory(result.directory)
        write_result(
            result,
            Plan(
                request=request,
                workload=run.workload,
                options=options,
                choices=(choice,),
                group_names=run.group_names,
                group_of=run.group_of,
            ),
        )
        results.append(result)
    write_report(out / "report.html", results[0].run.workload, results, request)
    return out / "report.html"


def _run(label: str, details: CourseDetails, groups: tuple[Group, ...], options: Options) -> MeasuredRun:
    """Return a course as a run of a simulation that began with the first submission."""
    workload, order = _workload(details)
    place = {old: new for new, old in enumerate(order)}
    nodes = {name: i for i, name in enumerate(details.nodes)}
    begin = workload.utc
    rows = sorted(
        (
            attempt.start - begin,
            place[attempt.job],
            attempt.task,
            nodes[attempt.node],
            attempt.end - begin,
            _HOW[attempt.how],
        )
        for attempt in details.attempts
        if attempt.node in nodes
    )
    start, job, task, node, end, how = (_ints(column) for column in (zip(*rows, strict=True) if rows else [()] * 6))
    done = np.bincount(job[how == How.FINISHED], minlength=len(workload))
    ends = np.where(done >= workload.tasks, JobEnd.FINISHED, JobEnd.WAITING).astype(np.int64)
    return MeasuredRun(
        label=label,
        workload=workload,
        groups=groups,
        group_names=tuple(workload.group_names),
        group_of=workload.group_index,
        rejected=np.zeros(len(workload), np.bool_),
        history=AttemptHistory(
            attempts=Attempts(job=job, task=task, node=node, start=start, end=end, how=how),
            ends=ends,
            events=len(rows),
            refusals={},
        ),
        accounting=options.accounting,
        loop_s=1.0,
    )


def _workload(details: CourseDetails) -> tuple[Workload, list[int]]:
    """Return the jobs as a workload in the order of submission, and their positions in the details."""
    order = sorted(range(len(details.jobs)), key=lambda i: details.jobs[i].submitted)
    jobs = [details.jobs[i] for i in order]
    begin = jobs[0].submitted
    longest: dict[int, int] = {}
    for attempt in details.attempts:
        longest[attempt.job] = max(longest.get(attempt.job, 0), attempt.end - attempt.start)
    runs = [longest.get(i, details.jobs[i].limit or NO_LIMIT) for i in order]
    limits = [NO_LIMIT if job.limit is None else max(job.limit, run) for job, run in zip(jobs, runs, strict=True)]
    users, groups = sorted({job.user for job in jobs}), sorted({job.group for job in jobs})
    requests = sorted({job.request for job in jobs})
    has_deadlines = any(job.deadline for job in jobs)
    workload = Workload(
        name=NAME,
        cluster=SimulatedCluster(
            Dimensions(details.dimensions),
            tuple(Node(name=name, capacity=capacity) for name, capacity in details.nodes.items()),
        ),
        ids=[str(job.job) if job.job else f"another-{i}" for i, job in enumerate(jobs)],
        submit=_ints(job.submitted - begin for job in jobs),
        run=_ints(runs),
        limit=_ints(limits),
        tasks=_ints(job.tasks for job in jobs),
        gang=np.array([job.gang for job in jobs], np.bool_),
        killed=np.zeros(len(jobs), np.bool_),
        priority=_ints(job.priority for job in jobs),
        request_index=_ints(requests.index(job.request) for job in jobs),
        requests=requests,
        user_index=_ints(users.index(job.user) for job in jobs),
        users=users,
        group_index=_ints(groups.index(job.group) for job in jobs),
        group_names=groups,
        line=_ints(job.job for job in jobs),
        notes=TraceNotes(),
        deadline=_ints(job.deadline - begin if job.deadline else NO_LIMIT for job in jobs) if has_deadlines else None,
        utc=begin,
    )
    return workload, order


def _ints(values: object) -> Ints:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]
