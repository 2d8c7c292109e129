"""The groups that yield to others (source G, steps i to k) in a tree of groups: where two paths part, as between groups
of a flat list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from cress.core.jobs import GroupState
from cress.core.tree.amounts import Amounts


class Taker(NamedTuple):
    """A group for which those beside it yield: that of a unit, or one that it is in; it takes up to quota × B, or up to
    its quota.
    """

    group: Amounts
    to_quota: bool

    def may_take(self, charge: tuple[int, ...]) -> bool:
        """Return whether the group may have so much more."""
        return self.group.may_take(charge, to_quota=self.to_quota)


@dataclass(frozen=True, slots=True)
class Yielding:
    """A group that yields, and the groups that it is in below the one that both it and the taker are in, the innermost
    first.

    ``taker`` is the taker's group on that level, ``level`` how many groups both are in.
    """

    group: GroupState
    chain: tuple[Amounts, ...]
    taker: Taker
    level: int

    @property
    def order(self) -> tuple[int, int, list[Fraction], list[str]]:
        """The place in which it yields: of the lowest priority first, then what outsiders borrowed, of these that
        furthest above its quota.
        """
        downwards = [*reversed(self.chain)]
        return (
            self.group.spec.preempt_priority,
            self.level,
            [-node.excess() for node in downwards],
            [node.name for node in downwards],
        )


def yielding_to(
    groups: Iterable[GroupState], group: GroupState, takers: list[Taker], yields: Callable[[Amounts], bool]
) -> Iterator[Yielding]:
    """Yield the groups that may lose tasks to a unit of ``group``: beside one of ``takers``, and ``yields`` all the way
    down.
    """
    if not takers:
        return
    path = list(group.path())
    own = {node.name for node in path}
    # By the group that both are in, or "": the taker, and how many groups both are in.
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
    """Return the groups that may take room for a unit: that of the unit, and those that it is in.

    One that needs preemption takes up to quota × B, or (``to_quota``) up to its quota; one above such a group, whether
    it needs it or not, up to its quota.
    """
    takers: list[Taker] = []
    for node in group.path():
        if node.needs_preemption() and node.may_take(charge, to_quota=to_quota):
            takers.append(Taker(node, to_quota))
        elif takers and node.may_take(charge, to_quota=True):
            takers.append(Taker(node, to_quota=True))
    return takers
