"""Ports, disks, racks, other jobs, spread: where tasks go, and why those that wait do."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Start
from cress.model.errors import InputError
from cress.model.events import Outcome, RacksSet
from tests.core.builders import World, group, job, node, nodes


def world(*racks: str, cpu: int = 8) -> World:
    """A node n1, n2, … in each of these racks, for the group g."""
    there = [node(f"n{i + 1}").cpu(cpu).rack(rack) for i, rack in enumerate(racks)]
    return World(group("g", 100, "BackFill"), nodes=there)


def of_job(made: World, name: str) -> list[Start]:
    return [start for start in made.running.values() if start.job == made.ids[name]]


# --- ports ---------------------------------------------------------------------------------------------------


def test_a_fixed_port_is_given_once_on_a_node() -> None:
    made = world("a", "a")
    made.submit(job("web").group("g").tasks(3).ports(http=80)).decide()
    assert sorted(made.nodes_of("web")) == ["n1", "n2"]
    assert made.state("web").waiting == 1
    assert "Port = 80" in made.why("web")
    made.finish("web", 0)
    assert made.state("web").waiting == 0


def test_a_clause_takes_its_port_as_well() -> None:
    made = world("a")
    made.run(job("one").group("g").requires("Port = 80"))
    assert of_job(made, "one")[0].ports == ()
    made.submit(job("two").group("g").ports(http=80)).decide()
    assert made.state("two").waiting == 1


def test_dynamic_ports_are_told_in_the_order_of_the_job() -> None:
    made = World(group("g", 100), nodes=[node("n1").cpu(8).dynamic_ports(100, 103)])
    made.run(job("one").group("g").ports(a=0, b=80, c=0))
    assert of_job(made, "one")[0].ports == (100, 80, 101)
    made.run(job("two").group("g").ports(x=0))
    assert of_job(made, "two")[0].ports == (102,)
    made.submit(job("three").group("g").ports(x=0, y=0)).decide()
    assert "2 dynamic ports" in made.why("three")
    made.finish("two")
    assert of_job(made, "three")[0].ports == (102, 103)


def test_ports_of_strangers_are_kept_away_from() -> None:
    made = world("a", "a")
    made.strangers("n1", 80)
    made.run(job("web").group("g").ports(http=80))
    assert made.nodes_of("web") == ["n2"]
    made.submit(job("more").group("g").ports(http=80)).decide()
    assert made.state("more").waiting == 1
    made.strangers("n1").decide()
    assert made.nodes_of("more") == ["n1"]


def test_ports_come_back_with_a_node_that_was_lost() -> None:
    made = world("a")
    made.strangers("n1", 443)
    made.run(job("web").group("g").ports(http=80))
    made.lose_node("n1")
    made.add_node(node("n1").cpu(8))
    made.decide()
    assert made.nodes_of("web") == ["n1"]
    made.run(job("tls").group("g").ports(https=443))


def test_a_gang_has_one_task_a_node_for_a_fixed_port_and_as_many_as_there_are_dynamic_ones() -> None:
    small = [node(f"n{i}").cpu(8).dynamic_ports(100, 101) for i in (1, 2)]
    made = World(group("g", 100, "BackFill"), nodes=small)
    made.run(job("fixed").group("g").tasks(2).gang().ports(http=80))
    assert sorted(made.nodes_of("fixed")) == ["n1", "n2"]
    made.submit(job("many").group("g").tasks(5).gang().ports(x=0)).decide()
    assert made.veto("many").never
    made.run(job("four").group("g").tasks(4).gang().ports(x=0))
    assert sorted(made.nodes_of("four")) == ["n1", "n1", "n2", "n2"]
    assert sorted(start.ports for start in of_job(made, "four")) == [(100,), (100,), (101,), (101,)]


@pytest.mark.parametrize("ports", [{"a": 80, "b": 80}, {"a": -1}, {"a": 70000}])
def test_ports_that_make_no_sense_are_refused(ports: dict[str, int]) -> None:
    with pytest.raises(InputError, match="port"):
        world("a").submit(job("web").group("g").ports(**ports))


# --- disks ---------------------------------------------------------------------------------------------------


def test_whole_disks_are_counted() -> None:
    made = World(group("g", 100), nodes=[node("n1").cpu(8).where(Disks=2), node("n2").cpu(8)])
    made.submit(job("db").group("g").tasks(3).requires("ExclusiveDisk = True")).decide()
    assert made.nodes_of("db") == ["n1", "n1"]
    assert "ExclusiveDisk = True" in made.why("db")
    made.finish("db", 1)
    assert made.nodes_of("db") == ["n1", "n1"]


def test_a_disk_that_is_only_liked_is_taken_where_one_is_free() -> None:
    made = World(group("g", 100), nodes=[node("n1").cpu(8), node("n2").cpu(8).where(Disks=1)])
    made.run(job("like").group("g").tasks(2).ranks("ExclusiveDisk = True"))
    assert sorted(made.nodes_of("like")) == ["n1", "n2"]
    made.submit(job("must").group("g").requires("ExclusiveDisk = True")).decide()
    assert made.state("must").waiting == 1
    made.finish("like", 0)
    assert made.nodes_of("must") == ["n2"]


def test_no_disk_anywhere_is_never() -> None:
    made = world("a")
    made.submit(job("db").group("g").requires("ExclusiveDisk = True")).decide()
    assert made.veto("db").never


# --- spread --------------------------------------------------------------------------------------------------


def test_tasks_are_spread_over_nodes_and_racks() -> None:
    made = world("a", "a", "b")
    made.submit(job("web").group("g").tasks(5).spread(per_node=1)).decide()
    assert sorted(made.nodes_of("web")) == ["n1", "n2", "n3"]
    assert "at most 1 of its tasks on one node" in made.why("web")
    made.submit(job("db").group("g").tasks(5).spread(per_rack=2)).decide()
    assert sorted(made.nodes_of("db")).count("n3") == 2
    assert len(made.nodes_of("db")) == 4
    assert "at most 2 of its tasks in one rack" in made.why("db")
    assert "with max_per_rack 3 one more would start" in made.why("db")


def test_spread_is_counted_by_job() -> None:
    made = world("a")
    made.run(job("one").group("g").spread(per_node=1), job("two").group("g").spread(per_node=1))


def test_a_gang_spreads_and_leaves_nobody_behind() -> None:
    made = world("a", "a", "a", "b")
    made.run(job("gang").group("g").tasks(4).gang().spread(per_rack=2))
    where = made.nodes_of("gang")
    assert where.count("n4") == 2
    made.submit(job("large").group("g").tasks(5).gang().spread(per_rack=2)).decide()
    assert made.veto("large").never


# --- racks ---------------------------------------------------------------------------------------------------

ADJACENT = "NetworkAdjacent = True"


def test_an_adjacent_gang_takes_the_tightest_rack_that_holds_it() -> None:
    made = world("a", "a", "b", "c", cpu=2)
    made.run(job("mpi").group("g").tasks(2).gang().requires(ADJACENT))
    assert made.nodes_of("mpi") == ["n3", "n3"]
    made.run(job("other").group("g").tasks(4).gang().requires(ADJACENT))
    assert sorted(made.nodes_of("other")) == ["n1", "n1", "n2", "n2"]


def test_an_adjacent_gang_takes_neighbouring_racks_where_one_is_too_small() -> None:
    made = world("a", "b", "c", cpu=2)
    made.submit(job("mpi").group("g").tasks(4).gang().requires(ADJACENT)).decide()
    assert made.veto("mpi").never
    made.neighbours("b c").decide()
    assert sorted(made.nodes_of("mpi")) == ["n2", "n2", "n3", "n3"]


def test_an_adjacent_gang_waits_while_no_rack_has_room() -> None:
    made = world("a", "b", cpu=2)
    made.run(job("x").group("g").requires('Nodes in ("n1")'), job("y").group("g").requires('Nodes in ("n2")'))
    made.submit(job("mpi").group("g").tasks(2).gang().requires(ADJACENT)).decide()
    veto = made.veto("mpi")
    assert not veto.never
    assert veto.kind is Verdict.NO_ROOM_TOGETHER
    made.finish("y")
    assert made.nodes_of("mpi") == ["n2", "n2"]


def test_a_gang_that_would_like_to_be_adjacent_is_if_it_can() -> None:
    made = world("a", "b", "b", cpu=2)
    made.run(job("mpi").group("g").tasks(4).gang().ranks(ADJACENT))
    assert sorted(made.nodes_of("mpi")) == ["n2", "n2", "n3", "n3"]
    made.finish("mpi")
    made.run(job("large").group("g").tasks(6).gang().ranks(ADJACENT))


def test_tasks_that_start_one_by_one_stay_adjacent_to_what_runs() -> None:
    made = world("a", "b", "c", cpu=1)
    made.neighbours("a b", "b c")
    made.submit(job("web").group("g").tasks(3).requires(ADJACENT)).decide()
    assert sorted(made.nodes_of("web")) == ["n1", "n2"]
    assert ADJACENT in made.why("web")
    made.neighbours("a b", "b c", "a c").decide()
    assert sorted(made.nodes_of("web")) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("gang", [False, True])
def test_the_rack_of_the_application_comes_before_its_neighbours_and_before_any_rank(gang: bool) -> None:
    made = world("a", "a", "b", "b", cpu=4)
    made.neighbours("a b")
    tier = job("data").group("g").application("shop").requires(ADJACENT)
    made.run(tier.ranks('Name = "n3"'))
    made.run(tier.named("logic").tasks(2).ranks('Rack = "a"'))
    last = tier.named("web").tasks(5).ranks('Rack = "a"')
    made.run(last.gang() if gang else last)
    assert {*made.nodes_of("logic"), *made.nodes_of("web")} == {"n3", "n4"}
    made.run(tier.named("more"))
    assert made.nodes_of("more")[0] in ("n1", "n2"), "its own rack is full"


def test_the_tiers_of_an_application_are_adjacent_to_each_other() -> None:
    made = world("a", "b", "c")
    made.neighbours("a b")
    made.run(job("db").group("g").application("shop").requires('Rack = "b"'))
    made.submit(
        job("web").group("g").application("shop").tasks(9).requires(f'{ADJACENT} && Rack in ("a", "c")')
    ).decide()
    assert set(made.nodes_of("web")) == {"n1"}
    made.submit(job("alien").group("g").requires(f'{ADJACENT} && Rack = "c"')).decide()
    assert made.nodes_of("alien") == ["n3"]


def test_a_soft_adjacency_prefers_the_rack_then_its_neighbours() -> None:
    made = world("a", "b", "c", cpu=2)
    made.neighbours("b c")
    made.run(job("db").group("g").application("shop").requires('Rack = "c"').cpu(1))
    made.run(job("web").group("g").application("shop").tasks(4).ranks(ADJACENT))
    assert made.nodes_of("web") == ["n3", "n2", "n2", "n1"]


def test_neighbouring_racks_have_the_distance_1_and_racks_at_the_distance_1_are_neighbours() -> None:
    made = world("a", "b", "c", cpu=2)
    made.neighbours("b c")
    made.run(job("db").group("g").requires('Rack = "c"').cpu(1))
    made.run(job("web").group("g").tasks(4).ranks('near("db", Rack)'))
    assert made.nodes_of("web") == ["n3", "n2", "n2", "n1"]
    made.finish("web")
    made.observe([RacksSet((), (("Rack", "A", "B", 1), ("Rack", "b", "c", 2)))])
    made.run(job("mpi").group("g").tasks(4).gang().requires(ADJACENT))
    assert sorted(made.nodes_of("mpi")) == ["n1", "n1", "n2", "n2"]


def test_an_adjacent_gang_with_another_rule_takes_a_larger_rack_where_the_tightest_breaks_it() -> None:
    racks = [node("n1").rack("a").where(zone="x"), node("n2").rack("a").where(zone="x")]
    racks += [node("n3").rack("b").where(zone="x"), node("n4").rack("b").where(zone="y")]
    made = World(group("g", 100, "BackFill"), nodes=[each.cpu(2 + (i > 1)) for i, each in enumerate(racks)])
    made.run(job("mpi").group("g").tasks(4).gang().requires(f"{ADJACENT} && spread(Zone)"))
    assert sorted(made.nodes_of("mpi")) == ["n3", "n3", "n4", "n4"]


def test_a_node_that_moves_to_another_rack_is_asked_again() -> None:
    made = world("a", "b", cpu=1)
    made.submit(job("web").group("g").tasks(2).requires(ADJACENT)).decide()
    assert len(made.nodes_of("web")) == 1
    made.change_node(node("n2").cpu(1).rack("a")).decide()
    assert len(made.nodes_of("web")) == 2


# --- other jobs ----------------------------------------------------------------------------------------------


def test_a_dependant_goes_where_the_other_job_runs() -> None:
    made = world("a", "a", "a")
    made.submit(job("web").group("g").requires("JobDependency = db")).decide()
    assert 'JobDependency = "db"' in made.why("web")
    assert not made.veto("web").never
    made.run(job("db").group("g").requires('Nodes in ("n2")'))
    assert made.nodes_of("web") == ["n2"]


def test_a_dependency_names_a_job_of_the_group_unless_it_says_which() -> None:
    made = World(group("g", 100, "BackFill"), group("h", 100), nodes=nodes(2, cpu=8))
    made.run(job("db").group("h"))
    made.submit(job("web").group("g").requires("JobDependency = db")).decide()
    assert made.state("web").waiting == 1
    made.run(job("far").group("g").requires('JobDependency = "h/db"'))
    assert made.nodes_of("far") == made.nodes_of("db")


def test_dependants_wait_again_when_the_other_job_is_gone() -> None:
    made = world("a")
    made.run(job("db").group("g"), job("web").group("g").requires("JobDependency = db"))
    made.finish("db")
    made.finish("web", outcome=Outcome.FAILED, again=True)
    assert made.state("web").waiting == 1


def test_a_soft_dependency_only_prefers() -> None:
    made = world("a", "a", "a")
    made.run(job("db").group("g").requires('Nodes in ("n3")'))
    made.run(job("web").group("g").tasks(9).ranks("JobDependency = db"))
    assert made.nodes_of("web")[:7] == ["n3"] * 7


def test_circles_are_refused() -> None:
    made = world("a")
    made.submit(job("a").group("g").requires("JobDependency = b"))
    with pytest.raises(InputError, match="depend on each other: b → a → b"):
        made.submit(job("b").group("g").requires("JobDependency = a && f(x) = (Waittime > 5s)"))
    with pytest.raises(InputError, match="depends on itself"):
        made.submit(job("c").group("g").requires("JobDependency = c"))


# --- preemption ----------------------------------------------------------------------------------------------


def crowded(*racks: str) -> World:
    """Every node is full with tasks of the group ``low``, which is above its quota."""
    there = [node(f"n{i + 1}").cpu(2).rack(rack) for i, rack in enumerate(racks)]
    made = World(group("g", 100), group("low", 1), nodes=there, preemption="on", max_per_round=1.0)
    return made.run(job("fill").group("low").tasks(2 * len(racks)))


def test_an_adjacent_gang_makes_room_in_racks_near_each_other() -> None:
    made = crowded("a", "b", "c", "b")
    made.submit(job("mpi").group("g").tasks(4).gang().requires(ADJACENT)).decide()
    made.yield_victims()
    assert sorted(made.nodes_of("mpi")) == ["n2", "n2", "n4", "n4"]


def test_a_gang_makes_room_on_as_many_nodes_and_racks_as_it_must_be_spread_over() -> None:
    made = crowded("a", "a", "b", "c")
    made.submit(job("web").group("g").tasks(3).gang().spread(per_rack=1)).decide()
    made.yield_victims()
    assert len(set(made.nodes_of("web")) - {"n2"}) == 3


def test_room_for_a_port_is_not_made() -> None:
    made = crowded("a")
    made.strangers("n1", 80)
    made.submit(job("web").group("g").ports(http=80)).decide()
    assert made.told == {}


def test_one_task_of_a_job_that_is_spread_makes_room_for_itself() -> None:
    made = crowded("a", "b")
    made.submit(job("web").group("g").spread(per_rack=1)).decide()
    made.yield_victims()
    assert made.nodes_of("web") == ["n1"]


def test_nothing_is_remembered_of_jobs_that_are_over() -> None:
    made = world("a", "b")
    for i in range(9):
        base = job(f"db{i}").group("g").cpu(1 + i / 10).application(f"app{i}")
        made.run(base, base.named(f"web{i}").spread(per_node=1).requires(f"{ADJACENT} && JobDependency = db{i}"))
        made.core.constraints(made.ids[f"web{i}"])
        made.submit(job(f"late{i}").group("g").requires(f"JobDependency = ghost{i}")).decide()
        made.finish(f"db{i}")
        made.finish(f"web{i}")
        made.cancel(f"late{i}").decide()
    assert not made.core.jobs
    assert not made.core.relations.counts
    kept = made.core.books.fit.shapes.values()
    assert all(shape.row >= 0 for shape in kept), "shapes that nobody has waited with"


def test_an_application_and_a_job_of_its_name_are_two() -> None:
    made = World(group("g", 100), nodes=[node(f"n{i}").cpu(4).rack(f"r{i}") for i in range(2)])
    made.run(job("shop").group("g"))
    there = made.nodes_of("shop")[0]
    made.cordon(there)
    # Of the application nothing runs yet, so it may begin anywhere.
    made.run(job("web").group("g").application("shop").requires("NetworkAdjacent = True"))
    made.cordon(there, "").cordon("n1" if there == "n0" else "n0")
    made.submit(job("after").group("g").requires("JobDependency = shop")).decide()
    assert made.nodes_of("after") == [there]
