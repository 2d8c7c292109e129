"""Constraints at submit: what can never be is told at once, and nothing of it is kept."""

from __future__ import annotations

from cress.lifecycle.inputs import NodeJoined, Submit
from cress.model.job import Job
from cress.model.node import Node
from tests.lifecycle.builders import World, job, node


def cluster() -> World:
    """n1 with an old compiler, n2 with none."""
    world = World()
    world.step(NodeJoined(node=Node(name="n1", capacity=node("n1").capacity, attributes=(("gcc", "4.4"),)), boot="b"))
    world.step(NodeJoined(node=node("n2"), boot="b"))
    return world


def refused(world: World, *jobs: Job) -> str:
    before = world.machine.export()
    sentence = world.refuse(Submit(jobs=jobs))
    assert world.machine.jobs == {}
    assert len(world.machine.export()) == len(before)
    return sentence


def test_what_no_node_could_ever_satisfy_is_told_by_clause() -> None:
    assert refused(cluster(), job(requirement="GCC >= 4.5 && Memory >= 1G")) == (
        "requirement: no node that is large enough could ever satisfy GCC >= 4.5"
        " (`cress nodes --where EXPR` shows which nodes satisfy what)"
    )


def test_a_gang_that_too_few_nodes_could_ever_hold_is_told_so() -> None:
    assert refused(cluster(), job(5, gang=True, requirement="GCC >= 4.0")).startswith(
        "resource: all nodes together are too small for the gang"
    )


def test_what_relaxes_or_may_come_true_by_what_runs_is_accepted() -> None:
    world = cluster()
    texts = ("GCC >= 4.5 && f(x) = (Waittime > 10s)", 'JobDependency = "other"', "Port = 80", "IdleCPU >= 3")
    assert len(world.submit(*(job(requirement=text) for text in texts))) == len(texts)


def test_before_any_node_has_joined_everything_may_come() -> None:
    assert World().submit(job(requirement="GCC >= 4.5"))


def test_circles_of_dependencies_are_refused_as_a_whole() -> None:
    world = World()
    jobs = [job(name=name, requirement=f'JobDependency = "{on}"') for name, on in (("a", "b"), ("b", "c"), ("c", "a"))]
    assert "these jobs depend on each other: a → b → c → a" in refused(world, job(name="good"), *jobs)
    assert "job a depends on itself" in refused(world, job(name="a", requirement='JobDependency = "a"'))
    assert world.submit(*jobs[:2])
    assert "depend on each other: c → a → b → c" in world.refuse(Submit(jobs=(jobs[2],)))
    assert len(world.machine.jobs) == 2


def test_texts_that_say_nothing_are_refused_by_job() -> None:
    sentence = refused(World(), job(), job(requirement="GCC >>"))
    assert sentence.startswith("jobs[1].requirement: ")
