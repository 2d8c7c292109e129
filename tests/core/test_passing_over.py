"""Who waits for another job, a port or a label keeps nobody behind it waiting; who waits for room does."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cress.core.groups.policies.queue import Queue
from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict
from cress.model.advance import AdvanceReservation
from cress.model.events import AdvanceReserved
from cress.model.times import HOUR, SECOND
from tests.core.builders import JobBuilder, World, group, job, node

POLICIES = ("FIFO", "Priority", "Capacity", "BackFill", "conservative")


def plain(name: str, cores: float = 1) -> JobBuilder:
    return job(name).group("g").cpu(cores)


# What is first in the queue of a cluster of two nodes of 4 cores on which ``old`` has port 80 of n1 and all of n2.
WAITS_FOR_SOMETHING_ELSE = {
    "a job that comes behind it": plain("head").requires("JobDependency = later"),
    "a job that nobody submitted": plain("head").requires("JobDependency = ghost"),
    "a port that is taken": plain("head").ports(http=80).requires("Nodes in (n1)"),
    "a label that no node has": plain("head").requires('Zone = "eu"'),
    "a gang with a port, of more tasks than nodes": plain("head").tasks(3).gang().ports(http=81),
}
WAITS_FOR_ROOM = {
    "more than is free": plain("head", 4),
    "more than is free where its clause holds": plain("head").requires("Nodes in (n2)"),
}


def cluster(policy: str) -> World:
    everybody = group("g", 99, "BackFill" if policy == "conservative" else policy)
    if policy == "conservative":
        everybody = everybody.with_options(backfill=policy)
    made = World(everybody, nodes=[node("n1").cpu(4), node("n2").cpu(4)])
    return made.run(
        plain("old").ports(http=80).requires("Nodes in (n1)"), plain("full", 4).requires("Nodes in (n2)").limit(3600)
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("head", WAITS_FOR_SOMETHING_ELSE.values(), ids=WAITS_FOR_SOMETHING_ELSE)
def test_who_comes_behind_goes_on(head: JobBuilder, policy: str) -> None:
    made = cluster(policy)
    made.submit(head).submit(plain("later")).decide()
    assert made.nodes_of("later") == ["n1"]
    veto = made.core.veto(made.ids["head"])
    if veto is not None:
        assert veto.kind is not Verdict.BEHIND
    assert made.core.validate() == []


@pytest.mark.parametrize("policy", ["FIFO", "Priority"])
@pytest.mark.parametrize("head", WAITS_FOR_ROOM.values(), ids=WAITS_FOR_ROOM)
def test_who_waits_for_room_keeps_its_place(head: JobBuilder, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(policy)
    made.submit(head).submit(plain("later")).decide()
    assert made.nodes_of("later") == []
    # The reason of one job reads no further than to the one that waits: an iteration copies the whole queue.
    monkeypatch.setattr(Queue, "__iter__", None)
    veto = made.core.veto(made.ids["later"])
    assert veto is not None
    assert (veto.kind, veto.behind) == (Verdict.BEHIND, made.ids["head"])


@pytest.mark.parametrize("policy", ["FIFO", "Priority"])
def test_who_waited_for_room_and_waits_for_a_port_now_keeps_nobody_waiting(policy: str) -> None:
    """Found by a history: the center went on to hold up the others, and started them after a restart only."""
    made = World(group("g", 99, policy), group("other", 1), nodes=[node("n1").cpu(4), node("n2").cpu(4)])
    made.cordon("n2").run(plain("old"))
    made.submit(plain("head", 4).ports(http=81)).submit(plain("later")).decide()
    assert made.nodes_of("later") == []
    made.submit(job("taker").group("other").cpu(1).ports(http=81)).decide()
    assert (made.nodes_of("taker"), made.nodes_of("later")) == (["n1"], ["n1"])
    assert made.core.validate() == []


def test_a_gang_that_no_racks_near_each_other_hold_never_fits() -> None:
    made = World(group("g", 99), nodes=[node(f"n{i}").cpu(4).rack(f"r{i // 2}") for i in range(6)])
    made.neighbours("r0 r1", "r1 r2")
    gang = plain("wide").gang().spread(per_node=2).requires("NetworkAdjacent = True")
    # Each rack takes four; r0 and r2 are no neighbours.
    fits = {
        tasks: not made.core.never_fits(gang.tasks(tasks).build(9, made.core.dimensions)) for tasks in (4, 8, 9, 12)
    }
    assert fits == {4: True, 8: True, 9: False, 12: False}
    made.submit(gang.tasks(9)).submit(plain("later")).decide()
    assert made.nodes_of("later") != []
    veto = made.core.veto(made.ids["wide"])
    assert veto is not None
    assert veto.kind is Verdict.NEVER_TOGETHER


def test_several_wait_for_something_else_and_each_says_for_what() -> None:
    made = cluster("FIFO")
    made.submit(plain("one").requires("JobDependency = three"), plain("two").ports(http=80).requires("Nodes in (n1)"))
    made.decide()
    kinds = {name: made.core.veto(made.ids[name]) for name in ("one", "two")}
    assert {name: veto.kind for name, veto in kinds.items() if veto} == dict.fromkeys(kinds, Verdict.UNSATISFIED)
    made.submit(plain("three")).decide()
    assert made.nodes_of("one") == made.nodes_of("three") == ["n1"]
    made.finish("old")
    assert made.nodes_of("two") == ["n1"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("behind", ["reserve", "quota_only"])
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("closed", ["away", "cordoned"])
def test_jobs_behind_one_that_is_bound_to_a_rack_without_open_nodes_go_on(
    policy: str, behind: str, tasks: int, closed: str
) -> None:
    racks = [node("n1").cpu(4).rack("r1"), node("n2").cpu(4).rack("r1"), node("n3").cpu(4).rack("r2")]
    mine = (
        group("g", 1, policy) if policy != "conservative" else group("g", 1, "BackFill").with_options(backfill=policy)
    )
    made = World(mine, group("other", 1), nodes=racks, behind_blocked=behind, drain_after=0)
    for name in ("n1", "n2"):
        made.lose_node(name) if closed == "away" else made.cordon(name)
    head = plain("head").cpu(3).requires('Rack = "r1"').priority(9)
    made.submit(head.tasks(tasks).gang() if tasks > 1 else head).decide()
    made.wait(1000).submit(plain("later"), plain("theirs").group("other")).decide()
    assert made.jobs_running() == ["later", "theirs"]
    assert made.veto("head").kind is Verdict.NO_NODE
    assert f"2 {closed}" in made.why("head")
    made.submit(plain("behind").cpu(2)).decide()
    assert "behind" in made.jobs_running()
    if closed == "away":
        made.add_node(racks[0]).add_node(racks[1])
    else:
        made.cordon("n1", "").cordon("n2", "")
    made.decide()
    assert made.nodes_of("head") != []


# --- forbidden by the guarantees of others ----------------------------------------------------------------------------


def crowd(policy: str) -> World:
    """Ten cores: the job of alpha uses them all and waits for more, beta with a quota of 5 asks for ten at once, and
    for single cores behind that.
    """
    beta = group("beta", 5, "BackFill" if policy == "conservative" else policy)
    if policy == "conservative":
        beta = beta.with_options(backfill=policy)
    made = World(group("alpha", 5), beta, nodes=[node("n1").cpu(10)], grace=0, cooling=0, cooling_above_quota=0)
    made.run(job("alpha").group("alpha").tasks(10).user("u1").limit("1h"))
    made.submit(job("more").group("alpha").tasks(10).user("u1").limit("1h"))
    gang = job("gang").group("beta").tasks(10).gang().user("u2").limit("1h")
    small = job("small").group("beta").tasks(9).user("u2").limit("1h")
    made.submit(gang).submit(small).decide()
    return made


def settle(made: World) -> None:
    while made.told:
        made.yield_victims()


@pytest.mark.parametrize("policy", [*POLICIES, "Urgency"])
def test_behind_a_gang_that_guarantees_forbid_the_group_has_its_quota(policy: str) -> None:
    made = crowd(policy)
    settle(made)
    assert len(made.nodes_of("small")) == 5
    assert made.veto("gang").kind is Verdict.FORBIDDEN
    assert made.core.validate() == []


@pytest.mark.parametrize("policy", [*POLICIES, "Urgency"])
def test_when_others_need_less_the_forbidden_gang_has_its_turn_again_before_those_behind_it(policy: str) -> None:
    made = crowd(policy)
    settle(made)
    made.cancel("more").cancel("alpha").decide()
    settle(made)
    assert made.veto("gang").kind is not Verdict.FORBIDDEN
    made.finish("small")
    assert made.nodes_of("gang") == ["n1"] * 10


def test_a_forbidden_gang_that_fits_starts_also_behind_another_one() -> None:
    made = World(group("alpha", 5), group("beta", 5), nodes=[node("n1").cpu(12)], preemption="off")
    made.run(job("alpha").group("alpha").tasks(5))
    made.submit(*(job(f"gang of {n}").group("beta").tasks(n).gang() for n in (9, 8, 7, 6))).decide()
    assert made.started() == ["alpha"] * 5 + ["gang of 7"] * 7


def test_a_forbidden_gang_is_not_planned_and_who_would_delay_it_starts() -> None:
    """The gang would start in an hour, when alpha's tasks end; what is behind it takes three."""
    beta = group("beta", 5, "BackFill").with_options(backfill="conservative")
    made = World(group("alpha", 5), beta, nodes=[node("n1").cpu(10)], preemption="off")
    made.run(job("alpha").group("alpha").tasks(5).limit("1h"))
    gang = job("gang").group("beta").tasks(10).gang().limit("1h")
    made.submit(gang, job("small").group("beta").tasks(5).limit("3h")).decide()
    assert len(made.nodes_of("small")) == 5
    assert made.veto("gang").kind is Verdict.FORBIDDEN


