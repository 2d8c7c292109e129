"""Why a job waits: the sentence for every kind of veto, each reached by what really happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cress.core.diagnostics.sentences import sentence
from cress.core.placing.vetoes import Verdict, Veto
from cress.core.scheduler import Scheduler
from cress.core.tables.arrays import Bools
from cress.core.tables.cluster import Cluster
from cress.model.advance import AdvanceReservation
from cress.model.events import AdvanceReserved, Outcome
from cress.model.resources import ResourceVector
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes


def too_large() -> World:
    world = World(group("g", 9), nodes=nodes(3, cpu=4, memory="8G"))
    world.submit(job("waits").cpu(2).memory("9G").group("g")).decide()
    return world


def room_is_made() -> World:
    world = World(group("old", 1), group("new", 9), nodes=nodes(2, cpu=3), node_order="first")
    world.run(job("old").tasks(6).group("old").stop_grace("1m"))
    world.wait(10).submit(job("waits").cpu(2).group("new")).decide()
    return world


def gang_ends() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("waits").tasks(3).gang().group("g"))
    world.finish("waits", 1, outcome=Outcome.FAILED, again=True)
    return world


def somebody_holds_it() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.submit(job("waits").group("g")).hold("waits").decide()
    return world


def another_comes_first() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("first").group("g"))
    world.submit(job("waits").group("g")).come_after("waits", "first").decide()
    return world


def its_tasks_wait_for_the_same_ones_of_another() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4)).run(job("first").group("g"))
    world.submit(job("waits").group("g"), by_task=True).decide()
    return world


def some_of_its_tasks_run() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4)).submit(job("waits").tasks(3).at_once(2).group("g"))
    world.decide()
    return world


def its_group_is_at_its_ceiling() -> World:
    world = World(group("g", 2).most(4), nodes=nodes(1, cpu=9)).run(job("others").tasks(3).group("g"))
    world.submit(job("waits").cpu(2).group("g")).decide()
    return world


def one_above_its_group_is_at_its_ceiling() -> World:
    world = World(group("all", 2).most(4), group("g", 2).inside("all"), nodes=nodes(1, cpu=9))
    world.run(job("others").tasks(4).group("g")).submit(job("waits").group("g")).decide()
    return world


def others_keep_what_is_free() -> World:
    world = World(group("g", 2), group("lab", 6).lends(1), nodes=nodes(1, cpu=8))
    world.run(job("others").tasks(3).group("g")).submit(job("waits").group("g")).decide()
    return world


def the_guarantees_of_others_forbid_it() -> World:
    world = World(group("g", 3), group("lab", 5), nodes=nodes(1, cpu=8), preemption="off")
    world.run(job("others").tasks(4).group("lab")).submit(job("waits").tasks(6).gang().group("g")).decide()
    return world


def a_branch_is_held_to_its_quota() -> World:
    world = World(
        group("all", 2), group("g", 2).inside("all"), group("a", 5), nodes=nodes(1, cpu=6), behind_blocked="quota_only",
        preemption="off",
    )  # fmt: skip
    world.run(job("others").tasks(2).group("g"))
    world.submit(job("large").cpu(5).group("a"), job("waits").group("g")).decide()
    return world


def as_many_jobs_run_as_may() -> World:
    world = World(group("g", 4).limits(running=2), nodes=[node("n1").cpu(4)])
    world.run(job("one").group("g"), job("two").group("g"))
    world.submit(job("waits").group("g")).decide()
    return world


def as_many_jobs_of_its_user_run_as_may() -> World:
    world = World(group("g", 4).limits(running_per_user=1), nodes=[node("n1").cpu(4)])
    world.run(job("one").group("g").user("ann"))
    world.submit(job("waits").group("g").user("ann")).decide()
    return world


def a_licence_is_in_use() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=9)).licences(matlab=3)
    world.run(job("others").tasks(3).licences(matlab=1).group("g"))
    world.submit(job("waits").licences(matlab=1).group("g")).decide()
    return world


def it_failed() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("waits").tasks(3).group("g"))
    world.finish("waits", 1, outcome=Outcome.FAILED, again=True, after=20)
    world.wait(5).finish("waits", 2, outcome=Outcome.FAILED, again=True, after=20)
    return world


def the_gang_failed() -> World:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("waits").tasks(2).gang().group("g"))
    world.finish("waits", 1, outcome=Outcome.FAILED, again=True, after=20)
    world.wait(5).finish("waits", 0, outcome=Outcome.FAILED, again=True)
    return world


def no_node_takes_tasks() -> World:
    world = World(group("g", 9), nodes=nodes(2, cpu=4))
    world.cordon("n1").cordon("n2").submit(job("waits").group("g")).decide()
    return world


def cools_off() -> World:
    world = World(group("old", 2), group("new", 9), group("other", 1), nodes=nodes(1, cpu=4))
    world.run(job("waits").tasks(3).group("old"), job("runs").group("other"))
    world.submit(job("behind it").group("other"), job("new").group("new")).decide()
    world.yield_victims()
    return world


def cools_off_and_is_too_dear_where_it_fits(backfill: str = "", tasks: int = 1) -> World:
    """It would be within the quota of its group on ``n2``, which is full; of ``n1`` it takes twice as much."""
    places = [node("n1").cpu(4).memory("8G"), node("n2").cpu(4).memory("16G")]
    old = group("old", 2, "BackFill").with_options(backfill=backfill) if backfill else group("old", 2)
    world = World(old, group("new", 5), group("other", 4), nodes=places)
    world.run(job("fills").cpu(3.5).group("other"))
    world.run(job("stays").cpu(1.5).priority(1).group("old"), job("victim").cpu(2.5).group("old"))
    world.submit(job("behind it").cpu(2).group("other"), job("new").cpu(2.5).group("new")).decide()
    world.yield_victims()
    unit = job("waits").cpu(0.5 / tasks).memory(f"{2048 // tasks}M").tasks(tasks)
    world.submit((unit.gang() if tasks > 1 else unit).group("old")).decide()
    return world


def others_would_take_it_back() -> World:
    world = World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=11))
    world.run(job("wide").cpu(9).limit("1h").group("g"))
    world.submit(job("owed").cpu(9).limit("1h").group("h"), job("waits").cpu(2).limit("10min").group("g")).decide()
    return world


def held_to_its_quota() -> World:
    world = World(group("a", 9), group("b", 2), nodes=nodes(1, cpu=4), behind_blocked="quota_only", preemption="off")
    world.run(job("runs").cpu(2).group("b"))
    world.submit(job("blocked").cpu(3).group("a"), job("waits").group("b")).decide()
    return world


def held_to_its_quota_without_a_known_end() -> World:
    world = World(group("a", 9), group("b", 2), nodes=nodes(1, cpu=4), preemption="off")
    world.run(job("runs").cpu(2).group("b"))
    world.submit(job("blocked").cpu(3).group("a"), job("waits").group("b")).decide()
    return world


def not_reached() -> World:
    world = World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=4))
    world.submit(job("first").group("g"), job("waits").group("h")).decide(1)
    return world


def user_at_his_limit() -> World:
    world = World(group("g", 2, "Capacity").with_options(user_limit_factor="1.5"), nodes=nodes(1, cpu=9))
    world.run(job("runs").tasks(3).user("ann").group("g"))
    world.submit(job("waits").user("ann").group("g")).decide()
    return world


def held_by_the_gate() -> World:
    world = World(
        group("g", 9, "BackFill"), group("h", 1, "Capacity").with_options(user_limit_factor="0.1"),
        nodes=nodes(1, cpu=100, memory="100G"), balance_gate="on", balance_dimensions=("cpu", "memory"),
    )  # fmt: skip
    world.run(job("lopsided").cpu(1).memory("50G").group("g"), job("a trace").cpu(0.001).group("h"))
    world.wait(5).submit(job("better").cpu(20).group("h"), job("waits").memory("20G").group("g")).decide()
    return world


def behind_another() -> World:
    world = World(group("g", 9, "Priority"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).group("g"))
    world.submit(job("waits").group("g"), job("blocked").cpu(2).priority(1).group("g")).decide()
    return world


def planned() -> World:
    world = World(group("g", 9, "BackFill").with_options(backfill="conservative"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(50).group("g"))
    world.wait(10).submit(job("blocked").cpu(4).limit(20).group("g"), job("waits").limit(41).group("g")).decide()
    return world


def drained() -> World:
    world = World(group("g", 9), nodes=nodes(2, cpu=4), drain_after=30 * SECOND, node_order="first")
    world.run(job("runs").cpu(2).tasks(3).group("g"))
    world.submit(job("waits").cpu(4).group("g")).decide()
    world.wait(30).decide()
    return world


def no_room() -> World:
    world = World(
        group("g", 9), nodes=[node("n1").cpu(4).memory("8G"), node("n2").cpu(4).memory("2G")], node_order="first"
    )
    world.run(job("runs").cpu(3).group("g").memory("2G").limit(60))
    world.submit(job("waits").cpu(4).memory("4G").group("g")).decide()
    return world


def no_room_together() -> World:
    world = World(group("g", 9), nodes=nodes(2, cpu=4), node_order="first")
    world.run(job("runs").cpu(3).group("g"))
    world.submit(job("waits").cpu(2).tasks(3).gang().group("g")).decide()
    return world


def room_for_some_of_a_gang() -> World:
    world = World(group("g", 9), nodes=nodes(2, cpu=4))
    world.cordon("n2").submit(job("waits").cpu(3).tasks(2).gang().group("g")).decide()
    return world


def beside_a_reservation() -> World:
    world = World(group("g", 9, "BackFill"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(50).group("g"))
    world.submit(job("blocked").cpu(4).limit(20).group("g"), job("waits").limit(51).group("g")).decide()
    return world


def no_node_is_as_it_asks() -> World:
    return _decided(job("waits").requires("GPU = True"))


def no_node_is_free_as_it_asks() -> World:
    return _decided(job("web").ports(http=80), job("waits").requires("Port = 80"))


def others_listen_on_its_port() -> World:
    world = World(group("g", 9), nodes=nodes(5, cpu=4), node_order="first")
    for name in ("n2", "n3", "n4", "n5"):
        world.strangers(name, 80)
    world.submit(job("web").ports(http=80).group("g")).decide()
    world.submit(job("waits").ports(http=80).group("g")).decide()
    return world


def starts_as_a_whole() -> World:
    made = World(nodes=nodes(3, cpu=1))
    made.run(job("other"))
    member = job("waits").member_of(99).starts_with(2)
    made.submit(member.named("first"), member, member.named("third")).decide()
    return made


def starts_with_another() -> World:
    world = _decided(job("db"), job("waits").requires("JobDependency = db"))
    world.lose_node("n1").decide()
    return world


def moves_with_another() -> World:
    world = _decided(job("waits"), job("web").requires("JobDependency = waits"))
    world.add_node(node("n2").cpu(4)).cordon("n1").finish("waits", outcome=Outcome.FAILED, again=True)
    return world


def _decided(*jobs: JobBuilder) -> World:
    world = World(group("g", 9), nodes=[node("n1").cpu(4)])
    for each in jobs:
        world.submit(each.group("g")).decide()
    return world


def the_large_nodes_are_closed() -> World:
    world = World(group("g", 9), nodes=[node("small").cpu(1), *(node(f"large{i}").cpu(4) for i in range(4))])
    for name in ("large0", "large1"):
        world.cordon(name)
    world.lose_node("large2")
    world.load("large3", cpu=99)
    world.submit(job("waits").cpu(2).group("g")).decide()
    return world


def reserved(start: int, days: tuple[int, ...] = (), limit: str = "5h") -> World:
    """A node that is kept for group h, from so many hours after noon of a Tuesday for two hours, and a job that asks
    for it.
    """
    world = World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=4)).set_clock("2026-12-01T12:00+00:00")
    noon = 1_796_126_400 * SECOND
    begin = noon + start * 3600 * SECOND
    exam = AdvanceReservation(
        name="exam", group="h", start=begin, end=begin + 7200 * SECOND, days=days, places=(("n1", 1),)
    )
    world.observe([AdvanceReserved(exam)])
    world.submit(job("waits").limit(limit).group("g")).decide()
    return world


def its_node_is_reserved_before_it_would_end() -> World:
    return reserved(3)


def its_node_is_reserved_now() -> World:
    return reserved(-1)


def no_gap_is_long_enough() -> World:
    return reserved(3, days=tuple(range(7)), limit="23h")


SITUATIONS = [
    (
        its_node_is_reserved_before_it_would_end,
        Verdict.RESERVED_AHEAD,
        (
            "node n1 is kept for reservation exam of group h from 2026-12-01 15:00 to 17:00; "
            "with a time_limit of at most 3h it could start now"
        ),
    ),
    (its_node_is_reserved_now, Verdict.RESERVED_AHEAD, "node n1 is kept for reservation exam of group h until 13:00"),
    (
        no_gap_is_long_enough,
        Verdict.NO_GAP,
        (
            "job 1 is longer than every gap between repetitions of reservation exam (22h at most); "
            "with a time_limit of at most 3h it could start now"
        ),
    ),
    (
        the_large_nodes_are_closed,
        Verdict.NO_NODE,
        (
            "every node that could run job 1 is closed to new tasks (2 cordoned, 1 away, "
            "1 overloaded); large3 is overloaded (cpu 99%)"
        ),
    ),
    (too_large, Verdict.NEVER, "no node of this cluster is large enough for job 1, even when empty"),
    (somebody_holds_it, Verdict.HELD, "held until it is released (cress release 1)"),
    (some_of_its_tasks_run, Verdict.FULL, "limit reached: max_running = 2"),
    (another_comes_first, Verdict.AFTER, "waiting for job 1 of group g to end"),
    (
        its_tasks_wait_for_the_same_ones_of_another,
        Verdict.AFTER_TASKS,
        "waiting for the same tasks of another job to succeed",
    ),
    (it_failed, Verdict.BACKOFF, "a task of job 1 failed and is retried later"),
    (the_gang_failed, Verdict.BACKOFF, "a task of job 1 failed and is retried later"),
    (no_node_takes_tasks, Verdict.NO_ROOM, "every node is closed to new tasks"),
    (room_is_made, Verdict.VICTIMS, "preempted tasks are making room for job 2 on n1"),
    (
        gang_ends,
        Verdict.GANG_RUNS,
        "some tasks of the gang still run; the gang starts again as a whole when they have ended",
    ),
    (
        cools_off,
        Verdict.COOLING,
        (
            "group old may start nothing beyond its quota while others wait for room: its tasks were "
            "preempted for job 4 (cooling-off)"
        ),
    ),
    (
        cools_off_and_is_too_dear_where_it_fits,
        Verdict.COOLING,
        (
            "group old may start nothing beyond its quota while others wait for room: its tasks were "
            "preempted for job 5 (cooling-off)"
        ),
    ),
    (
        others_would_take_it_back,
        Verdict.OWED,
        ("job 3 fits, but group g would be above its quota, and job 2 of group h could take the room back at once"),
    ),
    (held_to_its_quota, Verdict.QUOTA, "job 2 of group a is blocked, and group b is not below its quota"),
    (
        held_to_its_quota_without_a_known_end,
        Verdict.QUOTA,
        "job 2 of group a is blocked, and group b is not below its quota",
    ),
    (not_reached, Verdict.UNVISITED, "not yet considered by the scheduler"),
    (
        user_at_his_limit,
        Verdict.USER_LIMIT,
        "user ann already uses the most that one user may in group g (user_limit_factor)",
    ),
    (
        held_by_the_gate,
        Verdict.GATE,
        (
            "starting job 4 now would leave unusable resources on every node, and another waiting job "
            "fits better (balance_gate)"
        ),
    ),
    (behind_another, Verdict.BEHIND, "the policy of group g puts job 3 first"),
    (planned, Verdict.PLANNED, "job 3 is planned to start later; starting now would delay a job planned before job 3"),
    (drained, Verdict.DRAINING, "no running task is due to end in time; n2 is being kept free for job 2"),
    (no_room, Verdict.NO_ROOM, "no node has enough free; of 2 nodes 1 lacks cpu, 1 lacks memory"),
    (
        no_room_together,
        Verdict.NO_ROOM_TOGETHER,
        "not enough nodes have enough free for all tasks of the gang; of 2 nodes 1 lacks cpu",
    ),
    (
        room_for_some_of_a_gang,
        Verdict.NO_ROOM_TOGETHER,
        "not enough nodes have enough free for all tasks of the gang; there is room for some of them only",
    ),
    (beside_a_reservation, Verdict.RESERVED, "job 3 fits, but would delay job 2 of group g"),
    (
        no_node_is_as_it_asks,
        Verdict.NEVER_SATISFIED,
        "no node of this cluster could ever satisfy GPU = True (1 of 1 node does not); no node has an attribute GPU",
    ),
    (
        its_group_is_at_its_ceiling,
        Verdict.MAX_QUOTA,
        (
            "group g is at its MaxQuota of 4 cores: 3 cores used, job 2 asks for 2 cores; "
            "nothing is reserved for it meanwhile, and jobs behind it may start first; "
            "to start earlier, ask for at most 1 core or raise MaxQuota to 5 cores"
        ),
    ),
    (
        one_above_its_group_is_at_its_ceiling,
        Verdict.MAX_QUOTA,
        (
            "group all is at its MaxQuota of 4 cores: 4 cores used, job 2 asks for 1 core; "
            "nothing is reserved for it meanwhile, and jobs behind it may start first; "
            "to start earlier, raise MaxQuota to 5 cores"
        ),
    ),
    (
        others_keep_what_is_free,
        Verdict.KEPT,
        (
            "job 2 asks for 1 core beyond the quota of group g (2 cores), and other groups do not lend what is "
            "free (Lendable): group lab 5 cores; nothing is reserved for it meanwhile, "
            "and jobs behind it may start first; "
            "to start earlier, raise Lendable of group lab by 1 core"
        ),
    ),
    (
        the_guarantees_of_others_forbid_it,
        Verdict.FORBIDDEN,
        (
            "job 2 asks for 6 cores at once, beyond the quota of group g (3 cores), and the "
            "demand of other groups up to their quotas leaves 4 cores now; it starts when they leave enough; "
            "nothing is reserved for it meanwhile, and jobs behind it may start first; "
            "to start earlier, ask for at most 4 cores or raise ResourceQuota to 6 cores"
        ),
    ),
    (
        a_branch_is_held_to_its_quota,
        Verdict.QUOTA,
        "job 2 of group a is blocked, and group all, in which group g is, is not below its quota",
    ),
    (as_many_jobs_run_as_may, Verdict.RUNNING_LIMIT, "group g runs 2 of at most 2 jobs (MaxRunningJobs)"),
    (
        as_many_jobs_of_its_user_run_as_may,
        Verdict.RUNNING_LIMIT,
        "ann runs 1 of at most 1 job in group g (MaxRunningJobsPerUser)",
    ),
    (a_licence_is_in_use, Verdict.LICENCE, "waiting for licence matlab: 3 of 3 in use"),
    (
        no_node_is_free_as_it_asks,
        Verdict.UNSATISFIED,
        "no node satisfies Port = 80 (1 of 1 node does not); port 80 is in use: by a task on n1",
    ),
    (
        others_listen_on_its_port,
        Verdict.UNSATISFIED,
        (
            "no node satisfies Port = 80 (5 of 5 nodes do not); "
            "port 80 is in use: by a program that is not a task on n2, n3, n4 and 1 more and by a task on n1"
        ),
    ),
    (
        starts_as_a_whole,
        Verdict.AS_WHOLE,
        (
            "all tasks of the service start together: not enough nodes have enough free for all tasks of the service; "
            "of 3 nodes 1 lacks cpu"
        ),
    ),
    (
        starts_with_another,
        Verdict.TOGETHER,
        (
            "job 2 starts again on one node with job 1 of group g: together with job 2, which depends"
            " on job 1: no node of this cluster is large enough for job 1, even when empty"
        ),
    ),
    (
        moves_with_another,
        Verdict.MOVING,
        "job 2 of group g, which depends on job 1, is being stopped on n1; then both start on another node",
    ),
]


@pytest.mark.parametrize(("situation", "kind", "golden"), SITUATIONS, ids=[each[0].__name__ for each in SITUATIONS])
def test_the_sentence(situation: Callable[[], World], kind: Verdict, golden: str) -> None:
    world = situation()
    veto = world.veto("waits")
    assert veto.kind is kind
    assert world.why("waits") == golden
    assert (veto.job, veto.group) == (world.ids["waits"], world.state("waits").group.name)
    assert veto.never is (kind in (Verdict.NEVER, Verdict.NEVER_SATISFIED))


@pytest.mark.parametrize("backfill", ["", "easy", "conservative"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_unit_that_is_too_dear_where_it_fits_starts_when_its_group_has_cooled_off(backfill: str, tasks: int) -> None:
    world = cools_off_and_is_too_dear_where_it_fits(backfill, tasks)
    # The gate, which refuses the victim, asks for the same moment.
    world.cancel("victim").decide()
    assert world.veto("waits").kind is Verdict.COOLING
    assert world.wake() == 20 * SECOND
    assert world.started()[-tasks:] == ["waits"] * tasks


def test_every_kind_of_veto_has_a_situation() -> None:
    assert {kind for _, kind, _ in SITUATIONS} | {Verdict.PLACED, Verdict.NEVER_TOGETHER} == set(Verdict)


@pytest.mark.parametrize(
    ("situation", "until"),
    [
        pytest.param(room_is_made, 25, id="when the grace is over"),
        pytest.param(cools_off, 20, id="when the group takes part again"),
        pytest.param(it_failed, 20, id="when the first task is tried again"),
        pytest.param(the_gang_failed, 20, id="when the gang starts again"),
        pytest.param(held_by_the_gate, 65, id="when the gate lets it go"),
        pytest.param(planned, 70, id="the planned start"),
    ],
)
def test_reasons_that_end_by_themselves_say_when(situation: Callable[[], World], until: float) -> None:
    assert situation().veto("waits").until == until * SECOND


def test_what_is_lacking_is_counted_by_node_and_dimension() -> None:
    veto = no_room().veto("waits")
    assert (veto.nodes, dict(veto.lacking)) == (2, {"cpu": 1, "memory": 1})


def test_cordoned_and_lost_nodes_do_not_count() -> None:
    world = World(group("g", 9), nodes=nodes(4, cpu=4), node_order="first", preemption="off")
    world.run(job("runs").tasks(4).cpu(2).group("g"))
    world.cordon("n3").lose_node("n4").submit(job("waits").cpu(4).group("g")).decide()
    veto = world.veto("waits")
    assert (veto.nodes, dict(veto.lacking)) == (2, {"cpu": 2})


def test_a_gang_that_is_too_large_for_all_nodes_together_never_starts_and_the_sentence_says_why() -> None:
    world = World(group("g", 9), nodes=nodes(2, cpu=4))
    world.submit(job("gang").cpu(3).tasks(3).gang().group("g")).decide()
    veto = world.veto("gang")
    assert (veto.kind, veto.never) == (Verdict.NEVER_TOGETHER, True)
    assert world.why("gang") == "all nodes of this cluster together are too small for all tasks of the gang at once"


def test_whom_an_endless_job_must_not_delay_in_a_conservative_plan() -> None:
    world = World(group("g", 9, "BackFill").with_options(backfill="conservative"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(50).group("g"))
    world.submit(job("planned").cpu(4).group("g"), job("endless").group("g")).decide()
    assert world.why("endless") == (
        f"job {world.ids['endless']} fits, but would delay job {world.ids['planned']} of group g"
    )


def test_never_becomes_not_now_when_a_large_enough_node_comes() -> None:
    world = too_large()
    world.add_node(node("huge").cpu(4).memory("64G"))
    world.cordon("huge").decide()
    veto = world.veto("waits")
    assert (veto.kind, veto.never) == (Verdict.NO_NODE, False), "a cordoned node will take tasks again"
    world.cordon("huge", "").decide()
    assert world.started() == ["waits"]


def test_a_job_of_which_nothing_waits_has_no_veto() -> None:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("runs").group("g"))
    assert world.core.veto(world.ids["runs"]) is None
    world.finish("runs")
    assert world.core.veto(world.ids["runs"]) is None
    assert world.core.veto(4711) is None


def test_a_veto_is_data() -> None:
    assert beside_a_reservation().veto("waits") == Veto(
        kind=Verdict.RESERVED, job=3, group="g", nodes=1, behind=2, behind_group="g", shown=3, behind_shown=2
    )


def test_temporary_reasons_say_until_when_as_clocks_show_it() -> None:
    def noon(situation: Callable[[], World]) -> str:
        world = situation()
        world.set_clock("2026-12-01T12:00:00+00:00")
        return world.why("waits")

    assert noon(cools_off) == (
        "group old may start nothing beyond its quota until 12:00:20 while others wait for room: "
        "its tasks were preempted for job 4 (cooling-off)"
    )
    assert noon(room_is_made) == "preempted tasks are making room for job 2 on n1 until 12:00:15"
    assert noon(it_failed) == "a task of job 1 failed and is retried at 12:00:15"
    assert noon(held_by_the_gate).endswith("(balance_gate, until 12:01 at the latest)")
    assert noon(planned).startswith("job 3 is planned to start at 12:01; ")


def test_the_job_for_which_a_group_was_preempted_is_known_after_a_restart() -> None:
    world = cools_off()
    again = Scheduler.restore(world.core.export()).veto(world.ids["waits"])
    assert again == world.veto("waits")
    assert again is not None
    assert "for job 4 (" in sentence(again)


def test_the_blocker_is_told_although_its_reservation_did_not_bind_the_group_tried_last() -> None:
    planning = group("a", 4, "BackFill").with_options(backfill="conservative")
    world = World(planning, group("b", 4), group("c", 1), nodes=nodes(1, cpu=4), min_runtime=36_000 * SECOND)
    world.run(job("runs").cpu(2).group("c").limit("1h"))
    world.submit(job("big").cpu(4).group("a"), job("gang").cpu(1).tasks(2).gang().group("b")).decide()
    assert world.why("gang") == "job 3 fits, but would delay job 2 of group a"


def test_reasons_of_jobs_of_one_shape_look_at_all_nodes_once_and_again_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[ResourceVector] = []
    large = Cluster.large

    def counted(cluster: Cluster, request: ResourceVector) -> Bools:
        looks.append(request)
        return large(cluster, request)

    world = World(group("g", 9, "FIFO"), nodes=nodes(2, cpu=4), check=False, preemption="off")
    world.run(job("runs").cpu(3).tasks(2).group("g"))
    names = [f"waits{number}" for number in range(30)]
    world.submit(*(job(name).cpu(4).group("g") for name in names)).decide()
    monkeypatch.setattr(Cluster, "large", counted)
    assert [world.veto(name).kind for name in names] == [Verdict.NO_ROOM, *[Verdict.BEHIND] * 29]
    assert len(looks) <= 1
    # A change before the next pass counts at once.
    world.lose_node("n1").lose_node("n2")
    assert {world.veto(name).kind for name in names} == {Verdict.NEVER}
