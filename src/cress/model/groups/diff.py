"""Differences between the groups in force and a changed ``Group.conf``, as values and as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from cress.model.group import Group
from cress.model.groups.conf import NAME, ZONE, group_values
from cress.model.groups.quota_text import CPU
from cress.model.resources import Dimensions

# The name under which a change of the time zone is shown.
TIMETABLES = "(timetables)"


class DiffMark(Enum):
    """A kind of change to a group; the value marks it in the text."""

    ADDED = "+"
    CHANGED = "~"
    REMOVED = "-"


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One keyword with its value before and after; "" where it is missing."""

    keyword: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One changed group, and its changes."""

    kind: DiffMark
    name: str
    values: tuple[ValueChange, ...] = ()


def diff_groups(
    old: Iterable[Group], new: Iterable[Group], *, dimensions: Dimensions, accounting: str = CPU
) -> list[GroupChange]:
    """Return the changes from ``old`` to ``new``, by name of group; the order of the groups has no meaning."""
    before = {group.name: _values(group, accounting, dimensions) for group in old}
    after = {group.name: _values(group, accounting, dimensions) for group in new}
    changes = []
    for name in sorted(before.keys() | after.keys()):
        was, becomes = before.get(name, {}), after.get(name, {})
        values = tuple(
            ValueChange(keyword, was.get(keyword, ""), becomes.get(keyword, ""))
            for keyword in (*was, *(added for added in becomes if added not in was))
            if was.get(keyword, "") != becomes.get(keyword, "")
        )
        if name not in before:
            changes.append(GroupChange(DiffMark.ADDED, name, values))
        elif name not in after:
            changes.append(GroupChange(DiffMark.REMOVED, name, values))
        elif values:
            changes.append(GroupChange(DiffMark.CHANGED, name, values))
    return changes


def diff_zones(old: str, new: str) -> list[GroupChange]:
    """Return the change from one time zone of the timetables to another; empty: that of the cluster."""
    if old == new:
        return []
    return [GroupChange(DiffMark.CHANGED, TIMETABLES, (ValueChange(ZONE, old, new),))]


def format_diff(changes: Iterable[GroupChange]) -> str:
    """Format the changes for people, one group after the other; ``no changes`` if there are none."""
    lines = []
    for change in changes:
        lines.append(f"{change.kind.value} {change.name}")
        for value in change.values:
            if change.kind is DiffMark.ADDED:
                lines.append(f"    {value.keyword}: {value.after}")
            elif change.kind is DiffMark.CHANGED:
                lines.append(f"    {value.keyword}: {value.before or '(not set)'} -> {value.after or '(not set)'}")
    return "\n".join(lines or ["no changes"]) + "\n"


def _values(group: Group, accounting: str, dimensions: Dimensions) -> dict[str, str]:
    values = group_values(group, accounting=accounting, dimensions=dimensions)
    del values[NAME]
    # The order of users has no meaning.
    values |= {"Users": " | ".join(sorted(group.users)), "UserWeights": _weights(group)}
    return values | ({"Admins": " | ".join(sorted(group.admins))} if group.admins else {})


def _weights(group: Group) -> str:
    return " | ".join(f"{user}={weight}" for user, weight in sorted(group.user_weights))
