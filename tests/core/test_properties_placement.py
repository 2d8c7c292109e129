"""Random stories of jobs that ask for ports, disks, racks and each other: a plain account checks every start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause, Kind
from cress.language.parser import parse_requirement
from cress.model.decisions import Decision, Start
from cress.model.devices import devices_of
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job
from cress.model.node import Allocated, Node
from cress.model.resources import Dimensions
from tests.core.settings import (
    GROUPS,
    PLACED,
    Operation,
    Setting,
    operations,
    seeded_operations,
    seeded_setting,
    settings_of_any_kind,
)
from tests.core.stories import Player, sent_away
from tests.examples import examples, usual

# In one group all names are known; jobs without an end are there when others depend on them.
SETTINGS = st.one_of(
    settings_of_any_kind(placed=True), settings_of_any_kind(placed=True, group_count=1, limits="none", trees=False)
)


def hard(job: Job, kind: Kind) -> list[Clause]:
    """Clauses of the kind that hold at every moment."""
    return [
        each
        for each in parse_requirement(job.requirement, stored=True).clauses
        if each.kind is kind and not each.relaxation
    ]


class Watch:
    """What runs where, by the starts alone; every start of a pass is held against the clauses of its job."""

    def __init__(self) -> None:
        self.ports: dict[int, tuple[int, ...]] = {}
        self.devices: dict[int, tuple[Allocated, ...]] = {}
        self.seen: Counter[str] = Counter()

    def __call__(self, player: Player, items: list[Decision]) -> Callable[[], None]:
        starts = [each for each in items if isinstance(each, Start)]
        account = player.account
        running = {attempt: (each.job.id, each.node) for attempt, each in account.running.items()}  # before the pass
        running |= {start.attempt: (start.job, start.node) for start in starts}
        self.ports = {attempt: got for attempt, got in self.ports.items() if attempt in running}
        self.ports |= {attempt: each.ports for attempt, each in account.running.items() if attempt not in self.ports}
        self.ports |= {start.attempt: start.ports for start in starts}
        self.devices = {attempt: got for attempt, got in self.devices.items() if attempt in running}
        self.devices |= {
            attempt: each.devices for attempt, each in account.running.items() if attempt not in self.devices
        }
        self.devices |= {start.attempt: start.devices for start in starts}
        for start in starts:
            job = account.jobs[start.job]
            self.check_ports(player, running, start, job)
            self.check_devices(player, running, start, job)
            self.check_racks(player, running, start, job)
            self.check_spread(player, running, start, job)
            self.check_dependencies(player, running, start, job)
        self.seen["together"] += len({start.job for start in starts}) > 1
        return lambda: None

    def check_ports(self, player: Player, running: dict[int, tuple[int, str]], start: Start, job: Job) -> None:
        assert len(start.ports) == len(job.ports)
        node = player.account.nodes[start.node]
        for (_, asked), got in zip(job.ports, start.ports, strict=True):
            assert got == asked or (not asked and node.ports[0] <= got <= node.ports[1])
            assert got not in player.strangers.get(start.node, ())
            others = [each for each, (_, name) in running.items() if name == start.node and got in self.ports[each]]
            assert others == [start.attempt]
            self.seen["ports"] += 1

    def check_devices(self, player: Player, running: dict[int, tuple[int, str]], start: Start, job: Job) -> None:
        """Which devices the tasks on the node have: what they asked for, and no device more than it is."""
        dimensions = player.core.dimensions
        devices = devices_of(player.account.nodes[start.node], dimensions)
        asked = dict(zip(dimensions.names, job.request, strict=True))
        for kind in {device.kind for device in devices if device.kind != "disk"}:
            amounts = [each.amount for each in start.devices if each.kind == kind]
            assert sum(amounts) == asked[kind], start
            assert len(amounts) <= 1 or set(amounts) == {1000}, start
            self.seen["parts" if 0 < asked[kind] < 1000 else "whole"] += bool(amounts)
        disks = [each for each in start.devices if each.kind == "disk"]
        if any(device.kind == "disk" for device in devices):
            alone = bool(hard(job, Kind.DISK))
            assert len(disks) == (1 if disks or alone or asked["disk_read"] else 0), start
            assert not alone or disks[0].amount == 1000, start
            self.seen["disks"] += alone
            self.seen["shared disks"] += bool(disks and not disks[0].amount)
        for device in devices:
            users = [(number, each) for number, (_, name) in running.items() if name == start.node
                     for each in self.devices[number] if (each.kind, each.id) == (device.kind, device.id)]  # fmt: skip
            if device.kind != "disk":
                assert sum(each.amount for _, each in users) <= 1000, (device, users)
            elif any(each.amount for _, each in users):
                assert len(users) == 1, (device, users)
            else:
                at = dimensions.index["disk_read"]
                reading = sum(player.account.jobs[running[number][0]].request[at] for number, _ in users)
                assert reading <= device.bandwidth[0], (device, users)

    def check_racks(self, player: Player, running: dict[int, tuple[int, str]], start: Start, job: Job) -> None:
        if not hard(job, Kind.ADJACENT):
            return
        account = player.account
        rack = account.nodes[start.node].rack
        for number, name in running.values():
            other = account.jobs[number]
            same_group = account.group_of[number] == account.group_of[job.id]
            if number == job.id or (job.application and other.application == job.application and same_group):
                its = account.nodes[name].rack
                assert rack == its or {(rack, its), (its, rack)} & set(player.neighbours), f"{start}: {rack}, {its}"
                self.seen["racks" if rack == its else "neighbours"] += 1

    def check_spread(self, player: Player, running: dict[int, tuple[int, str]], start: Start, job: Job) -> None:
        mine = [name for number, name in running.values() if number == job.id]
        rack = player.account.nodes[start.node].rack
        if job.max_per_node:
            assert mine.count(start.node) <= job.max_per_node
            self.seen["per node"] += 1
        if job.max_per_rack:
            assert sum(player.account.nodes[name].rack == rack for name in mine) <= job.max_per_rack
            self.seen["per rack"] += 1

    def check_dependencies(self, player: Player, running: dict[int, tuple[int, str]], start: Start, job: Job) -> None:
        account = player.account
        for clause in hard(job, Kind.DEPENDENCY):
            there = {
                account.jobs[number].name
                for number, name in running.values()
                if name == start.node and account.group_of[number] == account.group_of[job.id]
            }
            assert clause.value in there, f"{start}: {clause} of {there}"
            self.seen["dependencies"] += 1


@examples(3)
@given(SETTINGS, operations(PLACED))
def test_every_start_satisfies_what_its_job_asks_of_what_runs_where(setting: Setting, story: list[Operation]) -> None:
    Player(setting, budget=1, watch=Watch()).play(story)


def test_long_stories_come_by_everything() -> None:
    watch = Watch()
    wanted = {
        "ports",
        "disks",
        "shared disks",
        "parts",
        "whole",
        "racks",
        "neighbours",
        "per node",
        "per rack",
        "dependencies",
    }
    # On a push, stories that are known to come by all of it.
    for seed in usual((4, 8), tuple(range(10))):
        watch.ports.clear()
        watch.devices.clear()
        setting = seeded_setting(
            seed,
            placed=True,
            selective=False,
            group_count=1,
            limits="none",
            node_order="first",
            balance_gate="off",
            trees=False,
        )
        Player(setting, budget=1, watch=watch).play(seeded_operations(seed, usual(60, 150), PLACED))
        if wanted <= {what for what, number in watch.seen.items() if number}:
            break
    assert wanted <= {what for what, number in watch.seen.items() if number}


def test_chains_of_jobs_on_nodes_that_fail_are_restarted_together_and_nothing_is_lost() -> None:
    watch = Watch()
    for seed in range(usual(6, 12)):
        rng = Random(seed)
        watch.ports.clear()
        watch.devices.clear()
        nodes = tuple(Node(name=f"n{i}", capacity=Dimensions().vector(cpu=8000)) for i in range(4))
        groups = tuple(Group(name=name, quota=Quota(scalar=9000), policy=SchedPolicy.BACKFILL) for name in GROUPS[:2])
        player = Player(Setting(groups=groups, nodes=nodes), budget=1, watch=watch)
        for number in range(1, 13):
            group = player.groups[0].name
            on = rng.randrange(max(1, number - 3), number) if number > 1 and rng.random() < 0.7 else 0
            player.submit(
                Job(
                    id=number,
                    group=group,
                    name=f"job{number}",
                    request=Dimensions().vector(cpu=1000),
                    tasks=rng.choice((1, 1, 2)),
                    requirement=f"JobDependency = job{on}" if on else "",
                    ports=(("a", 80),) if rng.random() < 0.2 else (),
                )
            )
        for kind in rng.choices(("lose", "back", "cordon", "uncordon", "hold", "release", "cancel", "groups"),
                                (6, 6, 1, 3, 1, 2, 0.3, 0.2), k=40):  # fmt: skip
            twin = sent_away(player.core)
            assert twin.export() == player.core.export()
            player.twins = [twin]
            player.play([(kind, rng.randrange(2**16))])
    assert watch.seen["together"] > usual(10, 20)


@examples(3)
@given(SETTINGS, operations(PLACED), st.booleans())
def test_restored_at_any_moment_it_goes_on_alike(setting: Setting, story: list[Operation], often: bool) -> None:
    player = Player(setting, check=False)
    for number, operation in enumerate(story):
        if often or number == len(story) // 2:
            player.add_twin()
        player.play([operation])
