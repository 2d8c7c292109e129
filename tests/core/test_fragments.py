"""Fragments: leases of workloads, loans and taking back (source F, design note 0024)."""

from __future__ import annotations

from typing import Any

import pytest

from cress.model.decisions import LeaseReduced, Preempt, Start
from cress.model.events import LeaseUsed, Outcome
from cress.model.times import MINUTE, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, node

GIB = 2**30


def cluster(*groups: GroupBuilder, cpu: float = 4, count: int = 1, **options: Any) -> World:
    """Nodes of ``cpu`` cores with as many GiB, that lend."""
    nodes = [node(f"n{i + 1}").cpu(cpu).memory(f"{cpu:g}G") for i in range(count)]
    options = {"lending": "on", "node_order": "first", "preemption": "on", **options}
    return World(*(groups or (group("a", 9), group("b", 9), group("c", 9))), nodes=nodes, **options)


def of(name: str, label: str, size: float, *, workload: str = "", priority: int = 0, limit: str = "1min") -> JobBuilder:
    """A job of a group with one task of ``size`` cores and GiB."""
    made = job(label).cpu(size).memory(f"{size:g}G").group(name).priority(priority).limit(limit)
    return made.workload(workload) if workload else made


def idle(world: World) -> dict[str, list[tuple[float, float]]]:
    """The idle parts of leases: cores and GiB, by group and workload."""
    found: dict[str, list[tuple[float, float]]] = {}
    for lease in world.core.pool.leases.values():
        amounts = lease.idle_amounts()
        if amounts:
            key = f"{lease.workload.group.name}{lease.workload.name}"
            found.setdefault(key, []).append((amounts[0] / 1000, amounts[1] / GIB))
    return found


def loan_of(world: World, name: str) -> float:
    """How many cores of the running task of a job are borrowed."""
    (attempt,) = world.state(name).attempts.values()
    return float(sum(part.amounts[0] for part in attempt.parts if part.lease is not None) / 1000)


# --- leases ----------------------------------------------------------------------------------------------------------


def test_what_a_smaller_task_leaves_of_a_lease_is_a_fragment() -> None:
    world = World(group("a", 9), nodes=[node("n1").cpu(2).memory("3G")])
    world.run(job("large").cpu(2).memory("3G").group("a").workload("w")).finish("large")
    assert idle(world) == {"aw": [(2, 3)]}
    world.run(job("small").cpu(1).memory("2G").group("a").workload("w"))
    assert idle(world) == {"aw": [(1, 1)]}


def test_a_declared_workload_keeps_an_idle_lease_for_a_while_a_built_in_one_does_not() -> None:
    world = cluster(lending="off")
    world.run(of("a", "named", 2, workload="w"), of("a", "plain", 2))
    world.finish("named"), world.finish("plain")
    assert idle(world) == {"aw": [(2, 2)]}
    assert world.core.next_wakeup() == 10 * SECOND
    world.wake()
    assert idle(world) == {}
    assert isinstance(world.decisions[-1], LeaseReduced)


def test_an_idle_lease_is_used_before_unallocated_room_and_by_its_workload_alone() -> None:
    world = cluster(cpu=4, count=2)
    world.run(of("a", "first", 2, workload="w")).finish("first")
    world.run(of("b", "other", 2, limit="2h"), of("a", "again", 1, workload="w"))
    assert idle(world) == {"aw": [(1, 1)]}
    assert [start.parts != () for start in world.decisions if isinstance(start, Start)] == [False, True, False]


def test_idle_parts_cost_their_group_and_loans_the_borrowers() -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    assert (world.used("a"), world.used("b")) == (4, 0)
    world.run(of("b", "borrower", 3))
    assert (world.used("a"), world.used("b")) == (1, 3)
    world.finish("borrower")
    assert (world.used("a"), world.used("b")) == (4, 0)
    world.wait(10).decide()
    assert (world.used("a"), world.used("b")) == (0, 0)


# --- the cases of the source ------------------------------------------------------------------------------------------


def with_fragments(*names: str, cpu: float = 4) -> World:
    """Per group, a job that has four cores and GiB on each of two nodes, and one of higher priority that took three of
    one of them.
    """
    world = cluster(cpu=cpu, count=2)
    world.run(*(of(name, f"{name}1", 4, limit="9h").tasks(2) for name in names))
    for name in names:
        world.submit(of(name, f"{name}2", 3, priority=1, limit="9h")).decide()
        (start,) = world.told.values()
        assert world.names[start.job] == f"{name}1"
        world.yield_victims()
        assert world.state(f"{name}2").attempts
    return world


