"""What lending fragments gains and costs two frameworks, and the Alibaba dags as four: figures, and the plot of
docs/fragments.md.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import loans
from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.simulator import run
from cress.simulator.request import Request

# Workloads differ widely: the means of three differ by some four points from those of three others.
SEEDS = tuple(range(1, 11))
LOADS = (0.8, 1.0, 1.2, 1.5)
POLICIES = ("FIFO", "BackFill")
FRAMEWORKS = "frameworks:count=2,nodes=8,applications=80,load={load}"
# From this load on the goals hold; a framework keeps idle leases for as long as Spark does (its executorIdleTimeout).
GOALS_FROM, IDLE = 1.2, "60s"
# Of the dags of the trace every so many-th, dealt to so many frameworks, at this load of so many machines as the trace
# asks for.
DAGS, EVERY, DEALT, DAG_LOAD = "dag/alibaba-v2018-dags.jsonl.gz", 16, 4, 1.2
PLOT = Path("build/fragments.svg")


@dataclass(frozen=True)
class Measured:
    """Means over the seeds: percents, and the completion time of each workload in seconds."""

    used: float
    lost: float
    idle: float
    second_order: float
    lent: float
    loans: float
    completion: tuple[float, ...]


def measured(
    trace: str, policy: str, *, seeds: tuple[int, ...] = SEEDS, frameworks: int = 0, load: float | None = None
) -> tuple[Measured, Measured]:
    """Return the measures without and with lending."""
    found: dict[str, list[Measured]] = {}
    for seed in seeds:
        request = Request(
            trace=trace, out=Path("build/fragments"), policies=(policy,), options=(f"lease_idle={IDLE}",),
            compare="lending=off,on", seed=seed, frameworks=frameworks, load=load,
        )  # fmt: skip
        plan = run.plan(request)
        for choice in plan.choices:
            analysis = run.simulate(plan, choice).analysis
            assert analysis.fragments is not None
            each = analysis.summary
            found.setdefault(choice.label, []).append(
                Measured(
                    used=100 * each["utilisation_arrivals_mean"],
                    lost=100 * each["lost_work_share"],
                    idle=100 * each["lease_idle_share_mean"],
                    second_order=100 * each["lease_second_order_share_mean"],
                    lent=100 * each["lease_lent_share_mean"],
                    loans=each["loans"],
                    completion=tuple(one.completion_mean_s for one in analysis.fragments.workloads.values()),
                )
            )
    off, on = (_mean(found[f"lending={value}"]) for value in ("off", "on"))
    return off, on


def _mean(each: list[Measured]) -> Measured:
    n = len(each)
    return Measured(
        used=sum(one.used for one in each) / n,
        lost=sum(one.lost for one in each) / n,
        idle=sum(one.idle for one in each) / n,
        second_order=sum(one.second_order for one in each) / n,
        lent=sum(one.lent for one in each) / n,
        loans=sum(one.loans for one in each) / n,
        completion=tuple(sum(times) / n for times in zip(*(one.completion for one in each), strict=True)),
    )


def compared(name: str, off: Measured, on: Measured, *, goals: bool) -> Iterator[Result]:
    """Yield the measures of both, against the goals where these hold."""
    yield Result(f"{name}: cores used, lending off", off.used, "%")
    yield Result(f"{name}: cores used, on", on.used, "%")
    yield Result(f"{name}: cores used, gained", on.used - off.used, "points", 5 if goals else None, at_least=True)
    yield Result(f"{name}: work that is run again, off", off.lost, "%")
    yield Result(f"{name}: work that is run again, on", on.lost, "%", 2 if goals else None)
    worst = max(b / a for a, b in zip(off.completion, on.completion, strict=True))
    best = min(b / a for a, b in zip(off.completion, on.completion, strict=True))
    yield Result(f"{name}: completion time / off, worst framework", worst, "", 1.02 if goals else None)
    yield Result(f"{name}: completion time / off, best framework", best, "")
    yield Result(f"{name}: fragments, off", off.idle, "%")
    yield Result(f"{name}: fragments, on", on.idle, "%", note=f"second order {on.second_order:.2f} %")
    yield Result(f"{name}: lent, on", on.lent, "%", note=f"{on.loans:.0f} loans")


def results() -> Iterator[Result]:
    """Yield the speed of loans, then the simulations, and draw the plot."""
    yield from loans.results()
    panels = []
    for policy in POLICIES:
        used: dict[str, list[float]] = {"lending off": [], "lending on": []}
        for load in LOADS:
            off, on = measured(FRAMEWORKS.format(load=load), policy)
            used["lending off"].append(off.used)
            used["lending on"].append(on.used)
            yield from compared(f"two frameworks, {policy}, load {load}", off, on, goals=load >= GOALS_FROM)
        panels.append(Panel(policy, LOADS, used))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(line_plot(panels, x="load", y="cores used (%)"))
    print(f"written: {PLOT}")
    yield from dags()


def dags() -> Iterator[Result]:
    """Yield the measures of a part of the Alibaba dags, dealt to frameworks."""
    folder = os.environ.get("CRESS_TRACES")
    if not folder:
        print("no traces: set CRESS_TRACES to the folder that holds dag/", file=sys.stderr)
        return
    part = Path("build/alibaba-part.jsonl")
    part.parent.mkdir(exist_ok=True)
    with gzip.open(Path(folder) / DAGS, "rt") as file:
        part.write_text("".join(line for i, line in enumerate(file) if i % EVERY == 0))
    for policy in POLICIES:
        off, on = measured(str(part), policy, seeds=SEEDS[:1], frameworks=DEALT, load=DAG_LOAD)
        yield from compared(f"Alibaba dags, {DEALT} frameworks, {policy}", off, on, goals=False)
