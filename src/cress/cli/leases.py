"""``cress leases``: leases of workloads, their users and their borrowers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, count, moment, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, clean, show, state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cress.client import LeasesPage, LeaseTask, LeaseView, WorkloadView

EPILOG = """\
\b
Examples:
  cress leases                                 all leases (the same: cress leases list)
  cress leases --workload dask
  cress leases workloads                       what each workload holds in all
  cress leases watch --workload dask           a line for each change, until Ctrl-C
  cress leases request --workload dask --resource '<4, 16G>' --count 10 -- dask worker tcp://head:8786
  cress leases use 12.0 '<1, 4G>'              report the holder's own use; the rest is idle
  cress leases grow 12 --count 5
  cress leases shrink 12 --count 5
  cress leases renew 12                        renew the leases of the holder
  cress leases release 12.0                    return one lease; all of the request: cress leases release 12

\b
A held lease is named JOB.TASK after the job that holds it. A lease that the center keeps for a workload is @ATTEMPT.
TASKS are tasks of the workload that run in it; LENT TO are borrowing tasks of other workloads, each with its resources.
Columns: lease, state, workload, group, user, node, holds, uses, idle, tasks, lent-to, ends, reason; a narrow terminal
leaves some out. Exit codes: 0 done, 2 bad input (nothing was changed), 3 not accepted, or no center reachable.
"""

COLUMNS = (
    TableColumn("LEASE"),
    TableColumn("STATE"),
    TableColumn("WORKLOAD", gives=True),
    TableColumn("GROUP", gives=True, hides=2),
    TableColumn("USER", gives=True, hides=5),
    TableColumn("NODE", gives=True),
    TableColumn("HOLDS"),
    TableColumn("USES"),
    TableColumn("IDLE"),
    TableColumn("TASKS", gives=True),
    TableColumn("LENT TO", gives=True),
    TableColumn("ENDS", hides=4),
    TableColumn("REASON", gives=True, hides=3),
)
WORKLOAD_COLUMNS = (
    TableColumn("WORKLOAD", gives=True),
    TableColumn("GROUP", gives=True),
    TableColumn("LEASES"),
    TableColumn("WAITING"),
    TableColumn("HOLDS"),
    TableColumn("USES"),
    TableColumn("IDLE"),
    TableColumn("TASKS"),
    TableColumn("LENT"),
    TableColumn("BORROWS"),
    TableColumn("NODES", hides=2),
)
# Most tasks listed in one cell.
MOST_SHOWN = 5

Lease = Annotated[str, typer.Argument(metavar="LEASE", help="JOB.TASK, or JOB for all leases of a request.")]
Request = Annotated[str, typer.Argument(metavar="JOB", help="Job of the request.")]
Count = Annotated[int, typer.Option(metavar="N", min=1, help="Number of leases.")]

app = typer.Typer(
    cls=WithDefault,
    help="List leases of workloads, request them, or return them.",
    epilog=EPILOG,
    rich_markup_mode=None,
)


@app.command("list")
def leases(
    workload: Annotated[str, typer.Option(metavar="NAME", help="Only leases of this workload.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only leases of this group.")] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List leases with their holders, their use and their borrowers."""
    with told("leases"):
        with connect(data) as client:
            page = client.leases(workload, group)
            found = list(page.leases)
            while page.next is not None:
                page = client.leases(workload, group, page.next)
                found += page.leases
        if as_json:
            from cress.client import LeasesPage

            print_json(LeasesPage(leases=tuple(found)))
            return
        if not found:
            print("there are no leases")
            return
        show(COLUMNS, [row(lease) for lease in found], selection_of(columns, wide=wide))
        print(_sums(found))


