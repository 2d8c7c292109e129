"""Contradictions in the configuration of groups: amounts and times that can never hold together.

They are refused when a user writes them. Configurations accepted earlier stay valid: the core checks only what it
relies on (``tree.problems``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cress.model.group import Group
from cress.model.groups.limits import MAX_SIZE
from cress.model.groups.measures import split
from cress.model.groups.tree import LENDABLE, MAX_QUOTA, QUOTA, Problem, amounts_of, say_amount, weeks_of
from cress.model.resources import Dimensions, Measure
from cress.model.units import format_amount, format_duration
from cress.model.vectors import too_little_memory

DEFAULT_TIME = "DefaultTimeLimit"


def contradictions(groups: Sequence[Group], *, accounting: str, dimensions: Dimensions) -> list[Problem]:
    """Return the contradictions in these groups, whose tree has no ``problems``."""
    return [*_tiny(groups), *_lent(groups, accounting, dimensions), *_default_times(groups)]


def _tiny(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield the first amount of memory in each keyword that is too small for any program: its unit was forgotten."""
    for group in groups:
        quotas = (group.quota, *(window.quota for window in group.windows))
        given = {
            QUOTA: tuple(pair for quota in quotas for pair in quota.amounts),
            MAX_QUOTA: group.max_quota.amounts if group.max_quota is not None else (),
            LENDABLE: group.lendable.amounts if group.lendable is not None else (),
            MAX_SIZE: group.limits.amounts,
        }
        for keyword, amounts in given.items():
            memory = (amount for name, amount in amounts if split(name)[0] == "memory")
            # How it was written is not known here; what is shorter with a unit probably had one.
            written = ((amount, format_amount(amount, Measure.BYTES)) for amount in memory)
            found = next(filter(None, (too_little_memory(*each, unit="G") for each in written)), None)
            if found is not None:
                yield Problem(group.name, keyword, *found)


def _lent(groups: Sequence[Group], accounting: str, dimensions: Dimensions) -> Iterator[Problem]:
    """Yield the first amount of each ``Lendable`` that is above the quota at any time of the week."""
    if all(group.lendable is None for group in groups):
        return
    weeks = weeks_of(groups)
    say = partial(say_amount, accounting=accounting, dimensions=dimensions)
    for group in groups:
        for name, lent in amounts_of(group.lendable) if group.lendable is not None else ():
            most = max(dict(amounts_of(quota)).get(name, 0) for _, quota in weeks[group.name])
            if lent <= most:
                continue
            largest = "largest quota" if len(weeks[group.name]) > 1 else "quota"
            what = f"{say(name, lent)} is more than the {largest} of {say(name, most)}"
            if most:
                hint = f"at most {say(name, most)}, or leave it out: all of it"
            elif split(name)[1]:
                what, hint = f"{say(name, lent)} is lent, and the quota has no {name}", "leave it out"
            else:
                hint = "leave it out"
            yield Problem(group.name, LENDABLE, what, hint)
            break


def _default_times(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield the default time limits that are above the limit of an enclosing group."""
    by_name = {group.name: group for group in groups}
    for group in groups:
        default, above = group.limits.default_time_limit, by_name.get(group.parent)
        while default is not None and above is not None:
            longest = above.limits.time_limit
            if longest is not None and default > longest:
                allowed = format_duration(longest)
                what = (
                    f"{format_duration(default)} of group {group.name} is longer than MaxTimeLimit of group "
                    f"{above.name}, {allowed}"
                )
                yield Problem(group.name, DEFAULT_TIME, what, f"at most {allowed}")
                break
            above = by_name.get(above.parent)
