"""``cress rebalance``: plans of moves of running tasks that free nodes and devices, and their execution in steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, Json, connect, count, print_json
from cress.cli.errors import NOT_ACCEPTED, Interrupted, told
from cress.cli.interrupts import delayed_interrupt
from cress.cli.tables import Cell, TableColumn, clean, show
from cress.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cress.client import Client, MoveView, PlanView, RoundView

EPILOG = """\
\b
Examples:
  cress rebalance                        a plan that spreads services and frees devices and nodes
  cress rebalance --goal nodes           nodes only
  cress rebalance --for 12               the cheapest moves that let job 12 start
  cress rebalance --for 12 --apply       the same, carried out
  cress rebalance --apply --max-moves 10 --max-lost 5
                                         at most ten tasks, which lose at most five hours of work
  cress rebalance --status               the current or last round
  cress rebalance --stop                 end the current round after its current step

\b
Tasks of services move while more than their minimum are ready. Tasks of batch jobs move only with `movable: true`.
Tasks of databases and gangs never move. Each task runs on its new node before the next one moves (docs/rebalance.md).
Ctrl-C ends a round after its current step; the next call makes a new plan. `cress config set rebalance hourly` makes
the center rebalance by itself.
Exit codes: 0 done, or nothing to move; 2 bad input (such as an unknown job); 3 not accepted (no moves let the job
start, or the round stopped; the moves made are listed); 130 interrupted.
"""

COLUMNS = (
    TableColumn("TASK"),
    TableColumn("NAME", gives=True),
    TableColumn("FROM", gives=True),
    TableColumn("TO", gives=True),
    TableColumn("LOST", right=True),
    TableColumn("FOR", hides=1),
)
# Most names listed in a line.
MOST_NAMED = 20
# Seconds between two looks at a round.
LOOK = 0.2


def rebalance(
    plan: Annotated[bool, typer.Option("--plan", help="Show the plan without moving anything (the default).")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Move the tasks, one after the other.")] = False,
    job: Annotated[str, typer.Option("--for", metavar="JOB", help="Make room for this waiting job (id or name).")] = "",
    goal: Annotated[
        list[str] | None, typer.Option(metavar="GOAL", help="Goal: spread, devices or nodes. Repeatable. Default: all.")
    ] = None,
    max_moves: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Maximum number of tasks to move. Default: option rebalance_moves."),
    ] = None,
    max_lost: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="HOURS",
            help="Maximum work to lose, in hours of cores and devices. Default: option rebalance_lost.",
        ),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the current round, or the last one.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the current round after its current step.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Move running tasks to make room.

    The moves spread services, free devices and nodes, or let a waiting job start.
    """
    with told("rebalance"):
        _check(plan=plan, apply=apply, job=job, goal=goal or [], status=status, stop=stop)
        with connect(data) as client:
            if status or stop:
                _tell_round(client.stop_moves() if stop else client.last_round(), as_json=as_json)
                return
            found = client.plan_moves(_number(client, job), goal or (), max_moves, max_lost)
            impossible = bool(job) and not found.place
            if not apply:
                if as_json:
                    print_json(found)
                else:
                    _tell_plan(found)
            elif not found.moves:
                _tell_nothing(client, found, as_json=as_json)
            else:
                _carry_out(client, found, as_json=as_json)
        if impossible:
            raise typer.Exit(NOT_ACCEPTED)


def _check(*, plan: bool, apply: bool, job: str, goal: Sequence[str], status: bool, stop: bool) -> None:
    """Raise InputError for options that contradict each other."""
    given = [
        name
        for name, is_given in (("--plan", plan), ("--apply", apply), ("--status", status), ("--stop", stop))
        if is_given
    ]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} contradict each other", hint="only one of them", field=given[1])
    if (status or stop) and (job or goal):
        raise InputError("applies only to a plan", hint=f"without {given[0]}", field="--for" if job else "--goal")
    if job and goal:
        raise InputError("cannot be combined with --for", hint="without --goal", field="--goal")


def _number(client: Client, job: str) -> int | None:
    from cress.cli.job_names import job_named

    return job_named(client, job) if job else None


# --- carrying out -----------------------------------------------------------------------------------------------------


def _carry_out(client: Client, found: PlanView, *, as_json: bool) -> None:
    """Begin a round and follow it; Ctrl-C ends it after its present step."""
    if not as_json:
        _tell_plan(found)
    first: RoundView | None = None
    interrupted = False
    try:
        with delayed_interrupt("the round may have begun (see: cress rebalance --status)") as interrupt:
            first = client.begin_moves(found)
        interrupt.deliver()
        last = _follow(client, first, quiet=as_json)
    except KeyboardInterrupt:
        if first is None:
            raise
        interrupted = True
        typer.echo("finishing the current step; no more tasks are moved", err=True)
        last = _stopped(client, first, quiet=as_json)
    _tell_round(last, as_json=as_json)
    if interrupted:
        raise Interrupted(f"interrupted; {_counts(last)}")
    if last.problem:
        raise typer.Exit(NOT_ACCEPTED)


