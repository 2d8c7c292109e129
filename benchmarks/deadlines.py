"""Deadlines that policies miss on real traces, by load: figures, and the plot of docs/deadlines.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.deadline_worlds import worlds
from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.simulator import run
from cress.simulator.request import Request

# The file, its name in the plot, and the deadlines that are drawn.
DRAWN = "tight=1.1-1.5,normal=1.5-3,loose=3-10,share=0.6"
TRACES = (
    ("deadline/chronus_trace_job_Philly_SLO.csv.gz", "Philly", ""),
    ("swf/KTH-SP2.swf.gz", "KTH-SP2", DRAWN),
    ("swf/SDSC-SP2.swf.gz", "SDSC-SP2", DRAWN),
)
CAPACITY, EDF, OURS = "Capacity/fifo", "EDF/cluster", "EDF/groups"
POLICIES = (CAPACITY, "EDF/strict", EDF, "BackFill", OURS, "EDF/no-preemption")
URGENCY = "Urgency/cluster"
# The policies that are compared in made worlds; where jobs are urgent beside long work, ``URGENCY`` is the one to use.
IN_WORLDS = (CAPACITY, EDF, "BackFill", OURS, URGENCY)
LOADS = (0.7, 0.9, 1.1)
PLOT = Path("build/deadlines.svg")
MISSED, SLOWDOWN = "deadlines_missed_share", "bounded_slowdown_without_deadline_mean"
FAIRNESS, LOST = "fairness_jain_mean", "lost_work_share"


def summaries(trace: Path, deadlines: str, load: float) -> dict[str, dict[str, float]]:
    """Return the measures of each policy on a trace at a load."""
    request = Request(trace=str(trace), out=Path("build/deadlines"), policies=POLICIES, deadlines=deadlines, load=load)
    plan = run.plan(request)
    return {choice.label: run.simulate(plan, choice).analysis.summary for choice in plan.choices}


def held_against_goals(name: str, found: dict[str, dict[str, float]]) -> Iterator[Result]:
    """Yield the measures that have a goal beside that of ``EDF``."""
    ours, capacity = found[OURS], found[CAPACITY]
    yield Result(f"{name}, missed / those of Capacity", ours[MISSED] / max(1e-9, capacity[MISSED]), "", 0.5)
    yield Result(f"{name}, Jain index below that of Capacity", capacity[FAIRNESS] - ours[FAIRNESS], "", 0.02)
    yield Result(f"{name}, work that is run again", 100 * ours[LOST], "%", 2)
    if capacity[SLOWDOWN]:
        ratio = ours[SLOWDOWN] / capacity[SLOWDOWN]
        yield Result(f"{name}, slowdown without deadline / Capacity", ratio, "", 1.2)


def in_worlds(folder: Path) -> Iterator[Result]:
    """Yield percents of the deadlines missed in made worlds; no trace is needed."""
    for name, jobs in worlds(folder).items():
        request = Request(
            trace=str(jobs), cluster=jobs.parent / "nodes.yaml", groups=jobs.parent / "Group.conf",
            out=folder / "out", policies=IN_WORLDS,
        )  # fmt: skip
        plan = run.plan(request)
        found = {choice.label: run.simulate(plan, choice).analysis.summary for choice in plan.choices}
        for policy in IN_WORLDS:
            missed = 100 * found[policy][MISSED]
            goal = 100 * min(found[EDF][MISSED], found[CAPACITY][MISSED]) if policy == OURS else None
            again = f"{100 * found[policy][LOST]:.1f} % of the work is run again"
            yield Result(f"{name}, {policy}: deadlines missed", missed, "%", goal, note=again)
        if name.startswith("urgent minority"):
            yield Result(f"{name}, {URGENCY}: missed", 100 * found[URGENCY][MISSED], "%", 1)
            yield Result(f"{name}, {URGENCY}: work that is run again", 100 * found[URGENCY][LOST], "%", 5)


def results() -> Iterator[Result]:
    """Yield percents of the deadlines, and draw the plot."""
    yield from in_worlds(Path("build/deadline-worlds"))
    folder = os.environ.get("CRESS_TRACES")
    if not folder:
        print("no traces: set CRESS_TRACES to the folder that holds deadline/ and swf/", file=sys.stderr)
        return
    panels = []
    for file, name, deadlines in TRACES:
        missed: dict[str, list[float]] = {policy: [] for policy in POLICIES}
        for load in LOADS:
            found = summaries(Path(folder) / file, deadlines, load)
            for policy in POLICIES:
                missed[policy].append(100 * found[policy][MISSED])
                goal = missed[EDF][-1] if policy == OURS else None
                yield Result(f"{name} at {load}, {policy}: deadlines missed", missed[policy][-1], "%", goal)
            yield from held_against_goals(f"{name} at {load}", found)
        panels.append(Panel(name, LOADS, missed))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(line_plot(panels, x="load", y="deadlines missed (%)"))
    print(f"written: {PLOT}")
