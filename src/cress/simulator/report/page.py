"""The page itself: template, style, script, plotly.js and data in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cress.model.errors import InputError
from cress.model.group import Quota
from cress.simulator.files import whole_file
from cress.simulator.report import figures
from cress.simulator.report.sections import Section, day_section, packing_section
from cress.simulator.request import Request, Result
from cress.simulator.workload import Workload

HERE = Path(__file__).parent

NAMES = {"generated": "Generated workload", "mixed": "Mixed workload"}
MINUTES_FROM = 120  # seconds from which a duration is also given in a larger unit

# (title, [(key, label, kind, better)]): kind is the number format, better the direction of improvement.
SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "Waiting time",
        (
            ("wait_mean_s", "mean", "seconds", "low"),
            ("wait_median_s", "median", "seconds", "low"),
            ("wait_p95_s", "95th percentile", "seconds", "low"),
            ("wait_max_s", "longest", "seconds", "low"),
        ),
    ),
    (
        "Bounded slowdown",
        (
            ("bounded_slowdown_mean", "mean", "number", "low"),
            ("bounded_slowdown_median", "median", "number", "low"),
            ("bounded_slowdown_p95", "95th percentile", "number", "low"),
            ("bounded_slowdown_max", "largest", "number", "low"),
        ),
    ),
    (
        "DAGs",
        (
            ("dags_finished", "dags finished", "count", ""),
            ("dag_makespan_mean_s", "dags, mean from submission to end", "seconds", "low"),
            ("dag_makespan_p95_s", "dags, 95th percentile", "seconds", "low"),
            ("dag_critical_path_mean_s", "dags, mean critical path (the least possible)", "seconds", ""),
            ("dag_stretch_mean", "dags, mean of time / critical path", "number", "low"),
            ("dag_stretch_p95", "dags, 95th percentile of time / critical path", "number", "low"),
        ),
    ),
    (
        "Deadlines",
        (
            ("deadlines", "jobs with a deadline", "count", ""),
            ("deadlines_missed_share", "deadlines missed", "share", "low"),
            ("bounded_slowdown_without_deadline_mean", "bounded slowdown of jobs without deadline", "number", "low"),
        ),
    ),
    (
        "Fragments",
        (
            ("utilisation_arrivals_mean", "cores used until the last submission", "share", "high"),
            ("lease_idle_share_mean", "idle in leases", "share", "low"),
            ("lease_second_order_share_mean", "of these, beside a loan (second order)", "share", "low"),
            ("lease_lent_share_mean", "lent", "share", ""),
            ("loans", "loans", "count", ""),
            ("loans_stopped", "of these, stopped", "count", ""),
            ("loan_work_share", "work on loans", "share", ""),
            ("loan_lost_share", "work on loans that was lost", "share", "low"),
        ),
    ),
    (
        "Use of the cluster",
        (
            ("utilisation_mean", "mean utilisation", "share", "high"),
            ("gpu_allocation_max", "highest allocation of GPUs", "share", "high"),
            ("devices_allocated_mean", "devices allocated until the last submission", "share", "high"),
            ("devices_unusable_mean", "devices idle and unusable meanwhile", "share", "low"),
            ("devices_unusable_of_idle", "of the idle devices, unusable", "share", "low"),
            ("reserved_peak_mean", "cores reserved in the peak of the day", "share", "high"),
            ("used_peak_mean", "cores used in the peak of the day", "share", "high"),
            ("services_short_worst", "task time that the worst service lacked", "share", "low"),
        ),
    ),
    (
        "Groups",
        (
            ("fairness_jain_mean", "fairness (Jain index), mean", "index", "high"),
            ("fairness_jain_min", "fairness, lowest", "index", "high"),
            ("preemptions", "preemptions", "count", ""),
            ("lost_work_share", "work lost", "share", "low"),
        ),
    ),
    (
        "The run",
        (
            ("makespan_s", "first submission to last end", "seconds", "low"),
            ("jobs_finished", "jobs finished", "count", ""),
            ("jobs_killed", "of these, cut at the time limit", "count", ""),
            ("jobs_failed", "jobs failed", "count", ""),
            ("jobs_waiting", "jobs still waiting", "count", ""),
            ("jobs_rejected", "jobs that fit no node", "count", ""),
            ("jobs_cancelled", "jobs cancelled", "count", ""),
            ("jobs_refused", "jobs not accepted", "count", ""),
            ("jobs_left_out", "jobs left out in reading", "count", ""),
            ("events_per_s", "events simulated per second", "count", ""),
        ),
    ),
)


def write_report(
    path: Path, workload: Workload, results: Sequence[Result], request: Request, more: Sequence[Section] = ()
) -> None:
    """Write the page, with ``more`` sections at its head.

    Raise ``InputError`` if plotly is not installed or the file cannot be written.
    """
    script = plotly_script().read_bytes()
    text = (HERE / "page.html").read_text(encoding="utf-8")
    labels = [result.run.label for result in results]
    analyses = [result.analysis for result in results]
    axis = figures.TimeAxis(analyses)
    shares, left_out = figures.group_shares(labels, analyses, axis)
    data = {
        "utilisation": figures.utilisation(labels, analyses, axis),
        "waits": figures.waits(labels, analyses),
        "slowdowns": figures.slowdowns(labels, analyses),
        "groups": shares,
    }
    if _has_deadlines(results):
        data["tightness"] = figures.tightness(labels, analyses)
        data["misses"] = figures.misses_over_time(labels, analyses, axis)
    if _has_fragments(results):
        data["fragments"] = figures.fragments(labels, analyses, axis)
    day = day_section(labels, [analysis.day for analysis in analyses])
    packing = packing_section(
        labels,
        [result.run.history.devices for result in results],
        [result.run.workload.cluster.nodes for result in results],
        axis,
    )
    data["more"] = {
        name: figure
        for section in (*more, day, packing)
        if section is not None
        for name, figure in section.figures.items()
    }
    # "</" inside a script element could end it.
    payload = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    parts: dict[str, str | bytes] = {
        "title": escape(NAMES.get(workload.name, workload.name)),
        "subtitle": escape(_subtitle(workload, results, request)),
        "style": (HERE / "page.css").read_text(encoding="utf-8"),
        "deadlines": (HERE / "deadlines.html").read_text(encoding="utf-8") if _has_deadlines(results) else "",
        "fragments": _fragments(results) if _has_fragments(results) else "",
        "more": "".join(section.html for section in more),
        "day": "" if day is None else day.html,
        "packing": "" if packing is None else packing.html,
        "measures": _measures(results),
        "group_table": _group_table(results),
        "left_out": f"<p class=more>The {left_out} groups with the smallest quotas are in the table only.</p>"
        if left_out
        else "",
        "notes": _notes(results),
        "data": payload,
        "script": (HERE / "page.js").read_text(encoding="utf-8"),
        "plotly": script,
    }
    with whole_file(path) as file:
        # One pass over the template, so that inserted texts are not searched for placeholders.
        for i, piece in enumerate(text.split("@@")):
            content = parts[piece] if i % 2 else piece
            file.write(content if isinstance(content, bytes) else content.encode())


def _has_deadlines(results: Sequence[Result]) -> bool:
    """Return whether some job has a deadline."""
    return any(result.analysis.deadlines.total.having for result in results)


def _has_fragments(results: Sequence[Result]) -> bool:
    """Return whether some workload is named, or some lease had an idle part."""
    return any(result.analysis.fragments is not None for result in results)


def _fragments(results: Sequence[Result]) -> str:
    """Return the section of fragments, with a table of the workloads."""
    rows = [f"<table><thead><tr><th>Mean time from submission to end</th>{_heads(results)}</tr></thead><tbody>"]
    rows += [
        f"<tr><td>{escape(name)}</td>{_cells(times, 'seconds', 'low')}</tr>" for name, times in _completions(results)
    ]
    table = "".join([*rows, "</tbody></table>"]) if len(rows) > 1 else ""
    return (HERE / "fragments.html").read_text(encoding="utf-8").replace("@@workload_table@@", table)


def _completions(results: Sequence[Result]) -> list[tuple[str, list[float]]]:
    """Return, for each named workload, the mean completion time of its applications in each run."""
    found = [result.analysis.fragments for result in results]
    names = sorted({name for figure in found if figure is not None for name in figure.workloads})
    return [
        (name, [figure.workloads[name].completion_mean_s if figure is not None else 0.0 for figure in found])
        for name in names
    ]


def plotly_script() -> Path:
    """Return the path of plotly.js in the plotly package, without the import of the package, which takes a second."""
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("the report needs more packages", hint="pip install 'cress[sim]'")
    return Path(next(iter(spec.submodule_search_locations))) / "package_data" / "plotly.min.js"


def _subtitle(workload: Workload, results: Sequence[Result], request: Request) -> str:
    how = f"simultaneous events {request.events} · {request.estimates} run-time estimates"
    if len({len(result.run.workload.cluster.nodes) for result in results}) > 1:
        return f"{len(workload):,} jobs · {how}"
    workload = results[0].run.workload
    nodes = len(workload.cluster.nodes)
    cores = workload.cluster.total()[0] / 1000
    machine = f"{cores:,.0f} cores" if nodes == 1 else f"{nodes:,} nodes with {cores:,.0f} cores"
    return f"{len(workload):,} jobs on {machine} · {how}"


def _heads(results: Sequence[Result]) -> str:
    return "".join(
        f'<th class="number"><i class="dot p{i % 8}"></i>{escape(result.run.label)}</th>'
        for i, result in enumerate(results)
    )


def _measures(results: Sequence[Result]) -> str:
    rows = [f"<table><thead><tr><th>Measure</th>{_heads(results)}</tr></thead>"]
    for title, lines in _sections(results):
        rows.append(f'<tbody><tr class="section"><th colspan="{len(results) + 1}">{title}</th></tr>')
        for key, label, kind, better in lines:
            values = [float(result.analysis.summary[key]) for result in results]
            rows.append(f"<tr><td>{escape(label)}</td>{_cells(values, kind, better)}</tr>")
            if key == "deadlines_missed_share":
                for name, missed in _missed_by_tightness(results):
                    rows.append(f"<tr><td>{escape(name)}</td>{_cells(missed, kind, better)}</tr>")
        rows.append("</tbody>")
    return "".join([*rows, "</table>"])


def _sections(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Return the sections with one line for each used dimension, without meaningless lines that are 0 in every run."""
    summaries = [result.analysis.summary for result in results]
    quiet = {
        "preemptions",
        "lost_work_share",
        "jobs_killed",
        "jobs_failed",
        "jobs_waiting",
        "jobs_rejected",
        "jobs_cancelled",
        "jobs_refused",
        "jobs_left_out",
        "bounded_slowdown_without_deadline_mean",
    }
    found = []
    for title, lines in SECTIONS:
        known = [line for line in lines if line[0] in summaries[0]]
        shown = [line for line in known if line[0] not in quiet or any(summary[line[0]] for summary in summaries)]
        if title == "Use of the cluster":
            dimensions = list(results[0].analysis.utilisation)
            if len(dimensions) > 1:
                uses = [(f"utilisation_{name}_mean", f"utilisation of {name}", "share", "high") for name in dimensions]
                shown[1:1] = uses
            for name in results[0].run.workload.used:
                key = f"use_{name}_mean"
                if key in summaries[0]:
                    # Beside what is reserved of the same dimension.
                    reserved = (
                        [line[0] for line in shown].index(f"utilisation_{name}_mean") if len(dimensions) > 1 else 0
                    )
                    shown.insert(reserved + 1, (key, f"of it used: {name}", "share", "high"))
        if shown:
            found.append((title, shown))
    return found


