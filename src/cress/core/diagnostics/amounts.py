"""Amounts of groups, and bounds that units would break, as sentences."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from cress.core.accounts import AtBound
from cress.core.books import Books
from cress.core.groups.guarantees import ForbiddenBy, measure_of
from cress.core.jobs import JobEntry
from cress.model.groups.measures import describe_measure
from cress.model.groups.quota_text import SCALE, UNIT
from cress.model.units import format_share

# What happens to a unit that waits for something other than room.
_PASSED_OVER = "nothing is reserved for it meanwhile, and jobs behind it may start first"


def say_amount(core: Books, measure: str, amount: int) -> str:
    """Return an amount of a group as text; without a ``measure``, in cores or servers."""
    if measure:
        return describe_measure(amount, measure, core.dimensions)
    accounting = core.options.accounting
    number = format_share(Decimal(amount) / SCALE[accounting])
    return f"{number} {UNIT[accounting][:-1] if number == '1' else UNIT[accounting]}"


def say_bound(core: Books, job: JobEntry, bound: AtBound) -> str:
    """Return the sentence about a bound of groups, and the smallest change that would help."""
    amount, number = partial(say_amount, core, bound.measure), job.job.counted_as
    less = _less(amount, bound.most - bound.has)
    if bound.account:
        return (
            f"group {bound.account} is at its MaxQuota of {amount(bound.most)}: {amount(bound.has)} used, "
            f"job {number} asks for {amount(bound.asks)}; {_PASSED_OVER}; "
            f"to start earlier, {less}raise MaxQuota to {amount(bound.has + bound.asks)}"
        )
    keeping = " and ".join(f"group {name} {amount(kept)}" for name, kept in bound.keeping)
    quota = _quota_of(core, job, bound.measure)
    return (
        f"job {number} asks for {amount(bound.asks)} beyond the quota of group {job.group.name} ({amount(quota)}), "
        f"and other groups do not lend what is free (Lendable): {keeping}; {_PASSED_OVER}; to start earlier, "
        f"{less}raise Lendable of {_together(bound.keeping)} by {amount(bound.has + bound.asks - bound.most)}"
    )


def _less(amount: Callable[[int], str], room: int) -> str:
    """Return the advice to ask for less, if anything is left."""
    return f"ask for at most {amount(room)} or " if room > 0 else ""


def _quota_of(core: Books, job: JobEntry, measure: str) -> int:
    """Return the quota of the group of a job in a measure."""
    group = job.group
    return next(quota for i, quota in enumerate(group.quota) if measure_of(core.groups, group, i) == measure)


def _together(keeping: tuple[tuple[str, int], ...]) -> str:
    """Return the groups that keep something for themselves."""
    names = [name for name, _ in keeping]
    return f"group {names[0]}" if len(names) == 1 else f"groups {', '.join(names[:-1])} and {names[-1]} together"


def say_never_allowed(core: Books, job: JobEntry, bound: AtBound) -> str:
    """Return the sentence about a bound of groups that excludes a unit even on the empty cluster, and a change that
    would help.
    """
    unit = "a task of job" if job.shape.size == 1 and job.job.tasks > 1 else "job"
    return (
        f"{unit} {job.job.counted_as} can never start, even on the empty cluster: it asks for "
        f"{say_amount(core, bound.measure, bound.asks)}, and {say_room(core, job.group.name, bound)}; "
        f"to let it start, {', or '.join(ways_out(core, bound))}"
    )


def say_room(core: Books, group: str, bound: AtBound) -> str:
    """Return the most that a unit of a group may ask for on the empty cluster, and the bound that says so."""
    amount = partial(say_amount, core, bound.measure)
    most = f"at most {amount(bound.room)} may be used at once in group {group}"
    if bound.account:
        return f"{most}, by the MaxQuota of group {bound.account}"
    keeping = " and ".join(f"group {name} keeps {amount(kept)}" for name, kept in bound.keeping)
    whom = "itself" if len(bound.keeping) == 1 else "themselves"
    return f"{most}: the cluster has {amount(bound.most)}, of which {keeping} for {whom} (Lendable)"


def ways_out(core: Books, bound: AtBound) -> tuple[str, str]:
    """Return the smallest changes of bounds or of the request that make a unit possible."""
    amount = partial(say_amount, core, bound.measure)
    less = f"ask for at most {amount(bound.room)}"
    if bound.account:
        return less, f"raise MaxQuota of group {bound.account} to {amount(bound.asks)}"
    return less, f"raise Lendable of {_together(bound.keeping)} by {amount(bound.asks - bound.room)}"


def say_forbidden(core: Books, job: JobEntry, found: ForbiddenBy) -> str:
    """Return the sentence about a guarantee of others that leaves no room for a unit."""
    amount, number = partial(say_amount, core, found.measure), job.job.counted_as
    return (
        f"job {number} asks for {amount(found.asks)} at once, beyond the quota of group {found.group} "
        f"({amount(found.quota)}), and the demand of other groups up to their quotas leaves {amount(found.left)} now; "
        f"it starts when they leave enough; {_PASSED_OVER}; "
        f"to start earlier, ask for at most {amount(max(found.quota, found.left))} "
        f"or raise ResourceQuota to {amount(found.asks)}"
    )
