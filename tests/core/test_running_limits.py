"""Limits on running jobs: what they let start under each policy, what they never do to others, and what changes
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given

from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.model.decisions import Decision, Start
from cress.model.events import JobSubmitted
from cress.model.job import JobType
from cress.model.limits import Limits
from cress.model.resources import Dimensions
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.settings import EVERYTHING, PLACED, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, replay
from tests.examples import examples

POLICIES = ("FIFO", "Priority", "Capacity", "BackFill", "conservative", "predicted", "Urgency", "EDF")


def limited(policy: str, quota: int = 8, **limits: int) -> World:
    """A cluster of 8 cores for the group ``g``, which has these limits."""
    options = {"conservative": {"backfill": "conservative"}, "predicted": {"estimates": "predicted"}}.get(policy, {})
    name = "BackFill" if options else policy
    made = group("g", quota, name).with_options(**options).limits(**limits)
    return World(made, group("other", 8), nodes=nodes(2, cpu=4))


def of(user: str, name: str) -> JobBuilder:
    return job(name).group("g").user(user).limit(60)


@pytest.mark.parametrize("policy", POLICIES)
def test_as_many_jobs_of_a_group_run_as_may(policy: str) -> None:
    world = limited(policy, running=2)
    world.submit(*(of("ann", f"j{i}") for i in range(4))).decide()
    assert world.jobs_running() == ["j0", "j1"]
    assert world.why("j2") == world.why("j3") == "group g runs 2 of at most 2 jobs (MaxRunningJobs)"
    world.wait(1).finish("j0")
    assert world.jobs_running() == ["j1", "j2"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_jobs_of_another_user_go_on(policy: str) -> None:
    world = limited(policy, running_per_user=1)
    world.submit(of("ann", "a1"), of("ann", "a2"), of("ann", "a3"), of("bob", "b1"), of("bob", "b2")).decide()
    assert world.jobs_running() == ["a1", "b1"]
    assert world.why("a2") == "ann runs 1 of at most 1 job in group g (MaxRunningJobsPerUser)"
    assert world.why("b2") == "bob runs 1 of at most 1 job in group g (MaxRunningJobsPerUser)"
    world.wait(1).finish("b1")
    assert world.jobs_running() == ["a1", "b2"]


@pytest.mark.parametrize("policy", ["BackFill", "predicted"])
def test_a_like_job_of_another_user_goes_on_behind_a_blocked_one(policy: str) -> None:
    """A refusal for a limit of its user is no failure of the shape of a job."""
    world = limited(policy, running_per_user=1)
    world.run(of("ann", "a1").cpu(4))
    world.submit(of("cid", "blocked").cpu(4).tasks(2).gang(), of("ann", "a2"), of("bob", "b1")).decide()
    assert world.jobs_running() == ["a1", "b1"]
    assert world.veto("blocked").kind is Verdict.NO_ROOM
    assert world.veto("a2").kind is Verdict.RUNNING_LIMIT


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_runs_starts_its_other_tasks(policy: str) -> None:
    world = limited(policy, running=1)
    world.submit(of("ann", "array").tasks(12), of("ann", "later")).decide()
    assert world.jobs_running() == ["array"] * 8
    world.wait(1).finish("array", 0, 1)
    assert world.jobs_running() == ["array"] * 8
    assert world.why("later") == "group g runs 1 of at most 1 job (MaxRunningJobs)"


def test_all_tasks_of_a_service_are_one_job() -> None:
    world = limited("FIFO", running=1)
    tasks = [job(f"web{i}").group("g").member_of(7) for i in range(3)]
    world.submit(*tasks, job("batch").group("g")).decide()
    assert world.jobs_running() == ["web0", "web1", "web2"]
    assert world.why("batch") == "group g runs 1 of at most 1 job (MaxRunningJobs)"
    assert world.state("web0").job.type is JobType.SERVICE


@pytest.mark.parametrize("policy", POLICIES)
def test_who_waits_for_a_limit_is_in_nobodys_way(policy: str) -> None:
    """Without the limit ``big`` would be blocked, and hold up what comes behind it."""
    world = limited(policy, running_per_user=1)
    world.run(of("ann", "small").cpu(1))
    world.submit(of("ann", "big").cpu(4).tasks(2).gang(), of("bob", "next").cpu(3)).decide()
    assert world.jobs_running() == ["next", "small"]
    assert world.core.books.reservations.of(world.state("big")) is None
    assert world.core.books.plans.planned_start(world.state("big")) is None
    world.run(job("foreign").group("other").cpu(4).limit(3600))


@pytest.mark.parametrize("running", [0, 1])
def test_only_beside_jobs_that_their_limit_lets_run_is_a_turn_taken(running: int) -> None:
    """The first unit of the only queue keeps its turn anyway, unless others could take its room."""
    world = World(group("g", 8).limits(running=running), group("other", 8), nodes=nodes(1, cpu=4), drain_after=0)
    world.submit(job("kept").group("g")).run(job("before").group("other").cpu(3))
    world.submit(job("large").group("other").cpu(3)).decide()
    world.wait(1).finish("before")
    assert world.started()[-1] == "large"
    assert list(world.running.values())[-1].due == (running > 0)


def test_a_limit_of_none_stops_all_new_jobs() -> None:
    world = limited("FIFO", running=0)
    world.submit(of("ann", "one")).decide()
    assert world.jobs_running() == []
    assert world.why("one") == "group g runs 0 of at most 0 jobs (MaxRunningJobs)"
    assert world.core.next_wakeup() is None


def test_a_limit_that_is_lowered_ends_nothing() -> None:
    world = limited("FIFO", running=3)
    world.run(*(of("ann", f"j{i}") for i in range(3))).submit(of("ann", "j3"))
    world.apply(group("g", 8).limits(running=1), group("other", 8)).decide()
    assert world.jobs_running() == ["j0", "j1", "j2"]
    assert world.why("j3") == "group g runs 3 of at most 1 job (MaxRunningJobs)"
    for name in ("j0", "j1"):
        world.wait(1).finish(name)
        assert "j3" not in world.jobs_running()
    world.wait(1).finish("j2")
    assert world.jobs_running() == ["j3"]


def test_a_limit_that_is_raised_or_taken_away_lets_more_start_at_once() -> None:
    world = limited("FIFO", running=1)
    world.submit(*(of("ann", f"j{i}") for i in range(4))).decide()
    world.apply(group("g", 8).limits(running=2), group("other", 8)).decide()
    assert world.jobs_running() == ["j0", "j1"]
    world.apply(group("g", 8), group("other", 8)).decide()
    assert world.jobs_running() == ["j0", "j1", "j2", "j3"]


def test_what_is_claimed_counts_and_is_dropped_when_the_limit_falls() -> None:
    world = World(group("g", 4).limits(running=1), group("other", 1), nodes=[node("n1").cpu(4)], cooling=0)
    world.run(job("greedy").group("other").tasks(4))
    world.submit(of("ann", "first").cpu(2), of("ann", "second").cpu(1)).decide()
    assert len(world.core.claims) == 1
    assert world.why("second") == "group g runs 1 of at most 1 job (MaxRunningJobs)"
    world.apply(group("g", 4).limits(running=0), group("other", 1)).decide()
    assert world.core.claims == []
    world.wait(1).yield_victims()
    assert "first" not in world.jobs_running()
    assert world.why("first") == "group g runs 0 of at most 0 jobs (MaxRunningJobs)"


def test_jobs_that_move_to_another_group_take_its_places() -> None:
    world = World(group("old", 4), group("new", 4).limits(running=2), nodes=nodes(2, cpu=4))
    world.run(job("one").group("old"), job("two").group("old"))
    world.apply(group("new", 4).limits(running=2), moves={"old": "new"})
    world.submit(job("three").group("new")).decide()
    assert world.why("three") == "group new runs 2 of at most 2 jobs (MaxRunningJobs)"


def test_a_restored_scheduler_counts_the_same() -> None:
    world = limited("BackFill", running=2, running_per_user=1)
    world.run(of("ann", "a1"), of("bob", "b1"))
    world.submit(of("ann", "a2"), of("cid", "c1")).decide()
    twin = Scheduler.restore(world.core.export())
    assert twin.export() == world.core.export()
    for core in (world.core, twin):
        assert [counter.counts() for counter in core.groups.get("g").counters] == [
            ({1: 1, 2: 1}, {(1, "ann"): 1, (2, "bob"): 1}, {"ann": 1, "bob": 1})
        ]
    assert twin.validate() == []


def test_the_head_of_a_group_at_its_limit_makes_no_limits_of_time_count() -> None:
    """Estimates are not set aside for an overdue job that waits for a limit."""
    world = limited("predicted", running=1)
    world.apply(
        group("g", 8, "BackFill").with_options(estimates="predicted", overdue_after="1s").limits(running=1),
        group("other", 8),
    )
    world.run(of("ann", "long").expected(30))
    world.submit(of("ann", "late").expected(1)).wait(3600).decide()
    assert not world.core.books.expected.limits_count


# --- groups in groups --------------------------------------------------------------------------------------------


def in_one(policy: str = "FIFO", **limits: int) -> World:
    """The groups a and b are in lab, which has these limits, and lab is in campus; c is beside them."""
    return World(
        group("campus", 0), group("lab", 0).inside("campus").limits(**limits), group("a", 2, policy).inside("lab"),
        group("b", 2, policy).inside("lab"), group("c", 2, policy), nodes=nodes(2, cpu=4),
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill", "Urgency"])
def test_all_jobs_of_the_groups_below_count_for_the_limit_of_a_group_that_holds_them(policy: str) -> None:
    world = in_one(policy, running=2)
    world.submit(*(job(f"{name}{i}").group(name).limit(60) for i in range(2) for name in "abc")).decide()
    assert world.jobs_running() == ["a0", "b0", "c0", "c1"]
    assert world.why("a1") == world.why("b1") == "group lab runs 2 of at most 2 jobs (MaxRunningJobs)"
    world.wait(1).finish("b0")
    assert len(world.jobs_running()) == 4, "one of the two that waited has the place"
    world.finish("a0")
    assert world.jobs_running() == ["a1", "b1", "c0", "c1"]


def test_a_user_has_places_in_all_groups_below_together() -> None:
    world = in_one(running_per_user=1)
    world.submit(*(job(f"{name}-{user}").group(name).user(user) for user in ("ann", "bob") for name in "ab")).decide()
    assert world.jobs_running() == ["a-ann", "b-bob"]
    assert world.why("a-bob") == "bob runs 1 of at most 1 job in group lab (MaxRunningJobsPerUser)"
    world.finish("b-bob")
    assert world.jobs_running() == ["a-ann", "a-bob"]


def test_the_limit_of_a_group_and_of_the_one_that_holds_it_both_hold() -> None:
    world = World(
        group("lab", 0).limits(running=3), group("a", 4).inside("lab").limits(running=1), group("b", 4).inside("lab"),
        nodes=nodes(1, cpu=8),
    )  # fmt: skip
    world.submit(*(job(f"{name}{i}").group(name) for i in range(4) for name in "ab")).decide()
    assert world.jobs_running() == ["a0", "b0", "b1"]
    assert world.why("a1") == "group a runs 1 of at most 1 job (MaxRunningJobs)"
    assert world.why("b2") == "group lab runs 3 of at most 3 jobs (MaxRunningJobs)"


def test_what_is_claimed_in_one_group_counts_for_the_others_and_a_raised_limit_lets_them_start() -> None:
    groups = [group("a", 4).inside("lab"), group("b", 4).inside("lab"), group("c", 1)]
    world = World(group("lab", 0).limits(running=1), *groups, nodes=nodes(1, cpu=6), max_per_round=1.0)
    world.run(job("fill").cpu(4).group("c").stop_grace("30s"))
    world.submit(job("large").cpu(3).group("a").limit(60)).decide()
    assert world.victims() == ["fill"]
    world.submit(job("small").group("b")).decide()
    assert world.jobs_running() == ["fill"]
    assert world.why("small") == "group lab runs 1 of at most 1 job (MaxRunningJobs)"
    world.apply(group("lab", 0).limits(running=2), *groups).decide()
    assert world.jobs_running() == ["fill", "small"]


def test_restored_it_counts_the_same_for_the_group_that_holds_others() -> None:
    world = in_one(running=2)
    world.submit(*(job(f"{name}{i}").group(name) for i in range(2) for name in "ab")).decide()
    twin = Scheduler.restore(world.core.export())
    assert twin.export() == world.core.export()
    assert twin.validate() == []
    assert twin.decide(world.now) == world.apart().decide(world.now)


# --- what must always hold -------------------------------------------------------------------------------------


def too_many(player: Player, decided: list[Decision]) -> list[str]:
    """The starts beyond a limit, by a plain account of what ran before and runs now."""
    limits = {each.name: each.limits for each in player.groups}
    parents = {each.name: each.parent for each in player.groups}
    jobs = player.account.jobs

    def path(group_name: str) -> list[str]:
        return [group_name, *(path(parents[group_name]) if parents.get(group_name) else ())]

    def name(number: int) -> str:
        return player.account.group_of[number]

    running = {(name(each.job.id), each.job.counted_as, each.job.user) for each in player.account.running.values()}
    wrong = []
    for start in decided:
        if not isinstance(start, Start):
            continue
        spec = jobs[start.job]
        for group_name in path(name(spec.id)):
            limit = limits.get(group_name, Limits())
            theirs = {number for g, number, _ in running if group_name in path(g)}
            own = {number for g, number, user in running if group_name in path(g) and user == spec.user}
            if limit.running is not None and spec.counted_as not in theirs and len(theirs) >= limit.running:
                wrong.append(f"{start} beside {theirs} of {limit.running} in {group_name}")
            if limit.running_per_user is not None and spec.counted_as not in own and len(own) >= limit.running_per_user:
                wrong.append(f"{start} beside {own} of {limit.running_per_user} in {group_name}")
        running.add((name(spec.id), spec.counted_as, spec.user))
    return wrong


def watching(player: Player, decided: list[Decision]) -> Callable[[], None]:
    wrong = too_many(player, decided)
    assert not wrong, wrong
    return lambda: None


@examples(4)
@given(setting=settings_of_any_kind(limited=True), story=operations(EVERYTHING))
def test_no_start_exceeds_a_limit(setting: Setting, story: list[Operation]) -> None:
    Player(setting, watch=watching).play(story)


@examples(4)
@given(setting=settings_of_any_kind(limited=True, trees=True), story=operations(EVERYTHING))
def test_no_start_exceeds_a_limit_of_a_group_that_holds_others(setting: Setting, story: list[Operation]) -> None:
    Player(setting, watch=watching).play(story)


@examples(4)
@given(setting=settings_of_any_kind(limited=True, constrained=True, placed=True), story=operations(PLACED))
def test_no_start_exceeds_a_limit_where_jobs_depend_on_each_other(setting: Setting, story: list[Operation]) -> None:
    Player(setting, watch=watching).play(story)


@given(setting=settings_of_any_kind(limited=False, trees=False), story=operations(EVERYTHING))
def test_jobs_that_a_limit_keeps_waiting_change_nothing_for_others(setting: Setting, story: list[Operation]) -> None:
    """A group that may run nothing has 6 jobs; all others are decided about as if it had none."""
    none = msgspec.structs.replace(
        setting.groups[0], name="idle", limits=Limits(running=0), quota=setting.groups[0].quota
    )
    setting = dataclasses.replace(setting, groups=(*setting.groups, none))
    story = [each for each in story if each[0] != "groups"]
    player = Player(setting, check=False).play(story)
    dimensions = Dimensions(setting.custom)
    ghosts = [
        JobSubmitted(
            job(f"ghost{i}").group("idle").cpu(1 + i).tasks(1 + i % 3).build(1_000_000 + i, dimensions), None, None
        )
        for i in range(6)
    ]
    other = setting.make()
    other.observe(0, ghosts)
    assert replay(other, player.calls) == player.answers
