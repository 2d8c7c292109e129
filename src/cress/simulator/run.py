"""A simulation from beginning to end: read, run once per policy, measure, write."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cress.model.errors import InputError
from cress.model.group import Group
from cress.model.option_text import format_option, parse_assignments
from cress.model.options import Options
from cress.model.times import SECOND
from cress.simulator.attempts import AttemptHistory
from cress.simulator.deadlines import parse_deadlines, with_deadlines
from cress.simulator.files import make_directory, remove_earlier, whole_file
from cress.simulator.frameworks import as_frameworks
from cress.simulator.groups import (
    NOWHERE,
    PolicyChoice,
    check_options,
    compared,
    configure,
    merged,
    names_of,
    own_policy,
    parse_policy,
    place,
    with_policy,
)
from cress.simulator.jobs import Jobs
from cress.simulator.load import overload
from cress.simulator.measures import MeasuredRun, analyse
from cress.simulator.paths import path_of
from cress.simulator.report import plotly_script, write_report
from cress.simulator.request import EXACT, PREDICTED, Plan, Request, Result
from cress.simulator.sweep import LocalSweep, Sweep
from cress.simulator.tables import write_attempts, write_dags, write_jobs
from cress.simulator.traces import GENERATORS, load_workload
from cress.simulator.workload import NO_LIMIT, UNDATED_START, Ints, SimulatedCluster, Workload

# The name of a run with the groups of the trace itself, beside runs with other groups.
OWN = "own"

# Called with the label of the run, the events so far and the total of events.
Progress = Callable[[str, int, int], None]


def plan(request: Request, cluster: SimulatedCluster | None = None) -> Plan:
    """Read and check all arguments and files; ``cluster`` replaces that of the file.

    Raise ``InputError``; write nothing.
    """
    options = _options(request)
    return _in_groups(request, _workload(request, cluster), options)


def plans(request: Request, groups: Sequence[Path], *, own: bool = False) -> list[Plan]:
    """Return a plan for each of these files of groups, or one without a file; the names of the runs tell the files.

    With ``own`` the groups of the trace come first. The trace is read once. Raise ``InputError``; write nothing.
    """
    if own and not groups:
        raise InputError(
            "has nothing to compare with", hint="--groups FILE, or --compare lending=off,on", field="--compare"
        )
    if len(groups) < 2 and not own:
        return [plan(dataclasses.replace(request, groups=groups[0] if groups else None))]
    names = names_of(groups)
    options = _options(request)
    workload = _workload(request, None)
    files: list[tuple[Path | None, str]] = [*zip(groups, names, strict=True)]
    if own:
        files.insert(0, (None, OWN if OWN not in names else "own groups"))
    return [
        _named(_in_groups(dataclasses.replace(request, groups=path), workload, options), name) for path, name in files
    ]


def with_seeds(request: Request, groups: Sequence[Path], seeds: Sequence[int], *, own: bool = False) -> list[Plan]:
    """Return the plans of each of these seeds, which the names of the runs tell. Raise ``InputError``."""
    if request.trace.partition(":")[0] not in GENERATORS and not request.deadlines:
        raise InputError(
            "have no effect: nothing of this trace is drawn",
            hint="for generated workloads, or with --deadlines",
            field="--seeds",
        )
    return [
        _named(ready, f"seed={seed}", beside=True)
        for seed in seeds
        for ready in plans(dataclasses.replace(request, seed=seed), groups, own=own)
    ]


def _named(plan: Plan, name: str, *, beside: bool = False) -> Plan:
    """Return the plan with a name in the labels of its runs: that of its groups, or ``beside`` the policy its seed."""
    choices = tuple(
        dataclasses.replace(choice, label=f"{choice.label} {name}" if beside or len(plan.choices) > 1 else name)
        for choice in plan.choices
    )
    return dataclasses.replace(plan, choices=choices)


def _options(request: Request) -> Options:
    """Return the options of the scheduler, and check what would else fail after minutes of simulation."""
    if request.out.exists() and not request.out.is_dir():
        raise InputError("is not a directory", hint="another --out", file=str(request.out))
    plotly_script()
    return _changed(Options(), request)


def _changed(options: Options, request: Request) -> Options:
    """Return options with the changes of the request."""
    options = parse_assignments(request.options, options)
    if request.estimates == PREDICTED:
        options = parse_assignments([f"estimates={PREDICTED}"], options)
    return options


def _workload(request: Request, cluster: SimulatedCluster | None) -> Workload:
    """Read the trace, and change it as the arguments say."""
    cluster = cluster or _cluster(request.cluster)
    workload = load_workload(request.trace, cluster, request.seed, request.load, request.span)
    if request.estimates == EXACT:
        workload = workload.exact_estimates()
    if request.deadlines:
        workload = with_deadlines(workload, parse_deadlines(request.deadlines), request.seed)
    if request.frameworks:
        workload = as_frameworks(workload, request.frameworks)
    return workload


def _in_groups(request: Request, workload: Workload, options: Options) -> Plan:
    """Return the plan of a workload in the groups of the request."""
    if workload.options is not None:
        # A center works with options of its own; those of the request are changes of them.
        options = _changed(workload.options, request)
    choices = tuple(parse_policy(text) for text in request.policies)
    check_options(choices, request.options)
    # Each file of groups has notes of its own.
    workload = dataclasses.replace(workload, notes=workload.notes.copy())
    workload = configure(workload, request.groups, options.accounting)
    if workload.utc == UNDATED_START and any(group.windows for group in workload.groups):
        workload.notes.add("start time not in the header", count=1)
    try:
        names, group_of = place(workload, given=request.groups is not None)
    except InputError as error:
        raise error.at(file=request.trace, field="group") from None
    _check_ends(workload)
    choices = tuple(dict.fromkeys(choices)) or (own_policy(workload.groups),)
    if request.compare:
        choices = compared(choices, request.compare)
    labels = [choice.directory for choice in choices]
    if len(set(labels)) < len(labels):
        raise InputError("a policy is given twice", hint="each policy once", field="--policy")
    return Plan(
        request=request, workload=workload, options=options, choices=choices, group_names=names, group_of=group_of
    )


def _check_ends(workload: Workload) -> None:
    """Raise ``InputError`` if the simulation would never end: only services and cron jobs, and none is cancelled."""
    if workload.until is not None and (workload.until != NO_LIMIT).any():
        return
    if all(workload.template(i).plan is not None for i in range(len(workload))):
        raise InputError(
            "no job of the trace ends by itself, so the simulation would not end",
            hint="the time at which a service or cron job is cancelled: until",
        )


def _cluster(path: Path | None) -> SimulatedCluster | None:
    if path is None:
        return None
    # Imported only in runs with a cluster file, since the YAML parser is slow to import.
    from cress.simulator.clusterfile import load_cluster

    return load_cluster(path)


def simulate(plan: Plan, choice: PolicyChoice, progress: Progress | None = None) -> Result:
    """Run the workload under one policy and measure."""
    workload = plan.workload
    notes = workload.notes.copy()
    groups, known, options = _configured(plan, choice)
    path = path_of(workload, known, options, plan.request.events, plan.request.forecasts, check=plan.request.check)
    admitted, places = _admitted(plan, choice, known)
    rejected = path.never_fit(admitted, places)
    notes.add("fits no node", workload.line[rejected].tolist())
    jobs = admitted[~rejected[admitted]]
    names = [name for name, out in zip(places, rejected[admitted].tolist(), strict=True) if not out]
    if offered := overload(workload, jobs):
        notes.add("offered load above 1", count=1, detail=f"{offered[1]:.2f} times the {offered[0]} of the cluster")
    expected = len(jobs) + int(workload.tasks[jobs].sum())
    if progress is not None:
        # The first decision loads the compiled loops, so the progress bar is shown before.
        progress(choice.label, 0, expected)
    report = (lambda events: progress(choice.label, events, expected)) if progress else None
    started = time.perf_counter()
    history = path.run(jobs.tolist(), names, check=plan.request.check, progress=report)
    loop_s = time.perf_counter() - started
    run = MeasuredRun(
        label=choice.label,
        workload=workload,
        groups=groups,
        group_names=plan.group_names,
        group_of=plan.group_of,
        rejected=rejected,
        history=history,
        accounting=options.accounting,
        loop_s=loop_s,
    )
    analysis = analyse(run)
    for reason, lines in _refused(workload, history).items():
        notes.add("not accepted", lines, detail=reason)
    notes.add("dependency failed", workload.line[run.cancelled_after].tolist())
    notes.add("never finished", workload.line[run.waiting].tolist())
    return Result(
        run=run,
        analysis=analysis,
        notes=notes,
        directory=plan.request.out / choice.directory,
        foretelling=path.foretelling,
    )


def _configured(plan: Plan, choice: PolicyChoice) -> tuple[tuple[Group, ...], tuple[Group, ...], Options]:
    """Return the groups under this policy, the groups that the scheduler sees, and the options.

    The measures are of the workload's groups, whatever groups the scheduler sees.
    """
    groups = with_policy(plan.workload.groups, choice)
    # An option that belongs to the policy applies to the implied default group too.
    options = parse_assignments([f"{key}={text}" for key, text in choice.options], plan.options)
    if choice.merged and choice.policy is not None:
        return groups, (merged(plan.workload, choice.policy, options.accounting),), options
    return groups, groups, options


def never_fits(plan: Plan, choice: PolicyChoice) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the jobs ``[n]`` that the cluster could never run under this policy; nothing runs."""
    _, known, options = _configured(plan, choice)
    path = path_of(plan.workload, known, options, plan.request.events)
    return path.never_fit(*_admitted(plan, choice, known))


