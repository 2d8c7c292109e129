"""``cress story``: everything that happened to a job, a node or a group, one line each."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, connect, print_json
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
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="Begin: '2026-11-02 14:30', or 7d ago.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="End.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print entries as JSON, one a line.")] = False,
    data: Data = None,
) -> None:
    """Show everything that happened to a job, a node or a group."""
    with told("story", "center"):
        from cress.cli.past_times import log_of, span_of
        from cress.client.config import data_directory

        first, last = span_of(since, until)
        place: Path = data_directory(data)
        if not (place / "events").is_dir() and place.is_dir() | (not place.exists()) and not _has_files(place):
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


def _has_files(place: Path) -> bool:
    return place.is_file() or any(place.glob("*.events"))


def _from_center(client: Client, subject: str, since: float, until: float | None, *, as_json: bool) -> None:
    """Print what the center still knows: the latest events, and the job."""
    from cress.cli.events import about
    from cress.cli.job_names import job_named

    kind, _, name = subject.rpartition(":")
    nodes = {node.name for node in client.nodes()} if kind in ("", "node") else set()
    groups = {group.name for group in client.groups()} if kind in ("", "group") else set()
    job = job_named(client, name) if name not in nodes | groups else None
    lines: list[tuple[float, str]] = []
    if job is not None:
        view = client.job(job)
        lines.append((view.submitted, f"{job} ({view.name}) submitted by {view.user} to group {view.group}"))
        if view.reason:
            lines.append((datetime.now().timestamp(), f"{job} is {view.state}: {view.reason}"))
    for event in client.events(job=job, group=name if name in groups else "", follow=False):
        if name in nodes and event.node != name:
            continue
        lines.append((event.at, f"{event.kind} {' '.join(about(event))}"))
    told_lines = [(at, text) for at, text in sorted(lines) if at >= since and (until is None or at < until)]
    for at, text in told_lines:
        if as_json:
            print_json({"at": at, "text": text})
        else:
            print(line(at, text))
