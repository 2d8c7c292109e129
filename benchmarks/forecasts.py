"""How good expected starts are: logs and generated work, simulated, with the forecast of every Nth job that waits.

The interval should hold eight of ten starts. For comparison: the start if every task took its whole time limit, which
is what a plain reservation promises. It also draws the plot of docs/estimates.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.model.times import HOUR
from cress.simulator import run
from cress.simulator.forecasts import Foretelling, measures
from cress.simulator.request import Request

PLOT = Path("build/forecasts.svg")
# Waits are grouped by these shares of the jobs in the plot.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
LEARNED, LIMITS = "expected start", "by time limits"


class Case(NamedTuple):
    """A trace (below the folder of traces, or generated), and every how many waiting jobs gets a forecast."""

    name: str
    trace: str
    every: int
    events: str = "one-by-one"
    policy: str = "BackFill"
    seed: int = 1


CASES = (
    Case("KTH-SP2", "swf/KTH-SP2.swf.gz", 4),
    Case("KTH-SP2, predicted", "swf/KTH-SP2.swf.gz", 8, policy="BackFill/predicted"),
    Case("SDSC-SP2", "swf/SDSC-SP2.swf.gz", 25),
    Case("small-5k", "swf/small-5k.swf.gz", 2),
    Case("five groups", "generated:jobs=1500,nodes=20,groups=5,load=0.95", 1, "together", seed=2),
    Case("five groups, Capacity", "generated:jobs=1500,nodes=20,groups=5,load=0.9", 1, "together", "Capacity", 3),
)


def foretold(case: Case, folder: Path) -> Foretelling:
    """Return the forecasts of a case, with the starts that came."""
    trace = case.trace if case.trace.startswith("generated") else str(folder / case.trace)
    request = Request(
        trace=trace, out=Path("build/forecasts"), policies=(case.policy,), events=case.events, seed=case.seed,
        forecasts=case.every,
    )  # fmt: skip
    plan = run.plan(request)
    found = run.simulate(plan, plan.choices[0]).foretelling
    assert found is not None
    return found


def panel(name: str, watched: Foretelling) -> Panel:
    """Return the mean errors by the wait: five groups of equally many jobs."""
    rows = np.array([
        (watched.started[job] - known.at, known.at + known.interval.likely - watched.started[job],
         known.by_limits - watched.started[job])
        for job, known in watched.foretold.items()
        if job in watched.started and known.by_limits is not None
    ], np.float64) / HOUR  # fmt: skip
    rows = rows[np.argsort(rows[:, 0])]
    parts = np.array_split(np.abs(rows), len(SHARES))
    waits = tuple(round(float(np.median(part[:, 0])), 1) for part in parts)
    lines = {word: [float(part[:, column].mean()) for part in parts] for column, word in ((1, LEARNED), (2, LIMITS))}
    return Panel(name, waits, lines)


def results() -> Iterator[Result]:
    """Yield coverage, width and errors of the forecasts, and draw the plot."""
    folder = os.environ.get("CRESS_TRACES")
    if not folder:
        print("no traces: set CRESS_TRACES to the folder that holds swf/", file=sys.stderr)
        return
    panels = []
    for case in CASES:
        watched = foretold(case, Path(folder))
        found = measures(watched)
        where = f"{found['started']:,.0f} jobs, {case.policy}; mean wait {found['wait_mean_s'] / 3600:.1f} h"
        away = abs(100 * found["inside_share"] - 80)
        inside = f"{case.name}: starts in the interval"
        yield Result(inside, 100 * found["inside_share"], "%", note=f"{where}; {away:.1f} from 80")
        yield Result(f"{case.name}: that share, distance from 80 %", away, "%", 3)
        yield Result(f"{case.name}: width / wait, median", found["width_by_wait_median"], "", note=where)
        plain = found["limits_error_mean_s"] / 60
        yield Result(f"{case.name}: error of the expected start, mean", found["error_mean_s"] / 60, "min", plain)
        yield Result(f"{case.name}: error of the start by time limits, mean", plain, "min", note="for comparison")
        panels.append(panel(case.name, watched))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(line_plot(panels[:4], x="wait (h)", y="mean error (h)"))
    print(f"written: {PLOT}")
