"""Rounds of moves: begun, brought on, interrupted, ended by what fails; never below the minimum of a service (design
note 0027).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.moving.plan import Budget, Goal, Move, MovePlan, Prevented, Stays
from cress.core.moving.planner import GOALS
from cress.lifecycle.effects import RoundEnded, TaskMoved
from cress.lifecycle.inputs import Configure, Input, Rebalance, StopMoves
from cress.lifecycle.machine import Machine
from cress.lifecycle.moving.movable import candidates
from cress.lifecycle.moving.planning import PlanPurpose, made, waiting_unit
from cress.lifecycle.moving.schedule import next_round
from cress.lifecycle.tables.rounds import Round
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.job import Job
from cress.model.reports import Cause, Checked
from cress.model.times import HOUR, MINUTE
from tests.examples import examples
from tests.lifecycle.builders import World, ended, job
from tests.lifecycle.kept import Site, database, service
from tests.lifecycle.test_machine_properties import Executors, history


def plan(world: World, *goals: Goal, job: int = 0, **budget: int) -> MovePlan:
    twin = Machine.restore(world.machine.export())
    wanted = PlanPurpose(
        goals=() if job else goals or GOALS, job=job and waiting_unit(twin, job), budget=Budget(**budget)
    )
    return made(twin, wanted)


def begin(world: World, found: MovePlan, by: str = "eve") -> None:
    world.step(Rebalance(moves=found.moves, job=found.job, place=found.place, by=by))
    assert world.last.replies == [None]


def last(world: World) -> Round:
    rounds = world.machine.tables.rounds
    return rounds[next(reversed(rounds))]


def on_one_node(tasks: int = 3, **more: Any) -> tuple[Site, int]:
    """A service on the node that came first, beside two that came later."""
    site = Site("n1", cpus=8)
    number = site.begin(service(tasks, **more))
    for name in ("n2", "n3"):
        site.join(name, 8)
    return site, number


def half_full(*cpus: int, **more: Any) -> tuple[Site, list[int]]:
    """Movable batch jobs, one on each node of four cores."""
    site = Site()
    jobs: list[int] = []
    for place, cores in enumerate(cpus, 1):
        site.join(f"n{place}")
        filler = site.submit(job(1, cpus=4 - cores)) if cores < 4 else ()
        jobs += site.submit(job(1, cpus=cores, movable=True, **more))
        site.obey()
        assert {each.node for each in site.machine.jobs[jobs[-1]].attempts.values()} == {f"n{place}"}
        fillers.extend(filler)
    for number in fillers:
        site.cancel(number)
    fillers.clear()
    site.obey()
    return site, jobs


fillers: list[int] = []


def test_tasks_of_a_service_move_one_after_the_other() -> None:
    site, web = on_one_node(minimum=2)
    begin(site, plan(site))
    assert [notice.text for notice in site.last.notices if isinstance(notice, TaskMoved)] == [
        "moved to node n2 by eve: to spread its tasks over nodes"
    ]
    least = 3
    for _ in range(20):
        ready = [each for each in site.machine.attempts.values() if each.ready_at is not None and not each.halted]
        least = min(least, len(ready))
        # One report at a time.
        for attempt in site.machine.attempts.values():
            if attempt.halted:
                site.report(attempt.node, ended(attempt.id, -15, Cause.STOPPED))
                break
        else:
            site.run_all()
    assert (least, last(site).state, len(last(site).done)) == (2, "done", 2)
    assert sorted(site.nodes(web).values()) == ["n1", "n2", "n3"]
    assert site.over == {}


def test_the_next_task_waits_until_the_one_before_is_ready() -> None:
    site, _ = on_one_node(checked=True, minimum=1)
    for attempt in list(site.machine.attempts.values()):
        site.report(attempt.node, Checked(attempt=attempt.id, at=1, alive=True, ready=True))
    begin(site, plan(site))
    site.obey()
    now = last(site)
    assert (len(now.done), len(now.under_way), len(now.left)) == (0, 1, 1)
    (new,) = [each for each in site.machine.attempts.values() if each.ready_at is None]
    site.report(new.node, Checked(attempt=new.id, at=1, alive=True, ready=True))
    assert (len(last(site).done), len(last(site).under_way)) == (1, 1)


def test_a_task_that_does_not_get_ready_ends_the_round() -> None:
    site, web = on_one_node(checked=True, update_timeout=MINUTE)
    for attempt in list(site.machine.attempts.values()):
        site.report(attempt.node, Checked(attempt=attempt.id, at=1, alive=True, ready=True))
    begin(site, plan(site))
    site.obey()
    site.step(after=2 * MINUTE)
    now = last(site)
    assert now.state == "stopped"
    assert now.problem == f"task 0 of job {web}.2 is not ready on node n2 after 1m5s"
    assert (len(now.done), len(now.under_way), len(now.left)) == (0, 1, 1)
    assert [each.text for each in site.last.notices if isinstance(each, RoundEnded)] == [
        f"0 of 2 tasks moved; stopped: {now.problem}"
    ]


def test_a_program_that_fails_on_its_target_ends_the_round() -> None:
    site, _ = on_one_node()
    begin(site, plan(site))
    (old,) = [each for each in site.machine.attempts.values() if each.halted]
    site.report(old.node, ended(old.id, -15, Cause.STOPPED))
    (new,) = [each for each in site.machine.attempts.values() if not each.started]
    site.report(new.node, ended(new.id, 1, ran=False))
    assert "has not started on node n2, and waits" in last(site).problem


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (service(2, minimum=2), Stays.MINIMUM),
        (service(2, movable=False), Stays.FORBIDDEN),
        (service(2, checked=True), Stays.UPDATING),
        (database(1), Stays.DATABASE),
        (job(2), Stays.UNDECLARED),
        (job(2, gang=True, movable=True), Stays.GANG),
    ],
)
def test_what_does_not_move_is_counted(each: Job, reason: Stays) -> None:
    site = Site("n1")
    site.begin(each)
    site.join("n2")
    found = plan(site)
    assert (found.moves, found.movable, set(found.stays)) == ((), 0, {reason})


def test_an_interrupted_round_ends_after_its_step() -> None:
    site, web = on_one_node()
    begin(site, plan(site))
    site.step(StopMoves(by="bob"))
    assert last(site).state == "moving"
    site.obey()
    assert (last(site).state, last(site).problem, len(last(site).done)) == ("stopped", "stopped by bob", 1)
    assert "nothing is being moved" in site.refuse(StopMoves(by="bob"))
    # Begun again, it goes on from there.
    begin(site, plan(site))
    site.obey()
    assert sorted(site.nodes(web).values()) == ["n1", "n2", "n3"]


def test_a_gang_gets_its_place_in_one_step() -> None:
    site, (first, second, third) = half_full(2, 1, 2)
    (gang,) = site.submit(job(2, cpus=3, gang=True))
    found = plan(site, job=gang)
    assert found.place
    begin(site, found)
    assert len(last(site).under_way) == len(found.moves)
    site.obey()
    assert (last(site).state, last(site).problem) == ("done", "")
    assert site.machine.jobs[gang].running == 2
    assert {each.node for each in site.machine.jobs[gang].attempts.values()} == {name for name, _ in found.place}
    assert all(site.machine.jobs[number].running == 1 for number in (first, second, third))


def half(*tasks: Job) -> Site:
    """Two nodes of 4 cores; each of these jobs has 2 on a node of its own, and 2 cores are left there."""
    site = Site("n1", cpus=4)
    site.join("n2", 4)
    for number, spec in enumerate(tasks, 1):
        site.begin(
            msgspec.structs.replace(spec, requirement=f"Nodes in (n{number})" if spec.requirement == "own" else "")
        )
    return site


PREVENTED: dict[str, tuple[tuple[Job, ...], dict[str, int], Prevented]] = {
    "cores in total": (
        (job(1, cpus=3, movable=True), job(1, cpus=2, movable=True)),
        {},
        Prevented(short=("cpu",)),
    ),
    "a rule for which tasks stay": (
        (job(1, cpus=2), job(1, cpus=2)),
        {},
        Prevented(stays=(Stays.UNDECLARED,)),
    ),
    "no other node": (
        (job(1, cpus=2, movable=True, requirement="own"), job(1, cpus=2, movable=True, requirement="own")),
        {},
        Prevented(),
    ),
    "the budget": (
        (job(1, cpus=2, movable=True), job(1, cpus=2, movable=True)),
        {"lost": 1},
        Prevented(moves=1, cost=4_000_000),
    ),
}


@pytest.mark.parametrize(("tasks", "budget", "rule"), PREVENTED.values(), ids=PREVENTED)
def test_a_plan_without_a_place_names_the_rule_that_prevents_it(
    tasks: tuple[Job, ...], budget: dict[str, int], rule: Prevented
) -> None:
    site = half(*tasks)
    (large,) = site.submit(job(1, cpus=4))
    found = plan(site, job=large, **budget)
    assert (found.place, found.moves) == ((), ())
    assert found.prevented == rule


def test_only_the_rules_that_prevent_it_are_named() -> None:
    """A gang stays on a small node, and plain tasks on others; if one of the plain tasks moved, there would be room."""
    site = half(job(1, cpus=2), job(1, cpus=2))
    site.join("n3", 2)
    site.begin(job(2, cpus=1, gang=True, movable=True, requirement="Nodes in (n3)"))
    (large,) = site.submit(job(1, cpus=4))
    found = plan(site, job=large)
    assert not found.place
    assert set(found.stays) == {Stays.UNDECLARED, Stays.GANG}
    assert found.prevented == Prevented(stays=(Stays.UNDECLARED,))


@pytest.mark.parametrize("least", [1, 3])
def test_all_tasks_of_a_service_make_room_one_after_the_other(least: int) -> None:
    site, web = on_one_node(4, minimum=least)
    for name in ("n4", "n5", "n6"):
        site.join(name, 4)
    (gang,) = site.submit(job(2, cpus=8, gang=True, requirement='Nodes in ("n1", "n2")'))
    found = plan(site, job=gang)
    assert [move.node for move in found.moves] == ["n1"] * 4
    begin(site, found)
    ready = 4
    while last(site).state == "moving":
        assert len(last(site).under_way) == 1
        ready = min(
            ready, sum(each.ready_at is not None and not each.halted for each in site.machine.attempts.values())
        )
        halted = next((each for each in site.machine.attempts.values() if each.halted), None)
        if halted is not None:
            site.report(halted.node, ended(halted.id, -15, Cause.STOPPED))
        else:
            site.run_all()
    assert (ready, last(site).problem, site.machine.jobs[gang].running) == (3, "", 2)
    assert set(site.nodes(web).values()) <= {"n3", "n4", "n5", "n6"}


def test_the_last_step_of_a_round_has_one_task_of_a_service_though_others_ended() -> None:
    site = Site("n1", cpus=8)
    web, filler = site.begin(service(3, minimum=2)), site.begin(job(1, cpus=5, movable=True))
    for name in ("n2", "n3", "n4", "n5"):
        site.join(name, 8)
    (big,) = site.submit(job(1, cpus=8, requirement='Nodes in ("n1")'))
    begin(site, plan(site, job=big))
    assert (len(last(site).under_way), last(site).together) == (1, 2)
    (ending,) = site.machine.jobs[filler].attempts.values()
    site.cancel(filler)
    site.report(ending.node, ended(ending.id, -15, Cause.STOPPED))
    for _ in range(3):
        assert len(last(site).under_way) == 1
        (halted,) = [each for each in site.machine.attempts.values() if each.halted]
        site.report(halted.node, ended(halted.id, -15, Cause.STOPPED))
        site.run_all()
    assert (last(site).state, last(site).problem, site.machine.jobs[big].running) == ("done", "", 1)
    assert "n1" not in site.nodes(web).values()


def test_a_moved_batch_task_says_why_it_stopped() -> None:
    site, (_, second) = half_full(3, 1)
    begin(site, plan(site))
    site.obey()
    (record,) = site.machine.tables.rounds.values()
    assert record.state == "done"
    assert (site.machine.jobs[second].preempted, site.machine.jobs[second].failures) == (1, {})


def test_a_round_of_the_option_is_by_nobody() -> None:
    site, _ = on_one_node()
    begin(site, plan(site), by="")
    assert "by the option rebalance" in site.last.notices[0].text  # type: ignore[union-attr]


def by_itself(world: World) -> MovePlan:
    return made(Machine.restore(world.machine.export()), PlanPurpose(by_itself=True))


def test_a_round_by_itself_makes_room_for_a_unit_that_waits_for_it_before_all_else() -> None:
    site, _ = half_full(2, 1, 2)
    # Without one it frees a node.
    assert [each.goal for each in by_itself(site).moves] == [Goal.NODES]
    (gang,) = site.submit(job(2, cpus=3, gang=True))
    found = by_itself(site)
    assert (found.job, {each.goal for each in found.moves}) == (gang, {Goal.PLACE})
    begin(site, found, by="")
    assert f"by the option rebalance: to make room for job {gang}" in str(site.last.notices)
    site.obey()
    assert (last(site).state, site.machine.jobs[gang].running) == ("done", 2)


@pytest.mark.parametrize(
    ("waiting", "helped"),
    [
        pytest.param([job(1, cpus=4)], 0, id="the first job"),
        pytest.param([job(1, cpus=4, movable=True)], 0, id="whether it moves itself or not"),
        pytest.param(
            [job(3, cpus=4, gang=True), job(1, cpus=4)], None, id="not one that its policy puts behind another"
        ),
        pytest.param([job(1, cpus=4, requirement='Nodes in ("n1")')], 0, id="one that may go to a full node only"),
        pytest.param([job(1, cpus=4, requirement='JobDependency = "db"')], None, id="not one that waits for another"),
        pytest.param([job(3, cpus=4, gang=True)], None, id="not one for which no moves are enough"),
        pytest.param([job(1, cpus=4, hold=True)], None, id="not one that waits for something else"),
    ],
)
def test_whom_a_round_by_itself_makes_room_for(waiting: list[Job], helped: int | None) -> None:
    site, _ = half_full(2, 1, 2)
    numbers = [site.submit(each)[0] for each in waiting]
    assert by_itself(site).job == (0 if helped is None else numbers[helped])


def test_a_round_by_itself_loses_no_more_than_it_may_for_a_unit_that_waits() -> None:
    site, _ = half_full(2, 1, 2)
    site.step(after=HOUR)
    site.submit(job(1, cpus=4))
    for most, moves in ((0.5, 0), (2.5, 1)):
        options = dataclasses.replace(site.machine.core.options, rebalance_lost=most)
        site.step(Configure(options=options, licences=(), groups=(), by="eve"))
        assert len(by_itself(site).moves) == moves


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"attempt": 99}, "the cluster has changed"),
        ({"node": "n2"}, "no longer runs on node n2"),
        ({"to": "n9"}, "node 'n9' is not a valid target"),
        ({"to": "n1"}, "node 'n1' is not a valid target"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(change: dict[str, Any], told: str) -> None:
    site, _ = on_one_node()
    (move, *_) = plan(site).moves
    assert told in site.refuse(Rebalance(moves=(msgspec.structs.replace(move, **change),)))
    assert not site.machine.tables.rounds
    assert not any(each.halted for each in site.machine.attempts.values())


def test_a_second_round_waits_for_the_first() -> None:
    site, _ = on_one_node()
    found = plan(site)
    begin(site, found)
    assert "round 1 is under way: 0 of 2 moves are done" in site.refuse(Rebalance(moves=found.moves))
    site.obey()
    assert "there is nothing to move" in site.refuse(Rebalance(moves=()))


def test_a_target_that_is_cordoned_ends_the_round_and_the_task_runs_elsewhere() -> None:
    site, web = on_one_node(1)
    site.submit(job(1))
    site.obey()
    attempt = site.attempt(web, 0)
    move = Move(attempt.id, attempt.job, 0, "n1", "n2")
    site.step(Rebalance(moves=(move,), by="eve"))
    assert site.last.replies == [None]
    site.step(NodeCordoned(name="n2", cordoned=True))
    site.obey()
    site.step()
    site.obey()
    assert "node n2 was cordoned before" in last(site).problem
    assert site.nodes(web)[0] in ("n1", "n3")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: 99, "there is no job 99"),
        (lambda site: site.submit(job(1))[0], "does not wait"),
        (lambda site: site.submit(job(1, hold=True))[0], "does not wait for room: held by ann until it is released"),
        (lambda site: site.begin(service(1)), "does not wait: all its tasks run"),
    ],
)
def test_a_job_that_room_does_not_help_is_told_why(make: Any, told: str) -> None:
    site, _ = half_full(3, 1)
    number = make(site)
    site.obey()
    with pytest.raises(InputError, match=told):
        waiting_unit(site.machine, number)


def test_room_is_made_on_the_only_node_that_a_requirement_allows() -> None:
    site, (one, _) = half_full(2, 1)
    (number,) = site.submit(job(1, cpus=4, requirement='Nodes in ("n1")'))
    assert site.machine.reason(number) == (
        'no node that satisfies Nodes in ("n1") has enough free (1 of 2 nodes do not satisfy it; 1 lack cpu)'
    )
    begin(site, plan(site, job=number))
    site.obey()
    places = [{each.node for each in site.machine.jobs[of].attempts.values()} for of in (number, one)]
    assert (last(site).state, places) == ("done", [{"n1"}, {"n2"}])


def test_a_job_that_can_never_run_is_told_so() -> None:
    site, _ = half_full(3, 1)
    site.join("large", 8)
    site.begin(job(1, cpus=8))
    (number,) = site.submit(job(1, cpus=6))
    site.leave("large")
    site.join("large", 4)
    with pytest.raises(InputError, match="can never run here: no node of this cluster is large enough"):
        waiting_unit(site.machine, number)


@pytest.mark.parametrize(
    ("schedule", "since", "due"),
    [
        ("off", 0, None),
        ("30m", 5 * MINUTE, 35 * MINUTE),
        ("hourly", 10 * MINUTE, HOUR),
        ("0 3 * * *", 0, 3 * HOUR),
    ],
)
def test_rounds_begin_by_themselves_at_moments(schedule: str, since: int, due: int | None) -> None:
    assert next_round(schedule, "UTC", since) == due


# --- what always holds ------------------------------------------------------------------------------------------------

seen: Counter[str] = Counter()


class Movers(Executors):
    """The same while somebody moves what may move, and interrupts that."""

    def next_input(self, world: World) -> Input:
        machine = world.machine
        seen["moved"] += any(each.done for each in machine.tables.rounds.values())
        seen["stopped"] += any(each.problem for each in machine.tables.rounds.values())
        roll = self.random.random()
        attempts = sorted(candidates(machine).lost)
        if roll < 0.4 and attempts:
            chosen = self.random.sample(attempts, min(len(attempts), self.random.randint(1, 3)))
            return Rebalance(moves=tuple(self.move(machine, each) for each in chosen), by="eve")
        if roll < 0.43:
            return StopMoves(by="eve")
        return super().next_input(world)

    def move(self, machine: Machine, number: int) -> Move:
        attempt = machine.attempts[number]
        to = "n2" if attempt.node == "n1" else "n1"
        return Move(number, attempt.job, attempt.task, attempt.node, to)

    def some_job(self, world: World, place: int, count: int) -> Job:
        made_job = super().some_job(world, place, count)
        small = made_job.request if self.random.random() < 0.3 else tuple(amount // 4 for amount in made_job.request)
        return made_job if made_job.gang else msgspec.structs.replace(made_job, movable=True, request=small)


def test_histories_with_moves() -> None:
    """No task runs twice; a restored machine and a replayed log say the same; in the end everything is over."""

    @examples(8)
    @given(seed=st.integers(0, 100_000), cut=st.integers(1, 60))
    def check(seed: int, cut: int) -> None:
        history(seed, cut, kind=Movers)

    check()


def test_some_histories_come_by_moves_that_are_done_and_stopped() -> None:
    history(19, 30, kind=Movers)
    missing = {"moved", "stopped"} - (+seen).keys()
    assert not missing, f"no history came by {missing}"
