"""``cress jobs``: list jobs."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli.chosen_jobs import has_label
from cress.cli.common import Columns, Data, Json, Wide, connect, duration, selection_of
from cress.cli.deadlines import with_deadlines
from cress.cli.errors import told
from cress.cli.job_lines import in_order, line_of, parts_of
from cress.cli.job_names import job_named
from cress.cli.outputs import Output, written
from cress.cli.past_times import span_of
from cress.cli.tables import Cell, TableColumn, show, state
from cress.cli.waiting_page import what_to_do
from cress.model.records import JobState, canonical_state

if TYPE_CHECKING:
    from cress.client import Client, ExpectedStartView, JobsPage, JobView

EPILOG = """\
\b
Examples:
  cress jobs                     waiting, running and recently finished jobs
  cress jobs --state failed --limit 100
  cress jobs --type service
  cress jobs --family nightly    the runs of the cron job nightly
  cress jobs --since 7d --sort -elapsed
  cress jobs --format '{id} {name} {elapsed}'
  cress jobs --columns id,user,reason
  cress jobs --label tier=web -o csv
  cress jobs --all --json | jq '.jobs[].name'

\b
DONE counts ended tasks; for a service its ready tasks, for a dag the steps that succeeded. TIME is the time since the
first task started. DEADLINE is the time until the deadline minus the time that the job still needs: green if the
deadline will be met, yellow if it is at risk, red if it cannot be met. STARTS is the time until a waiting job is
expected to start: eight of ten jobs start between the two. --family lists members of services and databases.
Columns: id, name, type, group, user, state, done, running, age, time, deadline, starts, reason; a narrow terminal
leaves some out.
Fields of --sort and --format: id, name, group, user, type, state, priority, tasks, waiting, running, succeeded, failed,
submitted, started, ended, age, elapsed, waited, preempted, reason, kind: the row of the reason in docs/waiting.md.
Exit codes: 0 done, 2 bad input, 3 no center reachable.
"""

COLUMNS = (
    TableColumn("ID", right=True),
    TableColumn("NAME", gives=True),
    TableColumn("GROUP", gives=True, hides=2),
    TableColumn("USER", gives=True, hides=1),
    TableColumn("STATE"),
    TableColumn("DONE", right=True),
    TableColumn("RUNNING", right=True, hides=4),
    TableColumn("AGE", right=True, hides=3),
    TableColumn("TIME", right=True, hides=6),
    TableColumn("REASON", gives=True, least=30),
)
TYPE = TableColumn("TYPE", hides=5)
STARTS = TableColumn("STARTS", right=True, hides=8)
# The numbers of live jobs and of most recent jobs shown by default.
MOST_LIVE, LATEST = 100, 10
PAGE = 1000


class Type(StrEnum):
    """Types of jobs."""

    BATCH = "batch"
    SERVICE = "service"
    DATABASE = "database"
    CRON = "cron"
    DAG = "dag"


def _state(text: str) -> str:
    known = [job_state.value for job_state in JobState]
    word = canonical_state(text)
    if word and word not in known:
        raise ValueError(f"{text!r} is not one of {', '.join(known)}")
    return word


def jobs(
    every: Annotated[bool, typer.Option("--all", "-a", help="All jobs, including all finished ones.")] = False,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            parser=_state,
            help=(
                "Only jobs in this state: waiting, running, succeeded, failed (with timed out, out of memory, "
                "lost), cancelled."
            ),
        ),
    ] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only jobs of this group.")] = "",
    user: Annotated[str, typer.Option(metavar="USER", help="Only jobs of this user.")] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Only jobs of this name.")] = "",
    label: Annotated[str, typer.Option("--label", metavar="NAME[=VALUE]", help="Only jobs with this label.")] = "",
    kind: Annotated[Type | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    family: Annotated[
        str | None, typer.Option(metavar="JOB", help="Only runs, steps or members of this job (id or name).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Maximum number of jobs to show. Default: all with --all, else 100."),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only jobs submitted from then on, such as 7d or '2026-11-02 14:30'.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Only jobs submitted before.")] = "",
    sort: Annotated[
        str, typer.Option(metavar="FIELD", help="Order by a field, such as name; -elapsed: the largest first.")
    ] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="A line for each job, such as '{id} {name} {elapsed}'.")
    ] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    output: Output = "",
    data: Data = None,
) -> None:
    """List jobs, newest first."""
    with told("jobs"):
        parts = parts_of(form) if form else []
        first, last = span_of(since, until, "--since")
        now = time.time()
        with connect(data) as client:
            filters: dict[str, Any] = {"group": group, "user": user, "name": name}
            filters |= {"type": kind.value if kind else "", "family": job_named(client, family) if family else None}
            filters |= {"since": first / 1e6 if since else None, "until": None if last is None else last / 1e6}
            every = every or bool((since or until) and not limit)
            if every or state or limit:
                most = limit or (None if every else MOST_LIVE)
                page = _pages(client, most, {**filters, "state": state})
            else:
                page = _live(client, filters)
        if label:
            import msgspec

            page = msgspec.structs.replace(page, jobs=tuple(job for job in page.jobs if has_label(job, label)))
        if sort:
            import msgspec

            page = msgspec.structs.replace(page, jobs=tuple(in_order(page.jobs, sort, now)))
        if as_json or output:
            ids = [str(job.id) for job in page.jobs]
            written(page, "json" if as_json else output, lambda: table(page.jobs, now), ids, columns)
            return
        if form:
            for job in page.jobs:
                print(line_of(job, parts, now))
        elif page.jobs:
            selection = selection_of(columns, wide=wide)
            names = selection.names
            show(*table(page.jobs, now, names), selection)
            if told_about := rows_about(page.jobs):
                typer.echo(told_about, err=True)
            if page.next is not None and (every or state or limit):
                typer.echo("older jobs are not shown (cress jobs --all, or a larger --limit)", err=True)
        else:
            typer.echo("no jobs", err=True)


def rows_about(jobs: Sequence[JobView]) -> str:
    """Return where the reasons of waiting jobs are explained; empty if none waits."""
    kinds = dict.fromkeys(job.reason_kind for job in jobs if job.reason_kind)
    if not kinds:
        return ""
    first, *others = kinds
    return (
        f"what the reasons mean: {', '.join((what_to_do(first), *(f'#{kind}' for kind in others)))}; or cress why JOB"
    )


def table(
    jobs: Sequence[JobView], now: float, asked: Collection[str] = ()
) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows.

    Types are shown if a job is not a batch job, deadlines and expected starts if a job has one, or if they are
    ``asked`` for.
    """
    rows = [row(job, now) for job in jobs]
    columns = with_deadlines(jobs, COLUMNS, rows, asked="deadline" in asked)
    if "starts" in asked or any(job.expected_start is not None for job in jobs):
        for job, cells in zip(jobs, rows, strict=True):
            cells.insert(-1, "-" if job.expected_start is None else starts(job.expected_start, now))
        columns = [*columns[:-1], STARTS, columns[-1]]
    if "type" not in asked and all(job.type == "batch" for job in jobs):
        return columns, rows
    for job, cells in zip(jobs, rows, strict=True):
        cells.insert(2, job.type)
    return [*columns[:2], TYPE, *columns[2:]], rows


