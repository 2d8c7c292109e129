"""``cress simulate``: replay a trace in virtual time."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from cress.cli.common import duration, duration_of
from cress.cli.errors import told
from cress.cli.past_times import log_place, moment_of, span_of
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.past.recorded_log import LogSpan
    from cress.simulator.request import Result
    from cress.simulator.sweep import Sweep


GAP = "  "
# The value of --compare that stands for the groups of an event log itself.
OWN_GROUPS = "groups"
WIDEST = 2**31  # the width of a pipe or file
# Options of openb.
ARRIVE, DAYS, SEEDS = 1.3, 2.0, "42..51"

EPILOG = """\
\b
Examples:
  cress simulate KTH-SP2.swf.gz --policy FIFO --policy BackFill --out results
  cress simulate jobs.csv --cluster cluster.yaml --groups Group.conf --out results
  cress simulate generated:jobs=20000,nodes=300 --seed 7 --out results
  cress simulate /srv/cress --from 2026-11-02 --until 2026-11-03 --policy FIFO --policy BackFill
  cress simulate --history 30d --groups new.conf --compare    the own last month, under other groups
  cress simulate openb --pods PODS.csv --nodes NODES.csv --option node_order=balance --option node_order=fragmentation
  --out results

\b
Exit codes: 0 done, 2 bad input (nothing was simulated), 130 interrupted.
Formats, options and measures: docs/simulate.md, docs/groups.md.
"""


Compare = Annotated[
    str,
    typer.Option(
        metavar="KEY=V1,V2",
        help="Run each policy with each of these values of an option, such as lending=off,on. With the groups of "
        "an event log: `--compare` alone runs its own groups beside --groups.",
    ),
]
# Options for event logs.
History = Annotated[
    str, typer.Option("--history", metavar="DURATION", help="For an event log: only this time until now, such as 30d.")
]
Since = Annotated[str, typer.Option("--from", metavar="TIME", help="For an event log: begin of the time.")]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="For an event log: end of the time.")]
Anonymise = Annotated[bool, typer.Option("--anonymise", help="For an event log: pseudonyms for users, jobs and nodes.")]


class EventOrder(StrEnum):
    """The order of simultaneous events."""

    TOGETHER = "together"
    ONE_BY_ONE = "one-by-one"


class Estimates(StrEnum):
    """The run times with which the scheduler plans."""

    REQUESTED = "requested"
    EXACT = "exact"
    PREDICTED = "predicted"


SchedulerOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the scheduler: grace=30s. Repeatable.")
]
Processes = Annotated[
    int,
    typer.Option(
        min=0,
        max=1024,
        metavar="N",
        help="Maximum number of simulations at once on this machine. 0 = one for each core.",
    ),
]
Dask = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Run the simulations on the workers of a Dask cluster: tcp://HOST:8786, for example."
    ),
]
Attempts = Annotated[bool, typer.Option("--attempts", help="Also write attempts.csv: node and times of each attempt.")]
Forecasts = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help=(
            "Foretell the start of every Nth job that waits when it is submitted, and write forecasts.csv: the "
            "forecasts beside the starts. 0 = none."
        ),
    ),
]


# Options of openb.
Pods = Annotated[Path | None, typer.Option(metavar="FILE", help="For TRACE `openb`: list of pods.")]
NodeList = Annotated[Path | None, typer.Option(metavar="FILE", help="For TRACE `openb`: list of nodes.")]
Arrive = Annotated[
    float,
    typer.Option(min=0.01, max=10, help="For TRACE `openb`: pods arrive until they ask for N times the GPUs."),
]
Online = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=2,
        help=(
            "For TRACE `openb`: pods come and go with the run times of the list, and ask for N times the GPUs at "
            "any time. Default: pods only arrive."
        ),
    ),
]
Days = Annotated[
    float,
    typer.Option(
        min=0.01, max=1000, help="With --online: number of measured days, after a quarter as many for warm-up."
    ),
]
Seeds = Annotated[
    str,
    typer.Option(
        metavar="A..B",
        help="Run everything with each of these seeds: 1..5 or 1,2,7. For generated workloads and --deadlines; "
        f"for TRACE `openb` the default is {SEEDS}.",
    ),
]


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="Event log of a center (its data directory, or .events), log (.swf, .swf.gz), table of jobs (.csv, "
            ".csv.gz, .parquet), job file (.yaml), dags (.jsonl, .jsonl.gz), or generated workload: `generated` or "
            "`generated:jobs=100000,nodes=1213,groups=20,load=0.9`, `frameworks` or `frameworks:count=2,load=1.1`, "
            "`mixed` or `mixed:nodes=40,night=0.5`. With --history the default is the data directory of the center "
            "here.",
        ),
    ] = "",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the results.")] = Path("results"),
    cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Nodes (.yaml, .csv, .csv.gz); required for tables of jobs and job files."),
    ] = None,
    groups: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Groups. Repeatable, to compare. Default: those of the trace."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Policy of every group: FIFO, Priority, Capacity, BackFill, Urgency, EDF; BackFill/conservative, "
            "BackFill/predicted, Capacity/fifo, Urgency/cluster, EDF/strict, EDF/cluster, EDF/groups, "
            "EDF/no-preemption. Repeatable, to compare. Default: the policies of the groups.",
        ),
    ] = None,
    events: Annotated[
        EventOrder,
        typer.Option(help="Take simultaneous events together before a decision, or one by one as batch simulators do."),
    ] = EventOrder.TOGETHER,
    estimates: Annotated[
        Estimates,
        typer.Option(
            help="Run times for planning: requested time limits, exact run times, or predictions from earlier runs."
        ),
    ] = Estimates.REQUESTED,
    deadlines: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help=(
                "Draw deadlines as multiples of the time limit, or with of=run of the run time: "
                "tight=1.1-1.5,normal=1.5-3,loose=3-10,share=0.6. Default: those of the trace."
            ),
        ),
    ] = "",
    load: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10,
            help=(
                "Work as a share of the cluster's capacity: sets the number of nodes if the trace leaves it open, "
                "else scales the times between submissions."
            ),
        ),
    ] = None,
    frameworks: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help=(
                "Distribute the jobs (dags as a whole) over N frameworks: groups with equal quotas, each with a "
                "named workload that keeps leases. 0 = none."
            ),
        ),
    ] = 0,
    compare: Compare = "",
    history: History = "",
    since: Since = "",
    until: Until = "",
    anonymise: Anonymise = False,
    option: SchedulerOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated workload.")] = 1,
    pods: Pods = None,
    nodes: NodeList = None,
    arrive: Arrive = ARRIVE,
    online: Online = None,
    days: Days = DAYS,
    seeds: Seeds = "",
    check: Annotated[bool, typer.Option("--check", help="Check all invariants after every decision (slow).")] = False,
    attempts: Attempts = False,
    forecasts: Forecasts = 0,
    processes: Processes = 0,
    dask: Dask = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Replay a trace in virtual time and compare policies."""
    with told("simulate", "sim", "interrupted; only complete files were left"):
        sweep = sweep_of(processes, dask)
        if trace == "openb":
            others = {
                "--cluster": cluster,
                "--groups": groups,
                "--events": events != EventOrder.TOGETHER,
                "--estimates": estimates != Estimates.REQUESTED,
                "--deadlines": deadlines,
                "--load": load,
                "--frameworks": frameworks,
                "--compare": compare,
                "--seed": seed != 1,
                "--check": check,
                "--attempts": attempts,
                "--forecasts": forecasts,
            }
            _refuse(others | {"--policy": policy and online is None})
            if online is None and days != DAYS:
                raise InputError("has no effect without --online", hint="--online 0.95", field="--days")
            if online is not None and arrive != ARRIVE:
                raise InputError("cannot be combined with --online", hint="only one of them", field="--arrive")
            lists = (pods, nodes, out)
            seeds = seeds or SEEDS
            if online is None:
                _pack(*lists, sweep, arrive=arrive, seeds=seeds, options=tuple(option or ()), as_json=as_json)
            else:
                _stream(*lists, sweep, online, days, seeds, tuple(option or ()), tuple(policy or ()), as_json=as_json)
            return
        if online is not None:
            raise InputError("applies only to openb", hint="cress simulate openb --online 0.95", field="--online")
        _refuse_of_openb(
            {
                "--pods": pods,
                "--nodes": nodes,
                "--arrive": arrive != ARRIVE,
                "--days": days != DAYS,
            }
        )
        from cress.simulator import run
        from cress.simulator.garbage import rare_collections
        from cress.simulator.request import Request
        from cress.simulator.seeds import seeds_of

        request = Request(
            trace=_trace(trace, history),
            out=out,
            cluster=cluster,
            policies=tuple(policy or ()),
            options=tuple(option or ()),
            events=events.value,
            estimates=estimates.value,
            deadlines=deadlines,
            load=load,
            frameworks=frameworks,
            compare="" if compare == OWN_GROUPS else compare,
            seed=seed,
            check=check,
            attempts=attempts,
            forecasts=forecasts,
            span=_span(history, since, until, anonymise=anonymise),
        )
        with rare_collections():
            own = compare == OWN_GROUPS
            if seeds:
                if seed != 1:
                    raise InputError("cannot be combined with --seeds", hint="only one of them", field="--seed")
                plans = run.with_seeds(request, groups or [], seeds_of(seeds), own=own)
            else:
                plans = run.plans(request, groups or [], own=own)
            with runs_progress() as progress:
                planned = run.run_all(plans, progress, sweep)
        results = [result for result, _ in planned]
        if as_json:
            print(json.dumps([run.summary(result, plan) for result, plan in planned], indent=2))
        else:
            _show(results, out, waits=request.span is not None)
        for sentence in run_notes(results):
            typer.echo(sentence, err=True)