def test_case_2_the_fragment_that_preemption_inside_a_workload_leaves_is_lent() -> None:
    world = with_fragments("a")
    assert idle(world) == {"a/batch": [(1, 1)]}
    world.run(of("b", "borrower", 1))
    assert loan_of(world, "borrower") == 1
    assert idle(world) == {}


def test_case_2_the_lease_goes_back_with_its_last_task_and_the_loan_is_the_borrowers_own() -> None:
    world = with_fragments("a")
    world.run(of("b", "borrower", 1))
    world.finish("a2")
    assert loan_of(world, "borrower") == 0
    assert not world.core.pool.leases
    assert world.core.cluster.free(0)[0] + world.core.cluster.free(1)[0] == 3000


def test_case_3_fragments_of_two_workloads_on_one_node_are_joined() -> None:
    world = with_fragments("a", "b", cpu=8)
    assert idle(world) == {"a/batch": [(1, 1)], "b/batch": [(1, 1)]}
    world.run(of("c", "borrower", 2))
    (start,) = [each for each in world.decisions if isinstance(each, Start) and world.names[each.job] == "borrower"]
    assert [part.amounts[:2] for part in start.parts] == [(1000, GIB), (1000, GIB)]
    # Each part goes back to its own pool.
    world.finish("borrower")
    assert idle(world) == {"a/batch": [(1, 1)], "b/batch": [(1, 1)]}


def test_case_4_what_is_unallocated_on_the_node_is_joined_too() -> None:
    world = with_fragments("a", "b", cpu=9)
    world.run(of("c", "borrower", 3))
    assert loan_of(world, "borrower") == 2
    world.finish("borrower")
    assert idle(world) == {"a/batch": [(1, 1)], "b/batch": [(1, 1)]}
    assert world.core.cluster.free(0)[0] == 1000


def test_case_4_what_is_left_of_a_fragment_is_lent_again_if_it_is_not_too_small() -> None:
    for least, borrows in ((0.1, True), (0.6, False)):
        world = cluster(cpu=4, min_fragment=least)
        world.run(of("a", "first", 4, workload="w")).finish("first")
        world.run(of("b", "one", 3.5))
        world.submit(of("c", "two", 0.5)).decide()
        assert bool(world.state("two").attempts) is borrows


# --- taking back ------------------------------------------------------------------------------------------------------


def test_the_owner_takes_back_what_it_lent_and_the_borrower_waits_again() -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("b", "borrower", 3)).wait(1)
    world.submit(of("a", "again", 4, workload="w")).decide()
    (preempt,) = [each for each in world.decisions if isinstance(each, Preempt)]
    assert preempt.grace == 2 * SECOND
    world.yield_victims()
    assert world.started() == ["first", "borrower", "again"]
    assert world.state("borrower").waiting == 1
    assert "no node has enough free" in world.why("borrower")


def test_a_task_that_borrows_of_its_own_workload_after_a_move_does_not_yield_to_its_own_job() -> None:
    world = cluster(lease_idle=60 * SECOND)
    world.run(of("a", "owner", 4, workload="w")).finish("owner")
    world.submit(of("b", "array", 3, workload="w").tasks(2)).decide()
    assert loan_of(world, "array") == 3
    world.apply(group("a", 9), group("c", 9), moves={"b": "a"})
    world.decide()
    assert not [each for each in world.decisions if isinstance(each, Preempt)]
    assert len(world.state("array").attempts) == 1


def test_only_borrowers_that_are_needed_give_back_those_that_lose_least_work() -> None:
    world = cluster(cpu=6)
    world.run(of("a", "first", 6, workload="w")).finish("first")
    world.run(of("b", "old", 2)).wait(5)
    world.run(of("b", "new", 2))
    world.submit(of("a", "again", 4, workload="w")).decide()
    assert [world.names[start.job] for start in world.told.values()] == ["new"]
    world.yield_victims()
    assert world.names[max(world.running.values(), key=lambda start: start.attempt).job] == "again"
    assert idle(world) == {}


