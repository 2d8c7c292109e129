"""Tables of waits by group: what would have happened under other groups, policies or options, beside what did."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cress.cli.common import duration
from cress.cli.simulate import print_runs, run_notes, runs_progress

if TYPE_CHECKING:
    from cress.past.recorded_log import RecordedLog
    from cress.simulator.request import Result

RECORDED = "recorded"


def show_beside(
    log: RecordedLog,
    since: int,
    until: int | None,
    groups: Sequence[Path],
    policies: tuple[str, ...],
    options: tuple[str, ...],
    out: Path | None,
) -> None:
    """Simulate the jobs of a log with changes, and print the waits beside those that the log has."""
    from cress.past.recorded_log import LogSpan
    from cress.past.recorded_waits import ALL, waits_of
    from cress.past.recorded_work import recorded_work
    from cress.simulator import run
    from cress.simulator.request import Request

    happened = waits_of(recorded_work(log, since, until))
    with tempfile.TemporaryDirectory(prefix="cress-replay-") as place:
        request = Request(
            trace=str(log.path),
            out=out or Path(place),
            policies=policies,
            options=options,
            span=LogSpan(since, until),
        )
        plans = run.plans(request, groups)
        with runs_progress() as progress:
            results = [result for result, _ in run.run_all(plans, progress)]
    labels = [_label(result, groups, options) for result in results]
    rows: list[tuple[str, list[str]]] = []
    for name in dict.fromkeys((*happened, *(name for result in results for name in result.analysis.group_summary))):
        waits = happened.get(name)
        if name == ALL:
            whole = [result.analysis.summary for result in results]
            assert waits is not None
            rows.append(("jobs", [f"{waits.jobs:,}", *(f"{one['jobs']:,}" for one in whole)]))
            if waits.started < waits.jobs:
                # The log ends before they started, and the simulation goes on.
                started = [str(int(result.analysis.times.waited.sum())) for result in results]
                rows.append(("jobs with a wait", [f"{waits.started:,}", *started]))
            rows.append(("wait, mean", [_time(waits.mean), *(_time(one["wait_mean_s"]) for one in whole)]))
            rows.append(("wait, 95th percentile", [_time(waits.p95), *(_time(one["wait_p95_s"]) for one in whole)]))
            rows.append(("wait, longest", [_time(waits.longest), *(_time(one["wait_max_s"]) for one in whole)]))
            rows.append(("preemptions", [f"{waits.preemptions:,}", *(f"{one['preemptions']:,}" for one in whole)]))
            continue
        parts = [result.analysis.group_summary.get(name, {}) for result in results]
        cells = [_time(part.get("wait_mean_s")) for part in parts]
        rows.append((f"wait of {name}, mean", [_time(None if waits is None else waits.mean), *cells]))
    print_runs([RECORDED, *labels], rows)
    if out is not None:
        print(f"Report: {out / 'report.html'}")
    if happened[ALL].started < happened[ALL].jobs:
        print("The recorded waits leave out jobs that had not started when the log ends; the simulated ones have them.")
    for sentence in run_notes(results):
        typer.echo(sentence, err=True)


def _label(result: Result, groups: Sequence[Path], options: tuple[str, ...]) -> str:
    """Return the heading of a run: its label, with the file of groups or the options if the label does not say them."""
    label = result.run.label
    if len(groups) == 1:
        label = groups[0].stem if label == "configured" else f"{groups[0].stem} {label}"
    return " ".join((label, *options))


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
