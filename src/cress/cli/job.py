"""``cress job``: all facts about one job, or one of its tasks."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion, deadlines, devices, families
from cress.cli.common import Columns, Data, Json, Wide, connect, count, duration, moment, print_json, selection_of
from cress.cli.errors import told
from cress.cli.explain import when
from cress.cli.job_names import task_named
from cress.cli.resolve import ports as ports_of
from cress.cli.tables import Cell, Selection, TableColumn, facts, show, state
from cress.cli.waiting_page import what_to_do
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import AttemptView, Client, EstimateView, HeldDevice, JobView, PartView, TaskView

EPILOG = """\
\b
Examples:
  cress job 12
  cress job 12.3     one task, with all its attempts
  cress job 12 -o yaml > again.yaml   its job file, for `cress submit`
  cress job web      a service by its name: version, ready tasks, progress of an update

\b
A job with many tasks shows those that run or failed. A cron job shows its last runs, a dag its steps; each of these is
a job. Columns of tasks: task, state, tries, node, time, exit, error; for services ready, age, restarts and reason;
ports and devices if a task has some. A narrow terminal leaves some out.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 no center reachable.
"""

TASKS = (
    TableColumn("TASK", right=True),
    TableColumn("STATE"),
    TableColumn("TRIES", right=True, hides=2),
    TableColumn("NODE", gives=True),
    TableColumn("TIME", right=True, hides=3),
    TableColumn("EXIT", right=True),
    TableColumn("ERROR", gives=True, least=30),
)
PART = TableColumn("PART", gives=True)
PORTS = TableColumn("PORTS", gives=True, hides=1)
ATTEMPTS = (
    TableColumn("ATTEMPT", right=True),
    TableColumn("OUTCOME"),
    TableColumn("NODE", gives=True),
    TableColumn("STARTED", hides=3),
    TableColumn("TIME", right=True),
    TableColumn("EXIT", right=True),
    TableColumn("CPU", right=True, hides=1),
    TableColumn("MEMORY", right=True, hides=2),
    TableColumn("ERROR", gives=True, least=30),
)
# A job with more tasks than this is shown in parts; this is the number shown of each.
MOST_SHOWN, OF_EACH = 50, 20
# The most characters of a command or an environment that are shown.
MOST_OF_TEXT = 1_000
PARTS = ("running", "failed")
STEPS_OR_TASKS = {"dag": "Steps", "cron": "Tasks now"}
# Types of jobs whose members are jobs; types of jobs whose tasks are kept running.
OF_JOBS, KEPT = ("cron", "dag"), ("service", "database")


def job(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB[.TASK]", help="Job (id or name), or one of its tasks.", autocompletion=completion.jobs
        ),
    ],
    columns: Columns = "",
    wide: Wide = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="yaml", help="Print the job file, which can be submitted again.")
    ] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show everything about one job."""
    selection = selection_of(columns, wide=wide)
    with told("job"):
        if output not in ("", "yaml"):
            hint = "yaml, the job file; --json prints the API's answer"
            raise InputError(f"{output!r} is not a format", hint=hint, field="--output")
        with connect(data) as client:
            id, task = task_named(client, job)
            if output:
                _job_file(client, id, task)
                return
            view = client.job(id)
            if task is not None:
                _one_task(client, view, task, selection, as_json=as_json)
                return
            if as_json:
                print_json(view)
                return
            tasks = () if view.type in OF_JOBS else _tasks(client, view)
            runs = client.jobs(family=id, limit=families.LAST_RUNS).jobs if view.type == "cron" else ()
        now = time.time()
        facts(about(view, now))
        if tasks or runs or view.dag:
            print()
        if view.dag is not None:
            show(families.STEPS, families.step_rows(view.dag.steps), selection)
        elif runs:
            show(
                families.RUNS,
                [families.run_row(run, now, view.cron.zone if view.cron else "") for run in runs],
                selection,
            )
        if view.type in OF_JOBS:
            return
        if tasks and view.type in KEPT:
            show(*service_table(tasks, now), selection)
        elif tasks:
            show(*task_table(tasks, now, ports=bool(view.ports)), selection)
        left = view.tasks.total - len(tasks)
        if left:
            print(f"\n{count(left, 'more task')}" if tasks else f"\n{count(left, 'task')}", f"(cress job {id}.TASK)")


def _job_file(client: Client, id: int, task: int | None) -> None:
    """Print the job file of a job as YAML."""
    from cress.cli.outputs import written
    from cress.client import calls

    if task is not None:
        raise InputError("a task has no job file", hint=f"cress job {id} -o yaml", field="--output")
    written(client.ask(calls.job_file(id)).job, "yaml", lambda: ((), ()), ())