def test_what_the_owner_does_not_need_of_what_comes_back_stays_idle_in_its_lease() -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("b", "borrower", 4)).wait(1)
    world.submit(of("a", "again", 3, workload="w")).decide()
    world.yield_victims()
    assert idle(world) == {"aw": [(1, 1)]}
    # Of the first lease, all of which was lent, nothing is left.
    (lease,) = world.core.pool.leases.values()
    assert [attempt.job.job.name for attempt in lease.tasks.values()] == ["again"]


def test_a_loan_is_the_first_victim_of_a_group_that_is_below_its_quota() -> None:
    world = cluster(group("a", 2), group("b", 1), group("c", 9), cpu=6, preempt_above=1.0)
    world.run(of("a", "first", 3, workload="w")).finish("first")
    world.run(of("a", "keeper", 1, workload="w", limit="9h"))
    world.run(of("b", "own", 2, priority=-5, limit="9h")).wait(5)
    world.run(of("b", "borrower", 3, priority=9))
    assert loan_of(world, "borrower") == 2
    world.submit(of("c", "entitled", 1, limit="9h")).decide()
    assert world.victims() == ["borrower"]


def test_idle_leases_of_a_group_above_its_quota_go_back_at_once_when_another_is_entitled_to_them() -> None:
    world = cluster(group("a", 1), group("b", 9), cpu=4, lending="off")
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("b", "entitled", 4, limit="9h"))
    assert not world.core.pool.leases


def test_an_idle_lease_is_not_given_back_for_room_that_is_claimed_by_another() -> None:
    """One core is free, but claimed with those of filler: with the two of the lease the unit would still not fit."""
    world = cluster(group("a", 1), group("b", 9), group("c", 9), group("d", 1), cpu=6, lending="off")
    world.run(of("a", "first", 2, workload="w")).finish("first")
    world.run(of("d", "filler", 3, limit="9h").stop_grace("30s"))
    world.submit(of("c", "claims", 4, limit="9h")).decide()
    assert world.victims() == ["filler"]
    world.submit(of("b", "entitled", 3, limit="9h")).decide()
    assert idle(world) == {"aw": [(2, 2)]}
    world.submit(of("b", "smaller", 2, limit="9h")).cancel("entitled").decide()
    assert "smaller" in world.started()


def test_an_idle_lease_of_a_group_above_its_quota_returns_only_what_is_lacking() -> None:
    world = cluster(group("a", 1), group("b", 9), cpu=4, lending="off")
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("b", "entitled", 1, limit="9h"))
    assert idle(world) == {"aw": [(3, 3)]}
    world.run(of("a", "next", 3, workload="w"))
    assert "next" in world.started(), "what stays in the lease is its workload's as before"


def test_leases_return_what_is_lacking_together_and_one_that_has_none_of_it_returns_nothing() -> None:
    world = cluster(group("a", 1), group("b", 9), cpu=6, lending="off")
    world.run(*(of("a", name, 3, workload="w") for name in ("one", "other")))
    world.finish("one", decide=False), world.finish("other")
    world.run(of("b", "entitled", 4, limit="9h"))
    assert idle(world) == {"aw": [(2, 2)]}
    world = World(group("a", 1), group("b", 9), nodes=[node("n1").cpu(6).memory("6G")], node_order="first")
    world.run(job("lean").cpu(1).memory("4G").group("a").workload("w"))
    world.run(job("dry").cpu(4).memory(0).group("a").workload("w"))
    world.finish("lean", decide=False), world.finish("dry")
    world.run(job("entitled").cpu(1).memory("3G").group("b"))
    assert sorted(idle(world)["aw"]) == [(1, 3), (4, 0)]


def test_devices_of_an_idle_lease_return_one_by_one() -> None:
    world = World(group("a", 1), group("b", 9), nodes=[node("n1").cpu(8).gpus(3)], dimensions=("gpu",))
    world.run(job("first").cpu(3).needs(gpu=3).group("a").workload("w")).finish("first")
    world.run(job("entitled").cpu(1).needs(gpu=1).group("b"))
    (lease,) = world.core.pool.leases.values()
    assert lease.idle_amounts()[-1] == 2000


def test_a_short_unit_borrows_before_a_lease_has_to_return_anything() -> None:
    world = cluster(group("a", 1), group("b", 9), cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("b", "entitled", 1, limit="1min"))
    assert (loan_of(world, "entitled"), idle(world)) == (1, {"aw": [(3, 3)]})
    world.finish("entitled")
    assert idle(world) == {"aw": [(4, 4)]}


