"""``cress logs``: the output of tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.chosen_lines import ChosenLines, pattern_of
from cress.cli.common import Data, connect, count
from cress.cli.errors import Interrupted, told
from cress.cli.job_names import task_named
from cress.cli.tables import clean
from cress.model.errors import InputError, NotAccepted
from cress.model.times import SECOND

if TYPE_CHECKING:
    from cress.cli.relay import TaskOutput
    from cress.cli.timed_lines import TimedLines
    from cress.client import AttemptView, Client, JobView, TaskView

EPILOG = """\
\b
Examples:
  cress logs 12              all tasks, one after the other
  cress logs 12.3 --stderr   standard error of task 3
  cress logs 12 --follow     new output until the job ends
  cress logs 12 --tail 20    the last 20 lines of each task
  cress logs 12 --grep 'error|warn'
  cress logs 12 --since 10m --timestamps   what was written in the last ten minutes, with times
  cress logs 12.3 --attempt 1   the first attempt of a task that was retried
  cress logs web.0           output of task 0 of the service web
  cress logs web --previous  output of the version that was rolled back; for other tasks, of the attempt before the last
  cress logs nightly         output of the last run of a cron job
  cress logs etl             output of all steps of a dag, one after the other (cress logs etl.load: of one step)

\b
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 no output to read, or no center reachable, 130 interrupted.
"""


def logs(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB[.TASK]", help="Job (id or name), or one of its tasks.", autocompletion=completion.jobs
        ),
    ],
    stderr: Annotated[bool, typer.Option("--stderr", help="Show standard error instead of standard output.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new output until the tasks have ended.")] = False,
    previous: Annotated[
        bool,
        typer.Option(
            "--previous",
            "-p",
            help="Show the version that was rolled back; for other tasks, the attempt before the last one.",
        ),
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Show attempt N of a task, from 1. Default: the last one."),
    ] = None,
    all_tasks: Annotated[
        bool, typer.Option("--all-tasks", help="Show all tasks, also of a job with more than 1,000 of them.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=1, help="Show only the last N lines of each task.")
    ] = None,
    grep: Annotated[
        str, typer.Option("--grep", metavar="REGEX", help="Show only lines that match this regular expression.")
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="WHEN", help="Show only lines written since then: 10m (ago), 8:30, '2026-11-02 14:30'."
        ),
    ] = "",
    timestamps: Annotated[
        bool,
        typer.Option(
            "--timestamps", help="Print before each line the time at which its node received it, to about a second."
        ),
    ] = False,
    data: Data = None,
) -> None:
    """Show the output of the tasks of a job."""
    with told("logs"):
        how = LogReading(
            "stderr" if stderr else "stdout",
            follow,
            pattern_of(grep),
            tail,
            attempt,
            all_tasks,
            _since(since),
            timestamps,
        )
        if tail is not None and follow:
            raise InputError("--tail and --follow exclude each other", hint="the last line is not known yet")
        if attempt is not None and (follow or previous):
            other = "--follow" if follow else "--previous"
            raise InputError(f"--attempt and {other} exclude each other", hint="only one of them")
        _logs(job, how, previous, data)


def _since(text: str) -> int | None:
    """Return the moment (µs since the epoch) in the text of ``--since``; None if it is empty. Raises InputError."""
    from cress.cli.past_times import moment_of

    return moment_of(text, "--since") if text else None


@dataclass(frozen=True)
class LogReading:
    """The lines to read: a stream, also new output (``follow``), lines that match, the last ``most`` of them.

    ``attempt`` is the number of the attempt of a task, from 1; ``None``: its last one. ``all_tasks``: of any number.
    ``since`` (µs): only lines written then or later. ``timestamps``: each line with its time.
    """

    stream: str
    follow: bool
    pattern: re.Pattern[bytes] | None
    most: int | None
    attempt: int | None = None
    all_tasks: bool = False
    since: int | None = None
    timestamps: bool = False

    def output(self, prefixed: bool) -> TaskOutput:
        """Return the destination of the output; ``prefixed``: with the task at the beginning of each line."""
        from cress.cli.relay import standard
        from cress.cli.timed_lines import STAMP

        output = standard(prefixed, merged=True)
        if self.pattern is None and self.most is None:
            return output
        return ChosenLines(output, self.pattern, self.most, STAMP if self.timestamps else 0)

    def attempts_of(self, task: TaskView) -> Sequence[AttemptView]:
        """Return the attempts of a task to read: the last one, the one with this number, or those of a time."""
        if self.attempt is not None:
            return task.attempts[self.attempt - 1 : self.attempt]
        if self.since is None:
            return task.attempts[-1:]
        since = self.since / SECOND
        return [attempt for attempt in task.attempts if attempt.ended is None or attempt.ended >= since]

    @property
    def timed(self) -> bool:
        """Return whether the times of lines matter."""
        return self.timestamps or self.since is not None


def _logs(job: str, how: LogReading, previous: bool, data: Data) -> None:
    with connect(data) as client:
        if previous and how.follow:
            raise InputError(
                "--previous and --follow exclude each other", hint="the output of an ended attempt does not grow"
            )
        id, task = task_named(client, job)
        view = client.job(id)
        try:
            if previous:
                _previous(client, view, task, how)
            else:
                shown = _last_run(client, view) if task is None and view.type == "cron" else view
                _hint(shown)
                if task is None and shown.type == "dag":
                    _steps(client, shown, how)
                else:
                    _show(client, shown, task, how)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; job {id} is not touched") from None


def _show(client: Client, view: JobView, task: int | None, how: LogReading) -> None:
    """Write the output of a job or of one of its tasks."""
    from cress.cli.relay import MOST_TASKS, Relay, Waits, copy

    total = _checked(view, task)
    if task is None and total > MOST_TASKS and not (how.all_tasks and not how.follow):
        hint = f"name one, such as cress logs {view.id}.0" + "; or --all-tasks" * (not how.follow)
        raise InputError(f"job {view.id} has {count(total, 'task')}", hint=hint)
    output = how.output(task is None and total > 1)
    if how.timed:
        from cress.cli.timed_lines import TimedLines

        timed = TimedLines(client, view.id, how.stream, output, how.since, stamped=how.timestamps)
        if not how.follow:
            _each_task(client, view, task, how, timed, timed)
            return
        output = timed
    if how.attempt is not None or (task is None and total > MOST_TASKS):
        _each_task(client, view, task, how, output)
        return
    relay = Relay(client, view.id, output, (how.stream,), 0 if total == 1 else task, "logs")
    if how.follow:
        relay.follow(Waits(client, view.id, "logs").tell)
        return
    for found in relay.look():
        if found.attempts:
            copy(client, view.id, found.index, how.stream, output, follow=False)


def _each_task(
    client: Client,
    view: JobView,
    task: int | None,
    how: LogReading,
    output: TaskOutput,
    timed: TimedLines | None = None,
) -> None:
    """Write the output of tasks one after the other, of the wanted attempts of each. Raises NotAccepted for none.

    With ``since`` these are all attempts that had not ended then.
    """
    from cress.cli.relay import copy

    after, found = None, False
    while True:
        page = client.tasks(view.id, after=after) if task is None else None
        for one in (client.task(view.id, task or 0),) if page is None else page.tasks:
            for attempt in how.attempts_of(one):
                found = True
                begin = 0
                if timed is not None and how.since is not None:
                    begin = timed.times_of(one.index, attempt).first_since(how.since)
                copy(client, view.id, one.index, how.stream, output, follow=False, attempt=attempt.id, begin=begin)
        after = None if page is None else page.next
        if after is None:
            break
    if not found and how.attempt is not None:
        which = f"job {view.id}" if task is None else f"task {task} of job {view.id}"
        raise NotAccepted(f"{which} has had no attempt {how.attempt}", hint=f"see `cress job {view.id}`")


def _checked(view: JobView, task: int | None) -> int:
    """Return the number of tasks. Raise InputError if ``task`` is not one of them."""
    total = view.tasks.total
    if task is not None and task >= total:
        raise InputError(f"job {view.id} has no task {task}", hint=f"0 to {total - 1}" if total > 1 else "only 0")
    return total


def _last_run(client: Client, view: JobView) -> JobView:
    runs = client.jobs(family=view.id, limit=1).jobs
    if not runs:
        raise NotAccepted(
            f"the cron job {view.id} ({clean(view.name)}) has not run yet", hint=f"see `cress job {view.id}`"
        )
    typer.echo(f"cress logs: the last run is job {runs[0].id}, {runs[0].state}", err=True)
    return client.job(runs[0].id)


def _steps(client: Client, view: JobView, how: LogReading) -> None:
    """Write the output of the steps of a dag one after the other, with a heading for each that ran."""
    steps = view.dag.steps if view.dag is not None else ()
    for step in steps:
        job = client.job(step.id)
        if job.started is None and not how.follow:
            continue
        typer.echo(f"==> {clean(step.name)} (job {step.id}, {job.state}) <==")
        _show(client, job, None, how)


def _hint(view: JobView) -> None:
    """Print how to see the output of a rolled back version, since the output shown is that of the present one."""
    service = view.service
    if service is not None and service.returned and service.returned_job is not None:
        hint = f"`cress logs {view.id} --previous` shows its output"
        typer.echo(f"cress logs: {clean(service.returned_because)}; {hint}", err=True)


def _previous(client: Client, view: JobView, task: int | None, how: LogReading) -> None:
    """Write the output of the rolled back version, or of the last but one attempt of a task."""
    from cress.cli.relay import copy

    service = view.service
    if task is None and service is not None and service.returned_job is not None:
        typer.echo(
            f"cress logs: version {service.returned_version} as it was in its member {service.returned_job}, "
            "which failed before the rollback",
            err=True,
        )
        copy(client, service.returned_job, 0, how.stream, how.output(False), follow=False)
        return
    total = _checked(view, task)
    if task is None and total != 1:
        raise InputError(
            f"job {view.id} has {count(total, 'task')}", hint=f"name one, such as cress logs {view.id}.0 -p"
        )
    found = client.task(view.id, task or 0)
    attempt = _attempt_before(view, found)
    copy(client, view.id, task or 0, how.stream, how.output(False), follow=False, attempt=attempt)


def _attempt_before(view: JobView, task: TaskView) -> int:
    if len(task.attempts) < 2:
        raise NotAccepted(
            f"task {task.index} of job {view.id} has had no attempt before this one",
            hint=f"see `cress job {view.id}.{task.index}`",
        )
    return task.attempts[-2].id
