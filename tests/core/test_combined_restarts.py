"""Combined restart: what ran on a node that failed starts again together, each task as an attempt of its own job."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Start
from cress.model.events import ForeignUse, JobHeld, NodeLost, Outcome, TaskEnded
from tests.core.builders import JobBuilder, World, group, job, node
from tests.core.stories import sent_away

A = job("a").group("g").cpu(2).requires('Nodes in ("n1", "n3")').ranks("0 - CPU")
B = job("b").group("h").cpu(1).requires('JobDependency = "g/a"').ports(http=80)
C = job("c").group("h").cpu(1).requires('JobDependency = "b"')


def world(*jobs: JobBuilder, **cores: int) -> World:
    """These jobs run on n1, in their order; there are more nodes then, with so many cores."""
    made = World(group("g", 100), group("h", 100, "BackFill"), nodes=[node("n1").cpu(8)])
    made.run(*jobs)
    for name, number in cores.items():
        made.add_node(node(name).cpu(number))
    made.decide()
    return made


def units(made: World) -> dict[str, list[str]]:
    """Leaders, and who is with them."""
    return {
        made.names[number]: [made.names[other.job.id] for others in job.companions.values() for other, _ in others]
        for number, job in made.core.jobs.items()
        if job.companions
    }


def test_a_job_and_its_dependants_start_again_on_one_node() -> None:
    made = world(A, B, C, n2=8)
    assert made.nodes_of("b") == made.nodes_of("c") == ["n1"]
    made.lose_node("n1").decide()
    # a must not go to n2, so nobody does.
    assert made.running == {}
    assert units(made) == {"a": ["b", "c"]}
    assert made.veto("b").kind is Verdict.TOGETHER
    assert "starts again on one node with job 1" in made.why("b")
    made.add_node(node("n1").cpu(4)).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == made.nodes_of("c") == ["n1"]
    assert {made.names[start.job]: start.ports for start in made.running.values()} == {"a": (), "b": (80,), "c": ()}
    assert made.used("g") == 2
    assert made.used("h") == 2
    assert units(made) == {}


def test_the_rank_is_that_of_the_first_job() -> None:
    made = world(A, B.ranks("CPU"), n3=8)
    made.lose_node("n1")
    made.add_node(node("n1").cpu(4)).decide()
    # 0 - idle share: the fuller node after all; both are empty, and n1 is as good.
    assert made.nodes_of("a") == made.nodes_of("b")


def test_only_tasks_of_the_node_that_failed_go_together() -> None:
    made = world()
    made.add_node(node("n2").cpu(8))
    made.run(job("a").group("g").tasks(2).spread(per_node=1))
    made.run(B.tasks(2).requires('JobDependency = "g/a"'))
    made.add_node(node("n3").cpu(8))
    assert sorted(made.nodes_of("b")) == ["n1", "n2"]
    made.lose_node("n1")
    made.decide()
    assert sorted(made.nodes_of("a")) == sorted(made.nodes_of("b")) == ["n2", "n3"]


# Elsewhere than on n1 only while the cluster is rather idle.
HOMESICK = A.requires('Nodes in ("n1") && f(x) = (ClusterLoad < 30%)')


def waits_for_load() -> World:
    """The unit of a and b waits: the clause of a is hard, as others use 5 of 8 cores."""
    made = world(HOMESICK, B, n2=8)
    made.run(job("fill").group("g").cpu(5).requires('Nodes in ("n2")'))
    made.lose_node("n1").decide()
    assert units(made) == {"a": ["b"]}
    return made


def test_a_unit_starts_when_the_load_relaxes_a_clause_of_it() -> None:
    made = waits_for_load()
    made.finish("fill")
    assert made.nodes_of("a") == made.nodes_of("b") == ["n2"]


def test_a_load_that_was_low_for_a_moment_relaxes_nothing() -> None:
    made = waits_for_load()
    made.finish("fill", decide=False)
    # The unit is matched anew since another job keeps away from it, while the load is low.
    made.submit(job("shy").group("g").cpu(9).requires('away_from("a", Name)'))
    made.observe([ForeignUse("n2", made.dimensions.vector(cpu=5000))]).decide()
    assert made.nodes_of("a") == []


def test_several_tasks_of_a_dependant_come_along() -> None:
    made = world(A, job("b").group("h").tasks(3).requires('JobDependency = "g/a"'), n3=5)
    made.run(job("fill").group("g").requires('Nodes in ("n3")'))
    made.lose_node("n1").decide()
    assert units(made) == {"a": ["b", "b", "b"]}
    assert "cpu" in made.why("a")
    made.finish("fill")
    assert made.nodes_of("b") == ["n3"] * 3


def test_a_node_that_ends_task_by_task_is_the_same() -> None:
    made = world(A, B, n2=8)
    for name in ("b", "a"):
        made.finish(name, outcome=Outcome.LOST, decide=False)
    made.cordon("n1").decide()
    assert units(made) == {"a": ["b"]}


def test_a_job_that_is_not_to_run_again_is_waited_for_by_nobody() -> None:
    made = world(A.ends_with_its_node(), B, n2=8)
    made.lose_node("n1").decide()
    assert 1 not in made.core.jobs
    assert units(made) == {}
    assert "JobDependency" in made.why("b")


def test_a_dependant_that_is_not_to_run_again_is_over() -> None:
    made = world(A, B.ends_with_its_node(), n3=8)
    made.lose_node("n1").decide()
    assert made.nodes_of("a") == ["n3"]
    assert 2 not in made.core.jobs


def test_gangs_restart_as_a_whole_and_their_dependants_wait_for_them() -> None:
    made = world(job("a").group("g").tasks(2).gang(), B, n2=8)
    made.lose_node("n1").decide()
    assert made.nodes_of("a") == ["n2", "n2"]
    assert made.nodes_of("b") == ["n2"]


def test_what_no_node_holds_together_waits_for_one() -> None:
    made = world(A, B.cpu(6), n3=7)
    made.lose_node("n1").decide()
    assert made.running == {}
    assert "together with job 2, which depends on job 1: no node of this cluster is large enough" in made.why("a")
    made.change_node(node("n3").cpu(8)).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n3"]


@pytest.mark.parametrize("who", ["a", "b"])
def test_cancelled_while_waiting_together(who: str) -> None:
    made = world(A, B, C, n2=8)
    made.lose_node("n1").decide()
    made.cancel(who).decide()
    assert made.ids[who] not in made.core.jobs
    made.add_node(node("n3").cpu(8)).decide()
    if who == "a":
        assert made.running == {}
        assert made.state("b").waiting == made.state("c").waiting == 1
    else:
        assert made.nodes_of("a") == ["n3"]
        assert made.state("c").waiting == 1


@pytest.mark.parametrize("who", ["a", "b"])
def test_held_while_waiting_together(who: str) -> None:
    made = world(A, B, n2=8)
    made.lose_node("n1").decide()
    made.hold(who)
    made.add_node(node("n3").cpu(8)).decide()
    assert made.nodes_of("b") == []
    assert bool(made.nodes_of("a")) == (who == "b")
    made.observe([JobHeld(made.ids[who], False)]).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n3"]


def test_a_second_node_fails_meanwhile() -> None:
    made = world(A, B, n2=8)
    made.lose_node("n1").decide()
    made.lose_node("n2").decide()
    assert units(made) == {"a": ["b"]}
    made.add_node(node("n3").cpu(3)).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n3"]
    made.lose_node("n3").decide()
    made.add_node(node("n1").cpu(3)).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n1"]


def test_the_only_large_node_fails_while_they_wait() -> None:
    made = world(A.requires(""), B)
    made.add_node(node("n3").cpu(3))
    made.cordon("n3")
    made.add_node(node("n2").cpu(2))
    made.lose_node("n1").decide()
    assert units(made) == {"a": ["b"]}
    made.lose_node("n3").decide()
    assert units(made) == {"a": ["b"]}
    made.cancel("b").decide()
    assert made.nodes_of("a") == ["n2"]


def test_groups_that_are_merged_meanwhile() -> None:
    made = world(A, B, n2=8)
    made.lose_node("n1").decide()
    made.apply(group("g", 100), moves={"h": "g"}).decide()
    assert made.state("b").group.name == "g"
    made.add_node(node("n3").cpu(8)).decide()
    assert made.nodes_of("a") == ["n3"]
    assert made.nodes_of("b") == ["n3"]


def test_a_clause_of_a_companion_relaxes_with_the_time_that_they_wait() -> None:
    near = 'JobDependency = "g/a" && Nodes in ("n1") && f(x) = (Waittime > 10s)'
    made = world(A, job("b").group("h").requires(near), n3=8)
    made.lose_node("n1").decide()
    assert units(made) == {"a": ["b"]}
    made.wake()
    assert made.now == 10_000_001
    assert made.nodes_of("a") == made.nodes_of("b") == ["n3"]


def test_a_companion_whose_dependency_is_soft_by_the_time_of_the_leader_does_not_wait_for_it() -> None:
    """a waits for n2, where b has no room. b starts without it after 20 s, fails, and starts again 20 s later."""
    made = World(group("g", 100), nodes=[node("n1").cpu(3)])
    made.submit(job("a").group("g").cpu(2).requires('Nodes in ("n2")'))
    made.submit(job("b").group("g").cpu(2).requires('JobDependency = "a" && f(x) = (Waittime > 20s)')).decide()
    made.wake()
    assert made.nodes_of("b") == ["n1"]
    made.wait(10).finish("b", outcome=Outcome.FAILED, again=True)
    assert made.running == {}
    assert units(made) == {}
    made.wake()
    assert made.nodes_of("b") == ["n1"]


def test_a_restored_one_goes_on_with_the_same_units() -> None:
    made = world(A, B, C, n2=8)
    made.lose_node("n1").decide()
    twin = sent_away(made.core)
    assert twin.validate() == []
    assert twin.export() == made.core.export()
    made.add_node(node("n3").cpu(8))
    twin.observe(made.now, made.log.calls[-1][2])
    assert twin.decide(made.now).items == made.decide()
    assert len(made.running) == 3


def test_restored_between_the_failure_and_the_next_pass() -> None:
    made = world(A, B, n2=8)
    made.lose_node("n1")
    twin = sent_away(made.core)
    made.decide()
    twin.decide(made.now)
    assert twin.export() == made.core.export()
    assert units(made) == {"a": ["b"]}


def test_nothing_runs_twice_when_the_end_is_told_late() -> None:
    made = world(A, B, n3=8)
    starts = list(made.running.values())
    made.observe([NodeLost("n1"), *(TaskEnded(start.attempt, Outcome.LOST) for start in starts)])
    made.running.clear()
    decided = made.decide()
    assert sorted(made.names[each.job] for each in decided if isinstance(each, Start)) == ["a", "b"]


@pytest.mark.parametrize("requirement", ["", "CPU > 1"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_claim_keeps_what_its_own_task_asks_for_while_the_next_unit_is_larger(
    restored: bool, requirement: str
) -> None:
    """Task 0 of a takes back n1, alone; task 1 waits with its dependant for a node with room for both."""
    made = World(
        group("g", 4),
        group("h", 4),
        group("large", 1),
        nodes=[node("n1").cpu(2), node("n2").cpu(3)],
        max_per_round=1.0,
        grace=0,
    )
    made.run(
        job("a").group("g").cpu(2).tasks(2).requires(requirement), job("b").group("h").requires('JobDependency = "g/a"')
    )
    assert made.nodes_of("a") == ["n1", "n2"]
    assert made.nodes_of("b") == ["n2"]
    made.lose_node("n2").decide()
    assert units(made) == {"a": ["b"]}
    made.submit(job("fill").group("large").cpu(2).stop_grace("30s"))
    made.finish("a", 0, outcome=Outcome.FAILED, again=True, after=5)
    made.wake()
    assert made.victims() == ["fill"]
    if restored:
        made.core = sent_away(made.core)
        assert made.core.validate() == []
    made.wait(20).yield_victims()
    assert made.nodes_of("a") == ["n1"]
    made.add_node(node("n2").cpu(5)).decide()
    assert made.nodes_of("a") == ["n1", "n2"]
    assert made.nodes_of("b") == ["n2"]
