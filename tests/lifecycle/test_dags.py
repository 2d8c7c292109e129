"""Dags: which steps start when, what a failure stops, and what a dag comes to in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from cress.lifecycle.inputs import NodeJoined, Submit, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.family_rows import DagState
from cress.model.family import Dag
from cress.model.job import Condition, Job, JobType
from cress.model.records import JobState
from tests.lifecycle.builders import World, after, job, node

OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED


def dag(*steps: str, name: str = "etl", place: int = 1, resumed: int = 0, **more: object) -> tuple[Job, ...]:
    """Jobs of one submit: ``load``, ``sum: load``, ``mail: load! sum?`` — ok is plain, ``?`` however, ``!`` a
    failure.
    """
    names = [step.partition(":")[0] for step in steps]
    whole = job(name=name, type=JobType.DAG, plan=Dag(steps=tuple(names), resumed=resumed), **more)  # type: ignore[arg-type]
    jobs = [whole]
    for step in steps:
        own, _, before = step.partition(":")
        needs = []
        for each in before.split():
            condition = {"!": FAILED, "?": ANY}.get(each[-1], OK)
            needs.append((-(place + 1 + names.index(each.rstrip("!?"))), condition))
        jobs.append(job(name=f"{name}.{own}", family=-place, after=tuple(needs)))
    return tuple(jobs)


@dataclass
class Flow:
    """A dag that runs on nodes that are large enough for all of it."""

    steps: tuple[str, ...]
    world: World = field(default_factory=World)
    number: int = 0

    def __post_init__(self) -> None:
        self.world.join("n1", 64)
        self.number, *ids = self.world.submit(*dag(*self.steps))
        self.ids = {step.partition(":")[0]: each for step, each in zip(self.steps, ids, strict=True)}

    @property
    def runs(self) -> str:
        """The steps that run now."""
        names = {number: name for name, number in self.ids.items()}
        return " ".join(sorted(names[each.job] for each in self.world.machine.attempts.values()))

    def ends(self) -> str:
        """How each step that is over ended."""
        over = self.world.over
        return " ".join(f"{name}:{over[each].state.value}" for name, each in self.ids.items() if each in over)


DIAMOND = ("load", "sum: load", "plot: load", "mail: sum plot")

RUNS: list[tuple[str, tuple[str, ...], list[tuple[str, int]], list[str], str]] = [
    (
        "a diamond", DIAMOND, [("load", 0), ("sum", 0), ("plot", 0), ("mail", 0)],
        ["load", "plot sum", "plot", "mail", ""], "succeeded 4 0 0 ",
    ),
    (
        "a failing step stops what is behind it, the rest goes on", DIAMOND, [("load", 0), ("sum", 1), ("plot", 0)],
        ["load", "plot sum", "plot", ""], "failed 2 1 1 step sum failed: exit code 1",
    ),
    (
        "a step that goes on however the one before it ended", ("load", "mail: load?"), [("load", 1), ("mail", 0)],
        ["load", "mail", ""], "failed 1 1 0 step load failed: exit code 1",
    ),
    (
        "a clean-up after a failure", ("load", "clean: load!"), [("load", 1), ("clean", 0)],
        ["load", "clean", ""], "failed 1 1 0 step load failed: exit code 1",
    ),
    (
        "a clean-up that was not needed, and what is behind it",
        ("load", "clean: load!", "tell: clean", "mail: load clean?"), [("load", 0), ("mail", 0)],
        ["load", "mail", ""], "succeeded 2 0 2 ",
    ),
    (
        "two steps of their own", ("a", "b"), [("a", 1), ("b", 0)],
        ["a b", "b", ""], "failed 1 1 0 step a failed: exit code 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "ends", "running", "result"), [case[1:] for case in RUNS], ids=[c[0] for c in RUNS])
def test_how_it_goes(steps: tuple[str, ...], ends: list[tuple[str, int]], running: list[str], result: str) -> None:
    flow = Flow(steps)
    seen = [flow.runs]
    for name, code in ends:
        assert flow.number not in flow.world.over
        flow.world.finish(flow.ids[name], code)
        seen.append(flow.runs)
    assert seen == running
    record = flow.world.over[flow.number]
    assert f"{record.state.value} {record.succeeded} {record.failed} {record.cancelled} {record.reason}" == result
    assert record.tasks == len(steps)
    assert not flow.world.machine.families
    assert not flow.world.machine.behind


def test_its_progress_is_known_on_the_way_and_survives() -> None:
    flow = Flow(DIAMOND)
    flow.world.finish(flow.ids["load"])
    flow.world.finish(flow.ids["plot"], code=1)
    family = flow.world.machine.families[flow.number]
    assert family.state == DagState(
        ended={0: JobState.SUCCEEDED, 2: JobState.FAILED, 3: JobState.CANCELLED}, needless=()
    )
    assert (family.succeeded, family.failed, family.cancelled) == (1, 1, 1)
    assert family.members == {1: flow.ids["sum"]}
    again = Machine.restore(flow.world.machine.export())
    assert again.families[flow.number] == family
    assert flow.world.over[flow.ids["mail"]].reason == (f"dependency failed: job {flow.ids['plot']} did not succeed")


def test_cancelled_it_stops_what_runs_and_starts_nothing() -> None:
    flow = Flow(DIAMOND)
    flow.world.finish(flow.ids["load"])
    flow.world.cancel(flow.number)
    assert len(flow.world.last.halts) == 2
    for name in ("sum", "plot"):
        assert flow.number in flow.world.machine.families
        flow.world.finish(flow.ids[name], code=1)
    assert flow.ends() == "load:succeeded sum:cancelled plot:cancelled mail:cancelled"
    assert flow.world.over[flow.number].state is JobState.CANCELLED


def test_a_step_that_is_cancelled_cancels_what_needs_it_and_the_dag_says_which() -> None:
    flow = Flow(("load", "sum: load", "mail: sum", "plot: load"))
    flow.world.cancel(flow.ids["sum"])
    flow.world.finish(flow.ids["load"])
    flow.world.finish(flow.ids["plot"])
    record = flow.world.over[flow.number]
    assert (record.state, record.reason) == (JobState.CANCELLED, "step sum was cancelled")
    assert flow.ends() == "load:succeeded sum:cancelled mail:cancelled plot:succeeded"


def test_held_no_further_step_starts_until_it_is_released() -> None:
    flow = Flow(DIAMOND)
    flow.world.hold(flow.number)
    flow.world.finish(flow.ids["load"])
    assert flow.runs == ""
    assert (
        flow.world.machine.reason(flow.ids["sum"])
        == f"held by eve until it is released (cress release {flow.ids['sum']})"
    )
    flow.world.hold(flow.number, held=False)
    assert flow.runs == "plot sum"


def test_held_when_it_is_submitted() -> None:
    world = World()
    world.join("n1")
    number, load, _ = world.submit(*dag("load", "mail: load", hold=True))
    assert world.machine.families[number].held
    assert not world.machine.attempts
    world.hold(number, held=False)
    assert [each.job for each in world.machine.attempts.values()] == [load]


def test_it_comes_after_other_jobs_and_others_after_it() -> None:
    world = World()
    world.join("n1")
    (first,) = world.submit(job(name="first"))
    number, load, behind = world.submit(*dag("load", after=after(first)), job(name="behind", after=after(-1)))
    assert world.machine.reason(load) == f"waiting for job {first} (first)"
    assert world.machine.reason(behind) == f"waiting for job {number} (etl)"
    world.finish(first)
    world.finish(load)
    assert number in world.over
    assert [each.job for each in world.last.launches] == [behind]


def test_a_dag_that_comes_after_a_failure_ends_with_all_its_steps() -> None:
    world = World()
    world.join("n1")
    (first,) = world.submit(job(name="first"))
    number, *steps = world.submit(*dag("load", "mail: load", after=after(first)))
    world.finish(first, code=1)
    assert all(world.over[each].state is JobState.CANCELLED for each in (number, *steps))
    assert world.over[number].reason == f"dependency failed: job {first} did not succeed"


def test_two_dags_in_one_submit_keep_to_their_own_steps() -> None:
    world = World()
    world.join("n1")
    jobs = (*dag("a", "b: a"), *dag("a", "b: a", name="other", place=4))
    first, _, _, second, *_ = world.submit(*jobs)
    assert world.machine.families[first].members == {0: first + 1, 1: first + 2}
    assert world.machine.families[second].members == {0: second + 1, 1: second + 2}


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (dag("a: b", "b: a"), "jobs[1].after: these jobs depend on each other: etl.a → etl.b → etl.a"),
        (dag(), "a dag without steps (at least one)"),
        (dag("a", "b")[:-1], "jobs[0].steps: 1 jobs for 2 steps"),
        (dag("a", "a"), "jobs[0].steps: two steps have the name 'a'"),
        (dag("a", resumed=99), "there is no job 99"),
        ((job(family=-1),), "it is a step of -1"),
        ((*dag("a"), msgspec.structs.replace(dag("b")[0], family=-1)), "jobs[0].steps: 2 jobs for 1 steps"),
    ],
)
def test_what_makes_no_sense_is_refused(jobs: tuple[Job, ...], said: str) -> None:
    world = World()
    assert said in world.refuse(Submit(jobs=jobs))
    assert not world.machine.jobs
    assert not world.machine.families


def test_only_a_dag_that_is_over_is_resumed_and_by_one_at_a_time() -> None:
    flow = Flow(DIAMOND)
    world, number = flow.world, flow.number
    again = dag("sum", "mail: sum", resumed=number)
    assert f"job {number} has not ended (a dag can be resumed when all its steps have ended)" in world.refuse(
        Submit(jobs=again)
    )
    world.finish(flow.ids["load"])
    world.finish(flow.ids["plot"])
    world.finish(flow.ids["sum"], code=1)
    assert world.over[number].state is JobState.FAILED
    resumed, sum_again, mail = world.submit(*again)
    assert f"job {number} is being resumed (as job {resumed})" in world.refuse(Submit(jobs=again))
    world.finish(sum_again)
    world.finish(mail)
    assert world.over[resumed].state is JobState.SUCCEEDED


def test_a_dag_cannot_be_changed() -> None:
    flow = Flow(DIAMOND)
    assert "it cannot become" in flow.world.refuse(Update(job=flow.number, spec=dag("a")[0]))


def test_steps_keep_apart_and_stay_together() -> None:
    world = World()
    for name, zone in (("n1", "x"), ("n2", "y")):
        world.step(NodeJoined(node=msgspec.structs.replace(node(name), attributes=(("zone", zone),)), boot="b1"))
    whole, *steps = dag("a", "b", "c", "mail: a")
    asked = ('away_from("etl.?", Zone)',) * 3 + ('near("etl.b", Zone)',)
    steps = [msgspec.structs.replace(step, requirement=text) for step, text in zip(steps, asked, strict=True)]
    _, a, b, c, mail = world.submit(whole, *steps)
    on = {each.job: each.node for each in world.machine.attempts.values()}
    assert on.keys() == {a, b}
    assert set(on.values()) == {"n1", "n2"}
    assert 'away_from("etl.?", Zone)' in world.machine.reason(c)
    world.finish(a)
    assert {each.job: each.node for each in world.machine.attempts.values()} == {b: on[b], c: on[a], mail: on[b]}
