"""``cress size``: the number of nodes that a trace needs, found by simulations."""

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
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Trace, as for `cress simulate`.")],
    wait_p95: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help=(
                "Longest allowed 95th percentile of the waiting times, such as 10min. Default: 10min unless "
                "--deadlines-missed is given."
            ),
        ),
    ] = "",
    deadlines_missed: Annotated[
        str, typer.Option(metavar="SHARE", help="Share of the deadlines that may be missed, such as 1%.")
    ] = "",
    services_short: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Share of its wanted task time that a service or database may lack."),
    ] = "0.1%",
    cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Nodes that give the kinds and their proportions (.yaml, .csv, .csv.gz)."),
    ] = None,
    node_resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="Use one kind of nodes: <cpu, memory, network, disk>.")
    ] = "",
    vary: Annotated[
        str,
        typer.Option(metavar="KIND", help="Vary only this kind of the nodes of --cluster: gpu for gpu-1, gpu-2, …"),
    ] = "",
    separate: Annotated[
        Separate,
        typer.Option(
            help=(
                "Compare the shared cluster with one cluster for each group, or for each type of jobs. Each must meet "
                "the limit on waits."
            )
        ),
    ] = Separate.NONE,
    groups: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Groups, as in Group.conf. Default: those of the trace.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Policy of every group, as for `cress simulate`. Repeatable, to compare."),
    ] = None,
    events: Annotated[EventOrder, typer.Option(help="As for `cress simulate`.")] = EventOrder.TOGETHER,
    estimates: Annotated[Estimates, typer.Option(help="As for `cress simulate`.")] = Estimates.REQUESTED,
    deadlines: Annotated[
        str, typer.Option(metavar="SPEC", help="Draw deadlines, as for `cress simulate`: tight=1.1-1.5,share=0.6.")
    ] = "",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the scheduler: grace=30s. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated workload.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Directory for report.html, size.json and tables of the clusters found."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print size.json.")] = False,
) -> None:
    """Find the number of nodes that a trace needs."""
    with told("size", "sim", "interrupted; nothing was written"):
        from cress.simulator.garbage import rare_collections
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
        with rare_collections(), runs_progress() as progress:
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
