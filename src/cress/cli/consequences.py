"""The consequences of a change, for people: tables of the cluster with and without it, and who starts or stops."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.common import count, duration, moment
from cress.cli.tables import Cell, TableColumn, clean, show

if TYPE_CHECKING:
    from cress.client import ConsequencesView, CourseView, GroupCourseView, PlannedView, StoppedView

# Rows of a list that are shown.
MOST = 10
CLUSTER = (TableColumn(""), TableColumn("BEFORE", right=True), TableColumn("AFTER", right=True))
GROUPS = (
    TableColumn("GROUP", gives=True),
    TableColumn("WAITING", right=True),
    TableColumn("MEAN WAIT", right=True),
    TableColumn("LONGEST", right=True, hides=2),
    TableColumn("SHARE", right=True),
    TableColumn("LATE", right=True, hides=1),
    TableColumn("STOPPED", right=True, hides=3),
)
SHIFTS = (
    TableColumn("JOB", right=True),
    TableColumn("NAME", gives=True),
    TableColumn("GROUP", gives=True),
    TableColumn("BEFORE"),
    TableColumn("AFTER"),
    TableColumn("CHANGE", right=True),
)
STOPPED = (
    TableColumn("TASK", right=True),
    TableColumn("NAME", gives=True),
    TableColumn("GROUP", gives=True),
    TableColumn("NODE", gives=True),
    TableColumn("WHEN"),
    TableColumn("WHY", gives=True),
    TableColumn("REPEATS", right=True),
)


def tell(found: ConsequencesView) -> None:
    """Print the consequences: jobs of the change, stopped tasks, shifted starts, the cluster before and after."""
    now = time.time()
    for job in found.jobs:
        tell_planned(job, found)
    tell_stopped(found.stopped, now)
    tell_shifts(found, now)
    print()
    show(CLUSTER, list(_cluster(found.before, found.after)))
    names = [name for name in found.after.groups | found.before.groups if _matters(found, name)]
    if names:
        print()
        show(GROUPS, [_group(name, found.before.groups.get(name), found.after.groups.get(name)) for name in names])
    for note in limits(found):
        print()
        print(note)


def tell_planned(job: PlannedView, found: ConsequencesView) -> None:
    """Print where and when a planned job would start."""
    who = f"job {job.id}" + (f" ({clean(job.name)})" if job.name else "")
    now = time.time()
    if job.start is None:
        known = f"it does not start within {duration(found.after.length)}"
        why = "no start is known" if found.after.finished else known
        print(f"{who} would wait: {why}" + (f"; {clean(job.reason)}" if job.reason else ""))
        return
    when = "now" if job.start - now < 1 else f"{moment(job.start)}, in {duration(job.start - now)}"
    nodes = sorted(job.nodes.items(), key=lambda item: (-item[1], item[0]))
    places = ", ".join(f"{clean(node)}" + (f" ({tasks} tasks)" if tasks > 1 else "") for node, tasks in nodes[:MOST])
    more = f" and {count(len(nodes) - MOST, 'more node')}" if len(nodes) > MOST else ""
    end = f"; it would end {moment(job.end)}" if job.end is not None else ""
    late = ", late" if job.late else ""
    print(f"{who} would start {when} on {places}{more}{end}{late}")


def tell_stopped(stopped: Sequence[StoppedView], now: float) -> None:
    """Print the running tasks that would be stopped."""
    if not stopped:
        print("no running task would be stopped")
        return
    lost = sum(one.done for one in stopped)
    print(f"{count(len(stopped), 'running task')} would be stopped and begin again, {duration(lost)} of runs lost:")
    show(STOPPED, [_stopped_row(one, now) for one in stopped[:MOST]])
    if len(stopped) > MOST:
        print(f"and {len(stopped) - MOST:,} more")


def _stopped_row(one: StoppedView, now: float) -> list[Cell]:
    task = "-" if one.job is None else f"{one.job}.{one.task}"
    why = one.why + (f" for job {one.by}" if one.by is not None else "")
    when = "now" if one.at - now < 1 else f"in {duration(one.at - now)}"
    return [task, one.name or "-", one.group, one.node, when, why, duration(one.done)]


def tell_shifts(found: ConsequencesView, now: float) -> None:
    """Print the waiting jobs that would start at another time."""
    if not found.later and not found.earlier:
        print("no waiting job would start at another time")
        return
    told = [f"{count(number, 'waiting job')} would start {word}" for number, word in _directions(found) if number]
    print(", ".join(told) + (":" if found.shifts else ""))
    if found.shifts:
        rows = []
        for one in found.shifts[:MOST]:
            both = one.before is not None and one.after is not None
            change = (one.after or 0) - (one.before or 0)
            shown = ("+" if change > 0 else "-") + duration(abs(change)) if both else "-"
            rows.append(
                [str(one.job), one.name or "-", one.group, _start(one.before, now), _start(one.after, now), shown]
            )
        show(SHIFTS, rows)
        if found.later + found.earlier > min(MOST, len(found.shifts)):
            print(f"and {found.later + found.earlier - min(MOST, len(found.shifts)):,} more")


def _directions(found: ConsequencesView) -> tuple[tuple[int, str], ...]:
    return (found.later, "later"), (found.earlier, "earlier")


def _start(at: float | None, now: float) -> str:
    return "not known" if at is None else "now" if at - now < 1 else f"in {duration(at - now)}"


def _cluster(before: CourseView, after: CourseView) -> list[list[Cell]]:
    was, will = before.total, after.total
    rows: list[list[Cell]] = [
        ["the queue of now is done in", _length(before), _length(after)],
        ["waiting jobs that start", _of(was), _of(will)],
        ["mean wait", _wait(was, was.mean_wait), _wait(will, will.mean_wait)],
        ["longest wait", _wait(was, was.longest_wait), _wait(will, will.longest_wait)],
    ]
    rows += [
        [f"use of {name}", _percent(before.use.get(name)), _percent(after.use.get(name))]
        for name in before.use | after.use
        if max(before.use.get(name, 0), after.use.get(name, 0)) >= 0.0005
    ]
    rows += [
        ["deadlines missed", str(was.missed), str(will.missed)],
        ["tasks stopped", str(was.stopped), str(will.stopped)],
    ]
    return rows


def _length(course: CourseView) -> str:
    return duration(course.length) if course.finished else f"more than {duration(course.length)}"


def _wait(of: GroupCourseView, wait: float) -> str:
    """Return a wait of the jobs that start; not known if there are others only."""
    return "not known" if of.waiting and not of.started else duration(wait)


def _of(total: GroupCourseView) -> str:
    return f"{total.started:,} of {total.waiting:,}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _matters(found: ConsequencesView, name: str) -> bool:
    """Return True if a group has or had anything in one of the courses."""
    courses = (found.before.groups.get(name), found.after.groups.get(name))
    return any(group is not None and (group.waiting or group.share or group.stopped) for group in courses)


def _group(name: str, was: GroupCourseView | None, will: GroupCourseView | None) -> list[Cell]:
    def change(before: str, after: str) -> str:
        return before if before == after else f"{before} → {after}"

    def of(view: GroupCourseView | None, field: str) -> str:
        if view is None:
            return "-"
        value = getattr(view, field)
        if field.endswith("wait"):
            return _wait(view, value)
        return _percent(value) if field == "share" else f"{value:,}"

    fields = ("waiting", "mean_wait", "longest_wait", "share", "missed", "stopped")
    return [name, *(change(of(was, field), of(will, field)) for field in fields)]


def limits(found: ConsequencesView) -> list[str]:
    """Return what the answer does not know, as sentences."""
    notes = []
    if not (found.before.finished and found.after.finished):
        notes.append(
            "Not finished: there was no time to follow the whole queue (a larger --seconds gives more). "
            "The numbers cover the time given as `more than`."
        )
    unending = max(found.before.unending, found.after.unending)
    if unending:
        notes.append(f"{count(unending, 'waiting job')} {'has' if unending == 1 else 'have'} no known start or end.")
    return notes
