"""Level one: the order of the groups, and their quota timetables (source G).

Amounts of a group are kept in one or more *measures*: one number in the accountings ``cpu`` (millicores) and
``dominant`` with a scalar quota (millionths of a server), one per dimension with a vector quota.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import tzinfo
from fractions import Fraction
from math import inf, lcm
from typing import NamedTuple

from cress.core.charges import MILLION
from cress.core.groups.policies import Policy, make_policy
from cress.core.groups.running_limits import head_of, may_start_more
from cress.core.jobs import GroupState, JobEntry
from cress.core.placing.fit import Fit
from cress.core.placing.node_kinds import NodeKinds
from cress.core.running_jobs import counter_of
from cress.core.tables.cluster import Cluster
from cress.core.tree.amounts import Amounts, Changes, GroupKey, InnerGroup
from cress.core.tree.tree import Tree
from cress.model.group import DEFAULT_GROUP, Group, Quota
from cress.model.groups.check import default_group
from cress.model.groups.measures import measures_in
from cress.model.groups.timetable import next_change, quota_at_utc
from cress.model.groups.tree import NO_QUOTA, from_the_leaves, inner_names
from cress.model.option_text import resolve_options
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER
from cress.model.zones import zone_of

MILLI = 1_000

# Groups between two pauses while they are prepared.
PAUSE = 50


def _policy_of(spec: Group, options: Options) -> tuple[object, ...]:
    """Return everything on which a policy depends."""
    return spec.policy, spec.user_weights, options


class PreparedGroup(NamedTuple):
    """A group before it takes over its ``spec``, with the options and the policy that it will have."""

    spec: Group
    state: GroupState
    options: Options
    policy: Policy[JobEntry]


class Groups:
    """All groups that take jobs, their tree, and the order of those with waiting jobs."""

    def __init__(self, options: Options, dimensions: Dimensions, cluster: Cluster, fit: Fit, zone: tzinfo) -> None:
        self.options = options
        self.dimensions = dimensions
        self.cluster = cluster
        self.fit = fit
        # The time zone of timetables: that of the file of groups, if it names one (``own_zone``), else that of the
        # cluster.
        self.cluster_zone = zone
        self.own_zone = ""
        self.by_name: dict[str, GroupState] = {}
        self.tree = Tree(options.share_half_life)
        # The measures for kinds of nodes that appear in quotas.
        self.kinds = NodeKinds(cluster, fit.matching)
        # True if some group has a MaxQuota.
        self.bounded = False
        # Wall clock minus the shell's clock (µs), once known.
        self.wall_offset: int | None = None
        self.next_quota_change = NEVER
        # Groups with queue keys that change with time.
        self.timed: list[GroupState] = []
        # True if in the order every group below its quota comes before every one that is not.
        self.are_in_order_of_need = True
        self.configured: tuple[Group, ...] = ()
        # True if some group may take room from others.
        self.preempts = False
        # The longest grace (µs) of a start in any group, and the largest number of measures of one.
        self.longest_grace = 0
        self.most_measures = 1
        # True if some group has limits on running jobs or on the use of one user.
        self.counted = False
        self.limits_users = False
        # The groups of the next ``apply``, as far as they were prepared.
        self._prepared: dict[str, PreparedGroup] = {}
        self._changes = Changes()
        # By ``to_quota``: the groups that can be preempted, after the number of changes for which they were found.
        self._preemptible: dict[bool, tuple[int, list[GroupState]]] = {}

    def __iter__(self) -> Iterator[GroupState]:
        return iter(self.by_name.values())

    @property
    def order(self) -> list[GroupKey]:
        """The keys of the outermost groups with waiting jobs, in order once the tree is settled."""
        return self.tree.order

    @property
    def zone(self) -> tzinfo:
        """The time zone of quota timetables."""
        return zone_of(self.own_zone) if self.own_zone else self.cluster_zone

    def get(self, name: str) -> GroupState:
        """Return the group of that name that takes jobs; an empty name means the default group."""
        return self.by_name[name or DEFAULT_GROUP]

    def any_of(self, name: str) -> Amounts:
        """Return the group of that name, including groups with groups below them."""
        return self.tree.inner.get(name) or self.by_name[name]

    # --- configuration -------------------------------------------------------------------------------------

    def check(self, groups: tuple[Group, ...]) -> None:
        """Raise ``InputError`` if a policy or an option of these groups is invalid; nothing changes."""
        for spec in groups:
            make_policy(spec, resolve_options(self.options, spec), self.fit)

    def preparing(self, groups: tuple[Group, ...]) -> Iterator[None]:
        """Make the new groups and policies for ``apply``, and pause after every few of them: there may be thousands.

        Nobody sees them before. Nothing may change until then; ``apply`` makes whatever is not prepared.
        """
        self._prepared = {}
        inner = inner_names(groups)
        # With another kind of nodes in a quota all groups get other measures, which `apply` gives them.
        same_measures = measures_in(groups, self.dimensions) == self.kinds.names
        for number, spec in enumerate(groups, 1):
            old = self.by_name.get(spec.name)
            if spec.name not in inner and (old is None or old.spec != spec):
                found = self._prepared[spec.name] = self._configured(spec, old)
                if old is None and not spec.windows and same_measures:
                    found.state.kinds = self.kinds or None
                    found.state.set_quota(spec.quota, self.dimensions)
            if number % PAUSE == 0:
                yield

    def _configured(self, spec: Group, old: GroupState | None) -> PreparedGroup:
        """Return a group with its next options and policy; ``old``, the present one, does not change yet."""
        options = resolve_options(self.options, spec)
        if old is not None and _policy_of(spec, options) == _policy_of(old.spec, old.options):
            # For example, only the quota changed: the queue stays.
            return PreparedGroup(spec, old, options, old.policy)
        policy: Policy[JobEntry] = make_policy(spec, options, self.fit)
        state = old or GroupState(spec.name)
        if old is None:
            state.configure(spec, options, policy)
        return PreparedGroup(spec, state, options, policy)

    def apply(self, groups: tuple[Group, ...], now: int, zone: str = "") -> None:
        """Take over the whole list of groups, and their own time zone if given.

        Other groups are dropped; the caller has moved their jobs before, and charges everything again, which also
        gives each group its place in the order.
        """
        prepared, self._prepared = self._prepared, {}
        self.configured = groups
        self.own_zone = zone
        if all(group.name != DEFAULT_GROUP for group in groups):
            groups = (*groups, self._default_group())
        inner = inner_names(groups)
        if inner or self.tree.inner:
            self.tree.forget_places(self)
        wanted = {group.name: group for group in groups if group.name not in inner}
        for name in [name for name in self.by_name if name not in wanted]:
            self.tree.place(self.by_name.pop(name), None)
        for name, spec in wanted.items():
            old = self.by_name.get(name)
            if old is not None and old.spec == spec:
                continue
            found = prepared.get(name)
            if found is None or found.spec != spec:
                found = self._configured(spec, old)
            if old is None or found.policy is not old.policy:
                found.policy.now = now
            if old is not None:
                old.configure(spec, found.options, found.policy)
            self.by_name[name] = found.state
        self.by_name = dict(sorted(self.by_name.items()))
        self.kinds.set_names(measures_in(groups, self.dimensions))
        self._link(groups, inner)
        self._set_quotas(now)

    def _link(self, groups: tuple[Group, ...], inner: frozenset[str]) -> None:
        """Build the tree of these groups; those that take jobs exist already."""
        tree, before = self.tree, self.tree.inner
        self._changes.count += 1
        tree.inner = {name: before.get(name) or InnerGroup(name) for name in sorted(inner)}
        for each in tree.inner.values():
            each.children = []
        tree.upwards = []
        for spec in from_the_leaves(groups) if inner else groups:
            node: Amounts = tree.inner[spec.name] if spec.name in inner else self.by_name[spec.name]
            node.kinds = self.kinds or None
            node.changes = self._changes
            if isinstance(node, InnerGroup):
                node.set_options(spec, resolve_options(self.options, spec))
                tree.upwards.append(node)
            node.parent = tree.inner[spec.parent] if spec.parent else None
            if node.parent is not None:
                node.parent.children.append(node)
        for each in tree.inner.values():
            each.level = len(list(each.path()))
        self._link_limits()
        self.counted = any(state.counters for state in self.by_name.values())
        self.limits_users = any(state.policy.limits_users for state in self.by_name.values())
        self.find_preempting()
        self.bounded = any(group.max_quota is not None for group in groups)
        tree.keeps = any(group.lendable is not None for group in groups)
        for state in self.by_name.values():
            above = [node for node in state.path() if node is not state]
            # The group itself comes after those above it: its follower reads their amounts.
            state.accounts = (*reversed(above), state, *state.policy.accounts, *state.counters)
            state.follower = tree.follow if tree.follows else None
            state.limited = tree.keeps or (
                self.bounded and any(node.spec.max_quota is not None for node in state.path())
            )
            state.count_queue()

    def find_preempting(self) -> None:
        """Find out if any group may take room from others, and the longest grace; its options may have changed."""
        self.preempts = any(group.options.preemption == "on" for group in self.by_name.values())
        self.longest_grace = max(group.options.grace for group in self.by_name.values())

    def _link_limits(self) -> None:
        """Let the jobs of each group count for the limits of all groups above it."""
        outer = {each.name: counter_of(each.spec) for each in self.tree.upwards}
        if not any(counter is not None for counter in outer.values()):
            for state in self.by_name.values():
                state.counters = () if state.own_counter is None else (state.own_counter,)
                state.count_alike = ()
            return
        below: dict[str, list[GroupState]] = {}
        for state in self.by_name.values():
            above = [node.name for node in state.path() if outer.get(node.name) is not None]
            counters = (state.own_counter, *(outer[name] for name in above))
            state.counters = tuple(counter for counter in counters if counter is not None)
            for name in above:
                below.setdefault(name, []).append(state)
        for state in self.by_name.values():
            alike = {other.name: other for node in state.path() for other in below.get(node.name, ())}
            alike.pop(state.name, None)
            state.count_alike = tuple(alike.values())

    def _default_group(self) -> Group:
        there = self.cluster.lost.count(False)
        capacity = self.cluster.capacity()
        return default_group(capacity, there, self.options, dimensions=self.dimensions)

    def default_is_implied(self) -> bool:
        """Return True if the default group is not configured; its quota then follows the cluster."""
        return all(group.name != DEFAULT_GROUP for group in self.configured)

    def refresh_quotas(self, now: int) -> bool:
        """Set every quota to its present value; return True if measures changed, so that everything must be charged
        again.
        """
        changed = self._set_quotas(now)
        for group in self.by_name.values():
            self.reorder(group)
        return changed

    def _set_quotas(self, now: int) -> bool:
        changed = False
        self.timed = [group for group in self.by_name.values() if group.policy.timed]
        self.are_in_order_of_need = not (self.tree.inner or self.kinds or self.timed)
        self.next_quota_change = NEVER
        if self.default_is_implied() and DEFAULT_GROUP in self.by_name:
            self.by_name[DEFAULT_GROUP].set_quota(self._default_group().quota, self.dimensions)
        for group in self.by_name.values():
            if group.name == DEFAULT_GROUP and self.default_is_implied():
                continue
            changed |= group.set_quota(self._quota_now(group.spec, now), self.dimensions)
        for inner in self.tree.upwards:
            quota = self._quota_now(inner.spec, now)
            quota = _sum_of(inner.children, self.dimensions) if quota == NO_QUOTA else quota
            changed |= inner.set_quota(quota, self.dimensions)
        self.most_measures = max((len(group.quota) for group in self.by_name.values()), default=1)
        if self.tree.follows:
            self.tree.recount(self)
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
        """Move the group to its place in the order; groups without waiting jobs have none.

        Groups that share a limit on running jobs with it may enter or leave the order as well.
        """
        self.tree.place(group, group.order_key() if group.claims or may_start_more(group) else None)
        for other in group.count_alike:
            self.tree.place(other, other.order_key() if other.claims or may_start_more(other) else None)

    def only_one(self) -> GroupState | None:
        """Return the only group with waiting jobs, ``None`` if there are several or none; the tree must be settled."""
        tree = self.tree
        order = tree.order
        while len(order) == 1:
            name = order[0][-1]
            if name not in tree.inner:
                return self.by_name[name]
            order = tree.inner[name].order
        return None

    def in_order(self) -> Iterator[GroupState]:
        """Yield the groups with waiting jobs in order; ties go to the group whose next unit has waited longest."""
        tree = self.tree
        if tree.stale:
            tree.settle()
        return self._below(tree.order)

    def _below(self, order: list[GroupKey]) -> Iterator[GroupState]:
        """Yield the groups with waiting jobs at and below these places, depth first."""
        by_name, inner = self.by_name, self.tree.inner
        begin = 0
        while begin < (count := len(order)):
            share, end = order[begin][:2], begin + 1
            names = [order[begin][-1]]
            if end < count and order[end][:2] == share:
                end = bisect_right(order, (*share, inf), end)
                names = sorted([key[-1] for key in order[begin:end]], key=self._waits_since)
            for name in names:
                if name in by_name:
                    yield by_name[name]
                else:
                    yield from self._below(inner[name].order)
            begin = end

    def _waits_since(self, name: str) -> int:
        """Return the time (µs) since which the next unit of a group, or of the first group below it, waits; claims
        come first.
        """
        group = self.by_name.get(name) or next(self._below(self.tree.inner[name].order))
        # Asked for all groups of equal share in each pass, so the usual case takes no further step.
        head = head_of(group) if group.counters else group.policy.head()
        if head is None:
            return -1
        return head.since if head.again or head.claims else head.queued_at

    def waiting(self) -> Iterator[GroupState]:
        """Yield the groups with waiting jobs by share only."""
        if self.tree.inner:
            return self.in_order()
        return (self.by_name[key[-1]] for key in self.tree.order)

    def advance(self, now: int) -> None:
        """Advance the time of past borrowing to ``now``; at a tick groups may change places."""
        for group in self.tree.advance(now, self):
            self.reorder(group)

    def preemptible(self, *, to_quota: bool) -> list[GroupState]:
        """Return the groups above quota × B, or (``to_quota``) above their quotas.

        Each blocked unit asks for them, and there may be thousands of both.
        """
        known = self._preemptible.get(to_quota)
        if known is None or known[0] != self._changes.count:
            found = [group for group in self if group.can_be_preempted(to_quota=to_quota)]
            known = self._preemptible[to_quota] = self._changes.count, found
        return known[1]

    def priority_values(self) -> dict[str, Fraction]:
        """Return G's ``Priority`` by group: used × (LCM of all quotas / quota), smallest first; for a vector quota,
        the ratio.
        """
        unit = MILLI if self.options.accounting == "cpu" else MILLION
        scalar = [
            group.quota[0]
            for group in self
            if not group.vector and not (group.name == DEFAULT_GROUP and self.default_is_implied())
        ]
        multiple = lcm(*scalar) if scalar else 1
        return {
            group.name: group.ratio() if group.vector else Fraction(group.used[0] * multiple, group.quota[0] * unit)
            for group in self
        }


def _sum_of(children: list[Amounts], dimensions: Dimensions) -> Quota:
    """Return the sum of the present quotas of groups with the same measures."""
    total = [sum(amounts) for amounts in zip(*(child.quota for child in children), strict=True)]
    first = children[0]
    if not first.vector:
        return Quota(scalar=total[0])
    names = (*(dimensions.names[k] for k in first.dims), *(first.kinds.names if first.kinds else ()))
    return Quota(amounts=tuple((name, amount) for name, amount in zip(names, total, strict=True) if amount))
