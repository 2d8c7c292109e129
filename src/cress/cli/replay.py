"""``cress replay``: decide the log of a center again, and compare; or show what other groups would have changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import count, duration, moment
from cress.cli.errors import told
from cress.cli.tables import facts
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.past.recorded_log import RecordedLog
    from cress.past.replaying import Replayed

EPILOG = """\
\b
Examples:
  cress replay /srv/cress                         every decision again, compared byte for byte
  cress replay --from 2026-11-02 --until 2026-11-03
  cress replay --explain 81 --at '2026-11-02 14:30'   why job 81 waited then
  cress replay /srv/cress --groups new.conf       what would have happened, beside what did
  cress replay /srv/cress --option lending=off --policy FIFO

\b
Without DATA it reads the data directory of the center on this machine. The center may run meanwhile.
Times are local: '2026-11-02 14:30', 2026-11-02, or 7d for 7 days ago.
Exit codes: 0 all decisions are the same, 1 one differs (it is shown), 2 bad input, such as a damaged log.
"""
DIFFERENT = 1

Data = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="Data directory of a center, its folder events, or an event file. Default: that of the center here.",
    ),
]
Since = Annotated[str, typer.Option("--from", metavar="TIME", help="Begin of the compared time.")]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="End of the compared time.")]


def replay(
    data: Data = None,
    since: Since = "",
    until: Until = "",
    explain: Annotated[str, typer.Option(metavar="JOB", help="Show why this job waited at the time --at.")] = "",
    at: Annotated[str, typer.Option(metavar="TIME", help="The moment of --explain.")] = "",
    groups: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Simulate with these groups, beside what happened. Repeatable."),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Simulate with this policy of every group. Repeatable.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Simulate with this option of the scheduler. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory for the results of the simulation. Default: none.")
    ] = None,
) -> None:
    """Decide the log of a center again, and compare."""
    with told("replay", "sim"):
        from cress.cli.past_times import log_of, span_of

        log = log_of(data)
        first, last = span_of(since, until)
        others = bool(groups or policy or option)
        if bool(explain) != bool(at):
            missing = "--at" if explain else "--explain"
            raise InputError("is missing", hint="--explain JOB --at TIME", field=missing)
        if explain and others:
            raise InputError("cannot be combined with --groups, --policy and --option", hint="one", field="--explain")
        if out is not None and not others:
            raise InputError("has no effect alone", hint="--groups FILE, --policy or --option", field="--out")
        if explain:
            _explain(log, explain, at)
        elif others:
            from cress.cli.beside import show_beside

            show_beside(log, first, last, groups or [], tuple(policy or ()), tuple(option or ()), out)
        else:
            _compare(log, first, last)


def _compare(log: RecordedLog, since: int, until: int | None) -> None:
    from cress.past.replaying import replay_log

    begun = time.monotonic()
    found = replay_log(log, since, until, _progress() if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", err=True, nl=False)
    for gap in found.gaps:
        typer.echo(f"cress replay: {gap}", err=True)
    if not found.records and found.difference is None:
        raise InputError("has no records in this time", hint="another --from and --until", file=str(log.path))
    facts(_facts(found, time.monotonic() - begun))
    if found.difference is not None:
        print()
        _show_difference(found)
        raise typer.Exit(DIFFERENT)
    print("every decision is the same")


def _facts(found: Replayed, took: float) -> list[tuple[str, str]]:
    span = f"{found.first:,} to {found.last:,}, {moment(found.since / 1e6)} to {moment(found.until / 1e6)}"
    reread = ", ".join(map(str, found.reread[:5])) + (", …" if len(found.reread) > 5 else "")
    return [
        ("files", count(len(found.files), "file")),
        ("records", span if found.records else ""),
        ("decided", ", ".join(_counts(found))),
        ("restarts", str(found.restarts) if found.restarts else ""),
        ("read again", f"the center had read its state again before record {reread}" if reread else ""),
        ("took", duration(took)),
    ]


def _counts(found: Replayed) -> list[str]:
    told = [count(found.records, "step"), count(found.starts, "start")]
    told += [count(found.preemptions, "preemption")] if found.preemptions else []
    return [*told, *([count(found.stops, "stop")] if found.stops else [])]


def _show_difference(found: Replayed) -> None:
    """Print the first difference, and the state before it."""
    import cress

    different = found.difference
    assert different is not None
    print(f"record {different.record} ({moment(found.utc / 1e6)}, {found.file}) is decided differently:")
    facts(
        [
            ("  at", " ".join(map(str, different.place))),
            ("  stored", _short(different.stored)),
            ("  decided now", _short(different.replayed)),
        ]
    )
    print("the state before it:")
    for line in found.before:
        print(f"  {line}")
    if found.release != cress.__version__:
        print(f"cress {found.release} wrote the file, this is cress {cress.__version__}: decisions may have changed")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


def _explain(log: RecordedLog, job: str, at: str) -> None:
    from cress.cli.past_times import moment_of
    from cress.past.explaining import explained_at

    number, when = job, moment_of(at, "--at")
    found = explained_at(log, number, when)
    facts(
        [
            ("Job", f"{found.job}" + (f" ({found.name})" if found.name else "")),
            ("At", f"{moment(when / 1e6)} (after record {found.record:,})"),
            ("State", found.state),
            ("Reason", found.reason),
            ("Queue", found.queue),
        ]
    )


def _progress() -> Callable[[int, int], None]:
    """Return a function that shows how far a replay is, on standard error."""

    def tell(number: int, utc: int) -> None:
        at = datetime.fromtimestamp(utc / 1e6).astimezone().strftime("%Y-%m-%d %H:%M")
        typer.echo(f"\r\x1b[Krecord {number:,}, {at}", err=True, nl=False)

    return tell
