"""Sentences for waiting units about quotas of kinds of nodes (design note 0034)."""

from __future__ import annotations

from collections.abc import Iterator

from cress.core.books import Books
from cress.core.groups.guarantees import charge_of_tasks, most_charge_of
from cress.core.jobs import JobEntry
from cress.core.tree.amounts import Amounts
from cress.model.groups.measures import describe_measure, split
from cress.model.units import format_amount

# The number of groups named in one sentence.
_MOST_TOLD = 2


def has_of_kinds(core: Books, job: JobEntry) -> tuple[str, ...]:
    """Return a sentence about the use of a unit's group for each guaranteed kind of node to which the unit may go.

    If the group lacks some of a kind, groups with more than their guarantee are named.
    """
    kinds = core.groups.kinds
    if not kinds:
        return ()
    base = job.group.base
    may, must = most_charge_of(job, 1, core.cluster)[base:], charge_of_tasks(job, 1, core.cluster)[base:]
    return tuple(_say(core, job.group, j) for j, cost in enumerate(may) if cost and _tells(job.group, j, must[j]))


def _tells(group: Amounts, j: int, must: int) -> bool:
    return must > 0 or any(node.quota[node.base + j] for node in group.path())


def _say(core: Books, group: Amounts, j: int) -> str:
    measure = core.groups.kinds.names[j]
    node = next((node for node in group.path() if node.quota[node.base + j]), group)
    at = node.base + j
    used, quota = node.used[at], node.quota[at]
    has = f"group {node.name}{f', in which group {group.name} is,' if node is not group else ''} has"
    if not quota:
        return f"{has} {describe_measure(used, measure, core.dimensions)} and no quota of them"
    own = f"{has} {_number(core, measure, used)} of its {describe_measure(quota, measure, core.dimensions)}"
    if used >= quota:
        return own
    return ", ".join((own, *_others(core, node, j)))


def _others(core: Books, group: Amounts, j: int) -> Iterator[str]:
    """Yield the groups with more of a kind than is guaranteed to them, largest excess first."""
    measure = core.groups.kinds.names[j]
    beyond = [
        (other.used[other.base + j] - other.quota[other.base + j], other)
        for other in core.groups
        if all(node is not group for node in other.path())
    ]
    beyond.sort(key=lambda found: (-found[0], found[1].name))
    for more, other in beyond[:_MOST_TOLD]:
        if more > 0:
            used, quota = _number(core, measure, other.used[other.base + j]), other.quota[other.base + j]
            yield f"group {other.name} {used} " + (
                f"of its {_number(core, measure, quota)}" if quota else "without a quota"
            )


def _number(core: Books, measure: str, amount: int) -> str:
    return format_amount(amount, core.dimensions.measure(split(measure)[0]))
