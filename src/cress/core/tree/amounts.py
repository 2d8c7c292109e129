"""Amounts of groups, in their measures: what one has and is guaranteed, and how far it is from its quota (source G;
design note 0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from cress.core.placing.node_kinds import NodeKinds
from cress.core.tree.memory import ShareMemory
from cress.model.group import Group, Quota
from cress.model.groups.measures import without_kinds
from cress.model.options import Options
from cress.model.resources import Dimensions

GroupKey: TypeAlias = tuple[int, int, int, str]

# Quotas are below 2^60, so two different ratios differ by more than 2^-120: this scale keeps them apart exactly, also
# with
# what was borrowed, which has eight binary places.
_SCALE = 128


def _with(past: int, used: int, quota: int) -> int:
    """Return the ratio of what a group uses, and borrowed lately, to its quota."""
    return (((used << ShareMemory.PLACES) + past) << (_SCALE - ShareMemory.PLACES)) // quota


# The quota itself, as a factor like A and B.
_EXACTLY = (1, 1)
# More than any group has.
UNBOUNDED = 2**62


class Amounts:
    """A node of the tree of groups: one that takes jobs, or one with groups below it, which has what those have
    together.

    Its measures are the ``base`` ones of its own quota – one number, or the dimensions ``dims`` of a ``vector`` – and
    behind these, alike for all groups, the measures with a kind of node that any group names (``kinds``, design note
    0034). In those that it does not name itself its quota is 0: it has no guarantee there, so they count neither for
    its order nor for its needs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: Group
        self.options: Options
        self.parent: InnerGroup | None = None
        self.quota: list[int] = [1]
        self.dims: tuple[int, ...] = ()
        self.vector = False
        # The sort of the base measures: those of groups of one sort can be added; kinds of nodes always can.
        self.sort: tuple[int, ...] = ()
        self.base = 1
        # The measures with a kind that count for all groups, if there are any, and those that ``quota`` was set with.
        self.kinds: NodeKinds | None = None
        self._kinds: tuple[str, ...] = ()
        self.used: list[int] = [0]
        # The part of its use held by victims that were told to stop, and the further use of its claims.
        self.leaving: list[int] = [0]
        self.claimed: list[int] = [0]
        self.key: GroupKey | None = None
        # What it may use at most, if there is such a bound, and what others may have of its quota.
        self.most: list[int] | None = None
        self.lendable: list[int] | None = None
        # What it has, or keeps for itself, where some group keeps anything.
        self.held: list[int] = [0]
        # What it borrowed lately, if that counts.
        self.memory: ShareMemory | None = None

    def set_options(self, spec: Group, options: Options) -> None:
        """Take over a configuration, without the quota."""
        self.spec = spec
        self.options = options
        needs = Fraction(str(options.preempt_below))
        yields = Fraction(str(options.preempt_above))
        self._needs = (needs.numerator, needs.denominator)
        self._yields = (yields.numerator, yields.denominator)

    def __repr__(self) -> str:
        return f"<group {self.name}: used {self.used} of {self.quota}>"

    def path(self) -> Iterator[Amounts]:
        """Yield the group, the one that it is in, and so on up to the outermost."""
        node: Amounts | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def below_quota(self) -> bool:
        """True if used / quota < 1 everywhere."""
        if len(self.quota) == 1:
            return self.used[0] < self.quota[0]
        return all(used < quota for used, quota in zip(self.used, self.quota, strict=True) if quota)

    @property
    def above_quota(self) -> bool:
        """True if used / quota > 1 somewhere."""
        if len(self.quota) == 1:
            return self.used[0] > self.quota[0]
        return any(used > quota for used, quota in zip(self.used, self.quota, strict=True) if quota)

    @property
    def claims_above_quota(self) -> bool:
        """True if used / quota > 1 somewhere, claims included."""
        return any(
            used + claimed > quota
            for used, claimed, quota in zip(self.used, self.claimed, self.quota, strict=True)
            if quota
        )

    def ratio(self) -> Fraction:
        """Return used / quota, the largest over the measures."""
        return max(Fraction(used, quota) for used, quota in zip(self.used, self.quota, strict=True) if quota)

    def ratio_with(self, change: Sequence[int]) -> Fraction:
        """Return (used + ``change``) / quota, the largest over the measures."""
        amounts = zip(self.used, change, self.quota, strict=True)
        return max(Fraction(used + more, quota) for used, more, quota in amounts if quota)

    def needs_preemption(self) -> bool:
        """True if used < quota × A, claims included (source G)."""
        numerator, denominator = self._needs
        if len(self.quota) == 1:
            return (self.used[0] + self.claimed[0]) * denominator < self.quota[0] * numerator
        return all(
            (used + claimed) * denominator < quota * numerator
            for used, claimed, quota in zip(self.used, self.claimed, self.quota, strict=True)
            if quota
        )

    def lacks(self, i: int) -> bool:
        """True if used < quota × A in measure ``i``, claims included."""
        numerator, denominator = self._needs
        return (self.used[i] + self.claimed[i]) * denominator < self.quota[i] * numerator

    def may_take_of(self, i: int, more: int, *, to_quota: bool = False) -> bool:
        """True if used + ``more`` ≤ quota × B in measure ``i``, or (``to_quota``) ≤ the quota, claims included."""
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return (self.used[i] + self.claimed[i] + more) * denominator <= self.quota[i] * numerator

    def may_take(self, charge: tuple[int, ...], *, to_quota: bool = False) -> bool:
        """True if used + ``charge`` ≤ quota × B, or (``to_quota``) ≤ the quota, claims included: else the groups could
        take turns as victims.

        Of kinds of nodes those count that it names and is charged in.
        """
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return all(
            (used + claimed + more) * denominator <= quota * numerator
            for i, (used, claimed, more, quota) in enumerate(
                zip(self.used, self.claimed, charge, self.quota, strict=True)
            )
            if i < self.base or (quota and more)
        )

    def yields_of(self, i: int, *, to_quota: bool = False) -> bool:
        """True if used > quota × B in measure ``i``, or (``to_quota``) > the quota, without its victims.

        Of a kind of node that it does not name that is whatever it has.
        """
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return (self.used[i] - self.leaving[i]) * denominator > self.quota[i] * numerator

    def can_be_preempted(self, *, to_quota: bool = False) -> bool:
        """True if used > quota × B (source G), or (``to_quota``) > the quota, without its victims."""
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return any(
            (used - leaving) * denominator > quota * numerator
            for used, leaving, quota in zip(self.used, self.leaving, self.quota, strict=True)
            if quota
        )

    def excess(self) -> Fraction:
        """Return used / quota without its victims."""
        return self.ratio_with([-amount for amount in self.leaving])

    def spare(self) -> list[int]:
        """Return, per measure, what it may lose and still be at its quota."""
        used = zip(self.used, self.leaving, self.quota, strict=True)
        return [have - leaving - quota for have, leaving, quota in used]

    def order_key(self) -> GroupKey:
        """Return the key for the order of ascending used / quota, exactly; ties: larger weight, larger quota, name.

        Of groups that are not below their quota what they borrowed lately counts as well, if anything does.
        """
        past = self.memory.past() if self.memory is not None and not self.below_quota else None
        if len(self.quota) == 1:
            ratio = (
                (self.used[0] << _SCALE) // self.quota[0]
                if past is None
                else _with(past[0], self.used[0], self.quota[0])
            )
        elif past is None:
            ratio = max((used << _SCALE) // quota for used, quota in zip(self.used, self.quota, strict=True) if quota)
        else:
            ratio = max(
                _with(before, used, quota)
                for before, used, quota in zip(past, self.used, self.quota, strict=True)
                if quota
            )
        return (ratio, -self.spec.weight, -self.quota[0], self.name)

    def set_quota(self, quota: Quota, dimensions: Dimensions) -> bool:
        """Take over a quota; returns whether the measures changed, so that used amounts must be counted again."""
        amounts = dict(quota.amounts)
        names = without_kinds(amounts) if self.kinds else tuple(amounts)
        kinds = self.kinds.names if self.kinds else ()
        self.quota = [amounts[name] for name in names] if amounts else [max(1, quota.scalar)]
        self.quota += [amounts.get(name, 0) for name in kinds]
        dims = tuple(dimensions.index[name] for name in names)
        vector = bool(amounts)
        self.most = _in_measures(self.spec.max_quota, names if vector else None, kinds, UNBOUNDED)
        self.lendable = _in_measures(self.spec.lendable, names if vector else None, kinds, 0)
        if (dims, vector, kinds) == (self.dims, self.vector, self._kinds):
            return False
        self.dims, self.vector, self._kinds = dims, vector, kinds
        self.sort = dims if dims or not vector else (-1,)
        self.base = len(self.quota) - len(kinds)
        self.used = [0] * len(self.quota)
        self.leaving = self.used.copy()
        self.claimed = self.used.copy()
        return True


class InnerGroup(Amounts):
    """A group with groups below it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.children: list[Amounts] = []
        # The keys of its children that wait, in their order.
        self.order: list[GroupKey] = []
        # What its children have or keep together.
        self.held_below: list[int] = [0]
        self.stale = False
        self.level = 0


def _in_measures(
    bound: Quota | None, names: tuple[str, ...] | None, kinds: tuple[str, ...], other: int
) -> list[int] | None:
    """Return a bound as a list in the measures of a quota of these dimensions, or (None) of a number: nothing where it
    names none, ``other`` in kinds that it does not name.
    """
    if bound is None:
        return None
    amounts = dict(bound.amounts)
    base = [bound.scalar] if names is None else [amounts.get(name, 0) for name in names]
    return base + [amounts.get(name, other) for name in kinds]


def add_amounts(amounts: list[int], change: Iterable[int]) -> None:
    """Add amounts to others in place."""
    for i, amount in enumerate(change):
        amounts[i] += amount
