"""Deadlines in the output of commands: the slack in its colour, the forecast in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.common import duration, moment
from cress.cli.tables import Cell, TableColumn

if TYPE_CHECKING:
    from cress.client import DeadlineView, JobView

DEADLINE = TableColumn("DEADLINE", right=True, hides=7)
_COLOURS = {"fine": "green", "met": "green", "at_risk": "yellow", "cannot_be_met": "red", "missed": "red"}


def with_deadlines(
    jobs: Sequence[JobView], columns: Sequence[TableColumn], rows: Sequence[list[Cell]], *, asked: bool
) -> list[TableColumn]:
    """Return the columns of a table of jobs, with a column of the slack before the last one.

    The slack is added only if a job has a deadline, or if it is ``asked`` for.
    """
    if not asked and all(job.deadline is None for job in jobs):
        return [*columns]
    for job, cells in zip(jobs, rows, strict=True):
        cells.insert(-1, "-" if job.deadline is None else slack(job.deadline))
    return [*columns[:-1], DEADLINE, columns[-1]]


def slack(view: DeadlineView) -> Cell:
    """Return the time left beyond the needs of the job, in the colour of the forecast: ``2h05m``, ``-10m00s``."""
    colour = _COLOURS.get(view.forecast, "red" if view.slack < 0 else "")
    return f"{'-' if view.slack < 0 else ''}{duration(abs(view.slack))}", colour


def forecast(view: DeadlineView) -> str:
    """Return the forecast in a few words."""
    if view.forecast == "at_risk":
        return "at risk" if view.chance is None else f"at risk: {1 - view.chance:.0%} miss it"
    if view.forecast == "cannot_be_met":
        end = "" if view.earliest_end is None else f": earliest end {moment(view.earliest_end)}"
        return f"cannot be met{end}"
    if view.forecast == "unknown":
        return "not known yet"
    return view.forecast


def facts_of(view: JobView, now: float) -> list[tuple[str, Cell]]:
    """Return the facts about the deadline of a job; ``now`` in seconds since the epoch."""
    if view.within is not None:
        return [("Deadline", f"{duration(view.within)} from the start of each run on")]
    due = view.deadline
    if due is None:
        return []
    left = f" (in {duration(due.at - now)})" if view.ended is None and due.at > now else ""
    over = view.ended is not None
    return [
        ("Deadline", moment(due.at) + left),
        ("Slack", slack(due)),
        ("Urgency", "" if over else f"{due.urgency:.2f}"),
        ("Forecast", "" if over else (forecast(due), slack(due)[1])),
        ("Met", {"met": "yes", "missed": "no"}.get(due.forecast, "")),
    ]
