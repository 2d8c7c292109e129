"""What is promised between groups: shares follow quotas, preemption settles, nobody delays a group below its quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.guarantees import Guarantees
from cress.core.groups.running_limits import limit_reached
from cress.core.scheduler import Scheduler
from cress.model.decisions import Decision, Preempt, Start
from cress.model.events import GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from tests.core.plain import NEVER, Future, plan_in_order, ratio
from tests.core.settings import PLAIN, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player

# --- shares ----------------------------------------------------------------------------------------------------------


def endless(quotas: list[int], slots: int, nodes: int, first: int) -> tuple[Scheduler, dict[int, str]]:
    """Groups g0, g1, … with endless queues of one-core tasks; group ``first`` came alone and has everything."""
    dimensions = Dimensions()
    core = Scheduler(dimensions, Options(cooling=0, cooling_above_quota=0, preemption="off"))
    sizes = [slots // nodes + (i < slots % nodes) for i in range(nodes)]
    core.observe(0, [
        GroupsApplied(tuple(Group(name=f"g{i}", quota=Quota(scalar=1000 * q)) for i, q in enumerate(quotas))),
        *(NodeAdded(Node(name=f"n{i}", capacity=dimensions.vector(cpu=1000 * n))) for i, n in enumerate(sizes)),
    ])  # fmt: skip
    running: dict[int, str] = {}
    for i in sorted(range(len(quotas)), key=lambda i: i != first):
        request = dimensions.vector(cpu=1000)
        core.observe(0, [JobSubmitted(Job(id=i, group=f"g{i}", request=request, tasks=10**6))])
        for start in core.decide(0).items:
            assert isinstance(start, Start)
            running[start.attempt] = f"g{start.job}"
    return core, running


@given(
    quotas=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    rounds=st.integers(1, 3),
    more=st.integers(0, 7),
    nodes=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_shares_follow_quotas_after_one_full_turnover(
    quotas: list[int], rounds: int, more: int, nodes: int, seed: int
) -> None:
    rng = Random(seed)
    slots = rounds * sum(quotas) + more
    core, running = endless(quotas, slots, nodes, seed % len(quotas))
    assert len(running) == slots
    old = set(running)
    now = 0
    while old & running.keys():
        now += 1
        ending = rng.sample(sorted(running), min(len(running), rng.randint(1, 3)))
        for attempt in ending:
            del running[attempt]
        core.observe(now, [TaskEnded(attempt) for attempt in ending])
        for start in core.decide(now).items:
            assert isinstance(start, Start)
            running[start.attempt] = f"g{start.job}"
    used = [list(running.values()).count(f"g{i}") for i in range(len(quotas))]
    assert sum(used) == slots
    for i, own in enumerate(quotas):
        for j, other in enumerate(quotas):
            # With one task less, group i would not be ahead of group j: no task is on the wrong side.
            assert Fraction(used[i] - 1, own) <= Fraction(used[j], other), f"{used} for {quotas}"
    if not more:
        assert used == [rounds * quota for quota in quotas]


# --- preemption ------------------------------------------------------------------------------------------------------


@given(
    setting=settings_of_any_kind(
        selective=False, preemption="on", windows=False, balance_gate="off", within=0, trees=False, share_half_life=0
    ),
    story=operations({"submit": 8, "burst": 10, "end": 1, "wait": 4}),
)
def test_preemption_comes_to_rest_and_never_turns_back(setting: Setting, story: list[Operation]) -> None:
    player = Player(setting, check=False).play(story)
    before = len(player.answers)
    for _ in range(1000):
        # From here on only time passes, and what was told to stop ends.
        ends = [(player.due[attempt][0], attempt) for attempt in player.told]
        wakeup = player.core.next_wakeup()
        if ends and (wakeup is None or min(ends)[0] <= wakeup):
            player.now = max(player.now, min(ends)[0])
            player.end(min(ends)[1])
        elif wakeup is not None:
            player.now = wakeup
            player.decide()
        else:
            break
    else:
        # The memory of what groups borrowed goes on for many half-lives, and wakes the core at each tick.
        late = [each for answer in player.answers[-500:] for each in answer if isinstance(each, Preempt)]
        assert not late, f"it does not come to rest: {late[-4:]}"
    # Groups that took from others and have started nothing since but what they took for: they are within quota × B.
    took: set[str] = set()
    for answer in player.answers[before:]:
        for decision in answer:
            if isinstance(decision, Start) and not decision.claimed:
                took.discard(player.account.group_of[decision.job])
            elif isinstance(decision, Preempt):
                victim, taker = player.account.group_of[decision.job], player.account.group_of[decision.by]
                if victim == taker:
                    # An urgent unit of its own may leave it with more.
                    took.discard(taker)
                    continue
                assert victim not in took, f"{victim} took from others, and {taker} takes that back"
                took.add(taker)


@given(setting=settings_of_any_kind(windows=False, within=0, trees=False, selective=False), story=operations(PLAIN))
def test_who_preempts_needs_it_and_who_yields_has_more_than_its_quota(setting: Setting, story: list[Operation]) -> None:
    def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
        taken = [decision for decision in items if isinstance(decision, Preempt)]
        core, account = player.core, player.account
        for decision in taken:
            # As it was before any of this unit's victims was told.
            group = account.group_of[decision.job]
            has = ratio(account.used(group, core, leaving=False), core.groups.by_name[group].quota)
            assert has > 1, f"{group} yields with {float(has)} of its quota"
            taker = account.group_of[decision.by]
            need = ratio(account.used(taker, core), core.groups.by_name[taker].quota)
            assert need < Fraction(9, 10), f"{taker} preempts with {float(need)} of its quota"
        return lambda: None

    Player(setting, check=False, budget=1, watch=watch).play(story)


# --- nobody delays a group below its quota ---------------------------------------------------------------------------


def future_of(player: Player) -> Future:
    """The nodes over time as the account knows them, with what is kept for claims."""
    account, core = player.account, player.core
    names = list(account.nodes)
    closed = account.closed
    nothing = (0,) * len(account.dimensions)
    future = Future(player.now, [nothing if name in closed else account.nodes[name].capacity for name in names])
    for each in account.running.values():
        future.lease(names.index(each.node), each.until, each.amounts)
    for claim in core.claims:
        job = claim.job.job
        end = NEVER if job.time_limit is None else claim.reservation.start + job.time_limit
        nodes = [(names.index(core.cluster.names[f]), count) for f, count in claim.reservation.nodes]
        future.book(max(claim.reservation.start, player.now), max(end, player.now + 1), job.request, nodes)
    return future


def blocked_below_quota(player: Player) -> Iterator[tuple[Job, int]]:
    """The units that the groups below their quota offer in vain, in the order of the groups."""
    core = player.core
    below = []
    for group in core.groups:
        has = ratio(player.account.used(group.name, core), group.quota)
        if has < 1 and len(group.policy) and player.now >= group.cools_until() and group.offered is not None:
            below.append((has, -group.spec.weight, -group.quota[0], group.name, group.offered))
    for *_, offered in sorted(below, key=lambda each: each[:4]):
        yield offered.job, offered.shape.size


@given(
    setting=st.one_of(
        settings_of_any_kind(
            selective=False,
            overrun=False,
            windows=False,
            drain_after=10**15,
            limits="all",
            preemption="off",
            estimates=False,
            trees=False,
            share_half_life=0,
        ),
        settings_of_any_kind(
            selective=False,
            overrun=False,
            windows=False,
            drain_after=10**15,
            estimates=False,
            trees=False,
            share_half_life=0,
        ),
    ),
    story=operations({**PLAIN, "submit": 16, "end": 1, "cancel": 1}),
)
def test_nothing_above_its_quota_delays_a_group_below_it(setting: Setting, story: list[Operation]) -> None:
    claimed: set[tuple[int, int]] = set()

    def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
        core, account = player.core, player.account
        starts = [each for each in items if isinstance(each, Start) and (each.job, each.task) not in claimed]
        claimed.clear()
        claimed.update((claim.job.job.id, task) for claim in core.claims for task in claim.tasks)
        if not starts:
            return lambda: None
        # One pass, so all are of one unit.
        group = account.group_of[starts[0].job]
        if ratio(account.used(group, core), core.groups.by_name[group].quota) < 1:
            return lambda: None
        # What the guarantees of others leave no room for is not reserved for (design note 0011).
        guarantees = Guarantees(core.groups, core.cluster)
        units = [
            (job, size)
            for job, size in blocked_below_quota(player)
            if job.id in core.jobs
            and not core.never_fits(job)
            and not guarantees.forbid(core.jobs[job.id])
            # Nor is what limits of its groups keep from starting.
            and limit_reached(core.jobs[job.id]) is None
        ]
        if setting.options["behind_blocked"] == "quota_only":
            assert not units, f"{starts} behind {units}"
        before = plan_in_order(future_of(player), units)
        assert None not in before, f"{starts}: nobody knows whether it delays {units}"

        def then() -> None:
            after = plan_in_order(future_of(player), units)
            for (job, _), was, is_now in zip(units, before, after, strict=True):
                assert was is not None
                assert is_now is not None, f"{starts} puts job {job.id} off for ever"
                assert is_now <= was, f"{starts} delays job {job.id} from {was} to {is_now}"

        return then

    Player(setting, check=False, budget=1, watch=watch).play(story)
