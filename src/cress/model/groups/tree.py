"""The tree of groups (design note 0030): parents, quotas over the week, and mistakes in a tree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeAlias

from cress.model.group import DEFAULT_GROUP, Group, Quota
from cress.model.groups.measures import describe_measure, split, without_kinds
from cress.model.groups.quota_text import SCALE, UNIT, format_moment
from cress.model.groups.timetable import weekly_quotas
from cress.model.resources import Dimensions
from cress.model.units import format_share, one_of

MAX_LEVELS = 16
PARENT, QUOTA, MAX_QUOTA, LENDABLE = "Parent", "ResourceQuota", "MaxQuota", "Lendable"
NO_QUOTA = Quota()

# Quotas of a week: (minute of the week, quota from then on), ascending, from minute 0.
Week: TypeAlias = list[tuple[int, Quota]]


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a group: the keyword, the mistake, and the remedy."""

    group: str
    keyword: str
    what: str
    hint: str


def inner_names(groups: Iterable[Group]) -> frozenset[str]:
    """Return the names of the groups with groups below them."""
    return frozenset(group.parent for group in groups if group.parent)


def leaf_names(groups: Iterable[Group]) -> set[str]:
    """Return the names of the groups that take jobs, including the default group."""
    groups = list(groups)
    return ({group.name for group in groups} | {DEFAULT_GROUP}) - inner_names(groups)


def leaves_below(groups: Iterable[Group], name: str) -> list[str]:
    """Return the names of the groups that take jobs below an inner group, depth first in the order of the file."""
    children = children_of(groups)
    found: list[str] = []
    open_ = [name]
    while open_:
        next_name = open_.pop()
        if next_name in children:
            open_ += [below.name for below in reversed(children[next_name])]
        else:
            found.append(next_name)
    return found