def test_many_forbidden_gangs_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = crowd("FIFO")
    made.submit(*(job(f"gang {i}").group("beta").tasks(10).gang().user("u2").limit("1h") for i in range(200)))
    tried: list[JobEntry] = []
    one = made.core.offers.try_unit

    def counting(unit: JobEntry, *rest: Any, **named: Any) -> bool:
        tried.append(unit)
        return one(unit, *rest, **named)

    monkeypatch.setattr(made.core.offers, "try_unit", counting)
    made.decide()
    assert len(tried) < 10


# --- kept off by an advance reservation -------------------------------------------------------------------------------


def before_maintenance(policy: str, *, busy: bool) -> World:
    """One node of 4 cores that is closed in two hours; ``busy``: three of them are in use for an hour."""
    made = World(group("g", 9, policy), nodes=[node("n1").cpu(4)]).set_clock("2026-12-01T12:00+00:00")
    start = round(datetime.fromisoformat("2026-12-01T14:00+00:00").timestamp()) * SECOND
    made.observe(
        [AdvanceReserved(AdvanceReservation(name="patch", start=start, end=start + HOUR, places=(("n1", 1),)))]
    )
    if busy:
        made.run(plain("old", 3).limit("1h"))
    return made


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill", "Urgency"])
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_behind_one_that_waits_for_the_end_of_a_reservation_who_ends_before_it_goes_on(
    policy: str, cores: int, *, busy: bool
) -> None:
    made = before_maintenance(policy, busy=busy)
    made.submit(plain("long", cores).limit("5h")).submit(plain("short").limit("1h"), plain("late").limit("3h")).decide()
    assert (made.nodes_of("short"), made.nodes_of("late")) == (["n1"], [])
    made.finish("short")
    made.wait(3 * 3600).decide()
    assert made.nodes_of("long") == ([] if busy and cores > 1 else ["n1"])


