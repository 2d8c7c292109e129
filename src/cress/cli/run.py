"""``cress run``: a command on the cluster, with the behaviour of a local command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, Deadline, Licence, Workload, connect, pairs
from cress.cli.errors import INTERRUPTED, told
from cress.cli.inputs import with_inputs_of_command
from cress.cli.interrupts import DelayedInterrupt, delayed_interrupt
from cress.cli.tables import clean
from cress.model.errors import InputError, InputErrors, NotAccepted

if TYPE_CHECKING:
    from cress.cli.job_options import KeyValue
    from cress.cli.relay import Relay
    from cress.cli.standard_input import StandardInput
    from cress.client import Client, Refused, TaskView

EPILOG = """\
\b
Examples:
  cress run -- echo hello
  cress run --resource '<2, 4G>' --time-limit 10min -- python3 train.py --epochs 3
  cress run --tasks 4 -- sh -c 'echo I am task $CRESS_TASK_INDEX'
  cress run --require 'GCC >= 4.5 && Memory >= 8G' --rank CPU -- make
  seq 5 | cress run -- wc -l
  cress run --detach --set retries=2 -- ./train.sh    prints the id; `cress watch ID` waits for the end
  cress run --port http=dynamic -- sh -c 'python3 -m http.server $CRESS_PORT_http'

