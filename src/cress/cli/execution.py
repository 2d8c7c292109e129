"""``cress exec``: run a command in a running task."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.common import Data, connect, count
from cress.cli.errors import Interrupted, told
from cress.cli.job_names import task_named
from cress.cli.tables import clean
from cress.model.errors import InputError, NotAccepted

if TYPE_CHECKING:
    from cress.client import Client, JobView
    from cress.client.execution import Command

EPILOG = """\
\b
Examples:
  cress exec 12 -- sh                        a shell in the only task of job 12
  cress exec 12.3 -- ps aux                  a command in its task 3
  cress exec web -- sh                       in one of the ready tasks of a service; prints its number
  echo 'select 1' | cress exec 7 -- psql     with input from a pipe
  cress exec 12 --env LANG=C -- ls -l

\b
The command runs in the container, directory and account of the task, with its limits and environment. If standard input
and output are terminals, the command gets a terminal, and Ctrl-C goes to the command. The command ends when the task
ends, or when `cress exec` ends.
Exit codes: the command's own (128 + n after signal n; 127 not found, 126 not executable, 125 it could not be run
there); 2 bad input (such as an unknown task), 3 not accepted (the task does not run) or no center reachable, 130
interrupted, 255 the connection broke.
"""

BROKEN = 255
READ = 16_384
# Most running tasks that are searched for a ready one.
MOST_LOOKED = 100


def execute(
    task: Annotated[
        str,
        typer.Argument(
            metavar="JOB[.TASK]",
            help="Running task. For a job: one of its running (or ready) tasks.",
            autocompletion=completion.jobs,
        ),
    ],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="Program and its arguments.")],
    no_tty: Annotated[bool, typer.Option("--no-tty", "-T", help="Run the command without a terminal.")] = False,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment variable. Repeatable.")
    ] = None,
    data: Data = None,
) -> None:
    """Run a command in a running task."""
    with told("exec"):
        environment = _variables(env or [])
        terminal = not no_tty and sys.stdin.isatty() and sys.stdout.isatty()
        with connect(data) as client:
            id, index = _task(client, task)
            size = os.get_terminal_size(0) if terminal else None
            if size is not None:
                environment.setdefault("TERM", os.environ.get("TERM", "dumb"))
            running = client.exec(
                id, command, index, environment=environment, terminal=size and (size.lines, size.columns)
            )
            with running:
                code = attend(running, terminal=terminal)
    raise typer.Exit(code)


def _task(client: Client, text: str) -> tuple[int, int]:
    id, index = task_named(client, text)
    if index is None:
        view = client.job(id)
        if view.type in ("cron", "dag"):
            parts = "runs" if view.type == "cron" else "steps"
            hint = f"`cress jobs --family {id}` lists them"
            raise InputError(f"job {id} has no tasks of its own, but {parts}, which are jobs", hint=hint)
        index = 0
        if view.tasks.total != 1:
            index = _best(client, view)
            typer.echo(f"cress exec: in task {id}.{index} of {count(view.tasks.total, 'task')}", err=True)
    return id, index


def _best(client: Client, view: JobView) -> int:
    """Return a running task, preferably a ready one."""
    tasks = client.tasks(view.id, state="running", limit=MOST_LOOKED).tasks
    ready = [task.index for task in tasks if task.ready is not False]
    found = ready or [task.index for task in tasks]
    if not found:
        raise NotAccepted(
            f"no task of job {view.id} ({clean(view.name)}) runs", hint=view.reason or f"it is {view.state}"
        )
    return found[0]


def _variables(given: list[str]) -> dict[str, str]:
    found = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"{word!r} is not a variable", hint="NAME=VALUE", field="--env")
        found[name] = value
    return found


def attend(running: Command, *, terminal: bool) -> int:
    """Pass input and output on until the command has ended; return its exit code."""
    from cress.client import Broken, Unavailable

    reading, writing = os.pipe()
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, writing)
        undo.callback(os.close, reading)
        if terminal:
            undo.enter_context(_raw())
            undo.enter_context(_sizes(writing))
        feeder = threading.Thread(target=_feed, args=(running, reading), kwargs={"terminal": terminal}, daemon=True)
        feeder.start()
        try:
            for error, part in running:
                _write(2 if error else 1, part)
        except KeyboardInterrupt:
            raise Interrupted("interrupted, and the command in the task was ended") from None
        except (Broken, Unavailable) as error:
            undo.close()
            typer.echo(f"cress exec: {error}", err=True)
            return BROKEN
    if running.why:
        typer.echo(f"cress exec: {running.why}", err=True)
    assert running.code is not None
    return running.code


def _feed(running: Command, wake: int, *, terminal: bool) -> None:
    """In a thread: pass on input, and changes of the size of the window."""
    # The thread checks the terminal first, so that it never takes input meant for the next program.
    with contextlib.suppress(OSError, ValueError):
        while True:
            ready, _, _ = select.select([0, wake], [], [])
            if wake in ready:
                if not os.read(wake, 100):
                    return
                size = os.get_terminal_size(0)
                running.resize(size.lines, size.columns)
            if 0 in ready:
                data = os.read(0, READ)
                if not data:
                    running.end()
                    if not terminal:
                        return
                    # The terminal is gone.
                    break
                if not running.send(data):
                    return


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Pass every key to the command, including Ctrl-C."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # input typed before is for the command
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _sizes(writing: int) -> Iterator[None]:
    """Write a byte when the window changes its size."""

    def changed(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(writing, b"s")

    before = signal.signal(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