def about(view: JobView, now: float) -> list[tuple[str, Cell]]:
    """Return the facts about a job; ``now`` in seconds since the epoch."""
    tasks = view.tasks
    numbers = ("waiting", "running", "succeeded", "failed", "cancelled")
    parts = [f"{getattr(tasks, word):,} {word}" for word in numbers if getattr(tasks, word)]
    # The line of the resource already shows the requests that come from it alone.
    asks = view.requirement or view.ports or view.licences or view.max_per_node or view.max_per_rack
    times = moment(view.started)
    if view.started is not None:
        times += f", for {duration((view.ended or now) - view.started)}"
    return [
        ("Job", str(view.id)),
        ("Name", view.name),
        ("Group", view.group),
        ("User", view.user),
        ("Type", view.type),
        ("State", state(view.state)),
        ("Reason", "" if _stands_below(view) else view.reason),
        ("What to do", what_to_do(view.reason_kind) if view.reason_kind else ""),
        ("Expected start", "" if view.expected_start is None else when(view.expected_start, now, view.id)),
        *families.facts_of(view, now),
        ("Member", "" if view.family is None else f"{view.index} of job {view.family}"),
        (STEPS_OR_TASKS.get(view.type, "Tasks"), _tasks_of(view, parts)),
        ("Preempted", count(view.preempted, "time") if view.preempted else ""),
        *((f"Part {part.name}", _part(part)) for part in view.parts),
        ("Command", "" if view.parts else _command(view)),
        ("Image", view.image),
        ("Directory", view.directory),
        ("Environment", _cut(" ".join(f"{key}={shlex.quote(value)}" for key, value in view.environment.items()), view)),
        ("Secrets", ", ".join(map(_secret, view.secrets.items()))),
        ("Resource", "" if view.parts else _amounts(view.resource)),
        ("Priority", str(view.priority)),
        ("Time limit", "" if view.time_limit is None else duration(view.time_limit)),
        ("Expected run", "" if view.estimate is None else _estimate(view.estimate)),
        *deadlines.facts_of(view, now),
        ("Values", " ".join(f"{key}={shlex.quote(text)}" for key, text in view.values.items())),
        ("Application", view.application),
        ("Workload", view.workload),
        ("Labels", ", ".join(f"{name}={text}" for name, text in view.labels.items())),
        ("Ports", ports_of(view.ports) if view.ports else ""),
        ("Spread", _spread(view)),
        ("Licences", ", ".join(f"{number} {name}" for name, number in view.licences.items())),
        ("Node lost", "" if view.job_failure else "its tasks do not run again"),
        ("Requirement", view.requirement),
        ("Required now", view.requirement_now if asks and tasks.waiting else ""),
        ("Rank", view.rank),
        ("Rank now", view.rank_now if view.rank_now != view.rank and tasks.waiting else ""),
        ("Relaxes", f"in {duration(view.relaxes - now)}" if view.tasks.waiting and view.relaxes is not None else ""),
        ("Submitted", moment(view.submitted)),
        ("Started", times if view.started is not None else ""),
        ("Ended", "" if view.ended is None else moment(view.ended)),
    ]


def _command(view: JobView) -> str:
    """Return the command of a job for people; of a script of Slurm, which is part of it, the name and the length."""
    from cress.client.submitted_script import script_of

    script = script_of(view)
    if script:
        return f"a script of {count(len(script.splitlines()), 'line')} (cress job {view.id} --json has it)"
    return _cut(shlex.join(view.command), view)


def _cut(text: str, view: JobView) -> str:
    """Return a text of at most some lines; the rest would hide the other facts."""
    return text if len(text) <= MOST_OF_TEXT else f"{text[:MOST_OF_TEXT]} … (all of it: cress job {view.id} --json)"


def _amounts(resource: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in resource.items())


def _part(part: PartView) -> str:
    """Return the description of one part: ``8 tasks, cpu 8, memory 32G each: ./worker (GPUModel = "A100")``."""
    text = f"{count(part.tasks, 'task')}, {_amounts(part.resource) or 'no amounts'} each"
    text += f": {shlex.join(part.command)}" if part.command else ""
    asked = [part.requirement, f"rank {part.rank}" if part.rank else ""]
    return text + (f" ({'; '.join(filter(None, asked))})" if any(asked) else "")


def _estimate(estimate: EstimateView) -> str:
    """Return the expected run time of a task, with the range of eight of ten."""
    text = duration(estimate.median)
    if estimate.optimistic == estimate.pessimistic:
        return text
    return f"{text} ({duration(estimate.optimistic)} to {duration(estimate.pessimistic)})"


def _stands_below(view: JobView) -> bool:
    """Return whether the reason of a service is shown with its update: the cause of its wait or of its rollback."""
    service = view.service
    if service is None:
        return False
    return (service.updating and view.reason == service.waits) or view.reason == service.returned_because


def _tasks_of(view: JobView, parts: Sequence[str]) -> str:
    if not view.tasks.total:
        return "" if view.type == "cron" else "0"
    at_once = " (all at once or none)" if view.gang else ""
    if view.max_running:
        at_once = f" (at most {view.max_running:,} at once)"
    return f"{view.tasks.total:,}: {', '.join(parts)}{at_once}"


def _secret(entry: tuple[str, str | dict[str, str]]) -> str:
    name, secret = entry
    return f"{name} (secret {secret})" if isinstance(secret, str) else f"file {name} (secret {secret['secret']})"