class Comparing(TyperCommand):
    """The verb, whose option ``--compare`` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give ``--compare`` its value, if it has none."""
        known = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        given: list[str] = []
        for i, word in enumerate(args):
            given.append(word)
            if word == "--compare" and (i + 1 == len(args) or args[i + 1].partition("=")[0] in known):
                given.append(OWN_GROUPS)
        return super().parse_args(ctx, given)


def sweep_of(processes: int, dask: str) -> Sweep:
    """Return where the simulations run: on the cores of this machine, or on a Dask cluster."""
    if not dask:
        from cress.simulator.sweep import LocalSweep

        return LocalSweep(processes)
    if processes:
        raise InputError("cannot be combined with --dask", hint="only one of them", field="--processes")
    from cress.simulator.dask_sweep import DaskSweep

    return DaskSweep(dask)


def _trace(trace: str, history: str) -> str:
    """Return the trace; with ``--history`` it is by default the data directory of the center here."""
    if trace or not history:
        if not trace:
            raise InputError("is missing", hint="see: cress simulate -h", field="TRACE")
        return trace
    return str(log_place(None))


def _span(history: str, since: str, until: str, *, anonymise: bool) -> LogSpan | None:
    """Return the part of an event log that the options name; ``None`` if there are none."""
    if not (history or since or until or anonymise):
        return None
    if history and (since or until):
        raise InputError("cannot be combined with --from and --until", hint="only one of them", field="--history")
    from cress.past.recorded_log import LogSpan

    if history:
        duration_of(history, "--history")
        return LogSpan(moment_of(history, "--history"), None, anonymise)
    first, last = span_of(since, until)
    return LogSpan(first, last, anonymise)


