"""Gangs with parts in the machine: one job in every way, whose tasks ask for different amounts."""

from __future__ import annotations

from cress.lifecycle.inputs import Submit
from cress.lifecycle.moving.planning import waiting_unit
from cress.model.events import GroupsApplied
from cress.model.group import Group, Quota
from cress.model.job import Job, JobPart, least_request
from cress.model.limits import Limits
from cress.model.reports import Cause
from cress.model.vectors import parse_vector
from tests.lifecycle.builders import DIMENSIONS, World, ended, ids, job, launched


def train(driver: int = 1, workers: int = 2, count: int = 2, **more: object) -> Job:
    """A driver and some workers, of so many cores each."""
    parts = (
        JobPart(name="driver", tasks=1, request=parse_vector(f"<{driver}, 1G>", DIMENSIONS)),
        JobPart(name="workers", tasks=count, request=parse_vector(f"<{workers}, 1G>", DIMENSIONS)),
    )
    made = job(1 + count, gang=True, parts=parts, **more)  # type: ignore[arg-type]
    return Job(**{name: getattr(made, name) for name in Job.__struct_fields__} | {"request": least_request(parts)})


def world(**limits: object) -> World:
    made = World(followed=True)
    made.join("n1")
    made.join("n2")
    if limits:
        lab = Group(name="lab", quota=Quota(scalar=4000), limits=Limits(**limits))  # type: ignore[arg-type]
        made.step(GroupsApplied(groups=(lab,), by="eve"))
    return made


def test_all_tasks_are_launched_in_one_step_in_the_order_of_their_parts() -> None:
    site = world()
    (number,) = site.submit(train(driver=3, workers=2))
    assert [(each.task, each.node) for each in site.machine.jobs[number].attempts.values()] == [
        (0, "n1"),
        (1, "n2"),
        (2, "n2"),
    ]


def test_a_lost_task_takes_all_parts_along_and_they_start_again_together() -> None:
    site = world()
    (number,) = site.submit(train(driver=3, workers=2))
    site.run_all()
    step = site.report("n2", ended(2, None, Cause.UNKNOWN))
    assert ids(step.halts) == [1, 3]
    site.report("n1", ended(1, -15, Cause.STOPPED))
    assert not site.last.launches
    step = site.report("n2", ended(3, -15, Cause.STOPPED))
    assert launched(step) == [(number, 0, "n1"), (number, 1, "n2"), (number, 2, "n2")]
    site.run_all()
    site.finish(number)
    assert number not in site.machine.jobs


def test_limits_on_a_job_count_what_all_parts_ask_for() -> None:
    site = world(size=4000)
    assert site.submit(train(driver=1, workers=1, count=3, group="lab"))
    told = site.refuse(Submit((train(driver=1, workers=2, count=2, group="lab"),)))
    assert "5 cores at once" in told


def test_a_part_that_can_never_run_is_refused_by_its_name() -> None:
    site = world()
    assert site.refuse(Submit((train(driver=1, workers=5),))).startswith(
        "parts.workers.resource: part workers: one task is larger than every node"
    )
    assert site.refuse(Submit((train(driver=4, workers=3),))).startswith(
        "parts: all nodes together are too small for all parts at once"
    )


def test_moves_may_make_room_for_parts_that_ask_for_different_amounts() -> None:
    site = world()
    site.submit(job(2, cpus=3))
    (number,) = site.submit(train(driver=2, workers=1))
    assert waiting_unit(site.machine, number) == number


def test_a_record_of_a_gang_with_parts_has_the_mean_of_what_its_tasks_ask_for() -> None:
    site = world()
    (number,) = site.submit(train(driver=3, workers=2, count=2))
    site.run_all()
    step = site.finish(number)
    (record,) = step.jobs
    assert record.request[0] == 7000 // 3