def row(job: JobView, now: float) -> list[Cell]:
    """Return the cells of one job; ``now`` in seconds since the epoch."""
    tasks = job.tasks
    done = tasks.succeeded if job.type == "dag" else tasks.succeeded + tasks.failed + tasks.cancelled
    run = "-" if job.started is None else duration((job.ended or now) - job.started)
    return [
        str(job.id),
        job.name,
        job.group,
        job.user,
        state(job.state),
        f"{job.service.ready}/{job.service.wanted}" if job.service else f"{done}/{tasks.total}" if tasks.total else "-",
        str(tasks.running),
        duration(now - job.submitted),
        run,
        job.reason,
    ]


def starts(start: ExpectedStartView, now: float) -> str:
    """Return when a job is expected to start, for a table: ``14m to 22m``, ``3h``, ``now``."""
    if start.earliest is None or start.latest is None:
        return "-" if start.likely is None else f"~{_rounded(start.likely - now)}"
    early, late = _rounded(start.earliest - now), _rounded(start.latest - now)
    return early if early == late else f"{early} to {late}"


def _rounded(seconds: float) -> str:
    """Return a duration in one unit: ``now``, ``40s``, ``14m``, ``3h``, ``2d``."""
    if seconds < 1:
        return "now"
    for size, unit, most in ((1, "s", 100), (60, "m", 100), (3600, "h", 72)):
        if seconds < most * size:
            return f"{round(seconds / size)}{unit}"
    return f"{round(seconds / 86400)}d"


def _live(client: Client, filters: dict[str, Any]) -> JobsPage:
    """Return the jobs that wait or run, and the most recent ones."""
    from cress.client import JobsPage

    found: dict[int, JobView] = {}
    older = None
    for word, most in (("waiting", MOST_LIVE), ("running", MOST_LIVE), ("", LATEST)):
        page = client.jobs(limit=most, state=word, **filters)
        older = page.next
        found |= {job.id: job for job in page.jobs}
    return JobsPage(jobs=tuple(found[id] for id in sorted(found, reverse=True)), next=older)


def _pages(client: Client, most: int | None, filters: dict[str, Any]) -> JobsPage:
    from cress.client import JobsPage

    found: list[JobView] = []
    before = None
    while most is None or len(found) < most:
        page = client.jobs(limit=PAGE if most is None else min(PAGE, most - len(found)), before=before, **filters)
        found += page.jobs
        before = page.next
        if before is None:
            break
    return JobsPage(jobs=tuple(found), next=before)