def _show_waits(results: Sequence[Result]) -> None:
    """Print the waits of each group, side by side."""
    rows = []
    for name in dict.fromkeys(name for result in results for name in result.analysis.group_summary):
        cells = [result.analysis.group_summary.get(name, {}) for result in results]
        waits = [cell.get("wait_mean_s") for cell in cells]
        rows.append((f"wait of {name}", ["-" if wait is None else duration(wait) for wait in waits]))
    print()
    print_runs([result.run.label for result in results], rows)


def _refuse(given: dict[str, object]) -> None:
    """Refuse the given options that the trace ``openb`` does not take."""
    hints = {
        "--policy": "nothing waits there, so the policy changes nothing; with --online pods wait",
        "--cluster": "--nodes FILE",
        "--compare": "--option node_order=balance --option node_order=fragmentation",
        "--load": "--arrive 1.3, or --online 0.95",
        "--seed": "--seeds 42..51",
    }
    for name, value in given.items():
        if value:
            raise InputError(
                "does not apply to the trace openb", hint=hints.get(name, "see docs/packing.md"), field=name
            )


def _refuse_of_openb(given: dict[str, object]) -> None:
    """Refuse the options of the trace ``openb`` that were given with another trace."""
    hints = {"--nodes": "--cluster FILE"}
    for name, value in given.items():
        if value:
            raise InputError("applies only to the trace openb", hint=hints.get(name, "see docs/packing.md"), field=name)