def _missed_by_tightness(results: Sequence[Result]) -> list[tuple[str, list[float]]]:
    """Return a line for each degree of tightness of the jobs: its name and the share that each run missed."""
    first = results[0].analysis.deadlines.by_tightness
    return [
        (f"of these, {name}", [result.analysis.deadlines.by_tightness[name].missed_share for result in results])
        for name, count in first.items()
        if count.having
    ]


def _cells(values: list[float], kind: str, better: str) -> str:
    best = {"low": min, "high": max}[better](values) if better and len(set(values)) > 1 else None
    cells = []
    for value in values:
        mark = ' class="number best"' if best is not None and value == best else ' class="number"'
        cells.append(f"<td{mark}>{_written(value, kind)}</td>")
    return "".join(cells)


def _written(value: float, kind: str) -> str:
    if kind == "seconds":
        aside = f" <small>{figures.duration(value)}</small>" if value >= MINUTES_FROM else ""
        return f"{value:,.1f} s{aside}"
    if kind == "share":
        return f"{value:.1%}"
    if kind == "index":
        return f"{value:.3f}"
    if kind == "count":
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def _plain(value: float, kind: str) -> str:
    """Return the text of ``_written`` for a terminal: ``16.3 s``, ``10,781 s (2.99 h)``."""
    if kind == "seconds" and value >= MINUTES_FROM:
        return f"{value:,.0f} s ({figures.duration(value)})"
    return _written(value, kind)