# --- what a borrower keeps --------------------------------------------------------------------------------------------


def borrows_beside_its_own() -> World:
    """A task of b has all of the lease of its workload v, and 2 of the 3 cores that w of group a has idle."""
    world = cluster(cpu=6, lease_idle=60 * SECOND)
    world.run(of("a", "first", 3, workload="w"), of("b", "own", 3, workload="v"))
    world.finish("first", decide=False), world.finish("own")
    world.run(of("b", "borrower", 5, workload="v")).wait(1)
    assert loan_of(world, "borrower") == 2
    return world


def test_a_borrower_gives_back_its_loan_and_keeps_its_own_lease() -> None:
    world = borrows_beside_its_own()
    world.submit(of("a", "again", 3, workload="w")).decide()
    assert world.victims() == ["borrower"]
    world.yield_victims()
    assert "again" in world.started()
    assert idle(world) == {"bv": [(3, 3)]}


def test_so_does_one_that_gives_back_to_a_lease_that_is_held() -> None:
    for how in ("its holder wants it", "a task of its workload comes"):
        world = cluster(cpu=6, lease_idle=60 * SECOND)
        world.run(of("a", "lease", 3, workload="w", limit="9h").as_lease(), of("b", "own", 3, workload="v"))
        use(world, 0).finish("own")
        world.run(of("b", "borrower", 5, workload="v")).wait(1)
        if how == "its holder wants it":
            use(world, 3).decide()
        else:
            world.submit(of("a", "task", 3, workload="w")).decide()
        assert [world.names[start.job] for start in world.told.values()] == ["borrower"]
        world.yield_victims()
        assert idle(world) == {"bv": [(3, 3)]}, how


def test_a_borrower_that_is_a_victim_yields_its_own_lease_too() -> None:
    world = cluster(group("a", 9), group("b", 1), group("c", 9), cpu=6, lease_idle=60 * SECOND)
    world.run(of("a", "first", 3, workload="w"), of("b", "own", 3, workload="v"))
    world.finish("first", decide=False), world.finish("own")
    world.run(of("b", "borrower", 5, workload="v")).wait(5)
    world.submit(of("c", "entitled", 3, limit="9h")).decide()
    assert world.victims() == ["borrower"]
    world.yield_victims()
    assert "entitled" in world.started()


# --- priorities inside a workload -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "tasks", "high"), [(4, 1, 1), (4, 1, 3), (4, 1, 4), (1, 4, 4), (2, 2, 3)])
def test_no_task_of_a_lower_priority_is_too_large_to_give_way_to_the_first_unit(
    low: float, tasks: int, high: float
) -> None:
    world = cluster(cpu=4)
    world.run(of("a", "low", low, limit="9h").tasks(tasks))
    world.submit(of("a", "equal", 1, limit="9h")).decide()
    assert world.victims() == []
    world.cancel("equal").submit(of("a", "high", high, priority=1, limit="9h")).decide()
    assert set(world.victims()) == {"low"}
    world.yield_victims()
    assert "high" in world.started()
    victims = len(world.victims())
    world.wait(60).decide()
    assert len(world.victims()) == victims, "nobody takes it back"


def test_a_job_takes_no_more_than_its_share_once_a_unit_of_it_runs() -> None:
    world = cluster(group("a", 9, "Priority"), cpu=8)
    world.run(of("a", "low", 2, limit="9h").tasks(4))
    world.submit(of("a", "high", 2, priority=1, limit="9h").tasks(4)).decide()
    while world.told:
        world.yield_victims()
    assert world.jobs_running() == ["high", "high", "low", "low"]


def test_tasks_without_which_every_job_keeps_its_share_give_way_first() -> None:
    world = cluster(cpu=8)
    world.run(of("a", "wide", 4, limit="9h")).wait(1)
    world.run(of("a", "many", 1, limit="9h").tasks(4))
    world.submit(of("a", "high", 1, priority=1, limit="9h")).decide()
    assert world.victims() == ["many"]
    world.yield_victims()
    assert world.jobs_running() == ["high", "many", "many", "many", "wide"]


# --- before every queue -----------------------------------------------------------------------------------------------


