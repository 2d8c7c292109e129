"""The consequences of a change as rows of tables: the cluster before and after it, its groups, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from cress.portal.texts import duration
from cress.protocol.trial_views import ConsequencesView, CourseView, GroupCourseView

# A change of a share below this is not shown.
LEAST = 0.0005

_Say: TypeAlias = Callable[[GroupCourseView], str]


class BeforeAfter(NamedTuple):
    """A number before a change and after it, as texts."""

    name: str
    before: str
    after: str


class GroupShift(NamedTuple):
    """A group before a change and after it."""

    name: str
    waiting: int
    wait: BeforeAfter
    share: BeforeAfter
    missed: BeforeAfter
    stopped: BeforeAfter


def cluster_rows(found: ConsequencesView) -> list[BeforeAfter]:
    """Return the numbers of the whole cluster."""
    before, after = found.before, found.after
    was, will = before.total, after.total
    rows = [
        BeforeAfter("the queue of now is done in", _length(before), _length(after)),
        BeforeAfter("waiting jobs that start", f"{was.started} of {was.waiting}", f"{will.started} of {will.waiting}"),
        BeforeAfter("mean wait", duration(was.mean_wait), duration(will.mean_wait)),
        BeforeAfter("longest wait", duration(was.longest_wait), duration(will.longest_wait)),
    ]
    for name in before.use | after.use:
        shares = before.use.get(name, 0.0), after.use.get(name, 0.0)
        if max(shares) >= LEAST:
            rows.append(BeforeAfter(f"use of {name}", *map(_percent, shares)))
    rows.append(BeforeAfter("deadlines missed", str(was.missed), str(will.missed)))
    rows.append(BeforeAfter("tasks stopped", str(was.stopped), str(will.stopped)))
    return rows


def group_rows(found: ConsequencesView) -> list[GroupShift]:
    """Return the groups that wait, use something, or lose something."""
    return list(_groups(found))


def _groups(found: ConsequencesView) -> Iterator[GroupShift]:
    for name in found.after.groups | found.before.groups:
        was, will = found.before.groups.get(name), found.after.groups.get(name)
        there = [one for one in (was, will) if one is not None]
        if any(one.waiting or one.share >= LEAST or one.missed or one.stopped for one in there):
            yield GroupShift(
                name,
                max(one.waiting for one in there),
                _pair("mean wait", was, will, lambda one: duration(one.mean_wait)),
                _pair("share", was, will, lambda one: _percent(one.share)),
                _pair("missed", was, will, lambda one: str(one.missed)),
                _pair("stopped", was, will, lambda one: str(one.stopped)),
            )


def _pair(name: str, was: GroupCourseView | None, will: GroupCourseView | None, say: _Say) -> BeforeAfter:
    return BeforeAfter(name, "" if was is None else say(was), "" if will is None else say(will))


def limits_of(found: ConsequencesView) -> list[str]:
    """Return what the numbers do not cover, and the remarks of the center."""
    notes = list(found.notes)
    for course, word in ((found.before, "without the change"), (found.after, "with the change")):
        if not course.finished:
            notes.append(f"The time to compute was over: {word}, the numbers cover {duration(course.length)} alone.")
        if course.unending:
            jobs = "1 waiting job has" if course.unending == 1 else f"{course.unending:,} waiting jobs have"
            notes.append(f"{jobs} no known start or end {word}.")
    return notes


def _length(course: CourseView) -> str:
    return duration(course.length) if course.finished else f"more than {duration(course.length)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
