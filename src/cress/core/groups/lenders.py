"""The groups that yield to others (source G, steps i to k): in a tree, where two paths part, as in a flat list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cress.core.jobs import GroupState
from cress.core.tree.amounts import Amounts


class Taker(NamedTuple):
    """A group to which its siblings yield: that of a unit, or one above it; it takes up to quota × B, or up to its
    quota.
    """

    group: Amounts
    to_quota: bool

    def may_take(self, charge: tuple[int, ...]) -> bool:
        """Return True if the group may have ``charge`` more."""
        return self.group.may_take(charge, to_quota=self.to_quota)


@dataclass(frozen=True, slots=True)
class Yielding:
    """A group that yields, with its ``chain`` of groups upwards to the sibling of the taker, itself first.

    ``taker`` is the taker on that level; ``level`` is the number of groups above both.
    """

    group: GroupState
    chain: tuple[Amounts, ...]
    taker: Taker
    level: int

    @property
    def order(self) -> tuple[int, int, list[int], list[str]]:
        """Its sort key among yielding groups.

        The lowest priority comes first, then the borrowings of outsiders, and among those the group furthest above its
        quota.
        """
        downwards = [*reversed(self.chain)]
        return (
            self.group.spec.preempt_priority,
            self.level,
            [-node.excess_order() for node in downwards],
            [node.name for node in downwards],
        )


def yielding_to(
    groups: Iterable[GroupState], group: GroupState, takers: list[Taker], yields: Callable[[Amounts], bool]
) -> Iterator[Yielding]:
    """Yield the groups that may lose tasks to a unit of ``group``.

    Their path leads to a sibling of one of ``takers``, and ``yields`` holds for every group on it.
    """
    if not takers:
        return
    path = list(group.path())
    own = {node.name for node in path}
    # By the common group, or "": the taker, and the number of common groups.
    levels = {node.name: len(path) - 1 - i for i, node in enumerate(path)}
    beside = {
        "" if taker.group.parent is None else taker.group.parent.name: (taker, levels[taker.group.name])
        for taker in takers
    }
    for other in groups:
        if other.name in own:
            continue
        chain: list[Amounts] = []
        for node in other.path():
            if node.name in own:
                break
            chain.append(node)
        above = chain[-1].parent
        found = beside.get("" if above is None else above.name)
        if found is not None and all(yields(node) for node in chain):
            yield Yielding(other, tuple(chain), *found)


def takers_of(group: GroupState, charge: tuple[int, ...], *, to_quota: bool) -> list[Taker]:
    """Return the groups that may take room for a unit: its own group and those above it.

    A group that needs preemption takes up to quota × B, or (``to_quota``) up to its quota. A group above it takes up
    to its quota in any case.
    """
    takers: list[Taker] = []
    for node in group.path():
        if node.needs_preemption() and node.may_take(charge, to_quota=to_quota):
            takers.append(Taker(node, to_quota))
        elif takers and node.may_take(charge, to_quota=True):
            takers.append(Taker(node, to_quota=True))
    return takers


def whose_groups_take(group: GroupState, charge: tuple[int, ...]) -> Amounts | None:
    """Return the group above ``group`` in which others may take its room once its use has grown by ``charge``.

    ``None``: others anywhere may take it.
    """
    if group.kinds is not None:
        return None
    return next(
        (node.parent for node in group.path() if node.parent and not node.parent.above_with_claims(charge)), None
    )