def why_never(plan: Plan, choice: PolicyChoice, position: int) -> str:
    """Return the clauses or licences that exclude every node for the job at ``position``, as a sentence.

    Empty if the size of its tasks is the reason.
    """
    from cress.simulator.never_fit import why_never_fits

    _, known, options = _configured(plan, choice)
    core = path_of(plan.workload, known, options, plan.request.events).core
    group = known[0].name if choice.merged else plan.group_names[int(plan.group_of[position])]
    return why_never_fits(core, Jobs(plan.workload, [position], [group]).make(position, 1))


def _admitted(plan: Plan, choice: PolicyChoice, known: Sequence[Group]) -> tuple[Ints, list[str]]:
    """Return the positions of the jobs that have a group, and the name of the group of each."""
    admitted = np.flatnonzero(plan.group_of != NOWHERE)
    return admitted, [known[0].name if choice.merged else plan.group_names[i] for i in plan.group_of[admitted].tolist()]


def _refused(workload: Workload, history: AttemptHistory) -> dict[str, list[int]]:
    """Return the lines of the refused jobs, by reason."""
    found: dict[str, list[int]] = {}
    for i, reason in history.refusals.items():
        found.setdefault(reason, []).append(int(workload.line[i]))
    return found


def write_result(result: Result, plan: Plan) -> set[Path]:
    """Write ``jobs.csv``, ``summary.json``, for dags ``dags.csv``, and on request ``attempts.csv`` and
    ``forecasts.csv`` of one run.

    Return the paths of the files.
    """
    folder = result.directory
    written = {folder / "jobs.csv", folder / "summary.json"}
    write_jobs(folder / "jobs.csv", result.run, result.analysis)
    if result.analysis.dags is not None:
        write_dags(folder / "dags.csv", result.run, result.analysis.dags)
        written.add(folder / "dags.csv")
    if plan.request.attempts:
        write_attempts(folder / "attempts.csv", result.run)
        written.add(folder / "attempts.csv")
    if result.foretelling is not None:
        from cress.simulator.forecasts import write_forecasts

        write_forecasts(folder / "forecasts.csv", result.foretelling, result.run.workload)
        written.add(folder / "forecasts.csv")
    with whole_file(folder / "summary.json") as file:
        file.write((json.dumps(summary(result, plan), indent=2) + "\n").encode())
    return written