LONG = {
    "a gang": plain("long").tasks(3).gang(),
    "a gang with parts": plain("long").parts(job("driver").cpu(1), job("worker").cpu(1).tasks(2)),
    "a gang in one rack": plain("long").tasks(2).gang().requires("within(Rack)"),
}


@pytest.mark.parametrize("policy", [*POLICIES, "Urgency", "EDF"])
@pytest.mark.parametrize("amounts", [(), (3_000,)], ids=["all of the node", "three cores"])
@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_behind_any_unit_that_waits_for_the_end_of_a_reservation_who_ends_before_it_goes_on(
    long: JobBuilder, amounts: tuple[int, ...], policy: str
) -> None:
    own = group("g", 9, "BackFill" if policy == "conservative" else policy)
    own = own.with_options(backfill=policy) if policy == "conservative" else own
    made = World(own, nodes=[node("n1").cpu(4).rack("r1")]).set_clock("2026-12-01T12:00+00:00")
    start = round(datetime.fromisoformat("2026-12-01T14:00+00:00").timestamp()) * SECOND
    kept = (*amounts, *(0 for _ in range(len(made.dimensions) - len(amounts)))) if amounts else ()
    made.observe(
        [
            AdvanceReserved(
                AdvanceReservation(name="patch", start=start, end=start + HOUR, places=(("n1", 1),), amounts=kept)
            )
        ]
    )
    made.submit(long.limit("5h"), plain("short").limit("1h"), plain("late", 2).limit("3h")).decide()
    assert made.jobs_running() == ["short"]
    assert made.veto("long").kind in (Verdict.RESERVED_AHEAD, Verdict.PLANNED)
    made.finish("short")
    made.wait(3 * 3600).decide()
    assert "long" in made.jobs_running()


