"""Level one: what groups use, their order, quota timetable and cooling-off (source G).

Amounts of a group are kept in one or more *measures*: one number in the accountings ``cpu`` (millicores) and
``dominant`` with a scalar quota (millionths of a server), one per dimension with a vector quota.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from datetime import tzinfo
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, TypeAlias

from cress.core.groups.policies import Policy, make_policy
from cress.core.jobs import Attempt, JobState
from cress.core.placing.fit import Fit
from cress.core.placing.vetoes import Verdict
from cress.core.tables.cluster import Cluster
from cress.model.group import DEFAULT_GROUP, Group, Quota
from cress.model.groups.check import default_group
from cress.model.groups.timetable import next_change, quota_at_utc
from cress.model.option_text import resolve_options
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import NEVER

if TYPE_CHECKING:
    from cress.core.jobs import ClaimEntry

MILLION = 1_000_000
MILLI = 1_000

Key: TypeAlias = tuple[int, int, int, str]

# Quotas are below 2^60, so two different ratios differ by more than 2^-120: this scale keeps them apart exactly.
_SCALE = 128


class GroupState:
    """One group: its configuration, what it uses, and where it stands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: Group
        self.options: Options
        self.policy: Policy
        self.quota: list[int] = [1]
        self.dims: tuple[int, ...] = ()
        self.used: list[int] = [0]
        # Of what is used: held by victims that are told to stop. And what its claims will use beside that.
        self.leaving: list[int] = [0]
        self.claimed: list[int] = [0]
        self.preempted_at: int | None = None
        self.jobs = 0
        self.key: Key | None = None
        self.claims: list[ClaimEntry] = []
        self.attempts: dict[int, Attempt] = {}
        # What the last pass that looked at the group came to.
        self.visited = 0
        self.verdict = Verdict.UNVISITED
        self.offered: JobState | None = None
        self.failed: tuple[int, int, tuple[int, ...]] | None = None
        # The unit for which no victims were found, and the state of the cluster at that time.
        self.no_victims: tuple[int, int, int] | None = None
        self.retry_victims_at = NEVER

    def configure(self, spec: Group, options: Options, policy: Policy) -> None:
        """Take a configuration; the waiting jobs move to the new policy."""
        waiting = list(self.policy) if hasattr(self, "policy") else []
        self.spec = spec
        self.options = options
        self.policy = policy
        for job in waiting:
            policy.add(job)
        needs = Fraction(str(options.preempt_below))
        yields = Fraction(str(options.preempt_above))
        self._needs = (needs.numerator, needs.denominator)
        self._yields = (yields.numerator, yields.denominator)

    def __repr__(self) -> str:
        return f"<group {self.name}: used {self.used} of {self.quota}>"

    @property
    def below_quota(self) -> bool:
        """Whether used / quota < 1 everywhere."""
        if len(self.quota) == 1:
            return self.used[0] < self.quota[0]
        return all(used < quota for used, quota in zip(self.used, self.quota, strict=True))

    @property
    def above_quota(self) -> bool:
        """Whether used / quota > 1 somewhere."""
        if len(self.quota) == 1:
            return self.used[0] > self.quota[0]
        return any(used > quota for used, quota in zip(self.used, self.quota, strict=True))

    def ratio(self) -> Fraction:
        """used / quota, the largest over the measures."""
        return max(Fraction(used, quota) for used, quota in zip(self.used, self.quota, strict=True))

    def needs_preemption(self) -> bool:
        """G: used < quota × A, counting what its claims will bring."""
        numerator, denominator = self._needs
        if len(self.quota) == 1:
            return (self.used[0] + self.claimed[0]) * denominator < self.quota[0] * numerator
        return all(
            (used + claimed) * denominator < quota * numerator
            for used, claimed, quota in zip(self.used, self.claimed, self.quota, strict=True)
        )

    def can_be_preempted(self) -> bool:
        """G: used > quota × B, without what its victims hold."""
        numerator, denominator = self._yields
        return any(
            (used - leaving) * denominator > quota * numerator
            for used, leaving, quota in zip(self.used, self.leaving, self.quota, strict=True)
        )

    def excess(self) -> Fraction:
        """used / quota without what its victims hold: how far above its quota."""
        return max(
            Fraction(used - leaving, quota)
            for used, leaving, quota in zip(self.used, self.leaving, self.quota, strict=True)
        )

    def cools_until(self) -> int:
        """The moment until which the group takes no part in scheduling; 0 if it does."""
        if self.preempted_at is None:
            return 0
        if self.above_quota:
            return self.preempted_at + self.options.cooling_above_quota
        return self.preempted_at + self.options.cooling

    def order_key(self) -> Key:
        """Ascending used / quota, exactly; ties: larger weight, larger quota, name."""
        if len(self.quota) == 1:
            ratio = (self.used[0] << _SCALE) // self.quota[0]
        else:
            ratio = max((used << _SCALE) // quota for used, quota in zip(self.used, self.quota, strict=True))
        return (ratio, -self.spec.weight, -self.quota[0], self.name)

    def charge(self, request: ResourceVector, capacity: ResourceVector) -> tuple[int, ...]:
        """What one task of ``request`` on a node of ``capacity`` costs the group, in its measures."""
        if self.dims:
            return tuple(request[k] for k in self.dims)
        if self.options.accounting == "cpu":
            return (request[0],)
        return (dominant_share(request, capacity),)

    def add_used(self, job: JobState, charge: tuple[int, ...]) -> None:
        """The group holds that much more (or less, with negative amounts)."""
        used = self.used
        if len(used) == 1:
            used[0] += charge[0]
        else:
            for i, amount in enumerate(charge):
                used[i] += amount
        self.policy.charged(job, charge)

    def set_quota(self, quota: Quota, dimensions: Dimensions) -> bool:
        """Take this quota; returns whether the measures are others now, so that used amounts must be redone."""
        if not quota.amounts:
            self.quota = [max(1, quota.scalar)]
            dims: tuple[int, ...] = ()
        else:
            self.quota = [amount for _, amount in quota.amounts]
            dims = tuple(dimensions.index[name] for name, _ in quota.amounts)
        self.policy.set_quota(self.quota)
        if dims == self.dims:
            return False
        self.dims = dims
        self.used = [0] * len(self.quota)
        self.leaving = self.used.copy()
        self.claimed = self.used.copy()
        return True


def dominant_share(request: ResourceVector, capacity: ResourceVector) -> int:
    """max over the dimensions of request / capacity, in millionths, rounded up (G's key resource)."""
    return max(
        (-(-amount * MILLION // total) for amount, total in zip(request, capacity, strict=True) if amount and total),
        default=0,
    )


class Groups:
    """All groups, and the order of those that have waiting jobs."""

    def __init__(self, options: Options, dimensions: Dimensions, cluster: Cluster, fit: Fit, zone: tzinfo) -> None:
        self.options = options
        self.dimensions = dimensions
        self.cluster = cluster
        self.fit = fit
        self.zone = zone
        self.by_name: dict[str, GroupState] = {}
        self.order: list[Key] = []
        # Wall clock minus the shell's clock, in microseconds, once known.
        self.wall_offset: int | None = None
        self.next_quota_change = NEVER
        self.configured: tuple[Group, ...] = ()

    def __iter__(self) -> Iterator[GroupState]:
        return iter(self.by_name.values())

    def get(self, name: str) -> GroupState:
        """The group of that name; the empty name means the default group."""
        return self.by_name[name or DEFAULT_GROUP]

    # --- configuration -------------------------------------------------------------------------------------

    def check(self, groups: tuple[Group, ...]) -> None:
        """Raise ``InputError`` if a policy or an option of these groups is refused; changes nothing."""
        for spec in groups:
            make_policy(spec, resolve_options(self.options, spec), self.fit)

    def apply(self, groups: tuple[Group, ...], now: int) -> list[GroupState]:
        """Take the whole list of groups; returns those that are new or changed.

        Groups that are gone are dropped; the caller has moved their jobs before.
        """
        self.configured = groups
        if all(group.name != DEFAULT_GROUP for group in groups):
            groups = (*groups, Group(name=DEFAULT_GROUP, quota=self._default_quota()))
        wanted = {group.name: group for group in groups}
        for name in [name for name in self.by_name if name not in wanted]:
            self.leave_order(self.by_name.pop(name))
        touched = []
        for name, spec in wanted.items():
            old = self.by_name.get(name)
            if old is not None and old.spec == spec:
                continue
            state = old or GroupState(name)
            options = resolve_options(self.options, spec)
            state.configure(spec, options, make_policy(spec, options, self.fit))
            self.by_name[name] = state
            touched.append(state)
        self.by_name = dict(sorted(self.by_name.items()))
        self.refresh_quotas(now)
        return touched

    def _default_quota(self) -> Quota:
        there = sum(not lost for lost in self.cluster.lost)
        capacity = self.cluster.capacity()
        return default_group(capacity, there, self.options, dimensions=self.dimensions).quota

    def default_is_implied(self) -> bool:
        """Whether nobody configured the default group: its quota follows the cluster then."""
        return all(group.name != DEFAULT_GROUP for group in self.configured)

    def refresh_quotas(self, now: int) -> list[GroupState]:
        """Set every quota as it is at this moment; returns the groups whose measures are others now."""
        changed = []
        self.next_quota_change = NEVER
        if self.default_is_implied() and DEFAULT_GROUP in self.by_name:
            self.by_name[DEFAULT_GROUP].set_quota(self._default_quota(), self.dimensions)
        for group in self.by_name.values():
            if group.name == DEFAULT_GROUP and self.default_is_implied():
                continue
            if group.set_quota(self._quota_now(group.spec, now), self.dimensions):
                changed.append(group)
        for group in self.by_name.values():
            self.reorder(group)
        return changed

    def _quota_now(self, spec: Group, now: int) -> Quota:
        if not spec.windows or self.wall_offset is None:
            return spec.quota
        utc = now + self.wall_offset
        change = next_change(spec, utc, self.zone)
        if change is not None:
            self.next_quota_change = min(self.next_quota_change, change - self.wall_offset)
        return quota_at_utc(spec, utc, self.zone)

    # --- order ---------------------------------------------------------------------------------------------

    def reorder(self, group: GroupState) -> None:
        """Put the group into its place in the order; groups where nothing waits have none."""
        key = group.order_key() if len(group.policy) or group.claims else None
        if key == group.key:
            return
        self.leave_order(group)
        if key is not None:
            insort(self.order, key)
            group.key = key

    def leave_order(self, group: GroupState) -> None:
        """Take the group out of the order."""
        if group.key is not None:
            del self.order[bisect_left(self.order, group.key)]
            group.key = None

    def priority_values(self) -> dict[str, Fraction]:
        """G's ``Priority``: used × (LCM of all quotas / quota), smaller goes first; with a vector quota the ratio."""
        unit = MILLI if self.options.accounting == "cpu" else MILLION
        scalar = [
            group.quota[0]
            for group in self
            if not group.dims and not (group.name == DEFAULT_GROUP and self.default_is_implied())
        ]
        multiple = lcm(*scalar) if scalar else 1
        return {
            group.name: group.ratio() if group.dims else Fraction(group.used[0] * multiple, group.quota[0] * unit)
            for group in self
        }