\b
The output of the tasks is printed, with `[task] ` before each line if there are several tasks.
The first Ctrl-C is passed to running tasks and cancels waiting ones. The second cancels the job.
A pipe or file as standard input goes to the task, as with ssh; in a loop that reads lines, use --no-stdin. Several
tasks get no input, and terminal input is not passed on.
Exit codes: the task's own (the highest of several tasks), 128 + n after signal n, 124 after its time limit, 137 out of
memory; 127 the program could not be started; 2 bad input, 3 not accepted, 130 interrupted before anything ran.
"""

CANNOT_START, SIGNALLED, FAILED = 127, 128, 1
# Exit codes of timeout(1), and of a shell whose program the kernel killed.
ENDS = {"timed out": 124, "out of memory": 137}
# Keys of a job file whose options have other names.
OPTIONS = {
    "environment": "--env",
    "secrets": "--secret",
    "requirement": "--require",
    "ports": "--port",
    "licences": "--licence",
    "files": "--file",
}


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="Program and its arguments.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the job. Default: name of the program.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Group of the job. Default: the group `default`.")
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", help="Number of tasks: copies of the program.")] = 1,
    resource: Annotated[
        str | None, typer.Option(metavar="RESOURCE", help="Resources of each task. Default: '<1, 512M>'.")
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Stop tasks that run longer than this, such as 30min. Default: no limit."
        ),
    ] = None,
    deadline: Deadline = None,
    priority: Annotated[int | None, typer.Option(metavar="N", help="Priority; higher goes first. Default: 0.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set an environment variable. Repeatable.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=SECRET", help="Set an environment variable to the value of a secret. Repeatable."),
    ] = None,
    directory: Annotated[
        str | None, typer.Option(metavar="DIR", help="Working directory of the tasks. Default: the current directory.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|PATH=ADDRESS", help="File or folder from here for each task, or one to fetch. Repeatable."
        ),
    ] = None,
    workdir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder from here that each task gets a copy of, such as `.`.")
    ] = None,
    gang: Annotated[bool, typer.Option("--gang", help="Start all tasks at once, or none.")] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR", help="Condition on the node; all given ones must hold. Repeatable."),
    ] = None,
    rank: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Expression that ranks the nodes; the highest value goes first.")
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PORT", help="Port of each task: a number or `dynamic`. Repeatable if each has a name."
        ),
    ] = None,
    licence: Licence = None,
    workload: Workload = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job, such as --set retries=2. Repeatable."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the id of the job and return; do not wait for it.")
    ] = False,
    no_stdin: Annotated[bool, typer.Option("--no-stdin", "-n", help="Do not pass standard input to the task.")] = False,
    data: Data = None,
) -> None:
    """Run a command on the cluster and show its output."""
    with told("run"):
        from cress.cli.job_options import with_files, with_values
        from cress.cli.relay import MOST_TASKS
        from cress.cli.standard_input import standard_input
        from cress.cli.submit import in_directory

        if tasks > MOST_TASKS and not detach:
            raise InputError(
                f"{tasks} tasks are too many to watch", hint=f"at most {MOST_TASKS}; or cress submit", field="--tasks"
            )
        given = {
            "command": command,
            "name": name,
            "group": group,
            "tasks": tasks,
            "resource": resource,
            "time_limit": time_limit,
            "deadline": deadline,
            "priority": priority,
            "environment": pairs(env, "--env", "KEY=VALUE") or None,
            "secrets": pairs(secret, "--secret", "KEY=SECRET") or None,
            "directory": directory,
            "files": with_files(None, file) if file else None,
            "workdir": workdir,
            "gang": gang or None,
            "requirement": require or None,
            "rank": rank,
            "ports": _ports(port),
            "licences": licence or None,
            "workload": workload,
        }
        mapping = {key: value for key, value in given.items() if value is not None}
        job = in_directory(with_values(mapping, [set_of(text) for text in sets or ()]))
        source = None if no_stdin or detach else standard_input()
        with connect(data) as client:
            if detach:
                _detach(client, job)
                return
            code = _run(client, job, source)
    raise typer.Exit(code)


def set_of(text: str) -> KeyValue:
    """Return the key and the value of an option ``--set``. Raises InputError."""
    from cress.cli.job_options import KeyValue

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"{text!r} is not KEY=VALUE", hint="such as --set retries=2", field="--set")
    return KeyValue(key, value, "--set")


def _detach(client: Client, mapping: dict[str, object]) -> None:
    """Submit the job, and print its id alone."""
    from cress.client import Refused

    with delayed_interrupt("the job may have been submitted (see: cress jobs)"):
        try:
            (submitted,) = client.submit([with_inputs_of_command(client, mapping)]).jobs
        except Refused as error:
            raise _by_option(error) from None
    if submitted.note:
        typer.echo(f"cress run: note: {clean(submitted.note)}", err=True)
    print(submitted.id)


def _ports(texts: list[str] | None) -> str | dict[str, str] | None:
    """Return the ports as in a job file."""
    if not texts or (len(texts) == 1 and "=" not in texts[0]):
        return texts[0] if texts else None
    return pairs(texts, "--port", "NAME=PORT")


class _Interrupts:
    """Interruption of a command.

    The first Ctrl-C is passed on and the second one cancels; SIGTERM and a lost terminal cancel at once.
    """

    def __init__(self, client: Client, job: int, relay: Relay, submission: DelayedInterrupt) -> None:
        self._client = client
        self._job = job
        self._relay = relay
        self.asked = 0
        self._done = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        # Ctrl-C during the submission counts as well.
        self.asked += submission.came

    def _note(self, number: int, _: FrameType | None) -> None:
        # A handler must do nothing else, since the main thread may hold any lock.
        self.asked += 1 if number == signal.SIGINT else 2
        self._relay.bell.ring()

    def act(self, tasks: Sequence[TaskView]) -> None:
        """Carry out the requests since the last call."""
        if self.asked <= self._done:
            return
        from cress.client import NotFound, Refused

        running = any(task.state == "running" for task in tasks)
        first = self._done == 0 and self.asked == 1
        self._done = self.asked
        try:
            if not first or not running:
                self._client.cancel(self._job)
                return
            if sys.stderr.isatty():
                typer.echo("\ncress run: passed on; Ctrl-C again cancels the job", err=True)
            self._client.signal(self._job, "INT")
        except (NotFound, Refused):
            pass  # it has ended in the meantime


def _run(client: Client, mapping: dict[str, object], source: StandardInput | None) -> int:
    from cress.cli.relay import Relay, Waits, standard
    from cress.cli.standard_input import Feeder, with_input
    from cress.client import Refused

    several = str(mapping["tasks"]) != "1"
    if source is not None and several:
        source.refuse()
    elif source is not None:
        mapping = with_input(mapping)
    with delayed_interrupt("the job may have been submitted (see: cress jobs)") as submission:
        try:
            (submitted,) = client.submit([with_inputs_of_command(client, mapping)]).jobs
        except Refused as error:
            raise _by_option(error) from None
        job = submitted.id
        relay = Relay(client, job, standard(several), ("stdout", "stderr"))
        interrupts = _Interrupts(client, job, relay, submission)
    if submitted.deadline is not None and submitted.deadline.forecast in ("at_risk", "cannot_be_met"):
        from cress.cli.deadlines import forecast

        typer.echo(f"cress run: deadline: {forecast(submitted.deadline)}", err=True)
    if submitted.note:
        typer.echo(f"cress run: note: {clean(submitted.note)}", err=True)
    waiting = Waits(client, job, "run")
    feeder = Feeder(client, job, source, relay.bell.ring) if source is not None and not several else None

    def look(tasks: Sequence[TaskView]) -> None:
        interrupts.act(tasks)
        waiting.tell(tasks)
        if feeder is not None:
            feeder.look(tasks)
        elif source is not None:
            source.refuse()

    try:
        tasks = relay.follow(look)
    except (BrokenPipeError, InputError):
        # Its output has no reader any more, so it ends as it would locally. Or it has input that no task can get.
        client.cancel(job)
        raise
    except Exception:
        typer.echo(f"cress run: job {job} goes on (stop: cress cancel {job})", err=True)
        raise
    code = max(_code(task, interrupts.asked > 0, several) for task in tasks)
    if feeder is not None and not interrupts.asked and (problem := feeder.problem()):
        typer.echo(f"cress run: the task got only a part of its standard input: {clean(problem)}", err=True)
        return code or FAILED
    return code


def _code(task: TaskView, interrupted: bool, several: bool) -> int:
    """Return the exit code for one task, and print errors that the task itself could not print."""
    if task.state == "succeeded":
        return 0
    last = task.attempts[-1] if task.attempts else None
    if last is not None and last.error and not (interrupted and task.state == "cancelled"):
        which = f"task {task.index}: " if several else ""
        typer.echo(f"cress run: {which}{clean(last.error)}", err=True)
    return code_of(task, interrupted=interrupted)


def code_of(task: TaskView, *, interrupted: bool = False) -> int:
    """Return the exit code for one ended task."""
    if task.state == "succeeded":
        return 0
    last = task.attempts[-1] if task.attempts else None
    if last is not None and last.outcome in ENDS:
        return ENDS[last.outcome]
    if last is None or last.code == 0:
        return INTERRUPTED if interrupted else FAILED
    if last.code is None:
        return CANNOT_START if last.started is None and last.error else FAILED
    return last.code if last.code > 0 else SIGNALLED - last.code


def _by_option(refused: Refused) -> Exception:
    """Return an error of the center with the command line option that it is about."""
    from cress.cli.placed import PLACE

    kind = InputError if refused.bad_input else NotAccepted
    errors: list[InputError] = []
    for fault in refused.faults:
        path = PLACE.sub("", fault.field, count=1)
        key, _, rest = path.partition(".")
        key = key.partition("[")[0]  # of several --require
        option = OPTIONS.get(key, f"--{key.replace('_', '-')}")
        place = path if not key or key.startswith("command") else f"{option} {rest}".strip()
        errors.append(kind(fault.what, hint=fault.hint, field=place))
    if not errors:
        return refused
    return errors[0] if len(errors) == 1 else InputErrors(errors)
