"""``cress events``: events of the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import AGAIN, PATIENCE, Data, connect
from cress.cli.errors import told
from cress.cli.job_names import job_named
from cress.cli.tables import clean

if TYPE_CHECKING:
    from cress.client import Client, EventView

EPILOG = """\
\b
Examples:
  cress events                    recent events, then exit
  cress events --follow           new events as they happen, until Ctrl-C
  cress events --follow --job 12
  cress events --after 4711       events after that one

\b
Each line: number, time, kind, what it is about.
Exit codes: 0 done, 2 bad input, 3 no center reachable, 130 interrupted.
"""


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new events, until Ctrl-C.")] = False,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only events of this job (id or name).")] = None,
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only events of this group.")] = "",
    after: Annotated[int | None, typer.Option(metavar="N", min=0, help="Only events after number N.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON, one a line.")] = False,
    data: Data = None,
) -> None:
    """Show events of the cluster."""
    with told("events"), connect(data) as client:
        wanted = None if job is None else job_named(client, job)
        for event in _all(client, after, wanted, group, follow=follow):
            print(_json(event) if as_json else line(event), flush=follow)


def _all(client: Client, after: int | None, job: int | None, group: str, *, follow: bool) -> Iterator[EventView]:
    """Yield the events, also across a restart of the center."""
    from cress.client import Unavailable, Unreachable

    away: float | None = None
    while True:
        try:
            for event in client.events(after=after, job=job, group=group, follow=follow):
                after, away = event.number, None
                yield event
        except (Unreachable, Unavailable) as error:
            # Without a number it is unknown where to continue.
            if not follow or after is None:
                raise
            away = away or time.monotonic()
            if time.monotonic() - away > PATIENCE:
                raise
            typer.echo(f"cress events: {error}; trying again", err=True)
        else:
            if not follow:
                return
        time.sleep(AGAIN)


def line(event: EventView) -> str:
    """Return an event as a line."""
    at = datetime.fromtimestamp(event.at).astimezone().strftime("%H:%M:%S")
    return f"{event.number:>6} {at} {event.kind:<15} {clean(' '.join(about(event)))}".rstrip()


def about(event: EventView) -> Iterator[str]:
    """Yield a description of the subject of an event."""
    if event.kind == "gap":
        yield "earlier events are no longer kept"
    if event.task is not None:
        yield f"{event.job}.{event.task} on {event.node}"
    elif event.job is not None:
        yield str(event.job)
    elif event.node:
        yield event.node
    if event.name:
        yield f"({event.name})"
    if event.state:
        yield event.state
    if event.code:
        yield f"with code {event.code}"
    if event.user and event.task is None:
        yield f"by {event.user}"
    if event.text:
        yield f"- {event.text}"


def _json(event: EventView) -> str:
    import msgspec

    return msgspec.json.encode(event).decode()
