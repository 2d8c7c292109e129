"""Plans that move running tasks: what may move, where it goes, what that frees, and how it is carried out (design note
0027).
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cress.core.moving import making_place, movable, steps
from cress.core.moving.plan import Budget, Goal, MovePlan, Stays
from cress.core.moving.planner import GOALS, plan_moves, plan_place
from cress.model.decisions import Start
from cress.model.events import Outcome
from cress.model.job import JobType
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.examples import examples

GIB = 2**30


def small(name: str) -> JobBuilder:
    """A movable batch job of one core."""
    return job(name)._set(movable=True)


def planned(world: World, *goals: Goal, **budget: int) -> MovePlan:
    return plan_moves(world.core.clone().books, movable.candidates(world.core.books), goals or GOALS, Budget(**budget))


def place_for(world: World, name: str, **budget: int) -> MovePlan:
    found = movable.candidates(world.core.books)
    return plan_place(world.core.clone().books, found, world.ids[name], Budget(**budget))


def told(world: World, plan: MovePlan) -> list[str]:
    """``name from to`` of each move."""
    return [f"{world.names[each.job]} {each.node} {each.to}" for each in plan.moves]


def carry_out(world: World, plan: MovePlan) -> None:
    """Make each move as a center does: its target is claimed, it stops, and starts there."""
    for move in plan.moves:
        world.wait(1)
        assert steps.problem_of(world.core.books, move) == ""
        world.core.propose(steps.decisions(world.core.books, [move]))
        world.decide()
        assert [start.attempt for start in world.told.values()] == [move.attempt]
        world.yield_victims()
        (start,) = [each for each in world.decisions[-3:] if isinstance(each, Start)]
        assert (start.job, start.task, start.node, start.claimed) == (move.job, move.task, move.to, True)
        assert start.kept == ("moved", 0)


def pinned(world: World, each: JobBuilder, name: str) -> None:
    """Run a job on a node, by closing the others for a moment."""
    others = [other for other in world.core.cluster.names if other != name]
    for other in others:
        world.cordon(other)
    world.run(each)
    for other in others:
        world.cordon(other, "")


# --- whole nodes and devices ------------------------------------------------------------------------------------------


def test_a_node_is_emptied_into_the_room_that_others_have_left() -> None:
    world = World(nodes=nodes(3, cpu=4))
    pinned(world, small("a").cpu(3), "n1")
    pinned(world, small("b").cpu(1), "n2")
    plan = planned(world)
    assert (told(world, plan), plan.nodes, plan.before.nodes, plan.after.nodes) == (["b n2 n1"], ("n2",), 1, 2)
    carry_out(world, plan)
    assert world.nodes_of("b") == ["n1"]


def test_what_loses_less_work_moves() -> None:
    world = World(nodes=nodes(2, cpu=4))
    pinned(world, small("old").cpu(2), "n1")
    world.wait(3600)
    pinned(world, small("new").cpu(2), "n2")
    world.wait(60)
    world.decide()
    plan = planned(world)
    assert told(world, plan) == ["new n2 n1"]
    # A minute of two cores, in µs of a millicore.
    assert plan.lost == 60 * 10**6 * 2000


def test_a_device_is_freed_by_parts_that_go_to_another_one_in_use() -> None:
    world = World(nodes=[node(f"n{i}").cpu(8).gpus(2) for i in (1, 2)], dimensions=("gpu",))
    pinned(world, small("half").needs(gpu=0.5), "n1")
    pinned(world, small("third").needs(gpu=0.3), "n2")
    plan = planned(world, Goal.DEVICES)
    assert len(plan.moves) == 1
    assert (plan.before.devices, plan.after.devices) == (2, 3)
    ((name, kind, _),) = plan.devices
    assert (name, kind) == (plan.moves[0].node, "gpu")
    carry_out(world, plan)
    assert {start.node for start in world.running.values()} == {plan.moves[0].to}


def test_large_nodes_get_the_room_first() -> None:
    kinds = [node("big1").cpu(8).gpus(4), node("big2").cpu(8).gpus(4), node("small").cpu(8).gpus(1)]
    world = World(nodes=kinds, dimensions=("gpu",))
    pinned(world, small("a").needs(gpu=3), "big1")
    pinned(world, small("b").needs(gpu=1), "big2")
    pinned(world, small("c").needs(gpu=1), "small")
    plan = planned(world, Goal.NODES)
    assert (told(world, plan), plan.nodes) == (["b big2 big1"], ("big2",))


def test_a_plan_keeps_its_budget() -> None:
    world = World(nodes=nodes(4, cpu=4))
    for number in (1, 2, 3, 4):
        pinned(world, small(f"j{number}").cpu(1), f"n{number}")
    world.wait(100)
    world.decide()
    assert len(planned(world).moves) == 3
    assert len(planned(world, moves=1).moves) == 1
    assert planned(world, lost=99 * 10**6 * 1000).moves == ()


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (job("batch"), Stays.UNDECLARED),
        (job("database").member_of(70, JobType.DATABASE), Stays.DATABASE),
        (job("service").member_of(70)._set(movable=False), Stays.FORBIDDEN),
        (job("last").member_of(70, minimum=1), Stays.MINIMUM),
        (small("gang").gang(), Stays.GANG),
        (small("leased").workload("dask"), Stays.LEASE),
    ],
)
def test_tasks_that_never_move_are_counted_by_reason(each: JobBuilder, reason: Stays) -> None:
    world = World(nodes=nodes(3, cpu=4))
    pinned(world, each, "n1")
    pinned(world, small("other").cpu(2), "n2")
    plan = planned(world)
    # What may move goes to what may not.
    assert told(world, plan) == ["other n2 n1"]
    assert (plan.movable, plan.stays) == (1, {reason: 1})


def test_clauses_of_a_task_hold_where_it_goes() -> None:
    world = World(
        nodes=[node("n1").cpu(4).where(zone="a"), node("n2").cpu(4).where(zone="b"), node("n3").cpu(4).where(zone="a")]
    )
    pinned(world, small("picky").requires('zone = "a"'), "n1")
    pinned(world, job("other"), "n2")
    assert planned(world, Goal.NODES).moves == ()
    pinned(world, job("third"), "n3")
    assert told(world, planned(world, Goal.NODES)) == ["picky n1 n3"]


def test_what_is_claimed_or_reserved_for_others_is_no_target() -> None:
    world = World(nodes=nodes(2, cpu=4))
    pinned(world, small("a").cpu(2), "n1")
    pinned(world, job("b").cpu(2).limit("1h"), "n2")
    world.submit(job("large").cpu(4)).decide()
    # It is foreseen on n2 when b ends.
    assert planned(world).moves == ()
    world.cancel("large").decide()
    assert told(world, planned(world)) == ["a n1 n2"]


def test_a_move_takes_no_group_above_its_quota() -> None:
    # On a small node a task is charged for the share of the memory that it takes: 3 of 4 cores.
    world = World(group("lab", 3), nodes=[node("large").cpu(16).memory("64G"), node("tiny").cpu(4).memory("4G")])
    pinned(world, small("a").group("lab").memory("3G"), "large")
    pinned(world, job("b").cpu(0.1), "tiny")
    assert told(world, planned(world)) == ["a large tiny"]
    pinned(world, job("c").group("lab").cpu(2.5), "large")
    pinned(world, small("d").group("lab").memory("1G").cpu(0.1), "large")
    assert "a large tiny" not in told(world, planned(world))


# --- services ---------------------------------------------------------------------------------------------------------


def test_the_tasks_of_a_service_that_came_to_one_node_spread() -> None:
    world = World(nodes=nodes(3, cpu=4))
    for number in range(3):
        pinned(world, job(f"web{number}").member_of(70, minimum=1), "n1")
    plan = planned(world)
    assert plan.spread == (70,)
    carry_out(world, plan)
    assert sorted(start.node for start in world.running.values()) == ["n1", "n2", "n3"]
    assert planned(world).moves == ()


def test_emptying_a_node_brings_no_tasks_of_a_service_together() -> None:
    world = World(nodes=nodes(2, cpu=4))
    pinned(world, job("web0").member_of(70), "n1")
    pinned(world, job("web1").member_of(70), "n2")
    assert planned(world).moves == ()


# --- clauses over domains ---------------------------------------------------------------------------------------------


def racks(*names: str) -> World:
    return World(nodes=[node(f"n{i}").cpu(4).rack(rack) for i, rack in enumerate(names, 1)])


def test_a_node_is_not_emptied_to_where_a_job_keeps_away_from() -> None:
    world = racks("r1", "r2", "r3")
    pinned(world, small("it").requires('away_from("db", Rack)'), "n1")
    pinned(world, job("db").cpu(2), "n2")
    pinned(world, job("other").cpu(2), "n3")
    assert told(world, planned(world)) == ["it n1 n3"]
    # Others keep away from what moves.
    world = racks("r1", "r2")
    pinned(world, small("it"), "n1")
    pinned(world, job("db").cpu(2).requires('away_from("it", Rack)'), "n2")
    assert told(world, planned(world)) == []


def test_a_task_moves_to_no_node_that_does_not_accept_it() -> None:
    accepting = node("n2").cpu(4).accepts('Job.User = "eve"')
    world = World(nodes=[node("n1").cpu(4), accepting, node("n3").cpu(4).repels("slow")])
    pinned(world, small("it").user("ann"), "n1")
    pinned(world, job("hers").cpu(2).user("eve"), "n2")
    pinned(world, job("slow").cpu(2).tolerates("slow"), "n3")
    assert told(world, planned(world)) == []


def test_a_task_moves_only_where_its_job_stays_spread_and_together() -> None:
    world = racks("r1", "r1", "r2", "r2")
    pinned(world, job("db").cpu(2), "n2")
    pinned(world, small("one").requires('near("db", Rack)'), "n1")
    pinned(world, job("other").cpu(3), "n3")
    plan = planned(world)
    assert told(world, plan) == ["one n1 n2"]
    carry_out(world, plan)
    world = racks("r1", "r2", "r2")
    world.run(small("pair").tasks(2).requires("spread(Rack)"))
    assert {start.node for start in world.running.values()} in ({"n1", "n2"}, {"n1", "n3"})
    pinned(world, job("large").cpu(3), "n1")
    # Both on one node would free another one, and violate the clause.
    assert told(world, planned(world)) == []


# --- room for a unit --------------------------------------------------------------------------------------------------


def test_the_cheapest_task_makes_room_for_a_gang() -> None:
    world = World(nodes=nodes(4, cpu=4))
    pinned(world, small("old").cpu(2), "n1")
    world.wait(1000)
    pinned(world, small("new").cpu(2), "n2")
    pinned(world, job("stays").cpu(1), "n3")
    world.wait(10)
    world.submit(job("gang").cpu(4).tasks(2).gang()).decide()
    plan = place_for(world, "gang")
    assert told(world, plan) == ["new n2 n1"]
    assert plan.place == (("n2", 1), ("n4", 1))
    move = plan.moves[0]
    gang = world.ids["gang"]
    assert steps.problem_of_place(world.core.books, gang, plan.place, plan.moves) == ""
    world.core.propose(steps.decisions(world.core.books, plan.moves, gang, plan.place))
    world.decide()
    # Nothing else gets the room meanwhile, and nobody cools off for it.
    world.submit(job("thief").cpu(2)).decide()
    assert world.nodes_of("thief") == ["n3"]
    assert world.group("default").kept.preempted_at is None
    world.yield_victims()
    assert sorted(world.nodes_of("gang")) == ["n2", "n4"]
    assert world.nodes_of("new") == [move.to]


def starts_after_moves(world: World, *names: str, leader: str) -> MovePlan:
    """Carry out the moves that make room for a unit; all jobs of these names run then."""
    plan = place_for(world, leader)
    unit = world.ids[leader]
    assert plan.place
    assert steps.problem_of_place(world.core.books, unit, plan.place, plan.moves) == ""
    world.core.propose(steps.decisions(world.core.books, plan.moves, unit, plan.place))
    world.decide()
    world.yield_victims()
    assert not any(world.state(name).waiting for name in names)
    return plan


@pytest.mark.parametrize("zoned", [False, True])
def test_room_is_made_for_a_gang_with_parts(zoned: bool) -> None:
    places = [node(f"n{i}").cpu(4).where(Zone="ab"[i // 2]) for i in range(4)]
    world = World(nodes=places)
    pinned(world, small("one").cpu(2), "n0")
    pinned(world, small("two").cpu(2), "n2")
    pinned(world, job("stays").cpu(1), "n1")
    wide, narrow = job("wide").cpu(4), job("narrow").tasks(2).cpu(1.5)
    if zoned:
        wide, narrow = (part.requires("within(Zone)") for part in (wide, narrow))
    pinned(world, job("other").cpu(3), "n3")
    world.submit(job("gang").parts(narrow, wide)).decide()
    assert world.nodes_of("gang") == []
    plan = starts_after_moves(world, "gang", leader="gang")
    assert len(plan.moves) == 1
    first, second, third = world.nodes_of("gang")
    assert third not in (first, second)
    if zoned:
        assert {first, second, third} <= {"n0", "n1"}


def test_room_is_made_for_a_service_that_starts_as_a_whole() -> None:
    world = World(nodes=nodes(3, cpu=4))
    pinned(world, small("one").cpu(2), "n1")
    pinned(world, small("two").cpu(2), "n2")
    member = job("").cpu(4).member_of(99).starts_with(3)
    world.submit(member.named("w3"), member.named("w4")).decide()
    assert world.nodes_of("w3") == []
    starts_after_moves(world, "w3", "w4", leader="w3")
    assert len({*world.nodes_of("w3"), *world.nodes_of("w4")}) == 2


@given(
    tasks=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(0, 900)), min_size=4, max_size=14),
    cpu=st.integers(3, 8),
    size=st.integers(1, 2),
    lost=st.integers(0, 3_000),
)
def test_nodes_that_are_too_dear_for_the_budget_are_left_out_and_no_others(
    tasks: list[tuple[int, int, int]], cpu: int, size: int, lost: int
) -> None:
    world = World(nodes=[each.memory("16G") for each in nodes(4, cpu=8)])
    for number, (cores, gib, waited) in enumerate(tasks):
        world.submit(small(f"j{number}").cpu(cores).memory(f"{gib}G")).decide()
        world.wait(waited)
    world.submit(job("big").cpu(cpu).memory("1G").tasks(size)._set(gang=size > 1)).decide()
    assume(not world.nodes_of("big"))
    exactly = sum(move.cost for move in place_for(world, "big").moves)
    for budget in (lost * 10**9, exactly, exactly - 1):
        plan = place_for(world, "big", lost=max(0, budget))
        with patch.object(making_place._PlaceSearch, "_least", return_value=0):
            assert place_for(world, "big", lost=max(0, budget)) == plan


def test_without_a_place_nothing_moves() -> None:
    world = World(nodes=nodes(2, cpu=4))
    pinned(world, small("a").cpu(3), "n1")
    pinned(world, small("b").cpu(3), "n2")
    world.submit(job("big").cpu(4)).decide()
    plan = place_for(world, "big")
    assert (plan.moves, plan.place, plan.movable) == ((), (), 2)


def test_a_small_task_whose_room_is_not_needed_stays() -> None:
    world = World(nodes=nodes(2, cpu=8))
    pinned(world, small("tiny").cpu(1), "n1")
    pinned(world, small("mid").cpu(4), "n1")
    pinned(world, job("stays").cpu(3), "n2")
    world.submit(job("big").cpu(7)).decide()
    assert told(world, place_for(world, "big")) == ["mid n1 n2"]


def test_a_gang_gets_a_place_in_one_rack() -> None:
    world = World(nodes=[node(f"n{i}").cpu(4).rack("r1" if i < 3 else "r2") for i in range(1, 5)])
    pinned(world, small("a").cpu(1), "n2")
    pinned(world, job("b").cpu(3), "n3")
    world.submit(job("gang").cpu(4).tasks(2).gang().requires("NetworkAdjacent = True")).decide()
    plan = place_for(world, "gang")
    assert (told(world, plan), plan.place) == (["a n2 n3"], (("n1", 1), ("n2", 1)))


# --- on the way -------------------------------------------------------------------------------------------------------


def moving(world: World) -> MovePlan:
    """A move that is decided: the task stops, its target is claimed."""
    pinned(world, small("a").cpu(3), "n1")
    pinned(world, small("b").cpu(1), "n2")
    plan = planned(world)
    world.core.propose(steps.decisions(world.core.books, plan.moves))
    world.decide()
    return plan


def test_nobody_else_gets_the_target() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.submit(job("thief").cpu(1)).decide()
    assert world.nodes_of("thief") == ["n2"]
    world.yield_victims()
    assert world.nodes_of("b") == ["n1"]


def test_a_task_that_ends_by_itself_gives_the_target_back() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.finish("b")
    assert world.core.claims == []
    assert "b" not in world.jobs_running()


def test_a_task_whose_target_is_lost_waits_as_any_other() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.lose_node("n1").decide()
    world.yield_victims()
    assert world.nodes_of("b") == ["n2"]


def test_a_cancelled_task_starts_nowhere() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.cancel("b").decide()
    world.yield_victims()
    assert world.jobs_running() == ["a"]


def test_the_target_waits_for_a_node_that_is_away_for_a_moment() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.cordon("n1", "away")
    world.yield_victims()
    assert world.jobs_running() == ["a"]
    assert world.veto("b").places == ("n1",)
    world.cordon("n1", "").decide()
    assert world.nodes_of("b") == ["n1"]


def test_a_move_survives_a_restore() -> None:
    world = World(nodes=nodes(2, cpu=4))
    moving(world)
    world.core = type(world.core).restore(world.core.export())
    world.yield_victims()
    assert world.nodes_of("b") == ["n1"]


# --- what always holds ------------------------------------------------------------------------------------------------

KINDS = st.tuples(
    st.sampled_from([0.5, 1, 2, 4]),
    st.sampled_from([0, 0.3, 0.5, 1, 2]),
    st.sampled_from(["movable", "batch", "service", "kept", "picky", "apart"]),
)


def some(number: int, cores: float, gpus: float, kind: str) -> JobBuilder:
    each = job(f"j{number}").cpu(cores).needs(gpu=gpus)
    match kind:
        case "movable":
            return each._set(movable=True)
        case "service":
            return each.member_of(1000 + number % 2)
        case "kept":
            return each.member_of(2000, minimum=2)
        case "picky":
            return each._set(movable=True).requires('zone = "a"')
        case "apart":
            return each._set(movable=True).tasks(2).spread(per_node=1)
    return each


@examples(9)
@given(st.lists(KINDS, min_size=4, max_size=12), st.data())
def test_a_plan_that_is_carried_out_frees_what_it_says_and_moves_only_what_may(
    kinds: list[tuple[float, float, str]], data: st.DataObject
) -> None:
    cluster = [node(f"n{i}").cpu(6).gpus(3).where(zone="ab"[i % 2]) for i in range(5)]
    world = World(nodes=cluster, dimensions=("gpu",))
    for number, (cores, gpus, kind) in enumerate(kinds):
        world.submit(some(number, cores, gpus, kind))
        world.wait(data.draw(st.sampled_from([1, 50])))
        world.decide()
    for start in list(world.running.values()):
        if data.draw(st.booleans()) and start.attempt in world.running:
            world.end([start], Outcome.SUCCEEDED)
    world.decide()
    if not world.core.attempts:
        return
    may = movable.candidates(world.core.books)
    plan = planned(world)
    waits = any(world.core.jobs[each].waiting for each in world.core.jobs)
    assert {move.attempt for move in plan.moves} <= may.lost.keys()
    assert len({move.attempt for move in plan.moves}) == len(plan.moves)
    kept = [each for each in world.core.attempts.values() if each.job.job.minimum]
    for move in plan.moves:
        world.wait(1)
        problem = steps.problem_of(world.core.books, move)
        assert not problem or waits, problem
        if problem:
            # Something that waited has started meanwhile.
            return
        world.core.propose(steps.decisions(world.core.books, [move]))
        world.decide()
        running = [each for each in world.core.attempts.values() if each.job.job.minimum and not each.stopping]
        assert len(running) >= min(2, len(kept))
        world.yield_victims()
        assert waits or any(start.attempt > move.attempt and start.node == move.to for start in world.running.values())
    if waits:
        return
    after = planned(world, Goal.SPREAD, moves=0).before
    assert after == plan.after
    for name in plan.nodes:
        assert name not in {start.node for start in world.running.values()}
