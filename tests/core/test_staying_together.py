"""A job and those that depend on it stay together, however one of their tasks comes to its end (source E §3.2 (3))."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Stop
from cress.model.events import JobHeld, JobSubmitted, Outcome
from cress.model.job import JobType
from tests.core.builders import JobBuilder, World, group, job, node
from tests.core.stories import sent_away

A = job("a").group("g").cpu(2)
B = job("b").group("h").cpu(1).requires('GCC >= 4.5 && JobDependency = "g/a"')
OLD, NEW = node("old").cpu(8).where(GCC="4.1"), node("new").cpu(8).where(GCC="4.8")


def world(*jobs: JobBuilder) -> World:
    """These jobs run on n1, in their order."""
    made = World(group("g", 100), group("h", 100), nodes=[node("n1").cpu(8).where(GCC="4.8")])
    made.run(*jobs)
    return made


def stops(made: World) -> list[str]:
    """The jobs whose tasks were stopped, in order."""
    return [made.names[each.job] for each in made.decisions if isinstance(each, Stop)]


def test_a_failed_task_starts_again_beside_what_depends_on_it() -> None:
    made = world(A, B)
    made.add_node(node("big").cpu(64).where(GCC="4.8"))
    made.finish("a", outcome=Outcome.FAILED, again=True, after=10)
    made.wake()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n1"]
    assert len(made.starts) == 3


def test_a_drain_moves_both_to_a_node_that_satisfies_both() -> None:
    made = world(A, B)
    made.add_node(OLD).add_node(NEW).cordon("n1").decide()
    made.finish("a", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == []
    assert made.veto("a").kind is Verdict.MOVING
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_while_it_moves_the_reason_names_the_first_that_is_stopped_and_its_node() -> None:
    c = job("c").group("h").cpu(1).requires('JobDependency = "g/a"')
    made = world(A, B, c)
    made.add_node(NEW).cordon("n1").finish("a", outcome=Outcome.FAILED, again=True)
    assert stops(made) == ["b", "c"]
    stopped = "which depends on job 1, is being stopped on n1; then both start on another node"
    assert made.why("a") == f"job 2 of group h, {stopped}"
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.why("a") == f"job 3 of group h, {stopped}"


def test_the_dependant_may_end_first() -> None:
    made = world(A, B)
    made.add_node(OLD).cordon("n1").decide()
    made.finish("b", outcome=Outcome.PREEMPTED)
    made.finish("a", outcome=Outcome.PREEMPTED)
    assert made.running == {}
    assert made.veto("b").kind is Verdict.TOGETHER
    made.add_node(NEW).decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_what_depends_on_a_killed_task_moves_with_it() -> None:
    made = world(A, B)
    made.add_node(OLD).add_node(NEW).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert stops(made) == ["b"]
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_without_a_node_for_both_what_runs_goes_on() -> None:
    made = world(A, B)
    made.add_node(OLD).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert made.nodes_of("a") == []
    assert made.nodes_of("b") == ["n1"]
    assert stops(made) == []
    assert made.why("a") == (
        "together with job 2, which depends on job 1 and runs on n1: "
        "every node that could run job 1 is closed to new tasks (1 cordoned)"
    )
    made.cordon("n1", "").decide()
    assert made.nodes_of("a") == ["n1"]
    assert len(made.starts) == 3


def test_both_wait_and_say_why_if_no_node_could_ever_hold_them() -> None:
    made = world(A, B)
    made.add_node(OLD).lose_node("n1").decide()
    assert made.running == {}
    never = "no node of this cluster could ever satisfy GCC >= 4.5 (1 of 1 node does not)"
    assert made.why("a") == f"together with job 2, which depends on job 1: {never}"
    assert made.why("b") == (
        f"job 2 starts again on one node with job 1 of group g: together with job 2, which depends on job 1: {never}"
    )


def test_nothing_is_stopped_before_there_is_room_for_both() -> None:
    made = world(A, B)
    made.add_node(NEW).run(job("fill").group("g").cpu(6).requires('Nodes in ("new")'))
    made.cordon("n1").finish("a", outcome=Outcome.FAILED, again=True)
    assert stops(made) == []
    assert made.nodes_of("b") == ["n1"]
    made.finish("fill")
    assert stops(made) == ["b"]


def test_the_room_is_kept_while_they_stop() -> None:
    made = world(A, B)
    made.add_node(node("new").cpu(3).where(GCC="4.8")).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert stops(made) == ["b"]
    made.submit(job("small").group("h")).decide()
    assert made.nodes_of("small") == []
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_a_preempted_task_takes_what_depends_on_it_along() -> None:
    made = World(group("g", 1), group("h", 4), group("k", 5), nodes=[node("n1").cpu(5).where(GCC="4.8")])
    made.run(job("a").group("g").cpu(4), B)
    made.submit(job("k").group("k").cpu(4)).decide()
    made.finish("a", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("k") == ["n1"]
    assert made.nodes_of("b") == ["n1"]
    made.add_node(OLD).decide()
    assert made.nodes_of("a") == []
    made.add_node(NEW).wait(3600).decide()
    assert stops(made) == ["b"]
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_one_whose_dependency_is_served_by_another_task_stays() -> None:
    made = world(A.tasks(2), B)
    made.add_node(OLD).cordon("n1").decide()
    made.finish("a", 0, outcome=Outcome.FAILED, again=True)
    assert sorted(made.nodes_of("a")) == ["n1", "old"]
    assert made.nodes_of("b") == ["n1"]


def test_a_soft_dependency_binds_nobody() -> None:
    made = world(A, job("b").group("h").requires("GCC >= 4.5").ranks('JobDependency = "g/a"'))
    made.add_node(OLD).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert made.nodes_of("a") == ["old"]


def test_a_dependant_in_its_backoff_comes_along() -> None:
    made = world(A, B)
    made.add_node(OLD).add_node(NEW).cordon("n1").decide()
    made.finish("b", outcome=Outcome.FAILED, again=True, after=60)
    made.finish("a", outcome=Outcome.FAILED, again=True, after=10)
    made.wake()
    assert made.nodes_of("a") == made.nodes_of("b") == ["new"]


def test_a_new_member_of_a_service_starts_beside_what_depends_on_it() -> None:
    made = world(A.member_of(1000), B)
    made.add_node(node("big").cpu(64).where(GCC="4.8"))
    made.finish("a")
    made.observe([JobSubmitted(A.member_of(1000).build(3, made.dimensions))])
    made.ids["a"], made.names[3] = 3, "a"
    made.decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n1"]


def test_databases_are_not_moved() -> None:
    made = world(A, B.member_of(1000, JobType.DATABASE))
    made.add_node(NEW).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert made.nodes_of("a") == []
    assert made.nodes_of("b") == ["n1"]
    made.cordon("n1", "").decide()
    assert made.nodes_of("a") == ["n1"]


def test_a_chain_moves_as_one() -> None:
    made = world(A, B, job("c").group("h").requires('JobDependency = "b"'))
    made.add_node(OLD).add_node(NEW).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert sorted(stops(made)) == ["b", "c"]
    made.finish("c", outcome=Outcome.PREEMPTED)
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == made.nodes_of("c") == ["new"]


@pytest.mark.parametrize("end", ["succeeds", "is cancelled"])
def test_a_companion_that_ends_frees_the_leader(end: str) -> None:
    made = world(A, B)
    made.add_node(OLD).cordon("n1").decide()
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert made.nodes_of("a") == []
    if end == "succeeds":
        made.finish("b")
    else:
        made.cancel("b").decide()
    assert made.nodes_of("a") == ["old"]


def test_a_held_companion_is_not_stopped() -> None:
    made = world(A, B)
    made.add_node(NEW).cordon("n1").decide()
    made.hold("b")
    made.finish("a", outcome=Outcome.FAILED, again=True)
    assert stops(made) == []
    assert made.nodes_of("a") == []
    made.observe([JobHeld(made.ids["b"], False)]).decide()
    assert stops(made) == ["b"]


def test_a_dependency_that_relaxes_frees_the_leader() -> None:
    made = world(A, B.requires('GCC >= 4.5 && JobDependency = "g/a" && f(x) = (Waittime > 10s)'))
    made.add_node(OLD).cordon("n1").decide()
    for name in "ab":
        made.finish(name, outcome=Outcome.PREEMPTED)
    assert made.running == {}
    made.wake()
    assert made.nodes_of("a") == ["old"]


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_restored_one_goes_on_alike(cordoned: bool) -> None:
    made = world(A, B)
    made.add_node(OLD).add_node(NEW)
    made.run(job("fill").group("g").cpu(6)) if not cordoned else made.cordon("n1")
    made.finish("a", outcome=Outcome.FAILED, again=True)
    twin = sent_away(made.core)
    assert twin.validate() == []
    assert twin.export() == made.core.export()


def test_a_unit_avoids_what_a_later_job_excludes_of_its_running_companion() -> None:
    fill = job("fill").group("h").cpu(6).requires('Nodes in ("new")')
    made = world(A, B.labelled(tier="db"))
    made.add_node(node("new").cpu(8).where(GCC="4.8", Zone="new")).run(fill)
    made.cordon("n1").finish("a", outcome=Outcome.FAILED, again=True)
    made.submit(job("c").group("h").cpu(1).requires('Nodes in ("new") && away_from("tier=db", Zone)'))
    made.decide()
    made.finish("fill")
    assert stops(made) == []
    made.add_node(node("third").cpu(8).where(GCC="4.8", Zone="third")).decide()
    assert stops(made) == ["b"]
    made.finish("b", outcome=Outcome.PREEMPTED)
    assert made.nodes_of("a") == made.nodes_of("b") == ["third"]