def idle_behind_a_head(policy: str = "FIFO", **options: Any) -> World:
    """Workload w has 2 of 4 cores idle; the head of its queue, of another workload, needs all 4."""
    world = cluster(group("a", 9, policy), group("b", 9), cpu=4, lease_idle=60 * SECOND, **options)
    world.run(of("a", "first", 2, workload="w"), of("a", "long", 2, limit="9h"))
    world.finish("first")
    world.submit(of("a", "head", 4, limit="9h")).decide()
    return world


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill", "Urgency", "EDF"])
@pytest.mark.parametrize("behind", ["reserve", "quota_only"])
def test_a_workload_uses_its_own_idle_parts_whatever_waits_before_its_task(policy: str, behind: str) -> None:
    world = idle_behind_a_head(policy, behind_blocked=behind)
    world.submit(of("b", "other", 3, limit="9h"), of("a", "next", 1, workload="w", limit="9h")).decide()
    assert world.started()[-1] == "next"
    assert idle(world) == {"aw": [(1, 1)]}


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
def test_a_workload_uses_its_own_idle_parts_however_many_wait_before_its_task(policy: str) -> None:
    world = idle_behind_a_head(policy)
    world.submit(*(of("a", f"other {i}", 4, limit="9h") for i in range(150)))
    world.submit(*(of("a", f"next {i}", 1, workload="w", limit="9h") for i in range(3))).decide()
    assert world.started()[-2:] == ["next 0", "next 1"]
    assert idle(world) == {}


def test_inside_a_workload_the_order_of_the_queue_holds() -> None:
    for policy, starts in (("FIFO", []), ("BackFill", ["small"])):
        world = idle_behind_a_head(policy)
        before = len(world.starts)
        world.submit(of("a", "large", 3, workload="w", limit="9h"), of("a", "small", 1, workload="w", limit="9h"))
        world.decide()
        assert world.started()[before:] == starts, policy


def test_a_kept_lease_is_not_used_before_a_gang_of_its_workload_that_cannot_use_it() -> None:
    """Else small tasks would keep the lease, and the gang would wait for ever; a lease with a holder stays anyway."""
    world = cluster(group("a", 9), cpu=4, lending="off")
    world.run(of("a", "first", 3, workload="w")).finish("first")
    world.submit(of("a", "gang", 2, workload="w").tasks(2).gang(), of("a", "small", 1, workload="w")).decide()
    assert world.started() == ["first"]
    world.wake()
    assert world.started() == ["first", "gang", "gang"]


def test_while_a_unit_is_due_no_kept_lease_is_kept_for_longer() -> None:
    world = idle_behind_a_head(lending="off", drain_after=30 * SECOND)
    world.wait(31).submit(of("a", "next", 1, workload="w")).decide()
    assert "next" not in world.started()


# --- who borrows ------------------------------------------------------------------------------------------------------


def borrowing() -> World:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    return world


@pytest.mark.parametrize(
    ("borrower", "borrows"),
    [
        (of("b", "x", 2, limit="5min"), True),
        (of("b", "x", 2, limit="6min"), False),
        (of("b", "x", 2, limit="1h").expected(60), True),
        (of("b", "x", 2).tasks(2).gang(), False),
        (of("b", "x", 5), False),
    ],
    ids=["short", "long", "predicted short", "gang", "too large"],
)
def test_single_tasks_that_are_predicted_short_borrow(borrower: JobBuilder, borrows: bool) -> None:
    world = borrowing()
    world.submit(borrower).decide()
    assert bool(world.state("x").attempts) is borrows


def test_without_lending_nothing_is_lent() -> None:
    world = cluster(cpu=4, lending="off")
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.submit(of("b", "borrower", 1)).decide()
    assert not world.state("borrower").attempts


def test_the_limit_of_loans_falls_when_much_of_their_work_is_lost_and_rises_when_little_is() -> None:
    world = borrowing()
    world.run(of("a", "keeper", 1, workload="w", limit="9h"))
    limits = []
    for again in (False, True):
        for number in range(20):
            name = f"{again}{number}"
            world.run(of("b", name, 1))
            world.wait(1)
            world.finish(name, outcome=Outcome.PREEMPTED if again else Outcome.SUCCEEDED, decide=False)
            if again:
                world.cancel(name)
        limits.append(world.core.pool.limit.limit)
    assert limits == [6 * MINUTE, 3 * MINUTE]


# --- devices ----------------------------------------------------------------------------------------------------------


