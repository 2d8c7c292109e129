"""What is promised where quotas name kinds of nodes, whatever happens (design note 0034)."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.running_limits import head_of
from cress.core.jobs import GroupState
from cress.core.scheduler import Scheduler
from cress.core.tree.amounts import Amounts
from cress.model.decisions import Decision, Preempt, Start
from cress.model.events import Event, GroupsApplied, JobSubmitted, NodeAdded, Outcome, TaskEnded
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job
from cress.model.node import Device, Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from tests.core.kind_stories import KindPlayer, kinded
from tests.core.promises import promised_state
from tests.core.settings import CONSTRAINED, EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.examples import examples

MODELS = ("A100", "T4")


# --- stories of any kind ---------------------------------------------------------------------------------------------


@examples(5)
@given(
    setting=settings_of_any_kind(accounting="dominant"),
    story=operations({**EVERYTHING, "change": 3}),
    seed=st.integers(0, 2**16),
)
def test_accounts_agree_and_nobody_loses_what_he_is_guaranteed(
    setting: Setting, story: list[Operation], seed: int
) -> None:
    """The player compares every use and every preemption with its own account, and checks all invariants."""
    KindPlayer(kinded(setting, seed)).play(story)


@examples(5)
@given(
    setting=settings_of_any_kind(accounting="dominant", fragments=True, lending="on"),
    story=operations(EVERYTHING),
    seed=st.integers(0, 2**16),
)
def test_loans_are_charged_by_kind_too(setting: Setting, story: list[Operation], seed: int) -> None:
    KindPlayer(kinded(setting, seed)).play(story)


@examples(5)
@given(
    setting=settings_of_any_kind(accounting="dominant", constrained=True),
    story=operations(CONSTRAINED),
    seed=st.integers(0, 2**16),
)
def test_restored_and_following_it_goes_on_alike(setting: Setting, story: list[Operation], seed: int) -> None:
    setting = kinded(setting, seed)
    player, follower, known = KindPlayer(setting, check=False), setting.make(), 0
    for number, operation in enumerate(story):
        if operation[1] % 4 == 0 or number == len(story) // 2:
            player.add_twin()
        player.play([operation])
        for i in range(known, len(player.calls)):
            now, events = player.calls[i]
            facts: list[Event | Decision] = [*events, *player.answers[i]]
            follower.apply(now, facts)
        known = len(player.calls)
        assert promised_state(follower) == promised_state(player.core), operation
    assert follower.validate() == []


BOUNDED = {"submit": 12, "burst": 8, "end": 3, "fail": 2, "cancel": 3, "wait": 6, "wake": 4, "cordon": 1, "uncordon": 3}


@examples(5)
@given(
    setting=settings_of_any_kind(accounting="dominant", trees=True),
    story=operations(BOUNDED),
    seed=st.integers(0, 2**16),
)
def test_no_group_has_more_of_a_kind_than_its_max_quota(setting: Setting, story: list[Operation], seed: int) -> None:
    player = KindPlayer(kinded(setting, seed), check=False)
    for operation in story:
        player.play([operation])
        groups = player.core.groups
        for node in (*groups, *groups.tree.upwards):
            if node.most is not None:
                have = list(zip(node.used, node.claimed, node.leaving, node.most, strict=True))[node.base :]
                # What a unit takes from others in the group is theirs until they have stopped.
                assert all(
                    used <= most and used + claimed - leaving <= most for used, claimed, leaving, most in have
                ), node


# --- guarantees ------------------------------------------------------------------------------------------------------

D = Dimensions(("gpu",))


class Place:
    """Groups with quotas of devices, on nodes with room enough but for devices; every task has one."""

    def __init__(self, rng: Random) -> None:
        options = Options(
            accounting="dominant",
            cooling=0,
            cooling_above_quota=0,
            max_per_round=1.0,
            preempt_below=1.0,
            preempt_above=1.0,
            drain_after=0,
            behind_blocked=rng.choice(("reserve", "quota_only")),
            order=rng.choice(("share", "urgency")),
        )
        self.rng = rng
        self.core = Scheduler(D, options)
        self.now = 0
        self.devices = Counter({model: 4 * rng.randint(1, 2) for model in MODELS})
        nodes = [
            Node(
                name=f"{model}{i}", capacity=D.vector(cpu=64_000, gpu=4_000), attributes=(("GPUModel", model),),
                devices=tuple(Device(kind="gpu", id=str(k), model=model) for k in range(4)),
            )
            for model in MODELS for i in range(self.devices[model] // 4)
        ]  # fmt: skip
        self.groups = self._groups()
        self.core.observe(0, [*map(NodeAdded, nodes), GroupsApplied(self.groups)])
        self.running: set[int] = set()
        self.told: set[int] = set()
        self.number = 0

    def _groups(self) -> tuple[Group, ...]:
        """Up to four, whose quotas fit the devices together; some have numbers, or cores; some are in another one."""
        left, made = self.devices.copy(), []
        for i in range(self.rng.randint(2, 4)):
            amounts = {}
            for model in MODELS:
                if left[model] and self.rng.random() < 0.7:
                    amounts[f"gpu({model})"] = 1000 * self.rng.randint(1, left[model])
                    left[model] -= amounts[f"gpu({model})"] // 1000
            quota = Quota(amounts=(("cpu", 256_000), *amounts.items()))
            if not amounts and self.rng.random() < 0.5:
                quota = Quota(scalar=1_000_000)
            policy = self.rng.choice((SchedPolicy.FIFO, SchedPolicy.PRIORITY, SchedPolicy.BACKFILL))
            parent = "in" if quota.amounts and self.rng.random() < 0.4 else ""
            made.append(Group(name=f"g{i}", quota=quota, policy=policy, parent=parent))
        return (*made, *((Group(name="in"),) if any(group.parent for group in made) else ()))

    def submit(self) -> None:
        """A job in some group, of some model or of any."""
        self.number += 1
        model = self.rng.choice((*MODELS, ""))
        takers = [group.name for group in self.groups if group.name != "in"]
        job = Job(
            id=self.number,
            group=self.rng.choice(takers),
            request=D.vector(cpu=1_000, gpu=1_000),
            tasks=self.rng.randint(1, 6),
            requirement=f'GPUModel = "{model}"' if model else "",
            priority=self.rng.randint(0, 3),
        )
        self.core.observe(self.now, [JobSubmitted(job)])

    def end(self) -> None:
        """Some task ends."""
        if self.running:
            attempt = self.rng.choice(sorted(self.running))
            self.running.discard(attempt)
            self.told.discard(attempt)
            self.core.observe(self.now, [TaskEnded(attempt, Outcome.SUCCEEDED)])

    def settle(self) -> None:
        """Decide until nothing changes, not even by itself later; all that is told to stop does.

        A task that has just started keeps its place for its grace: then it is looked at again.
        """
        for _ in range(200):
            self.now += 1_000_000
            items = []
            more = True
            while more:
                answer = self.core.decide(self.now)
                more = answer.more
                items += answer.items
            for each in items:
                if isinstance(each, Start):
                    self.running.add(each.attempt)
                elif isinstance(each, Preempt):
                    self.told.add(each.attempt)
            if not items:
                later = self.core.next_wakeup()
                if later is None:
                    return
                self.now = max(self.now, later - 1_000_000)
            for attempt in sorted(self.told):
                self.running.discard(attempt)
                self.core.observe(self.now, [TaskEnded(attempt, Outcome.PREEMPTED, again=True)])
            self.told.clear()
        raise AssertionError("it does not come to rest")

    def owed(self) -> list[str]:
        """The groups that wait for a kind of which they are below their quota, while others have more of it than
        theirs.
        """
        groups, found = self.core.groups, []
        for group in groups:
            head = head_of(group)
            if head is None:
                continue
            for j, name in enumerate(groups.kinds.names):
                model = name[4:-1]
                if head.job.requirement in ("", f'GPUModel = "{model}"') and has_right(group, j):
                    found += [
                        f"{group.name} waits for {name}, and {other.name} has it"
                        for other in groups
                        if borrows(other, j, group)
                    ]
        return found


def has_right(group: GroupState, j: int) -> bool:
    """Whether one more task is within the quota of a kind, and of all that counts on every node."""
    charge = [1_000] if group.vector else [15_625]
    base = all(
        used + more <= quota for used, more, quota in zip(group.used, charge, group.quota[: group.base], strict=False)
    )
    return base and group.used[group.base + j] + 1_000 <= group.quota[group.base + j]


def borrows(other: Amounts, j: int, group: Amounts) -> bool:
    """Whether a group has more of a kind than its quota, with all that it is in and the other one is not."""
    above = {node.name for node in group.path()}
    path = [node for node in other.path() if node.name not in above]
    return bool(path) and all(node.used[node.base + j] > node.quota[node.base + j] for node in path)


@given(seed=st.integers(0, 2**32))
def test_who_is_below_its_quota_of_a_kind_gets_it_back(seed: int) -> None:
    place = Place(Random(seed))
    for _ in range(place.rng.randint(5, 25)):
        for _ in range(place.rng.randint(0, 3)):
            place.submit() if place.rng.random() < 0.6 else place.end()
        place.settle()
        assert place.owed() == []
    assert place.core.validate() == []
