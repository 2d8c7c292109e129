"""What jobs require of nodes and how they rank them: who is placed where, over time and load, and why a job waits."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.diagnostics.match_report import CurrentConstraints
from cress.core.placing.match import Firsts, Match
from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.core.tables.arrays import Ints
from cress.model.errors import InputError
from cress.model.events import JobSubmitted, Outcome
from cress.model.job import Job
from cress.model.times import DAY, SECOND
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node

OLD = node("old").cpu(8).memory("32G").where(GCC="4.4", SSD=False).rack("r1").at("192.168.1.2")
NEW = node("new").cpu(8).memory("16G").where(GCC="4.10", SSD=True).rack("r2").at("192.168.1.5")
BARE = node("bare").cpu(4).memory("8G")


def world(*nodes: NodeBuilder, policy: str = "FIFO", **options: Any) -> World:
    """One group with room for everything; nodes are taken as they registered."""
    return World(
        group("lab", 100, policy=policy), nodes=nodes or (OLD, NEW, BARE), **{"node_order": "first", **options}
    )


def lab(name: str) -> JobBuilder:
    return job(name).group("lab")


def moment(core: World, name: str) -> CurrentConstraints:
    """What holds for a job now."""
    found = core.core.constraints(core.ids[name])
    assert found is not None
    return found


def placed(core: World, name: str) -> str:
    """The node on which a job started; empty if it waits."""
    return next((start.node for start in core.starts if start.job == name), "")


# --- where a task goes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "rank", "goes_to"),
    [
        ("", "", "old"),
        ("GCC >= 4.5", "", "new"),  # 4.10 is above 4.5
        ("GCC < 4.5", "", "old"),
        ("! (GCC >= 4.5)", "", "old"),  # on bare it is undefined, which is not true
        ("! defined(GCC)", "", "bare"),
        ('Rack = "r2" || SSD = False', "", "old"),
        ("Nodes in (192.168.1.3-8)", "", "new"),
        ("Nodes in (bare, new)", "", "new"),
        ("Memory <= 16G && CPU < 8", "", "bare"),
        ("Resource = <1, 20G>", "", "old"),
        ("IdleCPU >= 9", "", ""),
        ("SSD = True && GCC = 4.4", "", ""),
        ("", "SSD = True", "new"),
        ("", "1 / Memory", "bare"),
        ("", "CPU", "old"),  # an idle share: all are empty, and old came first
        ("GCC > 1", "1 / Memory", "new"),  # rank orders what the requirement leaves
        ("", "GCC", "old"),  # 4.4 counts as a number, 4.10 is one too, and smaller
        ("", 'Unknown = 3 + 2 × (Rack = "r2")', "old"),
        ("", "(SSD = True) + 3 × (! defined(GCC))", "bare"),
        ('Rack = "r9" && f(x) = True && SSD = True', "", "new"),
    ],
)
def test_where_a_task_goes(requirement: str, rank: str, goes_to: str) -> None:
    core = world()
    core.submit(lab("it").requires(requirement).ranks(rank)).decide()
    assert placed(core, "it") == goes_to


def test_the_rank_goes_before_the_order_of_nodes_and_that_decides_among_equals() -> None:
    core = world(*(node(f"n{i}").cpu(8).where(Rank=i // 2) for i in range(4)), node_order="best_fit")
    core.run(lab("first").cpu(1).requires("Nodes in (n3)"))
    core.run(lab("it").ranks("Rank"))
    assert placed(core, "it") == "n3"  # n2 and n3 are best, and n3 is the fuller one


@pytest.mark.parametrize(("rank", "nodes"), [("IdleCPU", "abca"), ("IdleCPU / 1", "abab")])
def test_tasks_that_rank_by_idle_amounts_spread_as_they_start(rank: str, nodes: str) -> None:
    core = world(node("a").cpu(4), node("b").cpu(4), node("c").cpu(2))
    core.run(lab("it").tasks(4).ranks(rank))
    assert "".join(start.node for start in core.starts) == nodes


def test_a_gang_goes_to_the_best_nodes_one_task_after_the_other() -> None:
    core = world(node("a").cpu(2), node("b").cpu(2).where(SSD=True), node("c").cpu(2).where(SSD=True))
    core.run(lab("it").tasks(5).gang().ranks("SSD = True"))
    assert [start.node for start in core.starts] == ["b", "b", "c", "c", "a"]


def test_a_gang_waits_until_all_of_it_fits_on_nodes_that_satisfy_its_clauses() -> None:
    core = world(OLD, NEW)
    core.submit(lab("it").cpu(2).tasks(5).gang().requires("SSD = True")).decide()
    assert placed(core, "it") == ""
    assert core.veto("it").kind is Verdict.NEVER_TOGETHER
    core.add_node(node("more").cpu(2).where(SSD=True)).decide()
    assert sorted(start.node for start in core.starts) == ["more", *["new"] * 4]


# --- what nodes are, changes -----------------------------------------------------------------------------------------


def test_a_node_that_gets_what_a_job_needs_takes_it() -> None:
    core = world(OLD)
    core.submit(lab("it").requires("GCC >= 4.5")).decide()
    assert core.veto("it").kind is Verdict.NEVER_SATISFIED
    core.change_node(OLD.where(GCC="4.10")).decide()
    assert placed(core, "it") == "old"


def test_a_node_that_loses_it_takes_no_more_and_what_runs_goes_on() -> None:
    core = world(NEW)
    core.run(lab("first").requires("SSD = True"))
    core.change_node(NEW.where(SSD=False)).submit(lab("second").requires("SSD = True")).decide()
    assert [start.job for start in core.starts] == ["first"]
    assert len(core.running) == 1


def test_a_node_that_was_lost_comes_back_as_another_one() -> None:
    core = world(OLD)
    core.submit(lab("it").requires("SSD = True")).lose_node("old").decide()
    core.add_node(OLD.where(SSD=True)).decide()
    assert placed(core, "it") == "old"


def test_idle_amounts_are_those_of_the_moment() -> None:
    core = world(node("a").cpu(8))
    core.run(lab("big").cpu(6))
    core.submit(lab("it").requires("IdleCPU >= 4")).decide()
    assert core.why("it") == "no node satisfies IdleCPU >= 4 (1 of 1 node does not)"
    core.finish("big")
    assert placed(core, "it") == "a"


def test_a_node_is_asked_once_for_all_shapes_with_the_same_clauses(monkeypatch: pytest.MonkeyPatch) -> None:
    core = world(node("a").cpu(30), check=False)
    core.submit(*(lab(f"j{cores}").cpu(cores).requires("IdleCPU >= 9") for cores in (24, 1, 2, 3, 4, 5, 6)))
    asked: list[Match] = []
    first_excluding = Match.first_excluding

    def counted(match: Match, places: Ints, facts: bool) -> Firsts:
        asked.append(match)
        return first_excluding(match, places, facts)

    monkeypatch.setattr(Match, "first_excluding", counted)
    core.decide()
    assert core.started() == ["j24"]
    assert len(asked) == 1, "once after the start, although six other shapes follow the node"
    assert core.why("j1") == "no node satisfies IdleCPU >= 9 (1 of 1 node does not)"


# --- relaxation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "starts_at"),
    [
        ("Waittime > 15s", 15 * SECOND + 1),
        ("Waittime >= 15s", 15 * SECOND),
        ("Waittime > 1min || Waittime > 10", 10 * SECOND + 1),
        ("! (Waittime <= 20s)", 20 * SECOND + 1),
        ("Waittime > 5s && ClusterLoad < 50%", 5 * SECOND + 1),
    ],
)
def test_a_clause_relaxes_at_its_time_and_the_core_names_it(condition: str, starts_at: int) -> None:
    core = world(OLD, NEW)
    core.submit(lab("it").requires(f'Rack = "r9" && f(x) = ({condition})')).decide()
    assert core.core.next_wakeup() == starts_at
    assert core.veto("it").until == starts_at
    core.now = starts_at - 1
    core.decide()
    assert placed(core, "it") == ""
    assert core.wake() == starts_at
    assert placed(core, "it") == "old"


def test_several_steps_relax_one_after_the_other() -> None:
    core = world(node("a").cpu(8).rack("r3"), node("b").cpu(1).rack("r1"), node("c").cpu(1).rack("r2"))
    core.run(lab("b").requires("Nodes in (b)"), lab("c").requires("Nodes in (c)"))
    wanted = 'Rack = "r1" && f(x) = (Waittime > 10s) && Rack in ("r1", "r2") && f(x) = (Waittime > 1min)'
    core.submit(lab("it").requires(wanted), lab("other").requires(wanted)).decide()
    assert moment(core, "it").requirement.startswith('Rack = "r1" && Rack in ("r1", "r2")')
    assert core.wake() == 10 * SECOND + 1
    assert moment(core, "it").rank == '(Rack = "r1")'
    core.finish("c")
    assert placed(core, "it") == "c"
    assert core.wake() == 60 * SECOND + 1
    assert placed(core, "other") == "a"


def test_a_relaxed_clause_is_still_preferred_by_its_weight() -> None:
    core = world(OLD, NEW, BARE)
    core.submit(lab("fill").cpu(8).requires("Nodes in (new)")).decide()
    core.submit(lab("it").requires("SSD = True && f(x, weight=3) = (Waittime > 10s)").ranks("2 × (! defined(GCC))"))
    core.decide()
    core.wait(5).finish("fill", decide=False)
    core.wait(6).decide()
    assert placed(core, "it") == "new"


def test_a_relaxed_clause_gives_way() -> None:
    core = world(OLD, NEW)
    core.run(lab("fill").cpu(8).requires("Nodes in (new)"))
    core.submit(lab("it").requires("SSD = True && f(x) = (Waittime > 10s)")).decide()
    core.wake()
    assert placed(core, "it") == "old"


def test_by_load_a_clause_goes_back_and_forth() -> None:
    core = world(node("a").cpu(8), node("b").cpu(8).where(SSD=True), balance_dimensions=("cpu",))
    wanted = lab("it").cpu(8).requires("SSD = True && f(x) = (ClusterLoad >= 50%)")
    core.run(lab("on_b").cpu(8).requires("Nodes in (b)"))  # half of the cluster
    core.run(wanted.named("one"))
    assert placed(core, "one") == "a"
    core.submit(wanted.named("two")).decide()
    core.finish("one", decide=False)
    core.finish("on_b")
    assert placed(core, "two") == "b"  # the load is 0: hard again


def test_the_time_counts_from_the_last_time_in_the_queue() -> None:
    core = world(NEW, OLD)
    core.run(lab("it").requires("SSD = True && f(x) = (Waittime > 10s)"))
    core.wait(100)
    core.change_node(NEW.where(SSD=False))
    core.finish("it", again=True)
    assert core.core.next_wakeup() == 110 * SECOND + 1
    core.wake()
    assert [start.node for start in core.starts] == ["new", "new"]


def test_a_task_that_is_retried_does_not_begin_the_waiting_of_the_others_anew() -> None:
    core = world(NEW, OLD)
    wanted = "SSD = True && f(x) = (Waittime > 4s)"
    core.submit(lab("it").tasks(3).cpu(8).requires(wanted)).decide()
    core.wait(3)
    core.finish("it", again=True)
    # Task 0 waits since 3, tasks 1 and 2 since 0: task 1 has the node with a disk, task 2 is relaxed first.
    assert [(start.task, start.node) for start in core.starts] == [(0, "new"), (1, "new")]
    assert core.core.next_wakeup() == 4 * SECOND + 1
    core.wake()
    assert [(start.task, start.node) for start in core.starts][2:] == [(2, "old")]
    assert core.core.next_wakeup() == 7 * SECOND + 1


def test_tasks_behind_the_limit_of_running_ones_wait_as_well() -> None:
    core = world(NEW, OLD)
    core.submit(lab("it").tasks(2).at_once(1).requires("SSD = True && f(x) = (Waittime > 4s)")).decide()
    core.wait(3).change_node(NEW.where(SSD=False))
    core.finish("it", again=True)
    assert core.core.next_wakeup() == 4 * SECOND + 1
    core.wake()
    assert [(start.task, start.node) for start in core.starts] == [(0, "new"), (1, "new")]


def test_a_lost_claim_leaves_the_waiting_of_its_unit_as_it_was() -> None:
    core = World(group("lab", 8), group("other", 8), nodes=(NEW, OLD), node_order="first")
    core.run(job("full").group("other").tasks(2).cpu(8))
    core.submit(lab("it").cpu(8).requires("SSD = True && f(x) = (Waittime > 30s)")).decide()
    assert core.core.claims
    core.wait(3).cordon("new").decide()
    assert not core.core.claims
    assert core.core.jobs[core.ids["it"]].since == 0


@pytest.mark.parametrize("lost", [False, True])
def test_what_waits_beside_a_claim_has_its_own_time(lost: bool) -> None:
    core = World(group("lab", 16), group("other", 1), nodes=(NEW, OLD), node_order="first")
    core.run(job("full").group("other").cpu(8).requires("Nodes in (old)"))
    core.submit(lab("it").tasks(2).cpu(8).requires("SSD = True && f(x) = (Waittime > 20s)")).decide()
    core.wait(17).cordon("new")
    core.finish("it", again=True)
    # Task 1 waits since 0, and takes the place of others at 20; task 0 waits since 17, and wants the disk until 37.
    core.wake()
    (claim,) = core.core.claims
    assert (claim.tasks, core.victims()) == ([1], ["full"])
    assert (core.state("it").since, core.state("it").foreseen.soft) == (17 * SECOND, 0)
    if lost:
        # Its task waits as before.
        core.cordon("old")
        assert (core.state("it").since, core.state("it").foreseen.soft) == (0, 1)
    else:
        core.yield_victims()
        assert [(start.task, start.node) for start in core.starts[2:]] == [(1, "old")]


def test_a_job_that_is_held_does_not_wait() -> None:
    core = world(OLD)
    core.submit(lab("it").requires("SSD = True && f(x) = (Waittime > 10s)")).hold("it").wait(60).hold("it", False)
    core.decide()
    assert placed(core, "it") == ""
    assert core.core.next_wakeup() == 70 * SECOND + 1


def test_backfill_offers_a_job_in_the_middle_of_the_queue_when_it_relaxes() -> None:
    core = world(OLD, NEW, policy="BackFill")
    core.run(lab("full").cpu(6).limit(1000).requires("Nodes in (old)"))
    core.run(lab("full2").cpu(6).limit(1000).requires("Nodes in (new)"))
    core.submit(lab("head").cpu(8).limit(100))
    core.submit(lab("middle").cpu(1).limit(50).requires('Rack = "r9" && f(x) = (Waittime > 15s)'))
    core.submit(lab("last").cpu(8).limit(100)).decide()
    assert placed(core, "middle") == ""
    assert core.wake() == 15 * SECOND + 1
    assert placed(core, "middle") == "old"


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_reservations_are_made_on_nodes_that_satisfy_the_clauses(backfill: str) -> None:
    core = world(OLD, NEW, policy="BackFill", backfill=backfill)
    core.run(lab("short").cpu(8).limit(10).requires("Nodes in (old)"))
    core.run(lab("long").cpu(8).limit(60).requires("Nodes in (new)"))
    core.submit(lab("head").cpu(8).limit(10).requires("SSD = True")).decide()
    # Beside the head's reservation, which is on the other node.
    core.submit(lab("later").cpu(8).limit(500)).decide()
    core.wait(10).finish("short")
    assert placed(core, "later") == "old"
    core.wait(50).finish("long")
    assert placed(core, "head") == "new"


def test_a_reservation_leaves_a_node_that_a_clause_excludes_by_now() -> None:
    core = world(OLD.where(SSD=True), NEW, BARE, policy="BackFill")
    core.run(
        lab("one").cpu(8).limit(10).requires("Nodes in (old)"), lab("two").cpu(8).limit(60).requires("Nodes in (new)")
    )
    core.submit(lab("head").cpu(8).limit(10).requires("SSD = True"), lab("other").cpu(1).limit(900)).decide()
    core.change_node(OLD.where(SSD=False))
    core.submit(lab("later").cpu(8).limit(500)).wait(10).finish("one")
    assert placed(core, "later") == "old"
    assert core.veto("head").until == 60 * SECOND


# --- preemption ------------------------------------------------------------------------------------------------------


def test_victims_are_looked_for_where_the_clauses_hold() -> None:
    core = World(group("rich", 1), group("poor", 15), nodes=(OLD, NEW), node_order="first", preemption="on")
    core.run(job("a").cpu(8).group("rich"), job("b").cpu(8).group("rich"))
    core.wait(100).submit(job("it").cpu(4).group("poor").requires("SSD = True")).decide()
    assert [start.node for start in core.told.values()] == ["new"]
    core.wait(1).yield_victims()
    assert placed(core, "it") == "new"


def test_a_claim_is_void_when_its_node_does_not_satisfy_the_clauses_any_more() -> None:
    core = World(group("rich", 1), group("poor", 15), nodes=(OLD, NEW, BARE), node_order="first", preemption="on")
    core.run(job("a").cpu(8).group("rich"), job("b").cpu(8).group("rich"), job("c").cpu(4).group("rich"))
    core.wait(100).submit(job("it").cpu(4).group("poor").requires("SSD = True")).decide()
    core.change_node(NEW.where(SSD=False)).change_node(OLD.where(SSD=True))
    core.wait(1).yield_victims()
    assert [start.node for start in core.told.values()] == ["old"]
    core.wait(1).yield_victims()
    assert placed(core, "it") == "old"


# --- who waits, and who does not wait for it -------------------------------------------------------------------------


def test_a_job_that_no_node_could_ever_satisfy_holds_up_nobody() -> None:
    core = World(group("a", 10), group("b", 1), nodes=(OLD,))
    core.submit(job("never").group("a").requires("GCC > 9")).submit(job("fills").cpu(8).group("b")).decide()
    assert placed(core, "fills") == "old"


def test_nor_does_one_that_only_waits_for_what_runs_where() -> None:
    core = World(group("a", 10), group("b", 1), nodes=(OLD,))
    core.run(job("some").cpu(1).group("b"))
    core.submit(job("waits").group("a").requires("IdleCPU >= 8"), job("more").cpu(2).group("b")).decide()
    assert placed(core, "more") == "old"


WHY = {
    "GCC >= 4.5 && SSD = False": "no node of this cluster could ever satisfy GCC >= 4.5 and SSD = False "
    "(of 3 nodes 2 do not satisfy the first, 2 the second)",
    "GCC >= 5": "no node of this cluster could ever satisfy GCC >= 5 (3 of 3 nodes do not)",
    "IdleCPU >= 8 && GCC < 5": "no node satisfies IdleCPU >= 8 and GCC < 5 "
    "(of 3 nodes 3 do not satisfy the first, 1 the second)",
    "GCC < 5": "no node that satisfies GCC < 5 has enough free (1 of 3 nodes does not satisfy it; 2 lack cpu)",
    "": "no node has enough free; of 3 nodes 3 lack cpu",
}


@pytest.mark.parametrize(("requirement", "sentence"), WHY.items())
def test_why_a_job_waits(requirement: str, sentence: str) -> None:
    core = world()
    core.run(*(lab(f"fills {each}").requires(f"Nodes in ({each})") for each in ("old", "new", "bare")))
    core.submit(lab("it").cpu(8).requires(requirement)).decide()
    assert core.why("it") == sentence
    assert core.veto("it").never == ("ever" in sentence)


# --- what people are shown -------------------------------------------------------------------------------------------


def test_the_constraints_of_the_moment() -> None:
    """Source E, (iii) to (vi), with what this language writes otherwise."""
    core = world(OLD)
    wanted = lab("B").memory("2G").requires("GCC >= 4.5 && SSD = True && f(x) = (Waittime > 5min)").ranks("CPU")
    core.submit(wanted).decide()
    now = moment(core, "B")
    assert (now.requirement, now.rank) == ("GCC >= 4.5 && SSD = True && Resource = <1,2G>", "CPU")
    assert now.until == 300 * SECOND + 1
    core.wait(301).decide()
    now = moment(core, "B")
    assert (now.requirement, now.rank) == ("GCC >= 4.5 && Resource = <1,2G>", "CPU + (SSD = True)")
    assert now.until is None
    assert core.core.constraints(999) is None


def test_expressions_are_tried_out_on_the_nodes() -> None:
    core = world()
    core.cordon("bare")
    found = core.core.match("Memory > 10G && GCC >= 4.5", "2 × CPU + (SSD = True)")
    assert [(each.node, each.satisfied, each.failing, each.score, each.usable) for each in found] == [
        ("old", False, "GCC >= 4.5", 2.0, True),
        ("new", True, "", 3.0, True),
        ("bare", False, "Memory > 10G", 2.0, False),
    ]
    assert core.core.export() == Scheduler.restore(core.core.export()).export()
    with pytest.raises(InputError):
        core.core.match("GCC >=")


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"requirement": "GCC >="}, "requirement"),
        ({"rank": "2 ×"}, "rank"),
        ({"requirement": "x" * 5000}, "requirement"),
        ({"ports": (("web", 65_536),)}, "ports"),
        ({"ports": (("web", -1),)}, "ports"),
        ({"ports": (("web", 80), ("api", 80))}, "ports"),
        ({"ports": (("web", 80), ("web", 81))}, "ports"),
        ({"max_per_node": -1}, "max_per_node"),
        ({"max_per_rack": -2}, "max_per_rack"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_changes(wrong: dict[str, object], field: str) -> None:
    core = world()
    request = lab("it").vector(core.dimensions)
    before = core.core.export()
    with pytest.raises(InputError) as caught:
        core.core.observe(0, [JobSubmitted(Job(id=1, group="lab", request=request, **wrong))])  # type: ignore[arg-type]
    assert caught.value.field == field
    assert core.core.export() == before


def test_a_job_that_is_queued_again_and_again_leaves_no_entries_behind() -> None:
    made = World(group("g", 99), nodes=[node("n1").cpu(4)])
    # One that changes sides earlier keeps the entries of the other from coming to the front.
    made.submit(job("y").group("g").cpu(1).requires('Rack = "r9" && f(x) = (Waittime > 20d)'))
    made.run(job("x").group("g").cpu(1).requires("CPU > 1 && f(x) = (Waittime > 30d)"))
    for _ in range(300):
        made.wait(60).finish("x", outcome=Outcome.LOST)
    assert made.nodes_of("x") == ["n1"]
    assert len(made.core.books.relaxing.times) < 80
    assert made.core.next_wakeup() == 20 * DAY + 1
