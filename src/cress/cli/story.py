"""``cress story``: everything that happened to a job, a node or a group, one line each."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, connect
from cress.cli.errors import told
from cress.cli.tables import clean
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client

EPILOG = """\
\b
Examples:
  cress story 81                 the job 81
  cress story train              the last job with this name, a node, or a group
  cress story node:n1 --from 7d
  cress story ads --data /backup/cress

\b
It reads the event log in the data directory, also while the center runs, or stopped. Where there is none, it asks the
center, which knows a job with all its tasks, and the latest 20,000 events.
Exit codes: 0 done, 2 bad input (such as an unknown name or a damaged log), 3 no center reachable.
"""


def story(
    subject: Annotated[
        str, typer.Argument(metavar="JOB|NODE|GROUP", help="Id or name; job:NAME, node:NAME, group:NAME.")
    ],
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Start of the period: '2026-11-02 14:30', or 7d (ago).")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="End.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print entries as JSON, one a line.")] = False,
    data: Data = None,
) -> None:
    """Show everything that happened to a job, a node or a group."""
    with told("story", "center"):
        from cress.cli.past_times import log_of, span_of
        from cress.client.config import chosen_directory

        first, last = span_of(since, until)
        place = chosen_directory(data)
        if place is None or not _has_log(place):
            with connect(data) as client:
                _from_center(client, subject, first / 1e6, None if last is None else last / 1e6, as_json=as_json)
            return
        from cress.past.chronicle import story as told_story

        found, entries = told_story(log_of(place), subject, first, last)
        if not entries:
            raise InputError(f"nothing happened to {found.kind} {found.name} in this time", hint="another --from")
        for entry in entries:
            if as_json:
                print_line(entry)
            else:
                print(line(entry.at / 1e6, entry.text))


def line(at: float, text: str) -> str:
    """Return an entry as a line."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}  {clean(text)}"


def print_line(entry: object) -> None:
    """Print an entry as one line of JSON."""
    import msgspec

    print(msgspec.json.encode(entry).decode())


def _has_log(place: Path) -> bool:
    """Return whether there is a log that this user may read."""
    try:
        return place.is_file() or any(any(folder.glob("*.events")) for folder in (place, place / "events"))
    except OSError:
        return False


def _from_center(client: Client, subject: str, since: float, until: float | None, *, as_json: bool) -> None:
    """Print what the center still knows."""
    kind, _, name = subject.rpartition(":")
    kind = kind or _kind_of(client, name)
    for at, text in told_by_center(client, kind, name):
        if at < since or (until is not None and at >= until):
            continue
        if as_json:
            print_line({"at": at, "text": text})
        else:
            print(line(at, text))


def _kind_of(client: Client, name: str) -> str:
    """Return the kind of a subject without one."""
    if any(node.name == name for node in client.nodes()):
        return "node"
    return "group" if any(group.name == name for group in client.groups().groups) else "job"


def told_by_center(client: Client, kind: str, name: str) -> list[tuple[float, str]]:
    """Return what a center still knows of a job, a node or a group as times and lines: the latest events, the job."""
    from cress.cli.events import about
    from cress.cli.job_names import job_named

    job = job_named(client, name) if kind == "job" else None
    lines: list[tuple[float, str]] = []
    events = client.events(job=job, group=name if kind == "group" else "", after=0, follow=False)
    for event in events:
        if event.kind == "gap" or (kind == "node" and event.node != name):
            continue
        lines.append((event.at, f"{event.kind} {' '.join(about(event))}".strip()))
    if job is not None:
        view = client.job(job)
        if not any(text.startswith("job.submitted") for _, text in lines):
            lines.append((view.submitted, f"job.submitted {job} ({view.name}) by {view.user}"))
        now = time.time()
        if view.reason:
            lines.append((view.ended or now, f"{job} is {view.state}: {view.reason}"))
        if view.state == "waiting" and not view.held:
            lines += [(now, text) for text in _outlook(client, job, now)]
    return sorted(lines)


def _outlook(client: Client, job: int, now: float) -> list[str]:
    """Return the expected start of a waiting job, and the smallest change that would let it start now."""
    from cress.cli.explain import when
    from cress.client import Refused, calls

    try:
        found = client.ask(calls.explanation(job))
    except Refused:
        return []
    lines = [f"{job} expected start: {when(found.start, now)}"] if found.reason else []
    return [*lines, *(f"{job} would start now: {remedy.text}" for remedy in found.remedies[:1])]