def _group_table(results: Sequence[Result]) -> str:
    names = list(dict.fromkeys(name for result in results for name in result.analysis.group_summary))
    if len(names) < 2:
        return ""
    columns = ["used", "mean wait", *(["missed"] if _has_deadlines(results) else [])]
    spans = "".join(
        f'<th colspan="{len(columns)}" class="number"><i class="dot p{i % 8}"></i>{escape(result.run.label)}</th>'
        for i, result in enumerate(results)
    )
    heads = "".join(f'<th class="number">{column}</th>' for column in columns) * len(results)
    rows = [
        f'<table><thead><tr><th></th><th class="number"></th><th class="number"></th>{spans}</tr>',
        f'<tr><th>Group</th><th class="number">jobs</th><th class="number">quota</th>{heads}</tr></thead><tbody>',
    ]
    summaries = [result.analysis.group_summary for result in results]
    for name in names:
        first = next(summary[name] for summary in summaries if name in summary)
        cells = [f'<td>{escape(name)}</td><td class="number">{first["jobs"]:,.0f}</td>']
        cells.append(f'<td class="number">{", ".join(_quotas(results, name))}</td>')
        for in_run in summaries:
            if name not in in_run:
                cells.append("<td></td>" * len(columns))
                continue
            summary = in_run[name]
            cells.append(f'<td class="number">{summary["used_share_mean"]:.1%}</td>')
            cells.append(f'<td class="number">{figures.duration(summary["wait_mean_s"])}</td>')
            if "missed" in columns:
                cells.append(f'<td class="number">{summary["deadlines_missed_share"]:.1%}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*rows, "</tbody></table>"])


def _quotas(results: Sequence[Result], name: str) -> Iterator[str]:
    """Yield the shares of the quotas that a group has in the files of the runs, each once."""
    seen: list[Quota] = []
    for result in results:
        for group in result.run.groups:
            if group.name == name in result.analysis.group_summary and group.quota not in seen:
                seen.append(group.quota)
                yield f"{result.analysis.group_summary[name]['quota_share']:.1%}"


def _notes(results: Sequence[Result]) -> str:
    by_run: dict[str, list[str]] = {}
    for result in results:
        for sentence in [*result.notes.warnings(len(result.run.workload)), *result.notes.sentences()]:
            by_run.setdefault(sentence, []).append(result.run.label)
    if not by_run:
        return ""
    items = []
    for sentence, labels in by_run.items():
        where = "" if len(labels) == len(results) else f" <small>{escape(', '.join(labels))}</small>"
        items.append(f"<li>{escape(sentence)}{where}</li>")
    return f"<section><h2>Notes on the trace</h2><ul>{''.join(items)}</ul></section>"


def summary_rows(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Return the table of the measures as text for the terminal: label and one cell for each run."""
    rows: list[tuple[str, list[str]]] = []
    for title, lines in _sections(results):
        for key, label, kind, _ in lines:
            summaries: list[dict[str, Any]] = [result.analysis.summary for result in results]
            cells = [_plain(float(summary[key]), kind) for summary in summaries]
            rows.append(
                (f"{title.lower()}, {label}" if title in {"Waiting time", "Bounded slowdown"} else label, cells)
            )
            if key == "loan_lost_share":
                rows += [
                    (f"{name}, mean completion time", [_plain(value, "seconds") for value in times])
                    for name, times in _completions(results)
                ]
            if key == "deadlines_missed_share":
                rows += [
                    (name, [_plain(value, kind) for value in missed]) for name, missed in _missed_by_tightness(results)
                ]
    return rows
