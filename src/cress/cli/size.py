"""``cress size``: how many nodes a trace needs, found by simulations."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.errors import told
from cress.cli.simulate import Estimates, EventOrder, print_runs, run_notes, runs_progress

EPILOG = """\
\b
Examples:
  cress size KTH-SP2.swf.gz --wait-p95 10min --policy FIFO --policy BackFill
  cress size jobs.csv --cluster cluster.yaml --groups Group.conf --wait-p95 5min --vary gpu
  cress size jobs.yaml --node-resource '<32, 128G>' --deadlines-missed 1% --json
  cress size mixed --separate group --out results

\b
Exit codes: 0 done, 2 bad input (a mistake, or no number of nodes is enough), 130 interrupted.
Criteria, search and figures: docs/mixed.md.
"""


class Separate(StrEnum):
    """The jobs that get clusters of their own, for comparison."""

    NONE = ""
    GROUP = "group"
    TYPE = "type"


def size(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="As for `cress simulate`.")],
    wait_p95: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help=(
                "The 95th percentile of the waiting times, at most: 10min. Default: 10min unless "
                "--deadlines-missed is given."
            ),
        ),
    ] = "",
    deadlines_missed: Annotated[
        str, typer.Option(metavar="SHARE", help="The share of the deadlines that may be missed: 1%.")
    ] = "",
    services_short: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="The share of the task time that a service or database wants and may lack: 0.1%."
        ),
    ] = "0.1%",
    cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Nodes whose kinds are taken, in proportion (.yaml, .csv, .csv.gz)."),
    ] = None,
    node_resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="One kind of nodes, as <cpu, memory, network, disk>.")
    ] = "",
    vary: Annotated[
        str,
        typer.Option(metavar="KIND", help="Only this kind of the nodes of --cluster varies: gpu for gpu-1, gpu-2, …"),
    ] = "",
    separate: Annotated[
        Separate,
        typer.Option(
            help=(
                "Compare the shared cluster with one for each group, or for each type of jobs. Waits count for "
                "each of them."
            )
        ),
    ] = Separate.NONE,
    groups: Annotated[Path | None, typer.Option(metavar="FILE", help="The groups, as in Group.conf.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Policy of every group, as for `cress simulate`. Give several to compare."),
    ] = None,
    events: Annotated[EventOrder, typer.Option(help="As for `cress simulate`.")] = EventOrder.TOGETHER,
    estimates: Annotated[Estimates, typer.Option(help="As for `cress simulate`.")] = Estimates.REQUESTED,
    deadlines: Annotated[
        str, typer.Option(metavar="SPEC", help="Draw deadlines, as for `cress simulate`: tight=1.1-1.5,share=0.6.")
    ] = "",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set an option of the scheduler, such as grace=30s.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated workload.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write report.html, size.json and the tables of the found clusters there."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print size.json.")] = False,
) -> None:
    """Find how many nodes are enough for a trace."""
    with told("size", "sim", "interrupted; nothing was written"):
        from cress.simulator.request import Request
        from cress.simulator.sizing import size as sizing
        from cress.simulator.sizing.output import as_data, rows_of, write_all
        from cress.simulator.sizing.request import SizeRequest

        request = SizeRequest(
            run=Request(
                trace=trace,
                out=out or Path(),
                cluster=cluster,
                groups=groups,
                policies=tuple(policy or ()),
                options=tuple(option or ()),
                events=events.value,
                estimates=estimates.value,
                deadlines=deadlines,
                seed=seed,
            ),
            criteria=sizing.read_criteria(wait_p95, deadlines_missed, services_short),
            node_resource=node_resource,
            vary=vary,
            separate=separate.value,
        )
        plan = sizing.plan(request)
        with runs_progress() as progress:
            compared = sizing.size_all(plan, progress)
        if out is not None:
            write_all(plan, compared)
        if as_json:
            print(json.dumps(as_data(plan, compared), indent=2))
        else:
            labels, rows = rows_of(plan, compared)
            print_runs(labels, rows)
            if out is not None:
                print(f"Report: {out / 'report.html'}")
        for sentence in run_notes([comparison.shared.result for comparison in compared]):
            typer.echo(sentence, err=True)