def summary(result: Result, plan: Plan) -> dict[str, Any]:
    """Return the content of ``summary.json``."""
    request, workload = plan.request, result.run.workload
    default = Options()
    return {
        "trace": workload.name,
        "policy": result.run.label,
        "events_order": request.events,
        "estimates": request.estimates,
        "seed": request.seed,
        "options": {
            name: format_option(name, getattr(plan.options, name))
            for name in Options.__dataclass_fields__
            if getattr(plan.options, name) != getattr(default, name)
        },
        "nodes": len(workload.cluster.nodes),
        **result.analysis.summary,
        **_deadlines(result),
        **_workloads(result),
        **_forecasts(result),
        "groups": result.analysis.group_summary,
        "notes": result.notes.as_data(),
    }


def _forecasts(result: Result) -> dict[str, Any]:
    """Return the measures of the forecasts, if starts were foretold."""
    if result.foretelling is None:
        return {}
    from cress.simulator.forecasts import measures

    return {"forecasts": measures(result.foretelling)}


def _deadlines(result: Result) -> dict[str, Any]:
    """Return the deadlines by tightness and over time, if the trace has any."""
    counts = result.analysis.deadlines
    if not counts.total.having:
        return {}
    return {
        "deadlines_by_tightness": {name: count.as_data() for name, count in counts.by_tightness.items()},
        "deadlines_over_time": {
            "period_s": counts.period // SECOND,
            "periods": [count.as_data() for count in counts.by_time],
        },
    }


