"""Amounts of groups in their measures: use, guarantee, and distance from the quota (source G; design note 0030)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from cress.core.accounts import Account, Charged, ChargedAttempt
from cress.core.charges import Share, core_share, dominant_share
from cress.core.placing.node_kinds import NodeKinds
from cress.core.tree.memory import ShareMemory
from cress.model.group import Group, Quota
from cress.model.groups.measures import without_kinds
from cress.model.options import Options
from cress.model.resources import Dimensions

GroupKey: TypeAlias = tuple[int, int, int, str]

# Quotas are below 2^60, so two different ratios differ by more than 2^-120. This scale keeps them apart exactly, also
# with past borrowing, which has eight binary places.
_SCALE = 128


def _with(past: int, used: int, quota: int) -> int:
    """Return the ratio of a group's use plus past borrowing to its quota."""
    return (((used << ShareMemory.PLACES) + past) << (_SCALE - ShareMemory.PLACES)) // quota


# The quota itself, as a factor like A and B.
_EXACTLY = (1, 1)
# More than any group uses.
UNBOUNDED = 2**62


class Changes:
    """The number of changes to the use or the quotas of any group: what follows from all of them is computed once for
    each number.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Amounts(Account):
    """A node of the tree of groups: one that takes jobs, or one with groups below it, whose amounts are their sums.

    Its measures are the ``base`` ones of its own quota: one number, or the dimensions ``dims`` of a ``vector``. Behind
    these come, equal for all groups, the measures for kinds of nodes that appear in any quota (``kinds``, design note
    0034). In kinds that its own quota does not name, the quota is 0: it has no guarantee there, so they affect neither
    its order nor its needs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: Group
        self.options: Options
        self.parent: InnerGroup | None = None
        self.quota: list[int] = [1]
        # The smallest and the largest quota of its timetable, per measure.
        self.week: list[tuple[int, int]] = [(1, 1)]
        self.dims: tuple[int, ...] = ()
        self.vector = False
        # The sort of the base measures: amounts of groups of one sort can be added; those of kinds of nodes always can.
        self.sort: tuple[int, ...] = ()
        self.base = 1
        # True in the accounting ``cpu``, where a quota is one number; below, what a task is charged by one.
        self.counts_cores = False
        self.share: Share = dominant_share
        # The measures for kinds of nodes, if any; below, those with which ``quota`` was set.
        self.kinds: NodeKinds | None = None
        self._kinds: tuple[str, ...] = ()
        # The quota and the configuration that were taken over last.
        self._taken: tuple[Quota, Group, tuple[str, ...]] | None = None
        self.used: list[int] = [0]
        # The use of stopping victims, as a part of its use; below, the further use of its claims.
        self.leaving: list[int] = [0]
        self.claimed: list[int] = [0]
        # Shared by all groups of a cluster.
        self.changes = Changes()
        # Told of each change of use or claims, if it affects more than the group's own place and amounts.
        self.follower: Callable[[Amounts], None] | None = None
        self.key: GroupKey | None = None
        # The bound on its use, if any; below, the part of its quota that others may use.
        self.most: list[int] | None = None
        self.lendable: list[int] | None = None
        # The amount that it uses or keeps for itself, if some group keeps anything.
        self.held: list[int] = [0]
        # Its past borrowing, if that counts.
        self.memory: ShareMemory | None = None

    def set_options(self, spec: Group, options: Options) -> None:
        """Take over a configuration, except for the quota."""
        self.changes.count += 1
        self.spec = spec
        self.options = options
        self._needs = _as_fraction(options.preempt_below)
        self._yields = _as_fraction(options.preempt_above)
        self.counts_cores = options.accounting == "cpu"
        self.share = core_share if self.counts_cores else dominant_share

    def __repr__(self) -> str:
        return f"<group {self.name}: used {self.used} of {self.quota}>"

    # --- charges -------------------------------------------------------------------------------------------

    # Each start and end is told to all groups above it, most often with one number.

    def begin(self, attempt: ChargedAttempt) -> None:
        self.changes.count += 1
        charge = attempt.charge
        if len(charge) == 1:
            self.used[0] += charge[0]
        else:
            add_amounts(self.used, charge)
        if attempt.stopping:
            add_amounts(self.leaving, charge)
        if self.follower is not None:
            self.follower(self)

    def end(self, attempt: ChargedAttempt) -> None:
        self.changes.count += 1
        charge = attempt.charge
        if len(charge) == 1:
            self.used[0] -= charge[0]
        else:
            take_amounts(self.used, charge)
        if attempt.stopping:
            take_amounts(self.leaving, charge)
        if self.follower is not None:
            self.follower(self)

    def leave(self, attempt: ChargedAttempt) -> None:
        self.changes.count += 1
        add_amounts(self.leaving, attempt.charge)

    def claim(self, claim: Charged) -> None:
        add_amounts(self.claimed, claim.charge)
        self._tell()

    def drop(self, claim: Charged) -> None:
        take_amounts(self.claimed, claim.charge)
        self._tell()

    def add_idle(self, charge: tuple[int, ...]) -> None:
        """Add the charge of idle parts of leases, which belong to no job, here and above; it may be negative."""
        if self.parent is not None:
            self.parent.add_idle(charge)
        self.grow(charge)
        self._tell()

    def _tell(self) -> None:
        if self.follower is not None:
            self.follower(self)

    def grow(self, charge: Sequence[int]) -> None:
        """Let the use of this group alone be larger by ``charge``, which may be negative."""
        self.changes.count += 1
        add_amounts(self.used, charge)

    def forget(self) -> None:
        self.changes.count += 1
        width = len(self.quota)
        self.used, self.leaving, self.claimed = [0] * width, [0] * width, [0] * width

    # --- questions -----------------------------------------------------------------------------------------

    def path(self) -> Iterator[Amounts]:
        """Yield the group and all groups above it, up to the outermost."""
        node: Amounts | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def below_quota(self) -> bool:
        """True if used / quota < 1 in every measure."""
        if len(self.quota) == 1:
            return self.used[0] < self.quota[0]
        return all(used < quota for used, quota in zip(self.used, self.quota, strict=True) if quota)

    @property
    def above_quota(self) -> bool:
        """True if used / quota > 1 in some measure."""
        if len(self.quota) == 1:
            return self.used[0] > self.quota[0]
        return any(used > quota for used, quota in zip(self.used, self.quota, strict=True) if quota)

    def ratio(self, change: Sequence[int] = ()) -> Fraction:
        """Return (used + ``change``) / quota, the maximum over the measures."""
        amounts = zip(self.used, change or [0] * len(self.quota), self.quota, strict=True)
        return max(Fraction(used + more, quota) for used, more, quota in amounts if quota)

    def above_with_claims(self, change: Sequence[int] = ()) -> bool:
        """Return True if used + ``change`` > quota in some measure, claims included."""
        amounts = zip(self.used, self.claimed, change or [0] * len(self.quota), self.quota, strict=True)
        return any(used + claimed + more > quota for used, claimed, more, quota in amounts if quota)

    def needs_preemption(self, change: Sequence[int] = ()) -> bool:
        """Return True if used + ``change`` < quota × A, claims included (source G)."""
        if len(self.quota) == 1:
            return self.lacks(0, change[0] if change else 0)
        return all(self.lacks(i, change[i] if change else 0) for i, quota in enumerate(self.quota) if quota)

    def lacks(self, i: int, more: int = 0) -> bool:
        """True if used + ``more`` < quota × A in measure ``i``, claims included."""
        numerator, denominator = self._needs
        return (self.used[i] + self.claimed[i] + more) * denominator < self.quota[i] * numerator

    def may_take_of(self, i: int, more: int, *, to_quota: bool = False) -> bool:
        """True if used + ``more`` ≤ quota × B in measure ``i``, or (``to_quota``) ≤ the quota, claims included."""
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return (self.used[i] + self.claimed[i] + more) * denominator <= self.quota[i] * numerator

    def may_take(self, charge: tuple[int, ...], *, to_quota: bool = False) -> bool:
        """True if used + ``charge`` ≤ quota × B, or (``to_quota``) ≤ the quota, claims included.

        Otherwise groups could become victims in turn. Kinds of nodes count if the quota names them and the charge is
        not zero.
        """
        if len(charge) == 1 == self.base:
            # Asked for each unit that room may be made for.
            return self.may_take_of(0, charge[0], to_quota=to_quota)
        return all(
            self.may_take_of(i, more, to_quota=to_quota)
            for i, more in enumerate(charge)
            if i < self.base or (self.quota[i] and more)
        )

    def yields_of(self, i: int, *, to_quota: bool = False) -> bool:
        """True if used > quota × B in measure ``i``, or (``to_quota``) > the quota, without its stopping victims.

        In a kind of node without a quota, any use counts.
        """
        numerator, denominator = _EXACTLY if to_quota else self._yields
        return (self.used[i] - self.leaving[i]) * denominator > self.quota[i] * numerator

    def can_be_preempted(self, *, to_quota: bool = False) -> bool:
        """True if used > quota × B (source G), or (``to_quota``) > the quota, without its stopping victims."""
        if len(self.quota) == 1:
            return self.yields_of(0, to_quota=to_quota)
        return any(self.yields_of(i, to_quota=to_quota) for i, quota in enumerate(self.quota) if quota)

    def excess(self) -> Fraction:
        """Return used / quota without its stopping victims."""
        return self.ratio([-amount for amount in self.leaving])

    def excess_order(self) -> int:
        """Return a number that orders groups exactly as ``excess`` does."""
        amounts = zip(self.used, self.leaving, self.quota, strict=True)
        return max([((used - leaving) << _SCALE) // quota for used, leaving, quota in amounts if quota])

    def spare(self) -> list[int]:
        """Return, per measure, the amount that it may lose down to its quota."""
        used = zip(self.used, self.leaving, self.quota, strict=True)
        return [have - leaving - quota for have, leaving, quota in used]

    def order_key(self) -> GroupKey:
        """Return the key for the order of ascending used / quota, exactly; ties: larger weight, larger quota, name.

        For groups not below their quota, past borrowing is added if it counts.
        """
        past = self.memory.past() if self.memory is not None and not self.below_quota else ()
        if len(self.quota) == 1 and not past:
            # Asked after each start and end, most often of one number.
            ratio = (self.used[0] << _SCALE) // self.quota[0]
        else:
            amounts = zip(past or [0] * len(self.quota), self.used, self.quota, strict=True)
            ratio = max([_with(before, used, quota) for before, used, quota in amounts if quota])
        return (ratio, -self.spec.weight, -self.quota[0], self.name)

    def set_quota(self, quota: Quota, dimensions: Dimensions) -> bool:
        """Take over a quota; return True if the measures changed, so that use must be computed again."""
        kinds = self.kinds.names if self.kinds else ()
        taken = self._taken
        if taken is not None and taken[0] is quota and taken[1] is self.spec and taken[2] == kinds:
            return False
        self._taken = quota, self.spec, kinds
        self.changes.count += 1
        amounts = dict(quota.amounts)
        names = without_kinds(amounts) if self.kinds else tuple(amounts)
        self.quota = _quota_in(quota, names, kinds)
        # A group may have no quota of its own outside the windows of its timetable.
        others = (self.spec.quota, *(window.quota for window in self.spec.windows)) if self.spec.windows else ()
        alike = (other for other in others if bool(other.amounts) == bool(amounts) and (amounts or other.scalar))
        week = [self.quota, *(_quota_in(other, names, kinds) for other in alike)]
        self.week = [(min(found), max(found)) for found in zip(*week, strict=True)]
        dims = tuple(dimensions.index[name] for name in names)
        vector = bool(amounts)
        self.most = _in_measures(self.spec.max_quota, names if vector else None, kinds, UNBOUNDED)
        self.lendable = _in_measures(self.spec.lendable, names if vector else None, kinds, 0)
        if (dims, vector, kinds) == (self.dims, self.vector, self._kinds):
            return False
        self.dims, self.vector, self._kinds = dims, vector, kinds
        self.sort = dims if dims or not vector else (-1,)
        self.base = len(self.quota) - len(kinds)
        self.forget()
        return True


class InnerGroup(Amounts):
    """A group with groups below it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.children: list[Amounts] = []
        # The keys of its waiting children, in order.
        self.order: list[GroupKey] = []
        # The total that its children use or keep.
        self.held_below: list[int] = [0]
        self.stale = False
        self.level = 0


@lru_cache(maxsize=256)
def _as_fraction(value: float) -> tuple[int, int]:
    """Return numerator and denominator of a decimal number."""
    exact = Fraction(str(value))
    return exact.numerator, exact.denominator


def _quota_in(quota: Quota, names: tuple[str, ...], kinds: tuple[str, ...]) -> list[int]:
    """Return a quota in these dimensions, or as one number without any, and in the measures of these kinds."""
    amounts = dict(quota.amounts)
    base = [amounts.get(name, 0) for name in names] if amounts else [max(1, quota.scalar)]
    return base + [amounts.get(name, 0) for name in kinds]


def _in_measures(
    bound: Quota | None, names: tuple[str, ...] | None, kinds: tuple[str, ...], other: int
) -> list[int] | None:
    """Return a bound as a list in the measures of a quota: of these dimensions, or with ``None`` of one number.

    ``None`` without a bound; ``other`` in kinds that the bound does not name.
    """
    if bound is None:
        return None
    amounts = dict(bound.amounts)
    base = [bound.scalar] if names is None else [amounts.get(name, 0) for name in names]
    return base + [amounts.get(name, other) for name in kinds]


def add_amounts(amounts: list[int], change: Iterable[int]) -> None:
    """Add ``change`` to ``amounts`` in place."""
    for i, amount in enumerate(change):
        amounts[i] += amount


def take_amounts(amounts: list[int], change: Iterable[int]) -> None:
    """Subtract ``change`` from ``amounts`` in place."""
    for i, amount in enumerate(change):
        amounts[i] -= amount
