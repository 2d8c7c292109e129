"""The output of a sizing: the table, ``size.json``, the tables of the found clusters and the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cress.model.times import DAY, SECOND
from cress.simulator.day_measures import HOURS, PEAK_HOURS, window
from cress.simulator.files import make_directory, whole_file
from cress.simulator.report import write_report
from cress.simulator.report.figures import duration
from cress.simulator.report.sizes import section
from cress.simulator.request import Result
from cress.simulator.run import write_result
from cress.simulator.sizing.criteria import peak_of
from cress.simulator.sizing.request import Comparison, Sized, SizePlan

Rows = list[tuple[str, list[str]]]


def as_data(found: SizePlan, compared: Sequence[Comparison]) -> dict[str, Any]:
    """Return the content of ``size.json``."""
    criteria = found.request.criteria
    return {
        "trace": found.plan.workload.name,
        "seed": found.plan.request.seed,
        "unit": found.scaling.unit,
        "given": found.scaling.given,
        "criteria": {
            "wait_p95_s": None if criteria.wait_p95 is None else criteria.wait_p95 / SECOND,
            "deadlines_missed_share": criteria.missed,
            "services_short_worst": criteria.short,
        },
        "policies": [_policy(comparison) for comparison in compared],
    }


def _policy(comparison: Comparison) -> dict[str, Any]:
    data: dict[str, Any] = {"policy": comparison.shared.policy, **_sized(comparison.shared)}
    if comparison.separate is not None:
        data["separate"] = {
            "size": comparison.separate_size,
            "fewer_share": comparison.fewer,
            "parts": {subset.subset: _sized(subset) for subset in comparison.subsets},
            "day": peak_of(comparison.separate),
        }
    return data


def _sized(sized: Sized) -> dict[str, Any]:
    return {
        "size": sized.size,
        "kinds": sized.kinds,
        **sized.figures.as_data(),
        "day": peak_of(sized.result),
        "trials": [trial.as_data() for trial in sized.trials],
    }


def results_of(compared: Sequence[Comparison]) -> list[Result]:
    """Return the separate and the shared cluster of each policy, in the order of the columns of the table."""
    return [result for one in compared for result in (one.separate, one.shared.result) if result is not None]


def rows_of(found: SizePlan, compared: Sequence[Comparison]) -> tuple[list[str], Rows]:
    """Return the table: the heads of its columns, and its rows."""
    unit, criteria = found.scaling.unit, found.request.criteria
    results = results_of(compared)
    days = [peak_of(result) for result in results]
    is_separate = [result is one.separate for one in compared for result in (one.separate, one.shared.result) if result]
    owners = [one for one in compared for result in (one.separate, one.shared.result) if result is not None]
    pairs = list(zip(owners, is_separate, strict=True))
    labels = [result.run.label for result in results]
    # If one kind varies, the size counts only that kind.
    rows: Rows = [
        (unit, [f"{one.separate_size if apart else sum(one.shared.kinds.values()):,}" for one, apart in pairs])
    ]
    for name in found.scaling.counts(found.scaling.given):
        if len(found.scaling.counts(found.scaling.given)) > 1:
            rows.append((f"of these, {name}", [f"{_kinds(one, apart, name):,}" for one, apart in pairs]))
    for i, subset in enumerate(found.subsets):
        rows.append((f"{unit} of {subset.name}", [f"{one.subsets[i].size:,}" if apart else "" for one, apart in pairs]))
    if found.subsets:
        rows.append((f"fewer {unit} than separate", ["" if apart else f"{one.fewer:.1%}" for one, apart in pairs]))
    figures = [[subset.figures for subset in one.subsets] if apart else [one.shared.figures] for one, apart in pairs]
    longest = "waiting time, 95th percentile" + (", longest of them" if found.subsets else "")
    rows.append((longest, [_time(max(figure.wait_p95 for figure in some)) for some in figures]))
    if criteria.missed is not None:
        rows.append(("deadlines missed", [f"{max(figure.missed for figure in some):.2%}" for some in figures]))
    if any("services_short_worst" in day for day in days):
        rows.append(
            (
                "task time that the worst service lacked",
                [f"{max(figure.short for figure in some):.3%}" for some in figures],
            )
        )
    rows += _day_rows(found, days)
    lost = [result.analysis.summary["lost_work_share"] for result in results]
    if any(lost):
        rows.append(("work that was run again", [f"{share:.2%}" for share in lost]))
    tried = [
        sum(len(subset.trials) for subset in one.subsets) if apart else len(one.shared.trials) for one, apart in pairs
    ]
    rows.append(("simulations", [f"{count:,}" for count in tried]))
    return labels, rows


def _day_rows(found: SizePlan, days: Sequence[dict[str, float]]) -> Rows:
    """Return the use of the clusters, with the peak if the trace is at least a day long."""
    workload = found.plan.workload
    start, end = window(workload)
    hour = int(days[0]["peak_from_h"])
    peak = f"{hour:02d}:00-{(hour + PEAK_HOURS) % HOURS:02d}:00"
    words = ("reserved", "used") if "cpu" in workload.used else ("reserved",)
    rows: Rows = []
    if end - start >= DAY:
        rows += [
            (f"cores {word} in the peak, {peak}", [f"{day[f'{word}_peak_mean']:.1%}" for day in days]) for word in words
        ]
    over = " over the day" if rows else ""
    return rows + [(f"cores {word}{over}", [f"{day[f'{word}_day_mean']:.1%}" for day in days]) for word in words]


def _kinds(one: Comparison, apart: bool, name: str) -> int:
    return sum(subset.kinds[name] for subset in one.subsets) if apart else one.shared.kinds[name]


def _time(value: int) -> str:
    return duration(value / SECOND)


def write_all(found: SizePlan, compared: Sequence[Comparison]) -> None:
    """Write ``size.json``, the tables of each found cluster, and ``report.html``. Raise ``InputError``."""
    out = found.plan.request.out
    make_directory(out)
    results = results_of(compared)
    for result in results:
        write_result(result, found.plan)
    with whole_file(out / "size.json") as file:
        file.write((json.dumps(as_data(found, compared), indent=2) + "\n").encode())
    more = (section(found, compared, rows_of(found, compared)),)
    write_report(out / "report.html", found.plan.workload, results, found.plan.request, more)
