"""``cress alloc``: hold resources, and open a shell on them."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, connect, count
from cress.cli.errors import told
from cress.cli.inputs import with_inputs_of_command
from cress.model.errors import InputError, NotAccepted
from cress.model.records import OVER_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cress.client import Client

EPILOG = """\
\b
Examples:
  cress alloc --resource '<4, 8G>'              a shell in a task with four cores
  cress alloc --tasks 2 --time-limit 2h         two tasks at once; the shell is in task 0
  cress alloc --set group=research -- python3   a program in place of the shell

\b
The job holds the resources until the shell ends, for at most its time limit; then it is cancelled. CRESS_JOB_ID is
its id: `cress exec $CRESS_JOB_ID.1 -- COMMAND` runs a command in another of its tasks.
Exit codes: the command's own (of the shell, or of COMMAND); 2 bad input, 3 not accepted, the job ended before its tasks
ran, or no center reachable.
"""

# What holds the resources: it ends at once when it is told to stop.
HOLDER = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
SHELL = "exec ${SHELL:-/bin/sh} -i"
# Seconds from one look at the job to the next.
PAUSE = 1.0


def alloc(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Program and arguments. Default: a shell.")
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="Number of tasks, which start at once.")] = 1,
    resource: Annotated[
        str | None, typer.Option(metavar="RESOURCE", help="Resources of each task. Default: '<1, 512M>'.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Group of the job. Default: the group `default`.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Give the resources back after this time, such as 2h.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job, such as --set nodes=n1. Repeatable."),
    ] = None,
    data: Data = None,
) -> None:
    """Hold resources, and open a shell on them."""
    with told("alloc"):
        from cress.cli.job_options import with_values
        from cress.cli.run import set_of
        from cress.cli.submit import in_directory

        given = {"resource": resource, "group": group, "time_limit": time_limit, "gang": tasks > 1 or None}
        mapping: dict[str, object] = {"name": "alloc", "command": HOLDER, "tasks": tasks}
        mapping |= {key: value for key, value in given.items() if value is not None}
        mapping = in_directory(with_values(mapping, [set_of(text) for text in sets or ()]))
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if not command and not terminal:
            raise InputError("standard input is no terminal", hint="cress alloc -- COMMAND", field="-- COMMAND")
        with connect(data) as client, _ended_by_signals():
            (submitted,) = client.submit([with_inputs_of_command(client, mapping)]).jobs
            try:
                code = _use(client, submitted.id, command or ["/bin/sh", "-c", SHELL], terminal=terminal)
            finally:
                client.cancel(submitted.id)
                typer.echo(f"cress alloc: job {submitted.id} gives its resources back", err=True)
    raise typer.Exit(code)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and a lost terminal end the command as Ctrl-C does, so that the job is cancelled."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.default_int_handler(number, frame)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _use(client: Client, id: int, command: list[str], *, terminal: bool) -> int:
    """Wait until all tasks run, run the command in the first one, and return its exit code."""
    from cress.cli.execution import attend

    said = ""
    while True:
        view = client.job(id)
        if view.state in OVER_WORDS:
            raise NotAccepted(f"job {id} ended before its tasks ran: {view.reason or view.state}")
        running = client.tasks(id, state="running", limit=view.tasks.total).tasks
        if len(running) == view.tasks.total:
            break
        if view.reason and view.reason != said:
            said = view.reason
            typer.echo(f"cress alloc: job {id} waits: {said}", err=True)
        client.job(id, PAUSE)
    nodes = ", ".join(dict.fromkeys(task.attempts[-1].node for task in running))
    typer.echo(f"cress alloc: job {id} has {count(len(running), 'task')} on {nodes}", err=True)
    size = os.get_terminal_size(0) if terminal else None
    environment = {"TERM": os.environ.get("TERM", "dumb")} if terminal else {}
    with client.exec(id, command, 0, environment=environment, terminal=size and (size.lines, size.columns)) as shell:
        return attend(shell, terminal=terminal)