def test_one_that_waits_for_room_beside_a_reservation_keeps_its_place() -> None:
    """The head could start on n2 once that has room, before the reservation of n1."""
    made = World(group("g", 9), nodes=[node("n1").cpu(4), node("n2").cpu(4)]).set_clock("2026-12-01T12:00+00:00")
    start = round(datetime.fromisoformat("2026-12-01T14:00+00:00").timestamp()) * SECOND
    made.observe(
        [AdvanceReserved(AdvanceReservation(name="patch", start=start, end=start + HOUR, places=(("n1", 1),)))]
    )
    made.run(
        plain("old", 3).requires("Nodes in (n2)").limit("1h"), plain("older", 3).requires("Nodes in (n1)").limit("1h")
    )
    made.submit(plain("head", 4).limit("5h")).submit(plain("behind").limit("1h")).decide()
    assert made.nodes_of("behind") == []


# --- several users, and several that wait for something else ---------------------------------------------------------


ELSEWHERE = {
    "a job that nobody submitted": plain("first").requires("JobDependency = ghost"),
    "a gang that guarantees forbid": plain("first").tasks(8).gang(),
}


@pytest.mark.parametrize("first", ELSEWHERE.values(), ids=ELSEWHERE)
def test_behind_the_first_job_of_a_user_the_second_starts_while_another_user_waits_for_room(first: JobBuilder) -> None:
    made = World(
        group("g", 5, "Capacity"), group("other", 3), nodes=[node("n1").cpu(4), node("n2").cpu(4)],
        preemption="off",
    )  # fmt: skip
    made.run(plain("old", 3).requires("Nodes in (n1)").limit(3600).user("zoe"))
    made.run(job("theirs").group("other").cpu(2).requires("Nodes in (n2)").limit(3600))
    made.submit(plain("wide", 3).user("ann").limit(7200), first.user("bob").limit(60)).decide()
    made.submit(plain("second").user("bob").limit(60)).decide()
    assert made.jobs_running() == ["old", "second", "theirs"]
    assert made.veto("wide").kind in (Verdict.NO_ROOM, Verdict.DRAINING)


def test_a_job_within_a_limit_is_planned_behind_one_that_waits_for_something_else() -> None:
    """The first would take the only place that MaxRunningJobs leaves."""
    own = group("g", 9, "BackFill").with_options(backfill="conservative").limits(running=1)
    made = World(own, nodes=[node("n1").cpu(4)])
    made.submit(plain("first").requires("JobDependency = ghost"), plain("second").limit(60)).decide()
    assert made.jobs_running() == ["second"]