def _pack(
    pods: Path | None,
    nodes: Path | None,
    out: Path,
    sweep: Sweep,
    *,
    arrive: float,
    seeds: str,
    options: Sequence[str],
    as_json: bool,
) -> None:
    """Compare orders of nodes by the GPUs that they allocate, on an empty cluster that fills up."""
    from cress.simulator.packing.command import simulate_packing, table

    with runs_progress() as progress:
        summary = simulate_packing(
            pods, nodes, out, arrive=arrive, seeds=seeds, options=options, tell=progress, sweep=sweep
        )
    _show_orders(summary, table(summary), out, as_json=as_json)


def _stream(
    pods: Path | None, nodes: Path | None, out: Path, sweep: Sweep, load: float, days: float, seeds: str,
    options: Sequence[str], policies: Sequence[str], *, as_json: bool,
) -> None:  # fmt: skip
    """Compare orders of nodes by waiting times, on a full cluster where pods come and go."""
    from cress.simulator.packing.online import simulate_online, table

    with runs_progress() as progress:
        summary = simulate_online(
            pods, nodes, out, load=load, days=days, seeds=seeds, options=options, policies=policies, tell=progress,
            sweep=sweep,
        )  # fmt: skip
    _show_orders(summary, table(summary), out, as_json=as_json)


def _show_orders(summary: dict[str, Any], rows: Sequence[Sequence[str]], out: Path, *, as_json: bool) -> None:
    """Print the comparison of orders, as a table or as JSON."""
    if as_json:
        print(json.dumps(summary, indent=2))
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *rest in rows:
        cells = "".join(GAP + cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print(first.ljust(widths[0]) + cells)
    print(f"\nReport: {out / 'report.html'}")


@contextmanager
def runs_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a progress bar on standard error if that is a terminal, otherwise ``None``."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    # Where simulations follow each other, each bar replaces the previous one.
    current: tuple[str, TaskID] | None = None

    def show(label: str, done: int, total: int) -> None:
        nonlocal current
        if current is None:
            bar.start()
        if current is None or current[0] != label:
            if current is not None:
                bar.remove_task(current[1])
            current = (label, bar.add_task(label, total=total))
        bar.update(current[1], completed=done)

    try:
        yield show
    finally:
        bar.stop()


def _show(results: Sequence[Result], out: Path, *, waits: bool = False) -> None:
    """Print the measures as a table; ``waits``: those of each group too, if there are several runs."""
    from cress.simulator.report.page import summary_rows

    print_runs([result.run.label for result in results], summary_rows(results))
    print(f"Report: {out / 'report.html'}")
    if waits and len(results) > 1:
        _show_waits(results)


def print_runs(labels: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Print a table with a column for each run, in several parts if the terminal is too narrow."""
    terminal = sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if terminal else WIDEST
    bold = terminal and not os.environ.get("NO_COLOR")
    first = max(len(label) for label, _ in rows)
    columns = [[label, *(cells[i] for _, cells in rows)] for i, label in enumerate(labels)]
    widths = [max(map(len, column)) for column in columns]
    for part in _parts(widths, room - first):
        for line, label in enumerate(["", *(label for label, _ in rows)]):
            text = (label.ljust(first) + "".join(GAP + columns[i][line].rjust(widths[i]) for i in part)).rstrip()
            print(f"\x1b[1m{text}\x1b[0m" if bold and not line else text)
        print()


def _parts(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the columns that fit side by side in ``room`` characters, at least one each time."""
    part: list[int] = []
    left = room
    for i, width in enumerate(widths):
        left -= len(GAP) + width
        if part and left < 0:
            yield part
            part, left = [], room - len(GAP) - width
        part.append(i)
    yield part


def run_notes(results: Sequence[Result]) -> list[str]:
    """Return each note once, with its runs if it does not apply to all.

    Warnings about jobs that are missing from the figures are last.
    """
    found: dict[str, list[str]] = {}
    warnings: dict[str, list[str]] = {}
    for result in results:
        label = result.run.label
        for sentence in result.notes.sentences():
            found.setdefault(f"note: {sentence}", []).append(label)
        for warning in result.notes.warnings(len(result.run.workload)):
            warnings.setdefault(f"warning: {warning}", []).append(label)
    return [
        sentence + ("" if len(labels) == len(results) else f" ({', '.join(labels)})")
        for sentence, labels in (found | warnings).items()
    ]