def test_a_part_of_a_gpu_is_lent_and_comes_back() -> None:
    world = World(
        group("a", 9), group("b", 9), nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",), lending="on",
    )  # fmt: skip
    world.run(job("first").cpu(8).needs(gpu=2).group("a").workload("w")).finish("first")
    world.run(job("half").cpu(1).needs(gpu=0.5).group("b").limit("1min"))
    (start,) = [each for each in world.decisions if isinstance(each, Start) and each.job == world.ids["half"]]
    assert [(each.kind, each.amount) for each in start.devices] == [("gpu", 500)]
    world.run(job("whole").cpu(1).needs(gpu=1).group("b").limit("1min"))
    world.finish("half"), world.finish("whole")
    world.run(job("again").cpu(8).needs(gpu=2).group("a").workload("w"))
    assert idle(world) == {}


# --- leases of proxies outside ----------------------------------------------------------------------------------------


def with_lease(size: float = 4, **options: Any) -> World:
    """A lease that group a holds, of which it uses nothing itself."""
    world = cluster(cpu=size, **options)
    world.run(of("a", "lease", size, workload="w", limit="9h").as_lease())
    return use(world, 0)


def use(world: World, cores: float) -> World:
    """The holder of the lease uses so many cores and GiB."""
    (attempt,) = world.state("lease").attempts.values()
    amounts = (int(1000 * cores), int(GIB * cores)) + (0,) * (len(attempt.amounts) - 2)
    return world.observe([LeaseUsed(attempt.id, amounts)])


def test_tasks_of_a_workload_run_inside_the_lease_that_it_holds() -> None:
    world = with_lease()
    world.run(of("a", "task", 3, workload="w"))
    assert idle(world) == {"aw": [(1, 1)]}
    world.finish("task")
    world.wait(60).decide()
    assert idle(world) == {"aw": [(4, 4)]}


def test_what_the_holder_does_not_use_is_lent_and_comes_back_when_it_wants_it() -> None:
    world = with_lease()
    world.run(of("b", "borrower", 3)).wait(1)
    assert (world.used("a"), world.used("b")) == (1, 3)
    use(world, 2).decide()
    assert [world.names[start.job] for start in world.told.values()] == ["borrower"]
    world.yield_victims()
    assert world.state("borrower").attempts == {}
    assert (world.used("a"), idle(world)) == (4, {"aw": [(2, 2)]})


def test_the_lease_ends_with_its_holder_and_loans_stay_with_the_borrowers() -> None:
    world = with_lease()
    world.run(of("b", "borrower", 3))
    world.finish("lease")
    assert not world.core.pool.leases
    assert (world.used("a"), world.used("b"), loan_of(world, "borrower")) == (0, 3, 0)


def test_an_idle_lease_of_a_group_above_its_quota_is_stopped_when_another_is_entitled_to_it() -> None:
    world = World(
        group("a", 1), group("b", 9), nodes=[node("n1").cpu(4).memory("4G")], lending="on", node_order="first"
    )
    world.run(of("a", "lease", 4, workload="w", limit="9h").as_lease())
    use(world, 0)
    world.submit(of("b", "entitled", 4, limit="9h")).decide()
    assert "entitled" in world.started()
    assert [world.names[start.job] for start in world.told.values()] == ["lease"]


def test_a_lease_is_not_preempted_in_its_minimum_time() -> None:
    world = World(
        group("a", 1), group("b", 9), nodes=[node("n1").cpu(4).memory("4G")], lending="on", node_order="first"
    )
    world.run(of("a", "lease", 4, limit="9h").as_lease().keeps("1min"))
    world.submit(of("b", "entitled", 4, limit="9h")).decide()
    assert not world.told
    world.wait(61).decide()
    assert [world.names[start.job] for start in world.told.values()] == ["lease"]


def test_a_stopping_task_leaves_nothing_to_a_lease_that_ends_with_it() -> None:
    world = cluster(group("a", 1), group("b", 3))
    world.run(of("a", "named", 1, workload="w"), of("a", "other", 2))
    world.cancel("named").submit(of("b", "wide", 3)).decide()
    assert world.victims() == ["other"]
    world.finish("other", outcome=Outcome.PREEMPTED)
    world.finish("named", outcome=Outcome.CANCELLED)
    assert [lease.idle for lease in world.core.pool.leases.values() if lease.idle] == []
    assert world.jobs_running() == ["wide"]
