"""Amounts of groups, and bounds that units would break, as sentences."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from cress.core.accounts import AtBound
from cress.core.books import Books
from cress.core.groups.guarantees import ForbiddenBy
from cress.core.jobs import JobEntry
from cress.model.groups.measures import describe_measure
from cress.model.groups.quota_text import SCALE, UNIT
from cress.model.units import format_share


def say_amount(core: Books, measure: str, amount: int) -> str:
    """Return an amount of a group as text; without a ``measure``, in cores or servers."""
    if measure:
        return describe_measure(amount, measure, core.dimensions)
    accounting = core.options.accounting
    number = format_share(Decimal(amount) / SCALE[accounting])
    return f"{number} {UNIT[accounting][:-1] if number == '1' else UNIT[accounting]}"


def say_bound(core: Books, job: JobEntry, bound: AtBound) -> str:
    """Return the sentence about a bound of groups."""
    amount = partial(say_amount, core, bound.measure)
    if bound.account:
        return (
            f"group {bound.account} is at its MaxQuota of {amount(bound.most)}: {amount(bound.has)} used, "
            f"job {job.job.id} asks for {amount(bound.asks)}"
        )
    keeping = " and ".join(f"group {name} {amount(kept)}" for name, kept in bound.keeping)
    return (
        f"job {job.job.id} asks for {amount(bound.asks)} beyond the quota of group {job.group.name}, "
        f"and other groups do not lend what is free (Lendable): {keeping}"
    )


def say_forbidden(core: Books, job: JobEntry, found: ForbiddenBy) -> str:
    """Return the sentence about a guarantee of others that leaves no room for a unit."""
    amount = partial(say_amount, core, found.measure)
    return (
        f"job {job.job.id} asks for {amount(found.asks)} at once, beyond the quota of group {found.group} "
        f"({amount(found.quota)}), and the guarantees of other groups leave {amount(found.left)} now; "
        "it starts when they leave enough, and jobs behind it go first until then; "
        "to start earlier, ask for less or raise ResourceQuota"
    )
