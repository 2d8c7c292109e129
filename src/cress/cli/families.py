"""Services, databases, cron jobs and dags in ``cress job``: facts, tasks, runs and steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cress.cli.common import count, duration
from cress.cli.resolve import ports as ports_of
from cress.cli.tables import Cell, TableColumn, state

if TYPE_CHECKING:
    from cress.client import AttemptView, CronView, DagView, JobView, ServiceView, StepView, TaskView

SERVICE_TASKS = (
    TableColumn("TASK", right=True),
    TableColumn("STATE"),
    TableColumn("READY"),
    TableColumn("NODE", gives=True),
    TableColumn("AGE", right=True, hides=1),
    TableColumn("RESTARTS", right=True, hides=3),
    TableColumn("PORTS", gives=True, hides=2),
    TableColumn("REASON", gives=True, least=30),
)
RUNS = (
    TableColumn("RUN", right=True),
    TableColumn("STATE"),
    TableColumn("DONE", right=True),
    TableColumn("SUBMITTED"),
    TableColumn("TIME", right=True, hides=1),
    TableColumn("REASON", gives=True, least=30),
)
STEPS = (
    TableColumn("STEP", gives=True),
    TableColumn("JOB", right=True),
    TableColumn("STATE"),
    TableColumn("AFTER", gives=True, hides=1),
    TableColumn("REASON", gives=True, least=30),
)
LAST_RUNS = 10
_BAR = 20
# A job as it appears in reasons: job 12, job 12 (etl.load).
_JOB = re.compile(r"job (\d+)(?: \([^()]*\))?")


def facts_of(view: JobView, now: float) -> list[tuple[str, Cell]]:
    """Return the facts that only families have; ``now`` in seconds since the epoch."""
    if view.service is not None:
        return _service(view.service, now)
    if view.cron is not None:
        return _cron(view.cron, now)
    return _dag(view, view.dag) if view.dag is not None else []


def _service(service: ServiceView, now: float) -> list[tuple[str, Cell]]:
    version = str(service.version)
    if service.updating:
        version += f" ({service.updated} of {count(service.wanted, 'task')})"
    following = ""
    if service.next is not None:
        following = (
            f"{count(service.next_tasks or 0, 'task')} from {_when(service.next, service.zone)} "
            f"({service.zone}) on, in "
            f"{duration(service.next - now)}"
        )
    return [
        ("Ready", f"{service.ready} of {count(service.wanted, 'task')}"),
        ("Version", version),
        ("Update", service.waits if service.updating else ""),
        ("Rolled back", service.returned_because if service.returned else ""),
        ("Timetable", following),
    ]


def _cron(cron: CronView, now: float) -> list[tuple[str, Cell]]:
    coming = [_when(moment, cron.zone) for moment in cron.next]
    if coming:
        coming[0] += f" (in {duration(cron.next[0] - now)})"
    last = ""
    if cron.last is not None:
        last = f"{_when(cron.last, cron.zone)}: job {cron.last_job}" + (
            f", {cron.last_state}" if cron.last_state else ""
        )
    counts = [f"{cron.runs:,}"]
    counts += [f"{number:,} {word}" for number, word in ((cron.skipped, "left out"), (cron.missed, "missed")) if number]
    return [
        ("When", f"{cron.when} ({cron.zone})"),
        ("Overlap", cron.overlap),
        ("Missed", cron.missed_runs),
        ("Next", ", ".join(coming) or "never again"),
        ("Last", last),
        ("Runs", ", ".join(counts)),
    ]


def _dag(view: JobView, dag: DagView) -> list[tuple[str, Cell]]:
    tasks = view.tasks
    filled = tasks.succeeded * _BAR // tasks.total if tasks.total else _BAR
    progress = f"[{'#' * filled}{'.' * (_BAR - filled)}] {tasks.succeeded} of {count(tasks.total, 'step')} succeeded"
    others = (("failed", tasks.failed), ("cancelled", tasks.cancelled))
    progress += "".join(f", {number} {word}" for word, number in others if number)
    return [
        ("Progress", progress),
        ("Resumes", f"job {dag.resumed}" if dag.resumed else ""),
        ("Go on", f"cress resume {view.id}" if view.state in ("failed", "cancelled") else ""),
    ]


def _when(at: float, zone: str, *, seconds: bool = False) -> str:
    """Return a time in the zone of the job, like its expression; if the zone is unknown here, in the user's zone."""
    moment = datetime.fromtimestamp(at, UTC)
    try:
        moment = moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):
        moment = moment.astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def service_row(task: TaskView, now: float) -> list[Cell]:
    """Return the cells of a task of a service."""
    last = task.attempts[-1] if task.attempts else None
    runs = last is not None and last.ended is None
    ready = "-" if task.ready is None or not runs else "yes" if task.ready else "no"
    return [
        str(task.index),
        state(task.state),
        ready,
        last.node if last is not None and runs else "-",
        duration(now - last.started) if last is not None and last.started is not None and runs else "-",
        str(max(0, len(task.attempts) - 1)),
        ports_of(last.ports) if last is not None and runs else "-",
        task.why or ("" if last is None or runs else last.error or ended(last)),
    ]


def ended(attempt: AttemptView) -> str:
    """Return a description of the end of an attempt without a message."""
    if attempt.code is None:
        return attempt.outcome
    return f"exit code {attempt.code}" if attempt.code >= 0 else f"signal {-attempt.code}"


def run_row(view: JobView, now: float, zone: str) -> list[Cell]:
    """Return the cells of a run of a cron job, with times in the zone of the job."""
    tasks = view.tasks
    over = tasks.succeeded + tasks.failed + tasks.cancelled
    took = "-" if view.started is None else duration((view.ended or now) - view.started)
    submitted = _when(view.submitted, zone, seconds=True)
    return [str(view.id), state(view.state), f"{over}/{tasks.total}", submitted, took, view.reason]


def step_rows(steps: Sequence[StepView]) -> list[list[Cell]]:
    """Return the steps as a tree: each below its last predecessor, steps without predecessors at the edge."""
    depth = _depths({step.name: step.after for step in steps})
    below: dict[str, list[StepView]] = {}
    for step in steps:
        above = max(
            (step_before for step_before in step.after if step_before in depth),
            key=lambda step_before: depth[step_before],
            default="",
        )
        below.setdefault(above, []).append(step)
    rows: list[list[Cell]] = []
    names = {str(step.id): step.name for step in steps}
    waiting = list(reversed(below.get("", [])))
    while waiting:
        step = waiting.pop()
        rows.append(_step_row(step, depth[step.name], names))
        waiting += reversed(below.get(step.name, []))
    return rows


def _depths(after: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return the depth of each step: the length of the longest chain of steps before it."""
    found: dict[str, int] = {}
    while len(found) < len(after):
        before = len(found)
        for name, behind in after.items():
            known = [step_before for step_before in behind if step_before in after]
            if name not in found and all(step_before in found for step_before in known):
                found[name] = max((found[step_before] + 1 for step_before in known), default=0)
        if len(found) == before:  # a cycle, which no center accepts
            found |= {name: 0 for name in after if name not in found}
    return found


def _step_row(step: StepView, depth: int, names: Mapping[str, str]) -> list[Cell]:
    # Within their dag steps appear by their names.
    reason = _JOB.sub(lambda found: f"step {names[found[1]]}" if found[1] in names else found[0], step.reason)
    after = ", ".join(name if word == "ok" else f"{name} ({word})" for name, word in step.after.items())
    return [f"{'  ' * depth}{step.name}", str(step.id), state(step.state), after, reason]
