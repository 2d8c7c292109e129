"""The tree of groups (design note 0030): the effects of a group's use on the groups above it, and on others.

A group with groups below it has no jobs. Its amounts are their sums, and it has a place among its own siblings. A
change of use is added to every group on the way up, and places are corrected before the order is next read.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

from cress.core.placing.shape import Shape
from cress.core.tree.amounts import Amounts, GroupKey, InnerGroup, add_amounts
from cress.core.tree.kinds import is_guaranteed
from cress.core.tree.memory import ShareMemory, TickClock
from cress.model.times import NEVER

_Node = TypeVar("_Node", bound=Amounts)


class Tree:
    """The groups with groups below them, the outermost order, and the kept capacity and past borrowing of groups."""

    def __init__(self, half_life: int) -> None:
        """Start without groups; ``half_life`` (µs) of past borrowing, 0 = it does not count."""
        self.inner: dict[str, InnerGroup] = {}
        # The inner groups, each after those below it.
        self.upwards: list[InnerGroup] = []
        # The keys of the waiting outermost groups, in order.
        self.order: list[GroupKey] = []
        self.clock = TickClock(half_life) if half_life else None
        # The groups whose use changed at this time, not yet passed on to memories.
        self._changed: dict[str, Amounts] = {}
        # True if some group keeps capacity for itself; below, the total that the outermost groups use or keep, by the
        # sort of their measures.
        self.keeps = False
        self.held: dict[tuple[int, ...], list[int]] = {}
        # The inner groups with changed use or children; ``settle`` moves them to their places.
        self.stale: list[InnerGroup] = []

    @property
    def follows(self) -> bool:
        """True if the use of a group affects more than its own place."""
        return bool(self.inner or self.keeps or self.clock is not None)

    # --- use -----------------------------------------------------------------------------------------------

    def follow(self, group: Amounts) -> None:
        """Note a change of the use or the claims of a group that takes jobs, already made in it and in those above it.

        Each group must be charged after those above it, so that they have their new amounts.
        """
        if group.parent is not None and not group.parent.stale:
            self._mark(group.parent)
        if self.clock is not None:
            self._changed[group.name] = group
        self.hold(group)

    def hold(self, node: Amounts) -> None:
        """Update the amount that a group uses or keeps, and those of the groups above it."""
        above: Amounts | None = node if self.keeps else None
        while above is not None:
            held = holds(above)
            if held == above.held:
                return
            change = tuple(new - old for new, old in zip(held, above.held, strict=True))
            above.held = held
            add_amounts(self.held[above.sort] if above.parent is None else above.parent.held_below, change)
            above = above.parent

    def recount(self, groups: Iterable[Amounts]) -> None:
        """Compute what follows from the amounts of groups again, after groups were added, removed or charged again."""
        for inner in self.upwards:
            inner.held_below = [0] * len(inner.quota)
            for child in inner.children:
                if self.keeps:
                    child.held = holds(child)
                    add_amounts(inner.held_below, tuple(child.held))
            self._mark(inner)
        nodes: list[Amounts] = [*groups, *self.upwards]
        self._changed = {}
        self.held = {}
        for node in nodes:
            if self.keeps and node.parent is None:
                node.held = holds(node)
                add_amounts(self.held.setdefault(node.sort, [0] * len(node.quota)), tuple(node.held))
            if self.clock is not None:
                if node.memory is None:
                    node.memory = ShareMemory(self.clock, len(node.quota))
                node.memory.follow(node.used, node.quota)

    # --- order ---------------------------------------------------------------------------------------------

    def place(self, node: Amounts, key: GroupKey | None) -> None:
        """Move a group to its place among its siblings, or out of the order."""
        if key == node.key:
            return
        parent = node.parent
        order = self.order if parent is None else parent.order
        if node.key is not None:
            del order[bisect_left(order, node.key)]
        if key is not None:
            insort(order, key)
        node.key = key
        if parent is not None and not parent.stale:
            self._mark(parent)

    def settle(self) -> None:
        """Move the inner groups with changed use or children to their places."""
        if not self.stale:
            return
        stale, self.stale = self.stale, []
        stale.sort(key=lambda inner: -inner.level)
        for inner in stale:
            self.place(inner, inner.order_key() if inner.order else None)
        for inner in stale:
            inner.stale = False

    def _mark(self, inner: InnerGroup) -> None:
        """Mark an inner group, and those above it, for an update of their places."""
        above: InnerGroup | None = inner
        while above is not None and not above.stale:
            above.stale = True
            self.stale.append(above)
            above = above.parent

    def forget_places(self, groups: Iterable[Amounts]) -> None:
        """Remove all groups from the order, because their parents may change."""
        for node in (*groups, *self.upwards):
            node.key = None
        for inner in self.upwards:
            inner.order, inner.stale = [], False
        self.order.clear()
        self.stale = []

    # --- memory --------------------------------------------------------------------------------------------

    def advance(self, now: int, groups: Iterable[_Node]) -> list[_Node]:
        """Advance the time of memories; return the groups whose place a tick may have changed."""
        if self.clock is None:
            return []
        if now != self.clock.now:
            self.remember()
        if not self.clock.advance(now):
            return []
        for inner in self.upwards:
            if inner.key is not None and not inner.stale:
                self._mark(inner)
        return [group for group in groups if group.key is not None and not group.below_quota]

    def remember(self) -> None:
        """Update memories with the changes at this time, once for any number of changes."""
        nodes: dict[str, Amounts] = {node.name: node for group in self._changed.values() for node in group.path()}
        self._changed = {}
        for node in nodes.values():
            if node.memory is not None:
                node.memory.follow(node.used, node.quota)

    def next_tick(self, groups: Iterable[Amounts]) -> int:
        """Return the time (µs) of the next tick if it may change the order of waiting groups; else NEVER."""
        if self.clock is None:
            return NEVER
        self.remember()
        waiting: dict[str, tuple[int, bool]] = {}
        for node in chain(groups, self.upwards):
            if node.key is not None and node.memory is not None and not node.below_quota:
                level = "" if node.parent is None else node.parent.name
                count, changes = waiting.get(level, (0, False))
                changes = changes or node.memory.changes()
                if count and changes:
                    return self.clock.next_tick()
                waiting[level] = (count + 1, changes)
        return NEVER


def holds(node: Amounts) -> list[int]:
    """Return, per measure, the use and claims of a group, or the amount kept for itself or those below it if larger."""
    held = [used + claimed for used, claimed in zip(node.used, node.claimed, strict=True)]
    if node.lendable is not None:
        held = [max(have, quota - lent) for have, quota, lent in zip(held, node.quota, node.lendable, strict=True)]
    if isinstance(node, InnerGroup):
        held = [max(have, below) for have, below in zip(held, node.held_below, strict=True)]
    return held


def branches(group: Amounts, other: Amounts) -> tuple[Amounts, Amounts] | None:
    """Return the two groups at which two paths upwards part: children of the innermost common group, or outermost
    groups.

    ``None`` if they do not part.
    """
    above = {node.name for node in group.path()}
    theirs = other
    for node in other.path():
        if node.name in above:
            if node is theirs:
                return None
            break
        theirs = node
    own = group
    for node in group.path():
        if node.parent is theirs.parent:
            own = node
            break
    return own, theirs


def below_quota_against(group: Amounts, other: Amounts, shape: Shape | None = None) -> bool:
    """Return True if a group, or a group above it and not above ``other``, is below its quota.

    Where quotas name kinds of nodes, it is enough to be below it for a unit of this ``shape`` on some node.
    """
    if is_below(group, shape):
        return True
    if group.parent is None:
        return False
    theirs = {node.name for node in other.path()}
    return any(is_below(node, shape) for node in group.path() if node.name not in theirs)


def is_below(group: Amounts, shape: Shape | None) -> bool:
    """Return True if a group is below its quota or, where quotas name kinds of nodes, is guaranteed a unit of this
    shape.
    """
    return group.below_quota or (group.kinds is not None and shape is not None and is_guaranteed(group, shape))