@app.command("workloads")
def workloads(
    workload: Annotated[str, typer.Option(metavar="NAME", help="Only this workload.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only workloads of this group.")] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show what each workload holds in all, and what its tasks borrow."""
    with told("leases workloads"):
        from cress.client.blocking.client import Client

        with Client(data=data) as client:
            found = client.leases.workloads(workload=workload, group=group)
        if as_json:
            from cress.client import WorkloadsPage

            print_json(WorkloadsPage(workloads=tuple(found)))
            return
        if not found:
            print("no workload holds anything")
            return
        show(WORKLOAD_COLUMNS, [workload_row(view) for view in found], selection_of(columns, wide=wide))


@app.command("request", context_settings={"allow_interspersed_args": False})
def request(
    workload: Annotated[str, typer.Option(metavar="NAME", help="Framework whose tasks run in the leases.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Program of the framework to run in each lease. Default: none."),
    ] = None,
    count: Count = 1,
    resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="Resources of each lease. Default: '<1, 512M>'.")
    ] = "",
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="Group that is charged. Default: the group `default`.")
    ] = "",
    gang: Annotated[bool, typer.Option("--gang", help="Get all leases at once, or none.")] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR", help="Condition on the node; all given ones must hold. Repeatable."),
    ] = None,
    uses: Annotated[
        str,
        typer.Option(
            metavar="RESOURCE",
            help="Resources that the holder uses at first. Default: all with a COMMAND, else nothing.",
        ),
    ] = "",
    min_time: Annotated[
        str, typer.Option(metavar="DURATION", help="Time without preemption, such as 10min. Default: none.")
    ] = "",
    term: Annotated[str, typer.Option(metavar="DURATION", help="Lifetime without a renewal. Default: 1min.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Ask for leases for a workload."""
    with told("leases request"):
        from cress.client.lease_keywords import body_of

        given = {
            "workload": workload,
            "command": command or None,
            "count": count,
            "resource": resource or None,
            "group": group or None,
            "gang": gang or None,
            "requirement": require or None,
            "uses": uses or None,
            "min_time": min_time or None,
            "term": term or None,
        }
        with connect(data) as client:
            page = client.request_leases(body_of(given))
        _answer(page, as_json)
        if page.note and not as_json:
            print(clean(page.note))


@app.command("watch")
def watch(
    lease: Annotated[str, typer.Argument(metavar="[LEASE]", help="JOB.TASK, or JOB for all leases of a request.")] = "",
    workload: Annotated[str, typer.Option(metavar="NAME", help="Only leases of this workload.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only leases of this group.")] = "",
    data: Data = None,
) -> None:
    """Show the leases, then each change, until the leases of LEASE have ended. Renews nothing."""
    with told("leases watch"):
        from cress.client.blocking.client import Client

        with Client(data=data) as client:
            for change in client.leases.watch(lease, workload=workload, group=group, renews=False):
                print(_line(change), flush=True)


@app.command("use")
def use(
    lease: Lease,
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="Resources that the holder itself uses.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Report the resources that the holder of a lease uses itself; the rest is idle."""
    with told("leases use"):
        with connect(data) as client:
            page = client.use_lease(lease, resource)
        _answer(page, as_json)


@app.command("grow")
def grow(lease: Request, count: Count = 1, as_json: Json = False, data: Data = None) -> None:
    """Ask for more leases of the same kind, as a new request."""
    with told("leases grow"):
        with connect(data) as client:
            page = client.grow_lease(lease, count)
        _answer(page, as_json)


@app.command("shrink")
def shrink(lease: Request, count: Count = 1, as_json: Json = False, data: Data = None) -> None:
    """Return some held leases of a request, idle and young ones first."""
    with told("leases shrink"):
        with connect(data) as client:
            page = client.shrink_lease(lease, count)
        _answer(page, as_json)


@app.command("renew")
def renew(lease: Lease, as_json: Json = False, data: Data = None) -> None:
    """Renew your leases of that workload: their terms start again."""
    with told("leases renew"):
        with connect(data) as client:
            page = client.renew_lease(lease)
        _answer(page, as_json)


@app.command("release")
def release(lease: Lease, as_json: Json = False, data: Data = None) -> None:
    """Give a lease back, or all leases of a request."""
    with told("leases release"):
        with connect(data) as client:
            page = client.release_lease(lease)
        _answer(page, as_json)
        if not page.leases and not as_json:
            print(f"lease {clean(lease)} has ended")


def _answer(page: LeasesPage, as_json: bool) -> None:
    if as_json:
        print_json(page)
    for lease in () if as_json else page.leases:
        number = f" ({lease.count:,})" if lease.count > 1 else ""
        where = f" on {clean(lease.node)}" if lease.node else ""
        print(f"lease {lease.id}{number} is {lease.state}{where}")


def _line(view: LeaseView) -> str:
    """Return a line such as ``lease 12.0 of dask on n1 is held: uses cpu 1; idle cpu 3; lent to 14.0 (cpu 2)``."""
    number = f" ({view.count:,})" if view.count > 1 else ""
    where = f" on {clean(view.node)}" if view.node and view.state not in ("waiting", "over") else ""
    parts = [clean(view.reason)] if view.reason and view.state != "over" else []
    if where:
        given = (("uses", _uses(view)), ("idle", amounts(view.idle)), ("tasks", _tasks(view.tasks)))
        parts += [f"{name} {text}" for name, text in (*given, ("lent to", _tasks(view.lent))) if text != "-"]
    ends = [f"ends {moment(view.stops_at)}"] if view.state == "stopping" and view.stops_at else []
    told = f": {'; '.join([*parts, *ends])}" if parts or ends else ""
    return f"lease {view.id}{number} of {clean(view.workload)}{where} is {view.state}{told}"


def row(view: LeaseView) -> list[Cell]:
    """Return the cells of a lease."""
    return [
        f"{view.id} ×{view.count:,}" if view.count > 1 else view.id,
        state(view.state),
        clean(view.workload),
        clean(view.group),
        clean(view.user) or "-",
        clean(view.node) or "-",
        amounts(view.holds),
        _uses(view),
        amounts(view.idle),
        _tasks(view.tasks),
        _tasks(view.lent),
        moment(view.stops_at),
        clean(view.reason),
    ]


def workload_row(view: WorkloadView) -> list[Cell]:
    """Return the cells of a workload."""
    return [
        clean(view.workload),
        clean(view.group),
        f"{view.leases:,}",
        f"{view.waiting:,}",
        amounts(view.holds),
        amounts(view.uses),
        amounts(view.idle),
        amounts(view.tasks),
        amounts(view.lent),
        amounts(view.borrows),
        f"{len(view.nodes):,}",
    ]


def amounts(resources: Mapping[str, str]) -> str:
    """Return amounts such as ``cpu 2, memory 4G``; ``-`` for none."""
    return ", ".join(f"{name} {amount}" for name, amount in resources.items()) or "-"


def _uses(view: LeaseView) -> str:
    wanted = f" (wants {amounts(view.wants)})" if view.wants != view.uses else ""
    return amounts(view.uses) + wanted


def _tasks(tasks: Sequence[LeaseTask]) -> str:
    """Return tasks such as ``12.0 (cpu 2), 14.3 (cpu 1), 20 more``; for hidden tasks, their group."""
    parts = [
        f"{f'group {clean(task.group)}' if task.job is None else f'{task.job}.{task.task}'} ({amounts(task.amounts)})"
        for task in tasks[:MOST_SHOWN]
    ]
    more = len(tasks) - len(parts)
    return ", ".join([*parts, *([f"{more:,} more"] if more else [])]) or "-"


def _sums(views: Sequence[LeaseView]) -> str:
    held = [view for view in views if view.state != "waiting"]
    waiting = sum(view.count for view in views if view.state == "waiting")
    loans = sum(len(view.lent) for view in held)
    parts = [count(len(held), "lease"), *([f"{waiting:,} waiting"] if waiting else [])]
    sums = (
        ("hold", (view.holds for view in held)),
        ("use", (view.uses for view in held)),
        ("idle", (view.idle for view in held)),
        (f"lent in {count(loans, 'loan')}", (task.amounts for view in held for task in view.lent)),
    )
    return ", ".join(parts) + "; " + "; ".join(f"{name}: {_sum(amount)}" for name, amount in sums)


def _sum(given: Iterable[Mapping[str, str]]) -> str:
    from cress.model.resources import Dimensions
    from cress.model.vectors import format_vector, parse_vector

    known = list(given)
    names = dict.fromkeys(name for vector in known for name in vector)
    dimensions = Dimensions(tuple(name for name in names if name not in Dimensions().names))
    total = (0,) * len(dimensions)
    for vector in known:
        if vector:
            total = tuple(map(int.__add__, total, parse_vector(vector, dimensions)))
    return format_vector(total, dimensions) if any(total) else "-"
