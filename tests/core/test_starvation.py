"""Nobody starves: every unit that fits within its group's reach starts within the bound of design note 0011."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Preempt, Start
from cress.model.events import Outcome
from cress.model.job import JobType
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.examples import examples

FAST = 60 * SECOND


@dataclass
class Story:
    """A cluster whose jobs arrive and run for known times, played with wake-ups until all is over."""

    world: World
    started: dict[str, float]
    finished: dict[str, float]
    # The jobs that had to stop for others.
    victims: set[str]
    # How long tasks had run that were due and yielded to others of their group (seconds).
    due_ran: list[float] = field(default_factory=list)
    begun: dict[int, tuple[Start, int]] = field(default_factory=dict)
    seen: int = 0

    @property
    def makespan(self) -> float:
        return max(self.finished.values())

    def look(self) -> None:
        """Take in what was decided at this moment."""
        world = self.world
        for each in world.decisions[self.seen :]:
            if isinstance(each, Start):
                self.begun[each.attempt] = each, world.now
            elif isinstance(each, Preempt):
                start, since = self.begun[each.attempt]
                if start.due and world.core.jobs[each.by].group is world.core.jobs[each.job].group:
                    self.due_ran.append((world.now - since) / SECOND)
        self.seen = len(world.decisions)


def play(world: World, arrivals: Iterable[tuple[float, JobBuilder, float]], until: float = 1e9) -> Story:
    """Play jobs (arrival, job, running time; seconds); a victim stops at once and runs its whole time again."""
    # Time, ends before arrivals, number.
    events: list[tuple[int, int, int, JobBuilder | int]] = []
    lasts: dict[str, float] = {}
    for number, (at, each, duration) in enumerate(arrivals):
        lasts[each.name] = duration
        heapq.heappush(events, (round(at * SECOND), 1, number, each))
    story = Story(world, {}, {}, set())
    seen, count = 0, len(events)
    known: set[int] = set()
    while events or world.running:
        wakeup = world.core.next_wakeup()
        if not events and wakeup is None:
            break
        now = min(events[0][0] if events else 2**62, wakeup if wakeup is not None else 2**62)
        world.now = max(world.now, now)
        if world.now > until * SECOND:
            break
        while events and events[0][0] <= world.now:
            *_, what = heapq.heappop(events)
            if isinstance(what, JobBuilder):
                world.submit(what)
            elif what in world.running:
                start = world.running[what]
                name = world.names[start.job]
                world.end([start], Outcome.SUCCEEDED)
                story.finished[name] = world.now / SECOND
        world.decide()
        story.look()
        while world.told:
            story.victims.update(world.names[start.job] for start in world.told.values())
            world.yield_victims()
            story.look()
        for begun in world.starts[seen:]:
            # A victim starts again.
            story.started.setdefault(begun.job, begun.at)
        seen = len(world.starts)
        for attempt, start in world.running.items():
            if attempt not in known:
                count += 1
                known.add(attempt)
                end = world.now + round(lasts[world.names[start.job]] * SECOND)
                heapq.heappush(events, (end, 0, count, attempt))
    return story


def stream(
    group_name: str, count: int, every: float, lasts: float, user: str = "ann", priority: int = 0, *, limited: bool
) -> list[tuple[float, JobBuilder, float]]:
    found = []
    for i in range(count):
        each = job(f"{group_name}-{user}-{i}").cpu(1).group(group_name).user(user).priority(priority)
        found.append((i * every, each.limit(lasts) if limited else each, lasts))
    return found


LIMITED = pytest.mark.parametrize("limited", [True, False], ids=["limits", "no limits"])


@pytest.mark.parametrize("names", [("alpha", "beta"), ("beta", "alpha")])
@pytest.mark.parametrize("behind", ["reserve", "quota_only"])
@LIMITED
def test_a_gang_within_its_quota_starts_beside_a_stream_of_another_group(
    names: tuple[str, str], behind: str, limited: bool
) -> None:
    small, large = names
    world = World(
        group(small, 5), group(large, 5), nodes=nodes(2, cpu=5), check=False, behind_blocked=behind, drain_after=FAST
    )
    gang = job("gang").cpu(2.5).tasks(2).gang().limit(100).group(large)
    story = play(world, [*stream(small, 300, 8, 100, limited=limited), (500, gang, 100)])
    assert story.started["gang"] <= 500 + 60 + 200


@pytest.mark.parametrize("names", [("alpha", "beta"), ("beta", "alpha")])
@LIMITED
def test_nothing_is_drained_for_a_gang_that_guarantees_forbid(names: tuple[str, str], limited: bool) -> None:
    small, large = names
    world = World(group(small, 5), group(large, 5), nodes=nodes(2, cpu=5), check=False, drain_after=FAST)
    gang = job("gang").cpu(5).tasks(2).gang().limit(100).group(large)
    story = play(world, [*stream(small, 300, 8, 100, limited=limited), (500, gang, 100)])
    # 300 jobs of 100 core seconds on 10 cores, and the gang.
    assert story.makespan <= 300 * 100 / 10 + 100 + 150


@pytest.mark.parametrize("parts", [False, True], ids=["alike", "in parts"])
def test_a_node_whose_services_leave_too_little_is_not_drained(parts: bool) -> None:
    """It lacks less than the other one, and would lack it for ever."""
    served, batch = node("n1").cpu(10), node("n2").cpu(10)
    world = World(group("g", 16), group("h", 4), nodes=[served, batch], drain_after=20 * SECOND)
    world.run(job("serves").cpu(4).type(JobType.SERVICE, 1).group("g").requires("Nodes in (n1)"))
    world.run(job("small").cpu(2).tasks(4).group("g").requires("Nodes in (n2)"))
    unit = job("unit").group("g").cpu(8)
    world.submit(unit.parts(job("one").cpu(7), job("other").cpu(1)) if parts else unit).decide()
    world.wait(21).decide()
    assert world.veto("unit").kind is Verdict.DRAINING
    assert "n2" in world.veto("unit").places
    world.submit(job("more").cpu(2).group("h")).decide()
    assert world.nodes_of("more") == ["n1"]


def test_a_unit_for_which_no_node_can_be_drained_delays_nobody() -> None:
    world = World(group("g", 2), group("h", 8), nodes=nodes(1, cpu=10), drain_after=20 * SECOND)
    world.run(job("serves").cpu(4).type(JobType.SERVICE, 1).group("g"))
    world.submit(job("large").cpu(8).group("h")).decide()
    world.wait(21).submit(job("small").tasks(6).cpu(1).group("g")).decide()
    assert world.jobs_running().count("small") == 6


# What may be first in the queue of a group with a quota of 5, on two nodes of 5 cores, without waiting for room.
WAITS_FOR_SOMETHING_ELSE = {
    "a job that nobody submitted": job("head").requires("JobDependency = ghost"),
    "a label that no node has": job("head").requires('Zone = "eu"'),
    "a gang that guarantees forbid": job("head").cpu(5).tasks(2).gang().limit(100),
}


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill", "Urgency", "EDF"])
@pytest.mark.parametrize("head", [*WAITS_FOR_SOMETHING_ELSE.values(), None], ids=[*WAITS_FOR_SOMETHING_ELSE, "none"])
def test_a_gang_behind_one_that_waits_for_something_else_has_its_turn_beside_a_stream(
    head: JobBuilder | None, policy: str
) -> None:
    """The group of the stream has a smaller part of its quota, so it comes first whenever one of its jobs waits."""
    first, then = nodes(2, cpu=5)
    world = World(
        group("alpha", 20), group("beta", 9, policy), nodes=[first, then], check=False, drain_after=FAST, backfill="off"
    )
    own = [
        (0, job(f"own-{i}").cpu(2).group("beta").user("zoe").requires(f"Nodes in (n{i})").limit(9000), 9000)
        for i in (1, 2)
    ]
    gang = job("gang").cpu(2.5).tasks(2).gang().limit(100).group("beta").user("zoe")
    idle = [] if head is None else [(499, head.group("beta").user("zoe").priority(9), 100)]
    story = play(world, [*own, *stream("alpha", 200, 18, 100, limited=True), *idle, (500, gang, 100)])
    assert story.started["gang"] <= 500 + 60 + 200


@pytest.mark.parametrize("users", [("ann", "zoe"), ("zoe", "ann")])
@LIMITED
def test_a_wide_gang_starts_beside_the_stream_of_another_user(users: tuple[str, str], limited: bool) -> None:
    small, large = users
    world = World(group("g", 10, "Capacity"), nodes=nodes(2, cpu=5), check=False, drain_after=FAST)
    gang = job("gang").cpu(5).tasks(2).gang().limit(100).group("g").user(large)
    story = play(world, [*stream("g", 300, 8, 100, small, limited=limited), (500, gang, 100)])
    assert story.started["gang"] <= 500 + 60 + 200


@pytest.mark.parametrize("names", [("alpha", "beta"), ("beta", "alpha")])
@LIMITED
def test_a_gang_as_large_as_its_quota_starts_although_its_group_uses_a_part(
    names: tuple[str, str], limited: bool
) -> None:
    small, large = names
    world = World(group(small, 5), group(large, 5), nodes=nodes(2, cpu=5), check=False, drain_after=FAST)
    own = [(0, job(f"own-{i}").cpu(1).group(large), 400) for i in range(3)]
    gang = job("gang").cpu(2.5).tasks(2).gang().limit(100).group(large)
    story = play(world, [*own, *stream(small, 300, 8, 100, limited=limited), (200, gang, 100)])
    assert story.started["gang"] <= 200 + 60 + 400


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity"])
@pytest.mark.parametrize("closed", ["away", "cordoned"])
def test_a_head_that_no_open_node_could_hold_blocks_nobody(policy: str, closed: str) -> None:
    world = World(group("g", 30, policy), group("other", 1), nodes=[node("small").cpu(10), node("big").cpu(20)])
    if closed == "away":
        world.lose_node("big")
    else:
        world.cordon("big")
    world.submit(job("head").cpu(15).group("g"))
    world.submit(*(job(f"one-{i}").cpu(1).group("g") for i in range(5)), job("theirs").cpu(1).group("other"))
    assert len(world.decide()) == 6
    assert world.veto("head").kind is Verdict.NO_NODE
    assert f"(1 {closed})" in world.why("head")


def test_ties_between_groups_go_to_the_unit_that_has_waited_longest() -> None:
    world = World(group("a", 4), group("b", 4), nodes=[node("n1").cpu(4)])
    world.run(job("blocks").cpu(4).group("b"))
    world.submit(job("first").cpu(4).group("b")).wait(1).submit(job("second").cpu(4).group("a")).decide()
    world.core.groups.by_name["a"].used[0] = 0
    world.finish("blocks")
    assert [each.job for each in world.starts][-1] == "first"


@given(
    data=st.data(),
    limited=st.booleans(),
    behind=st.sampled_from(("reserve", "quota_only")),
    within=st.sampled_from(("off", "lower_priority")),
)
@examples(9)
def test_every_unit_within_its_quota_starts_within_the_bound(
    data: st.DataObject, limited: bool, behind: str, within: str
) -> None:
    """Streams of small jobs in every group for a long time, and wide units in some, of any priority; before all of
    these, jobs that wait for something other than room.

    The bound holds for units that are not first in their queues as well. One that yields to higher priorities of its
    group comes back to its place, and those behind it are not offered.
    """
    priorities = st.integers(0, 2)
    cores = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=4), "nodes")
    names = data.draw(st.permutations(("a", "b", "c")), "names")[: data.draw(st.integers(1, 3), "groups")]
    policies = {name: data.draw(st.sampled_from(("FIFO", "Capacity", "BackFill")), name) for name in names}
    quota = sum(cores) // len(names)
    assume(quota >= 2)
    longest = 40
    world = World(
        *(group(name, quota, policies[name]) for name in names),
        nodes=[node(f"n{i}").cpu(count) for i, count in enumerate(cores)],
        check=False,
        behind_blocked=behind,
        preempt_within=within,
        drain_after=20 * SECOND,
    )
    first = []
    for name in names:
        head = data.draw(st.sampled_from((None, *WAITS_FOR_SOMETHING_ELSE.values())), "head")
        if head is not None:
            head = head.tasks(sum(cores)).cpu(1) if "gang" in dict(head.rest) else head
            first.append((0, head.named(f"head-{name}").group(name).user("zoe").priority(2).limit(longest), longest))
    wide = []
    group_of: dict[str, str] = {}
    for i in range(data.draw(st.integers(1, 3), "wide units")):
        name = data.draw(st.sampled_from(names), "group")
        group_of[f"wide-{i}"] = name
        tasks = data.draw(st.integers(1, min(quota, len(cores))), "tasks")
        each = min(*cores, quota // tasks)
        unit = job(f"wide-{i}").cpu(each).tasks(tasks).group(name).user("zoe").limit(longest)
        unit = unit.priority(data.draw(priorities, "priority"))
        wide.append((data.draw(st.integers(0, 600), "at"), unit.gang() if tasks > 1 else unit, longest))
    arrivals = []
    for name in names:
        # Where one queue serves all, a stream would be ahead by right.
        if name not in group_of.values() or policies[name] == "Capacity":
            every = data.draw(st.integers(2, 12), "every")
            lasts, priority = data.draw(st.integers(5, longest), "lasts"), data.draw(priorities, "priority")
            arrivals += stream(name, 1_200 // every, every, lasts, priority=priority, limited=limited)
    story = play(world, [*first, *arrivals, *wide])
    ahead = len(first) + len(wide) + len(names)
    before: dict[str, set[str]] = {name: set() for name in names}
    for at, unit, _ in sorted(wide, key=lambda each: each[0]):
        behind_a_victim = within == "lower_priority" and before[group_of[unit.name]] & story.victims
        before[group_of[unit.name]].add(unit.name)
        if behind_a_victim:
            continue
        assert story.started[unit.name] - at <= (ahead + 1) * (20 + longest), unit.name
    # Who was due is not stopped at once by the next one of its group.
    assert all(ran >= 20 for ran in story.due_ran)


@pytest.mark.parametrize("behind", ["reserve", "quota_only"])
@pytest.mark.parametrize("within", ["off", "lower_priority"])
@LIMITED
def test_streams_of_small_jobs_in_all_groups_leave_a_node_to_a_wide_job_of_the_size_of_its_quota(
    behind: str, within: str, limited: bool
) -> None:
    """One small job of each group ran on either node: the wide one was beyond its quota whenever a node was empty."""
    world = World(
        group("a", 2),
        group("b", 2, "Capacity"),
        nodes=nodes(2, cpu=2),
        check=False,
        behind_blocked=behind,
        preempt_within=within,
        drain_after=20 * SECOND,
    )
    wide = job("wide").cpu(2).group("b").user("zoe").limit(40)
    small = [each for name in "ab" for each in stream(name, 100, 2, 5, limited=limited)]
    story = play(world, [*small, (2, wide, 40)])
    assert story.started["wide"] <= 2 + 20 + 2 * 5


def beside_a_due_unit(
    own: list[JobBuilder], *jobs: JobBuilder, policy: str = "Capacity", backfill: str = "easy"
) -> World:
    """A unit of four cores, due in a group with a quota of four, and jobs that come later, of users that go first; the
    one node that is large enough is in use for 100 s, and what its group runs leaves too little of the quota.
    """
    world = World(
        group("a", 4),
        group("b", 4, policy),
        nodes=[node("large").cpu(4), *nodes(4, cpu=1)],
        drain_after=20 * SECOND,
        backfill=backfill,
    )
    world.run(*(each.group("b").user("own") for each in own), job("theirs").cpu(4).group("a").limit(100))
    wide = job("wide").cpu(4).group("b").user("zoe").limit(40)
    world.submit(wide, job("waits").cpu(2).group("a").limit(100)).decide()
    world.wait(20).decide()
    world.submit(*(each.group("b").user(f"ann {each.name}") for each in jobs)).decide()
    return world


@pytest.mark.parametrize(
    ("policy", "backfill"), [("Capacity", "easy"), ("BackFill", "easy"), ("BackFill", "conservative")]
)
def test_beside_a_due_unit_jobs_of_its_group_start_that_end_before_it_comes_within_the_quota(
    policy: str, backfill: str
) -> None:
    own = [job("own 1").limit(60), job("own 2").limit(100)]
    world = beside_a_due_unit(own, job("longer").limit(81), job("shorter").limit(80), policy=policy, backfill=backfill)
    assert world.jobs_running() == ["own 1", "own 2", "shorter", "theirs"]
    assert world.why("longer") == "job 6 fits, but would delay job 4 of group b"


def test_nothing_is_kept_of_a_quota_for_a_unit_that_services_of_its_group_leave_too_little() -> None:
    world = beside_a_due_unit([job("own").type(JobType.SERVICE)], job("longer"))
    assert world.jobs_running() == ["longer", "own", "theirs"]


def test_a_group_keeps_its_quota_for_a_due_unit_at_moments_when_no_other_group_has_a_job_that_waits() -> None:
    """Nodes were drained for the gang, its own group started beside them, and then the other one on them."""
    world = World(
        group("a", 8, "BackFill"),
        group("b", 8, "Capacity"),
        nodes=nodes(4, cpu=4),
        check=False,
        behind_blocked="quota_only",
        drain_after=20 * SECOND,
    )
    gang = job("gang").cpu(2).tasks(3).gang().group("b").user("zoe").limit(40)
    small = [each for name, every in (("a", 2), ("b", 1)) for each in stream(name, 150, every, 16, limited=False)]
    assert play(world, [*small, (31, gang, 40)]).started["gang"] <= 31 + 20 + 2 * 16


@pytest.mark.parametrize("at", [306, 400, 500])
def test_small_jobs_of_its_own_group_do_not_start_for_ever_before_a_wide_one_of_the_size_of_the_quota(at: int) -> None:
    """Both groups are at their quotas all the time: the wide job starts when its group has nothing else."""
    world = World(
        group("b", 2, "Capacity"), group("c", 2, "Capacity"), nodes=nodes(1, cpu=4), check=False, drain_after=FAST
    )
    wide = job("wide").cpu(2).group("b").user("zoe").limit(40).priority(1)
    arrivals = stream("b", 170, 7, 24, limited=True) + stream("c", 100, 11, 40, priority=2, limited=True)
    story = play(world, [*arrivals, (at, wide, 40)])
    assert story.started["wide"] <= at + 2 * (20 + 40)


@pytest.mark.parametrize("head", WAITS_FOR_SOMETHING_ELSE.values(), ids=WAITS_FOR_SOMETHING_ELSE)
def test_a_wide_job_behind_one_that_waits_for_something_else_has_its_turn_beside_small_ones_of_its_group(
    head: JobBuilder,
) -> None:
    """The first jobs of both queues never wait for room, so the wide one is what the small ones overtake."""
    world = World(
        group("a", 2, "BackFill"), group("c", 2, "Capacity"), nodes=nodes(1, cpu=4), check=False, drain_after=FAST
    )
    head = head.tasks(4).cpu(1) if "gang" in dict(head.rest) else head
    heads = [(0, head.named(f"head-{name}").group(name).user("zoe").priority(2).limit(40), 40) for name in "ac"]
    wide = job("wide").cpu(2).group("c").user("zoe").limit(40).priority(2)
    arrivals = stream("a", 75, 2, 23, limited=True) + stream("c", 75, 3, 14, limited=True)
    story = play(world, [*heads, *arrivals, (40, wide, 40)])
    assert story.started["wide"] <= 40 + 60 + 2 * 40


@pytest.mark.parametrize(("most", "started"), [(0, ["big", "longer"]), (1, ["big"])])
def test_nothing_is_kept_for_a_due_unit_where_limits_keep_the_jobs_of_all_other_groups_waiting(
    most: int, started: list[str]
) -> None:
    world = World(
        group("a", 4).limits(running=most),
        group("b", 4, "Capacity"),
        nodes=[node("large").cpu(4), *nodes(4, cpu=1)],
        drain_after=20 * SECOND,
    )
    world.run(job("big").cpu(4).group("b").user("own").limit(100))
    wide, waits = job("wide").cpu(4).group("b").user("zoe").limit(40), job("waits").cpu(2).group("a").limit(100)
    world.submit(wide, waits).decide()
    world.wait(20).decide()
    world.submit(job("longer").cpu(1).group("b").user("ann").limit(81)).decide()
    assert world.jobs_running() == started
