"""Constraints at submit: what can never be is told at once, and nothing of it is kept."""

from __future__ import annotations

import pytest

from cress.lifecycle.inputs import Cancel, Drain, Hold, Input, NodeDead, NodeJoined, Submit
from cress.model.events import NodeCordoned
from cress.model.job import Job
from cress.model.node import Node
from cress.model.reports import Cause
from tests.lifecycle.builders import World, ended, job, node, resolve


def cluster(**attributes: str | bool) -> World:
    """n1 with an old compiler and these attributes, n2 with none."""
    world = World()
    first = Node(name="n1", capacity=node("n1").capacity, attributes=(("gcc", "4.4"), *attributes.items()))
    world.step(NodeJoined(node=first, boot="b"))
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
        " (`cress nodes --where EXPR` shows the nodes that satisfy a condition)"
    )


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("Container = True", "runtime: …Container = True (a node needs an executor that runs as root, and crun,"),
        ("Container = True && Images = True", "image: …Container = True and Images = True (a node needs an executor"),
        ("Container = True && GCC >= 9", "requirement: …Container = True and GCC >= 9 (a node needs an executor"),
    ],
)
def test_a_container_that_no_node_can_run_is_told_by_its_key_and_what_a_node_needs(requirement: str, told: str) -> None:
    found = refused(cluster(container=False, images=False), job(requirement=requirement))
    field, _, rest = told.partition("…")
    assert found.startswith(f"{field}no node that is large enough could ever satisfy {rest}")


def test_a_gang_that_too_few_nodes_could_ever_hold_is_told_so() -> None:
    assert refused(cluster(), job(5, gang=True, requirement="GCC >= 4.0")) == (
        "requirement: the nodes that satisfy GCC >= 4.0 are together too small for the gang"
        " (`cress nodes --where EXPR` shows the nodes that satisfy a condition)"
    )
    # Here it is the size.
    assert refused(cluster(), job(9, gang=True, requirement="GCC >= 4.0")).startswith(
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


# --- a job, and one that depends on it --------------------------------------------------------------------------------


def broken(**more: object) -> World:
    """Jobs 1 (a) and 2 (b, which depends on it) ran on n1, which is dead; no node is left."""
    world = World()
    world.join("n1")
    world.submit(job(name="a", cpus=2, **more), job(name="b", requirement='JobDependency = "a"'))  # type: ignore[arg-type]
    world.run_all()
    assert [each.node for name in ("a", "b") for each in resolve(world.machine, name)] == ["n1", "n1"]
    world.leave("n1")
    world.step(NodeDead(name="n1", forget=True))
    assert resolve(world.machine, "a") == resolve(world.machine, "b") == []
    return world


def test_what_broke_together_starts_again_together_and_says_so_meanwhile() -> None:
    world = World()
    world.join("n1")
    world.submit(job(name="a", cpus=2), job(name="b", requirement='JobDependency = "a"'))
    world.join("n2", cpus=3)
    (other,) = world.submit(job(requirement="Nodes in (n2)"))
    world.run_all()
    world.leave("n1")
    world.step(NodeDead(name="n1"))
    # There is room for one of them, not for both.
    assert [each.job for each in world.machine.attempts.values()] == [other]
    why = "together with job 2, which depends on job 1: no node has enough free; of 1 node 1 lacks cpu"
    assert world.machine.reason(1) == why
    assert world.machine.reason(2) == f"job 2 starts again on one node with job 1 of group default: {why}"
    world.finish(other)
    world.run_all()
    assert [each.node for name in ("a", "b") for each in resolve(world.machine, name)] == ["n2", "n2"]
    assert (world.machine.reason(1), world.machine.reason(2)) == ("", "")


def test_a_drain_leaves_both_until_its_deadline_and_stops_them_together() -> None:
    world = World(followed=True)
    world.join("n1")
    world.submit(job(name="a", cpus=2), job(name="b", cpus=2, requirement='JobDependency = "a"'))
    world.run_all()
    world.join("n2", cpus=3)
    assert not world.step(Drain(name="n1", deadline=1_000_000)).halts
    assert [each.attempt for each in world.step(after=1_000_000).halts] == [1, 2]
    # Nothing starts on n2, where b could never join: both wait, and say why.
    assert not world.report("n1", ended(1, None, Cause.STOPPED)).launches
    assert not world.report("n1", ended(2, None, Cause.STOPPED)).launches
    assert world.machine.reason(1) == (
        "together with job 2, which depends on job 1: every node that could run job 1 "
        "is closed to new tasks "
        "(1 cordoned)"
    )
    world.join("n3")
    world.run_all()
    assert [each.node for name in ("a", "b") for each in resolve(world.machine, name)] == ["n3", "n3"]


def test_a_killed_task_takes_along_what_depends_on_it() -> None:
    world = World(followed=True)
    world.join("n1")
    world.submit(job(name="a", retries=1, backoff=0), job(name="b", requirement='JobDependency = "a"'))
    world.run_all()
    world.join("n2", cpus=1)
    world.step(NodeCordoned(name="n1", cordoned=True))
    # n2 has room for one of them: b runs on, and a waits.
    assert not world.report("n1", ended(1, -9)).launches
    assert not world.last.halts
    assert [each.job for each in world.machine.attempts.values()] == [2]
    # n3 has room for both.
    assert [each.attempt for each in world.join("n3").halts] == [2]
    assert world.machine.reason(1) == (
        "job 2 of group default, which depends on job 1, is being stopped on n1; then both start on another node"
    )
    (record,) = world.report("n1", ended(2, None, Cause.STOPPED)).attempts
    assert record.error == "restarts on another node together with job 1 (a), on which it depends"
    world.run_all()
    assert [each.node for name in ("a", "b") for each in resolve(world.machine, name)] == ["n3", "n3"]


def test_a_job_that_does_not_run_again_takes_nobody_along() -> None:
    world = broken(job_failure=False)
    assert world.over[1].reason == "a task was lost with node n1; tasks of this job are not restarted"
    world.join("n2")
    assert not world.machine.attempts
    assert world.machine.reason(2).startswith("no node satisfies JobDependency = ")


@pytest.mark.parametrize("word", [Cancel(job=1), Hold(job=1, held=True), Cancel(job=2), Hold(job=2, held=True)])
def test_people_can_part_what_waits_together(word: Input) -> None:
    world = broken()
    world.step(word)
    world.join("n2")
    with_b = (Cancel(job=2), Hold(job=2, held=True))
    assert [each.job for each in world.machine.attempts.values()] == ([1] if word in with_b else [])


def test_what_waits_together_survives_a_restart() -> None:
    world = broken()
    world.machine = type(world.machine).restore(world.machine.export())
    world.join("n2")
    world.run_all()
    assert [each.node for name in ("a", "b") for each in resolve(world.machine, name)] == ["n2", "n2"]


def test_a_node_whose_executor_is_away_is_not_told_as_cordoned_alone() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.join(name)
    world.join("n3", cpus=1)
    world.leave("n1")
    world.step(NodeCordoned("n2", cordoned=True))
    (large,) = world.submit(job(cpus=4))
    assert world.machine.reason(large) == (
        "every node that could run job 1 is closed to new tasks (1 away, 1 cordoned)"
    )
