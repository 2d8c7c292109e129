"""What all families have in common: they enter, are held and cancelled, and end."""

from __future__ import annotations

import pytest

from cress.lifecycle.inputs import Scale, Submit, Update
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied
from cress.model.family import Cron, Dag, Database, FamilySpec, Service
from cress.model.job import Condition, Job, JobType
from cress.model.records import JobState
from tests.lifecycle.builders import World, after, group, job

_TYPES: dict[type[FamilySpec], JobType] = {
    Service: JobType.SERVICE,
    Database: JobType.DATABASE,
    Cron: JobType.CRON,
    Dag: JobType.DAG,
}


def family(plan: FamilySpec, name: str = "web", tasks: int = 1, **more: object) -> Job:
    return job(tasks, name=name, plan=plan, type=_TYPES[type(plan)], **more)  # type: ignore[arg-type]


PLANS = [Service(), Database(), Cron(when="0 0 1 1 *")]


@pytest.mark.parametrize("plan", PLANS)
def test_a_family_ends_when_it_is_cancelled_and_others_come_after_it(plan: FamilySpec) -> None:
    world = World()
    number, behind = world.submit(family(plan), job(after=after(-1, condition=Condition.ANY)))
    assert number in world.machine.families
    assert world.machine.jobs[behind].unmet == ((number, Condition.ANY),)
    again = Machine.restore(world.machine.export())
    assert again.export() == world.machine.export()
    world.cancel(number)
    assert world.over[number].state is JobState.CANCELLED
    assert world.over[number].type == _TYPES[type(plan)].value
    assert not world.machine.families
    assert not world.machine.jobs[behind].unmet


@pytest.mark.parametrize("plan", PLANS)
def test_a_name_is_taken_once_in_a_group(plan: FamilySpec) -> None:
    world = World()
    (number,) = world.submit(family(plan))
    assert f"there is a {_TYPES[type(plan)].value} web in group default already, job {number}" in world.refuse(
        Submit(jobs=(family(Service()),))
    )
    world.submit(family(Service(), "other"))
    assert "two jobs have the name" in world.refuse(Submit(jobs=(family(plan, "twin"), family(Service(), "twin"))))
    world.cancel(number)
    world.submit(family(plan))


def test_a_family_of_a_removed_group_goes_where_its_jobs_go() -> None:
    world = World()
    world.step(GroupsApplied(groups=(group("a", 2), group("b", 2))))
    (number,) = world.submit(family(Cron(when="0 0 1 1 *"), group="a"))
    assert "group a has the cron web" in world.refuse(GroupsApplied(groups=(group("b", 2),)))
    world.step(GroupsApplied(groups=(group("b", 2),), moves=(("a", "b"),)))
    assert world.machine.families[number].job.group == "b"


def test_a_family_that_comes_after_a_failure_never_begins() -> None:
    world = World()
    world.join("n1")
    first, number = world.submit(job(), family(Service(), after=after(-1)))
    assert not world.machine.families[number].members
    world.finish(first, code=1)
    assert world.over[number].reason == f"dependency failed: job {first} did not succeed"


def test_steps_end_their_dag() -> None:
    world = World()
    world.join("n1")
    dag = family(Dag(steps=("a", "b")), "etl")
    number, a, b = world.submit(dag, job(name="etl.a", family=-1), job(name="etl.b", family=-1, after=after(-2)))
    assert world.machine.families[number].members == {0: a, 1: b}
    assert [world.machine.jobs[each].job.family for each in (a, b)] == [number, number]
    world.finish(a)
    world.finish(b)
    assert (world.over[number].state, world.over[number].succeeded) == (JobState.SUCCEEDED, 2)
    assert (world.over[b].family, world.over[b].index) == (number, 1)


def test_what_cannot_be_changed_is_refused() -> None:
    world = World()
    plain, cron = world.submit(job(), family(Cron(when="0 0 1 1 *")))
    assert "is a cron job, it cannot become a service" in world.refuse(Update(job=cron, spec=family(Service())))
    assert "cannot change name or group" in world.refuse(Update(job=cron, spec=family(Cron(when="0 0 1 1 *"), "x")))
    assert "has no number of tasks" in world.refuse(Scale(job=cron, tasks=2))
    assert "is a batch job" in world.refuse(Scale(job=plain, tasks=2))
    assert "there is no job 99" in world.refuse(Scale(job=99, tasks=2))