def children_of(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """Return the groups by the name of their parent; the key is empty for those without one."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.parent, []).append(group)
    return found


def from_the_leaves(groups: Iterable[Group]) -> list[Group]:
    """Return the groups so that each comes after all groups below it."""
    children = children_of(groups)
    found: list[Group] = []
    open_ = list(children.get("", ()))
    while open_:
        group = open_.pop()
        found.append(group)
        open_ += children.get(group.name, ())
    found.reverse()
    return found


def with_levels(groups: Iterable[Group]) -> list[tuple[int, Group]]:
    """Return the groups depth first with their level; siblings by name."""
    children = children_of(groups)
    found: list[tuple[int, Group]] = []
    open_ = [(0, group) for group in sorted(children.get("", ()), key=lambda child: child.name, reverse=True)]
    while open_:
        level, group = open_.pop()
        found.append((level, group))
        below = sorted(children.get(group.name, ()), key=lambda child: child.name, reverse=True)
        open_ += [(level + 1, child) for child in below]
    return found


def weeks_of(groups: Iterable[Group]) -> dict[str, Week]:
    """Return the weekly quotas of all groups; a group without a quota has the sum of those below it."""
    groups = list(groups)
    children = children_of(groups)
    weeks: dict[str, Week] = {}
    for group in from_the_leaves(groups):
        if group.quota == NO_QUOTA:
            weeks[group.name] = sum_of([weeks[child.name] for child in children.get(group.name, ())])
        else:
            weeks[group.name] = weekly_quotas(group)
    return weeks


def sum_of(weeks: Iterable[Week]) -> Week:
    """Return the sum of quotas of one form at every moment of the week."""
    changes: dict[int, dict[str, int]] = {0: {}}
    for week in weeks:
        before: dict[str, int] = {}
        for moment, quota in week:
            now = dict(amounts_of(quota))
            more = changes.setdefault(moment, {})
            for name in (*before, *(keyword for keyword in now if keyword not in before)):
                more[name] = more.get(name, 0) + now.get(name, 0) - before.get(name, 0)
            before = now
    total: dict[str, int] = {}
    found: Week = []
    for moment in sorted(changes):
        for name, amount in changes[moment].items():
            total[name] = total.get(name, 0) + amount
        quota = Quota(scalar=total[""]) if "" in total else Quota(amounts=tuple(total.items()))
        if not found or found[-1][1] != quota:
            found.append((moment, quota))
    return found


def amounts_of(quota: Quota) -> tuple[tuple[str, int], ...]:
    """Return the amounts of a quota by dimension; a scalar has the dimension ""."""
    return quota.amounts or (("", quota.scalar),)


def problems(groups: Sequence[Group], *, accounting: str, dimensions: Dimensions) -> list[Problem]:
    """Return the mistakes in the tree of these groups: first parents; quotas are checked only once all parents are
    right.
    """
    by_name = {group.name: group for group in groups}
    found = [problem for group in groups if (problem := _misplaced(group, by_name))]
    if found:
        return found
    inner = inner_names(groups)
    found = [
        Problem(group.name, QUOTA, f"group {group.name!r} has no quota", "ResourceQuota: 10")
        for group in groups
        if group.quota == NO_QUOTA and group.name not in inner
    ]
    found = found or _mixed(groups, by_name, inner)
    if found:
        return found
    if not inner and all(group.max_quota is None for group in groups):
        return []
    children, weeks = children_of(groups), weeks_of(groups)
    say = partial(say_amount, accounting=accounting, dimensions=dimensions)
    for group in groups:
        if group.name in inner and group.quota != NO_QUOTA:
            theirs = sum_of([weeks[child.name] for child in children[group.name]])
            if over := _first_over(theirs, weeks[group.name]):
                has, may = say(over.name, over.has), say(over.name, over.may)
                what = f"the groups in {group.name} have quotas of {has} together{over.when}, its own is {may}"
                found.append(Problem(group.name, QUOTA, what, f"at least {has}, or none: the sum of theirs"))
        if group.max_quota is not None and (over := _first_over(weeks[group.name], [(0, group.max_quota)], bound=True)):
            has, may = say(over.name, over.has), say(over.name, over.may)
            what = f"{may} is below the quota of {has}{over.when}"
            found.append(Problem(group.name, MAX_QUOTA, what, f"at least {has}"))
    return found


def _misplaced(group: Group, by_name: Mapping[str, Group]) -> Problem | None:
    """Return the mistake in the place of a group: an unknown parent, or a cycle."""
    if not group.parent:
        return None
    name, parent = group.name, group.parent
    if name == DEFAULT_GROUP:
        return Problem(name, PARENT, "the default group is in no other group", "leave it out")
    if parent == DEFAULT_GROUP:
        return Problem(name, PARENT, "no group is in the default group, which takes jobs", "another group")
    if parent not in by_name:
        others = [other for other in by_name if other not in (name, DEFAULT_GROUP)]
        hint = one_of(parent, others) if others else f"a block with Name: {parent}"
        return Problem(name, PARENT, f"there is no group {parent!r}", hint)
    path = [name]
    while by_name[path[-1]].parent in by_name:
        path.append(by_name[path[-1]].parent)
        if path[-1] == name:
            return Problem(name, PARENT, f"group {name} is in itself: {' in '.join(path)}", "a group above it")
        if path[-1] in path[:-1]:
            # The groups of the cycle report it.
            return None
        if len(path) > MAX_LEVELS:
            return Problem(name, PARENT, f"group {name} is too deep in the tree", f"at most {MAX_LEVELS} levels")
    return None


def _mixed(groups: Sequence[Group], by_name: Mapping[str, Group], inner: frozenset[str]) -> list[Problem]:
    """Return the groups whose amounts have another form: in a tree all are numbers, or have the same dimensions; kinds
    of nodes may differ.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if group.quota != NO_QUOTA:
            kinds.setdefault(_root(group, by_name), _kind(group.quota))
    found = []
    for group in groups:
        in_tree = group.parent or group.name in inner
        if not in_tree and group.max_quota is None and group.lendable is None:
            continue
        wanted = kinds[_root(group, by_name)]
        own = [group.quota, *(window.quota for window in group.windows)] if group.quota != NO_QUOTA else []
        other = any(_kind(quota) != wanted for quota in own)
        if other and in_tree:
            what = f"the quotas of a tree are all of one kind, here {_said(wanted)}"
            found.append(Problem(group.name, QUOTA, what, "numbers, or vectors of the same dimensions all week"))
            continue
        for keyword, quota in ((MAX_QUOTA, group.max_quota), (LENDABLE, group.lendable)):
            if quota is None or (keyword == LENDABLE and quota == NO_QUOTA):
                continue
            if other:
                what = "cannot be set for a group whose timetable changes the dimensions of its quota"
                found.append(Problem(group.name, keyword, what, "the same dimensions all week"))
            elif not (set(_kind(quota)) <= set(wanted) if keyword == LENDABLE else _kind(quota) == wanted):
                what = f"is {_said(_kind(quota))}, and the quota {_said(wanted)}"
                found.append(Problem(group.name, keyword, what, "of the same kind as the quota"))
    return found


def _root(group: Group, by_name: Mapping[str, Group]) -> str:
    while group.parent:
        group = by_name[group.parent]
    return group.name


def _kind(quota: Quota) -> tuple[str, ...]:
    return without_kinds(name for name, _ in amounts_of(quota))


def _said(kind: tuple[str, ...]) -> str:
    if not kind:
        return "a vector of kinds of nodes alone"
    return "a number" if kind == ("",) else f"a vector of {', '.join(kind)}"


@dataclass(frozen=True, slots=True)
class _Over:
    """An amount above its maximum, and the time of the week from which it is."""

    name: str
    has: int
    may: int
    when: str


def _first_over(week: Week, most: Week, *, bound: bool = False) -> _Over | None:
    """Return the first amount of the week above its maximum.

    A ``bound`` does not limit the kinds of nodes that it does not name.
    """
    moments = sorted({moment for moment, _ in (*week, *most)})
    for moment in moments:
        has, may = dict(amounts_of(quota_in(week, moment))), dict(amounts_of(quota_in(most, moment)))
        for name, amount in has.items():
            if amount > may.get(name, 0) and not (bound and name not in may and split(name)[1]):
                when = f" from {format_moment(moment)}" if len(moments) > 1 else ""
                return _Over(name, amount, may.get(name, 0), when)
    return None


def quota_in(week: Week, moment: int) -> Quota:
    """Return the quota of a week at a minute of it."""
    return week[bisect_right(week, moment, key=lambda entry: entry[0]) - 1][1]


def say_amount(name: str, amount: int, *, accounting: str, dimensions: Dimensions) -> str:
    """Return an amount of a quota in words; a scalar has the dimension ""."""
    if name:
        return describe_measure(amount, name, dimensions)
    return f"{format_share(Decimal(amount) / SCALE[accounting])} {UNIT[accounting]}"
