"""Members of a service with ``IssueAsWhole``: they start together or not at all, and are replaced one by one (note
0060).
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from cress.model.events import Outcome
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.stories import sent_away

MEMBER = job("").member_of(99)


def web(count: int, *, first: int = 1, like: JobBuilder = MEMBER) -> list[JobBuilder]:
    """Members w1, w2 … of a service that start together; ``first`` is the number of the first one."""
    return [like.named(f"w{first + i}").starts_with(first) for i in range(count)]


def where(made: World, names: Iterable[JobBuilder]) -> list[str]:
    """The nodes of running members, in order."""
    return [name for each in names for name in made.nodes_of(each.name)]


def test_they_start_together_on_different_nodes() -> None:
    made = World(nodes=nodes(3, cpu=4))
    members = web(3)
    made.run(*members)
    assert sorted(where(made, members)) == ["n1", "n2", "n3"]
    assert made.core.books.units.sets == {}


def test_they_wait_for_room_for_all() -> None:
    made = World(nodes=nodes(3, cpu=1))
    made.run(job("other"))
    members = web(3, first=2)
    made.submit(*members).decide()
    assert made.jobs_running() == ["other"]
    assert made.why("w2") == "not enough nodes have enough free for all tasks of the service; of 3 nodes 1 lacks cpu"
    assert made.veto("w3").kind is Verdict.AS_WHOLE
    assert made.why("w3").startswith("all tasks of the service start together: not enough nodes")
    made.finish("other")
    assert sorted(where(made, members)) == ["n1", "n2", "n3"]


def test_a_cluster_that_is_too_small_for_all_is_named() -> None:
    made = World(nodes=nodes(2, cpu=2))
    made.submit(*web(5)).decide()
    made.lose_node("n2").decide()
    assert made.running == {}
    assert made.veto("w1").kind is Verdict.NEVER_TOGETHER
    assert "too small for all tasks of the service at once" in made.why("w1")


def test_a_lost_one_is_replaced_by_itself() -> None:
    made = World(nodes=nodes(3, cpu=1))
    members = web(3)
    made.run(*members)
    made.lose_node("n2").decide()
    assert len(made.running) == 2
    assert made.veto(next(each.name for each in members if not made.nodes_of(each.name))).kind is Verdict.NO_ROOM
    made.lose_node("n3").decide()
    # Two wait now, and each starts as soon as there is room for it.
    made.add_node(node("n4").cpu(1)).decide()
    assert len(made.running) == 2


def test_those_that_are_added_start_together_beside_those_that_run() -> None:
    made = World(nodes=nodes(1, cpu=3))
    made.run(*web(2))
    made.submit(*web(2, first=3)).decide()
    assert len(made.running) == 2
    made.add_node(node("n2").cpu(1)).decide()
    assert len(made.running) == 4


def test_others_may_pass_while_they_wait_but_a_reservation_keeps_their_room() -> None:
    made = World(group("g", 4, "BackFill"), nodes=nodes(2, cpu=2))
    made.run(job("runs").group("g").cpu(2).limit(100))
    made.submit(*web(4, first=2, like=MEMBER.group("g").limit(50)))
    made.submit(job("short").group("g").limit(90), job("long").group("g").limit(200)).decide()
    assert made.jobs_running() == ["runs", "short"]
    made.wait(90).finish("short")
    made.wait(10).finish("runs")
    assert made.jobs_running() == ["w2", "w3", "w4", "w5"]
    assert made.veto("long").kind is Verdict.NO_ROOM


def test_room_is_made_for_all_of_them() -> None:
    made = World(group("g", 4), group("h", 1), nodes=nodes(2, cpu=2))
    made.run(job("other").group("h").tasks(4))
    made.wait(1000)
    members = web(3, first=2, like=MEMBER.group("g"))
    made.submit(*members).decide()
    assert len(made.told) == 3
    assert made.veto("w2").kind is Verdict.VICTIMS
    assert made.veto("w3").kind is Verdict.AS_WHOLE
    assert sent_away(made.core).validate() == []
    # One victim has ended: nobody starts yet.
    first, *_ = made.told.values()
    made.end([first], Outcome.PREEMPTED).decide()
    assert len(made.running) == 3
    made.yield_victims()
    assert len(where(made, members)) == 3
    assert made.used("g") == 3


def test_a_claim_is_given_up_when_its_unit_moves_to_another_group() -> None:
    groups = group("g", 4), group("h", 1), group("k", 4)
    made = World(*groups, nodes=nodes(2, cpu=2))
    made.run(job("other").group("h").tasks(4))
    made.wait(1000)
    made.submit(*web(3, first=2, like=MEMBER.group("g"))).decide()
    made.apply(group("h", 1), group("k", 4), moves={"g": "k"}).decide()
    made.yield_victims()
    assert made.running_of("k") == 3


@pytest.mark.parametrize("gone", ["w2", "w3"])
def test_one_that_is_cancelled_meanwhile_is_waited_for_by_nobody(gone: str) -> None:
    made = World(group("g", 4), group("h", 1), nodes=nodes(2, cpu=2))
    made.run(job("other").group("h").tasks(4))
    made.wait(1000)
    made.submit(*web(3, first=2, like=MEMBER.group("g"))).decide()
    made.cancel(gone).decide()
    made.yield_victims()
    assert made.running_of("g") == 2


def test_held_ones_wait_and_start_together_when_released() -> None:
    made = World(nodes=nodes(1, cpu=3))
    members = web(3)
    made.submit(*members)
    for member in members:
        made.hold(member.name)
    made.decide()
    assert made.running == {}
    for member in members:
        made.hold(member.name, False)
    made.decide()
    assert len(made.running) == 3


def test_with_f_x_they_start_in_part_later() -> None:
    made = World(nodes=nodes(1, cpu=3))
    members = web(4, like=MEMBER.requires("IssueAsWhole = 2 && f(x) = (Waittime > 10s)"))
    made.submit(*members).decide()
    assert made.running == {}
    made.wake()
    # Two of them start as a whole, the third by itself.
    assert len(made.running) == 3
    made.add_node(node("n2").cpu(1)).decide()
    assert len(made.running) == 4


@pytest.mark.parametrize(
    ("requirement", "spread"),
    [("spread(Zone, 1)", {}), ("within(Zone)", {}), ("", {"per_rack": 1}), ("NetworkAdjacent = True", {})],
)
def test_rules_for_all_tasks_hold(requirement: str, spread: dict[str, int]) -> None:
    places = [node(f"n{i}").cpu(2).rack(f"r{i}").where(Zone="ab"[i // 2]) for i in range(4)]
    made = World(nodes=places)
    made.neighbours("r0 r1", "r2 r3")
    members = web(4, like=MEMBER.requires(requirement).spread(**spread))
    made.run(*members)
    found = sorted(where(made, members))
    if requirement.startswith("spread"):
        assert sum(name in ("n0", "n1") for name in found) == 2
    elif requirement or not spread:
        assert found in (["n0", "n0", "n1", "n1"], ["n2", "n2", "n3", "n3"])
    else:
        assert found == ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize("policy", ["FIFO", "BackFill", "Priority", "Capacity"])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_every_policy_starts_them_together(policy: str, backfill: str) -> None:
    made = World(group("g", 4, policy), nodes=nodes(2, cpu=2), backfill=backfill)
    made.run(job("runs").group("g").limit(10))
    made.submit(*web(4, first=2, like=MEMBER.group("g").limit(100))).decide()
    assert made.jobs_running() == ["runs"]
    made.wait(10).finish("runs")
    assert len(made.running) == 4
    copy = sent_away(made.core)
    assert copy.validate() == []


def test_restored_while_they_wait_they_start_alike() -> None:
    made = World(nodes=nodes(2, cpu=1))
    made.submit(*web(3)).decide()
    made.core = sent_away(made.core)
    made.add_node(node("n3").cpu(1)).decide()
    assert len(made.running) == 3


def test_a_gang_or_an_array_is_no_member() -> None:
    made = World(nodes=nodes(2, cpu=1), check=False)
    with pytest.raises(InputError, match="start with job 1"):
        made.submit(*web(1, like=MEMBER.tasks(2)))