def _stopped(client: Client, first: RoundView, *, quiet: bool) -> RoundView:
    from cress.client import Refused

    try:
        client.stop_moves()
    except Refused:
        # The round has already ended.
        return client.last_round()
    return _follow(client, first, quiet=quiet)


def _follow(client: Client, now: RoundView, *, quiet: bool) -> RoundView:
    """Print the tasks that have moved until the round has ended; return the round."""
    number, told = now.number, 0
    while True:
        for move in now.done[told:] if not quiet else ():
            print(f"{_task(move)} moved from {clean(move.node)} to {clean(move.to)}", flush=True)
        told = max(told, len(now.done))
        if now.state != "moving" or now.number != number:
            return now
        time.sleep(LOOK)
        now = client.last_round()


# --- telling ----------------------------------------------------------------------------------------------------------


def _tell_nothing(client: Client, found: PlanView, *, as_json: bool) -> None:
    if as_json:
        print_json(client.last_round())
    elif found.place:
        print(f"job {found.job} already has room: {_places(found)}")
    else:
        print(found.note)


def _tell_plan(found: PlanView) -> None:
    for line in summary(found):
        print(line)
    if found.moves:
        print()
        show(COLUMNS, [row(move) for move in found.moves])


def row(move: MoveView) -> list[Cell]:
    """Return the cells of a move."""
    return [_task(move), move.name or "-", move.node, move.to, _lost(move.lost, move.lost_devices), move.goal]


def summary(found: PlanView) -> list[str]:
    """Return the result of a plan, in lines."""
    lines = []
    if not found.moves:
        return [found.note or f"job {found.job} already has room: {_places(found)}"]
    lose = "loses" if len(found.moves) == 1 else "lose"
    lost = f"{_lost(found.lost, found.lost_devices)} of work" if found.lost or found.lost_devices else "no work"
    lines.append(f"{count(len(found.moves), 'move')}, which {lose} {lost}; {found.movable:,} running tasks may move")
    if found.job is not None and found.place:
        lines.append(f"job {found.job} starts: {_places(found)}")
    if found.spread:
        lines.append(f"on more nodes: {count(len(found.spread), 'service')} ({_named(map(str, found.spread))})")
    before, after = found.before, found.after
    if found.nodes or before.nodes != after.nodes:
        names = f" ({_named(found.nodes)})" if found.nodes else ""
        lines.append(f"free nodes: {before.nodes:,} → {after.nodes:,} of {after.all_nodes:,}{names}")
    if after.all_devices:
        names = (
            f" ({_named(f'{device.node} {device.kind}:{device.id}' for device in found.devices)})"
            if found.devices
            else ""
        )
        lines.append(f"free devices: {before.devices:,} → {after.devices:,} of {after.all_devices:,}{names}")
    if found.stays:
        lines.append("not moved: " + ", ".join(f"{stay.tasks:,} {stay.reason}" for stay in found.stays))
    return lines


def _tell_round(now: RoundView, *, as_json: bool) -> None:
    if as_json:
        print_json(now)
        return
    if not now.number:
        print("nothing was moved yet")
        return
    by = f"by {clean(now.by)}" if now.by else "by the option rebalance"
    print(f"round {now.number} {by}: {_counts(now)}")
    if now.problem:
        print(f"stopped: {clean(now.problem)}")
    for what, moves in (("on its way", now.under_way), ("not moved", now.left)):
        for move in moves[:MOST_NAMED]:
            print(f"{what}: {_task(move)} from {clean(move.node)} to {clean(move.to)}")
        if len(moves) > MOST_NAMED:
            print(f"{what}: {len(moves) - MOST_NAMED:,} more")


def _counts(now: RoundView) -> str:
    whole = len(now.done) + len(now.under_way) + len(now.left) + len(now.skipped)
    gone = f", {count(len(now.skipped), 'task')} had ended" if now.skipped else ""
    return f"{len(now.done)} of {count(whole, 'task')} moved{gone}"


def _task(move: MoveView) -> str:
    return "-" if move.job is None else f"{move.job}.{move.task}"


def _places(found: PlanView) -> str:
    return ", ".join(f"{tasks} on {clean(node)}" for node, tasks in found.place.items())


def _named(names: Iterable[str]) -> str:
    listed = [clean(name) for name in names]
    return ", ".join(listed[:MOST_NAMED]) + (
        f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    )


def _lost(cores: float, devices: float) -> str:
    """Return lost time such as ``2.5 core h, 8.0 device h``."""
    lost = [
        f"{hours * 3600:.0f} {what} s" if hours < 1 else f"{hours:,.1f} {what} h"
        for hours, what in ((cores, "core"), (devices, "device"))
        if hours
    ]
    return ", ".join(lost) or "-"