def _workloads(result: Result) -> dict[str, Any]:
    """Return the measures of the named workloads, if there are any."""
    found = result.analysis.fragments
    if found is None or not found.workloads:
        return {}
    return {"workloads": {name: workload.as_data() for name, workload in found.workloads.items()}}


def run_all(
    plans: Sequence[Plan], progress: Progress | None = None, sweep: Sweep | None = None
) -> list[tuple[Result, Plan]]:
    """Run every policy of all plans, and write each as soon as it and those before it are done; then write the report.

    ``sweep`` runs several at once; without one they run in turn. The report compares all of them. At last the runs of
    an earlier simulation in the same directory are removed, which the report does not show.
    """
    first = plans[0]
    out = first.request.out
    make_directory(out)  # fails now, not after minutes of simulation
    tasks = [(plan, choice) for plan in plans for choice in plan.choices]
    labels = [choice.label for _, choice in tasks]
    runs = (sweep or LocalSweep(1)).results(_without_workload, tasks, labels, progress)
    results = []
    written: set[Path] = set()
    for (plan, _), run in zip(tasks, runs, strict=True):
        result = _with_workload(run, plan.workload)
        written |= write_result(result, plan)
        results.append((result, plan))
    write_report(out / "report.html", first.workload, [result for result, _ in results], first.request)
    remove_earlier(out, written)
    return results


def _without_workload(plan: Plan, choice: PolicyChoice, *, tell: Callable[[int, int], None]) -> Result:
    """Run the workload under one policy; the result comes without the workload, which the caller has."""
    result = simulate(plan, choice, lambda _, done, whole: tell(done, whole))
    return _with_workload(result, plan.workload.select(np.zeros(0, np.int64)))


def _with_workload(result: Result, workload: Workload) -> Result:
    """Return the result with this workload."""
    return dataclasses.replace(result, run=dataclasses.replace(result.run, workload=workload))
