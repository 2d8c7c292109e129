"""What is promised in a tree of groups, whatever happens (design note 0030)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.running_limits import head_of, may_start_more
from cress.core.jobs import GroupState
from cress.core.scheduler import Scheduler
from cress.core.tree.amounts import Amounts, InnerGroup
from cress.model.decisions import Claim, Decision, Start
from cress.model.events import GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.limits import Limits
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from tests.core.settings import EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, replay
from tests.examples import examples

# --- a flat file with and without the tree --------------------------------------------------------------------------


def alone_in_others(groups: tuple[Group, ...], rng: Random) -> tuple[Group, ...]:
    """Each group in one to three others that have the same quota, weight and timetable, and nothing else in them."""
    made: list[Group] = []
    for group in groups:
        inner = group
        for level in range(rng.randint(1, 3)):
            outer = f"{group.name}_{level}"
            made.append(msgspec.structs.replace(inner, parent=outer))
            inner = msgspec.structs.replace(group, name=outer, limits=Limits())
        made.append(inner)
    return tuple(made)


@given(
    setting=settings_of_any_kind(trees=False, windows=False, vectors=False),
    story=operations({**EVERYTHING, "groups": 0}),
    seed=st.integers(0, 2**16),
)
def test_groups_alone_in_others_decide_as_without_these(setting: Setting, story: list[Operation], seed: int) -> None:
    player = Player(setting, check=False).play(story)
    other = Scheduler(Dimensions(setting.custom), Options(**setting.options))
    events = [NodeAdded(node) for node in setting.nodes]
    other.observe(0, [*events, GroupsApplied(alone_in_others(setting.groups, Random(seed)))])
    assert replay(other, player.calls) == player.answers
    assert other.validate() == []


# --- the order ------------------------------------------------------------------------------------------------------


def plain_order(core: Scheduler, nodes: list[Amounts]) -> Iterator[str]:
    """The leaves that wait, by recursion over fractions."""

    def leaves(node: Amounts) -> list[GroupState]:
        if isinstance(node, InnerGroup):
            return [leaf for child in node.children for leaf in leaves(child)]
        assert isinstance(node, GroupState)
        return [node] if node.claims or may_start_more(node) else []

    def ratio(node: Amounts) -> Fraction:
        total = [0] * len(node.quota)
        for leaf in all_leaves(node):
            total = [have + more for have, more in zip(total, leaf.used, strict=True)]
        shares = [Fraction(have, quota) for have, quota in zip(total, node.quota, strict=True)]
        if node.memory is not None and max(shares) >= 1:
            past = zip(total, node.memory.past(), node.quota, strict=True)
            shares = [(have + Fraction(more, 256)) / quota for have, more, quota in past]
        return max(shares)

    def since(node: Amounts) -> int:
        head = head_of(core.groups.by_name[next(plain_order(core, [node]))])
        return -1 if head is None else head.since

    waiting = [node for node in nodes if leaves(node)]
    keys = {node.name: (ratio(node), -node.spec.weight) for node in waiting}
    tie = {node.name: since(node) if list(keys.values()).count(keys[node.name]) > 1 else 0 for node in waiting}
    for node in sorted(waiting, key=lambda each: (*keys[each.name], tie[each.name], -each.quota[0], each.name)):
        if isinstance(node, InnerGroup):
            yield from plain_order(core, node.children)
        else:
            yield node.name


def all_leaves(node: Amounts) -> list[Amounts]:
    if isinstance(node, InnerGroup):
        return [leaf for child in node.children for leaf in all_leaves(child)]
    return [node]


@given(setting=settings_of_any_kind(trees=True), story=operations(EVERYTHING))
def test_the_order_is_that_of_fractions_on_every_level(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False)
    for operation in story:
        player.play([operation])
        groups = player.core.groups
        outermost = [node for node in (*groups, *groups.tree.upwards) if node.parent is None]
        assert [group.name for group in groups.in_order()] == list(plain_order(player.core, outermost))


# --- guarantees -----------------------------------------------------------------------------------------------------


def random_tree(rng: Random, leaves: int) -> tuple[Group, ...]:
    """A tree of up to four levels; inner groups have the sum of the quotas in them, or more."""
    groups: list[Group] = []
    names = [f"g{i}" for i in range(leaves)]
    quotas = {name: rng.randint(1, 6) for name in names}
    groups += [Group(name=name, quota=Quota(scalar=1000 * quotas[name])) for name in names]
    for level in range(3):
        free = [group.name for group in groups if not group.parent]
        rng.shuffle(free)
        while len(free) > 1 and rng.random() < 0.7:
            inside = [free.pop() for _ in range(min(len(free), rng.randint(1, 3)))]
            outer = f"in{level}_{len(groups)}"
            own = sum(quotas[name] for name in inside) + rng.choice((0, 0, 2))
            quotas[outer] = own
            groups = [
                msgspec.structs.replace(group, parent=outer) if group.name in inside else group for group in groups
            ]
            groups.append(Group(name=outer, quota=rng.choice((Quota(scalar=1000 * own), Quota(scalar=1000 * own)))))
    return tuple(groups)


@given(leaves=st.integers(2, 8), seed=st.integers(0, 2**16), preemption=st.sampled_from(("on", "off")))
def test_each_group_with_demand_has_its_quota(leaves: int, seed: int, preemption: str) -> None:
    """Saturated: after one turnover no branch with enough demand is below its quota by a whole unit, nor a leaf."""
    rng = Random(seed)
    groups = random_tree(rng, leaves)
    dimensions = Dimensions()
    core = Scheduler(dimensions, Options(cooling=0, cooling_above_quota=0, preemption=preemption, max_per_round=1.0))
    slots = sum(group.quota.scalar for group in groups if not group.parent) // 1000 + rng.choice((0, 3))
    core.observe(0, [GroupsApplied(groups), NodeAdded(Node(name="n", capacity=dimensions.vector(cpu=1000 * slots)))])
    names = [group.name for group in core.groups if group.name != "default"]
    busy = [name for name in names if rng.random() < 0.7] or names[:1]
    rng.shuffle(busy)
    now = 0
    for number, name in enumerate(busy):
        # The first one comes alone and has everything.
        core.observe(
            now, [JobSubmitted(Job(id=number + 1, group=name, request=dimensions.vector(cpu=1000), tasks=10**6))]
        )
        core.decide(now)
    # Preemption stops when a group has nine tenths of its quota; the rest comes with the ends of what runs then.
    for _ in range(2):
        old = set(core.attempts)
        for _ in range(1000):
            if not old & core.attempts.keys() and not core.books.leaving:
                break
            now += 1
            ending = [*core.books.leaving] or rng.sample(sorted(core.attempts), min(len(core.attempts), 2))
            core.observe(now, [TaskEnded(attempt) for attempt in ending])
            core.decide(now)
            core.decide(now + 1)
            now += 1
    assert core.validate() == []
    for node in (*core.groups, *core.groups.tree.upwards):
        if any(leaf.name in busy for leaf in all_leaves(node)):
            short = [leaf for leaf in all_leaves(node) if leaf.name not in busy]
            assert node.used[0] > node.quota[0] - 1000 or short == all_leaves(node), f"{node} of {groups}"


# --- bounds ---------------------------------------------------------------------------------------------------------


@given(setting=settings_of_any_kind(trees=True, fragments=False), story=operations(EVERYTHING))
def test_no_start_goes_beyond_a_max_quota(setting: Setting, story: list[Operation]) -> None:
    def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
        core = player.core
        taking = {each.job for each in items if isinstance(each, (Start, Claim)) and each.job in core.jobs}
        for number in taking:
            for node in core.jobs[number].group.path():
                if node.most is not None:
                    # What a unit takes from others in the group is theirs until they have stopped.
                    has = [
                        sum(amounts)
                        for amounts in zip(node.used, node.claimed, (-each for each in node.leaving), strict=True)
                    ]
                    for amounts in (has, node.used):
                        assert all(map(int.__le__, amounts, node.most)), (
                            f"{node} has more than {node.most} after {items}"
                        )
        return lambda: None

    kinds = ("adopt", "groups", "resize", "change")
    Player(setting, check=False, budget=1, watch=watch).play([each for each in story if each[0] not in kinds])


@examples(4)
@given(
    # Where a blocked unit ends the pass, deadlines may put a group below its quota behind one that is held.
    setting=st.one_of(
        settings_of_any_kind(trees=True, order="share"), settings_of_any_kind(trees=True, behind_blocked="reserve")
    ),
    story=operations(EVERYTHING),
)
def test_whatever_happens_in_a_tree_every_invariant_holds(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting)
    for number, operation in enumerate(story):
        if operation[1] % 4 == 0 or number == len(story) // 2:
            player.add_twin()
        player.play([operation])