def _spread(view: JobView) -> str:
    places = (("node", view.max_per_node), ("rack", view.max_per_rack))
    return ", ".join(f"at most {count(most, 'task')} on one {place}" for place, most in places if most)


def task_table(tasks: Sequence[TaskView], now: float, *, ports: bool) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows; with ``ports`` of a job that has some, and with devices if tasks have or had some."""
    rows, columns = [task_row(task, now) for task in tasks], [*TASKS]
    if any(task.part for task in tasks):
        for task, cells in zip(tasks, rows, strict=True):
            cells.insert(1, f"{task.part} {task.part_index}" if task.part else "")
        columns.insert(1, PART)
    if ports:
        for task, cells in zip(tasks, rows, strict=True):
            cells.insert(-1, ports_of(task.attempts[-1].ports if task.attempts else {}))
        columns.insert(-1, PORTS)
    return devices.with_devices(columns, rows, [_held(task) for task in tasks], len(columns) - 1)


def service_table(tasks: Sequence[TaskView], now: float) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows of the tasks of a service or database; with devices if a running task has some."""
    columns, rows = families.SERVICE_TASKS, [families.service_row(task, now) for task in tasks]
    held = [_held(task) if task.attempts and task.attempts[-1].ended is None else () for task in tasks]
    return devices.with_devices(columns, rows, held, len(columns) - 1)


def attempt_table(attempts: Sequence[AttemptView], now: float) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows of the attempts of one task."""
    rows = [_attempt_row(attempt, now) for attempt in attempts]
    return devices.with_devices(ATTEMPTS, rows, [attempt.devices for attempt in attempts], len(ATTEMPTS) - 1)


def _held(task: TaskView) -> Sequence[HeldDevice]:
    return task.attempts[-1].devices if task.attempts else ()


def task_row(task: TaskView, now: float) -> list[Cell]:
    """Return the cells of one task, from its last attempt."""
    last = task.attempts[-1] if task.attempts else None
    if last is None:
        return [str(task.index), state(task.state), "0", "-", "-", "-", ""]
    head: list[Cell] = [str(task.index), state(task.state), str(len(task.attempts)), last.node]
    return [*head, _time(last, now), code(last), last.error or loan(last)]


def loan(attempt: AttemptView) -> str:
    """Return the loan of a running task: ``borrows cpu 2, memory 1G of lease 12.0``; empty if there is none."""
    if not attempt.borrows:
        return ""
    what = ", ".join(f"{name} {amount}" for name, amount in attempt.borrows.items())
    return f"borrows {what} of lease {', '.join(attempt.lenders)}"


def code(attempt: AttemptView) -> str:
    """Return the end of an attempt: ``0``, ``SIGTERM``, ``?`` if unknown, ``-`` while it runs."""
    if attempt.ended is None:
        return "-"
    if attempt.code is None:
        return "?"
    if attempt.code >= 0:
        return str(attempt.code)
    import signal

    try:
        return signal.Signals(-attempt.code).name
    except ValueError:
        return f"signal {-attempt.code}"


def _one_task(client: Client, view: JobView, index: int, selection: Selection, *, as_json: bool) -> None:
    if index >= view.tasks.total:
        known = f"0 to {view.tasks.total - 1}" if view.tasks.total > 1 else "only 0"
        raise InputError(f"job {view.id} has no task {index}", hint=known)
    page = client.tasks(view.id, limit=1, after=index - 1 if index else None)
    if as_json:
        print_json(page.tasks[0])
        return
    task = page.tasks[0]
    now = time.time()
    facts(
        [
            ("Task", f"{view.id}.{index}"),
            ("Name", view.name),
            ("Part", f"{task.part}, number {task.part_index}" if task.part else ""),
            ("State", state(task.state)),
            ("Reason", _why(view, task)),
        ]
    )
    if task.attempts:
        print()
        show(*attempt_table(task.attempts, now), selection)


def _why(view: JobView, task: TaskView) -> str:
    return view.reason if task.state == "waiting" else ""


def _attempt_row(attempt: AttemptView, now: float) -> list[Cell]:
    over = attempt.ended is not None
    return [
        str(attempt.id),
        state(attempt.outcome),
        attempt.node,
        moment(attempt.started),
        _time(attempt, now),
        code(attempt),
        duration(attempt.cpu) if over else "-",
        f"{attempt.memory / 2**20:.0f}M" if over else "-",
        attempt.error or attempt.chosen,
    ]


def _time(attempt: AttemptView, now: float) -> str:
    return "-" if attempt.started is None else duration((attempt.ended or now) - attempt.started)


def _tasks(client: Client, view: JobView) -> Sequence[TaskView]:
    if view.tasks.total <= MOST_SHOWN:
        return client.tasks(view.id, limit=MOST_SHOWN).tasks
    found: dict[int, TaskView] = {}
    for part in PARTS:
        if getattr(view.tasks, part):
            found |= {task.index: task for task in client.tasks(view.id, limit=OF_EACH, state=part).tasks}
    return [found[index] for index in sorted(found)]
