"""Leases of holders outside: what they use, their terms, how they are given back, and what others have of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cress.lifecycle.effects import LeaseChanged, LeaseResized
from cress.lifecycle.inputs import (
    Configure,
    Declare,
    NodeDead,
    ReleaseLeases,
    RenewLeases,
    Reported,
    Restarted,
    Submit,
    UseLease,
)
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied
from cress.model.job import Job
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.resources import ResourceVector
from cress.model.times import MINUTE, SECOND
from tests.lifecycle.builders import World, ended, group, ids, job, started

GIB = 2**30
LENDING = Options(lending="on", reclaim_grace=SECOND)


def cores(count: float) -> ResourceVector:
    return (round(count * 1000), round(count * GIB))


def lease(tasks: int = 1, *, cpus: int = 4, term: int = 0, uses: ResourceVector | None = (0,), **more: Any) -> Job:
    """Leases of so many cores and GiB, of which nothing is used at first."""
    made = job(tasks, cpus=cpus, is_lease=True, workload="w", term=term, uses=uses, **more)
    return msgspec.structs.replace(made, request=(*cores(cpus), *made.request[2:]))


def world(cpus: int = 4, options: Options = LENDING) -> World:
    made = World(options, followed=True)
    made.join("n1", cpus)
    return made


def loan(made: World, cpus: int = 3, **more: Any) -> int:
    """The id of a short job that borrows."""
    (number,) = made.submit(job(cpus=cpus, time_limit=MINUTE, **more))
    return number


def running(made: World, number: int) -> int:
    """The number of tasks of a job that have a node."""
    return made.machine.jobs[number].running if number in made.machine.jobs else 0


def end_halted(made: World) -> None:
    """Executors report the ends of all that was told to stop."""
    made.step(
        *(
            Reported(node=each.node, reports=(ended(each.id, -15, Cause.STOPPED),))
            for each in list(made.machine.attempts.values())
            if each.halted
        )
    )


def test_what_a_holder_does_not_use_at_first_is_lent() -> None:
    made = world()
    made.submit(lease())
    made.run_all()
    assert running(made, loan(made)) == 1


def test_a_holder_that_uses_all_of_it_lends_nothing() -> None:
    made = world()
    made.submit(lease(uses=None))
    made.run_all()
    assert running(made, loan(made)) == 0


def test_a_borrower_is_stopped_when_the_holder_wants_its_lease_back_and_waits_again() -> None:
    made = world()
    (held,) = made.submit(lease())
    made.run_all()
    borrower = loan(made, stop_grace=MINUTE)
    step = made.step(UseLease(job=held, task=0, amounts=cores(4)))
    (halt,) = step.halts
    assert (halt.job, halt.grace) == (borrower, SECOND)
    assert [each for each in step.notices if isinstance(each, LeaseChanged)] == [
        LeaseChanged(1, held, 0, "n1", "default", stopping=False, text="uses <4,4G>")
    ]
    end_halted(made)
    assert (running(made, borrower), made.machine.jobs[borrower].preempted) == (0, 1)
    assert made.machine.core.attempts[1].amounts[:2] == cores(4)


def test_a_lease_that_is_released_has_succeeded_however_its_program_ends() -> None:
    made = world()
    (held,) = made.submit(lease(2, cpus=2))
    made.run_all()
    step = made.step(ReleaseLeases(job=held, tasks=(0,), by="ann"))
    assert ids(step.halts) == [1]
    (told,) = [each for each in step.notices if isinstance(each, LeaseChanged)]
    assert (told.stopping, told.text) == (True, "released by ann; it is stopped in 5s")
    end_halted(made)
    assert (made.machine.jobs[held].succeeded, running(made, held)) == (1, 1)
    made.step(ReleaseLeases(job=held, by="ann"))
    made.leave("n1")
    made.step(NodeDead(name="n1"))
    assert made.over[held].state is JobState.SUCCEEDED


@pytest.mark.parametrize("how", ["one by one", "as a whole", "while one waits"])
def test_the_last_release_leaves_nothing_that_is_kept_for_its_workload(how: str) -> None:
    """A task of the workload ran beside its leases; what it had is kept for the next one, until the last release."""
    made = world(12, options=Options(lease_idle=MINUTE))
    (number,) = made.submit(job(cpus=4, workload="w", time_limit=MINUTE))
    (held,) = made.submit(lease(3 if how == "while one waits" else 2, cpus=4, uses=None))
    made.run_all()
    made.finish(number)
    assert [found.idle_amounts()[0] for found in kept(made)] == [4000]
    if how == "one by one":
        made.step(ReleaseLeases(job=held, tasks=(0,), by="ann"))
        assert kept(made), "the other one may need it"
        made.step(ReleaseLeases(job=held, tasks=(1,), by="ann"))
    else:
        made.step(ReleaseLeases(job=held, by="ann"))
    assert kept(made) == []
    end_halted(made)
    assert not made.machine.core.pool.leases
    assert [list(found.used) for found in made.machine.core.groups] == [[0]]


def kept(made: World) -> list[Any]:
    """The leases that the center keeps."""
    return [found for found in made.machine.core.pool.leases.values() if found.holder is None]


def test_a_release_of_what_waits_cancels_all_of_it() -> None:
    made = world()
    (held,) = made.submit(lease(2))
    made.run_all()
    made.step(ReleaseLeases(job=held, by="ann"))
    end_halted(made)
    assert (made.over[held].state, made.over[held].reason) == (JobState.CANCELLED, "released by ann")


def test_a_holder_that_is_not_heard_of_loses_the_leases_of_its_workload() -> None:
    made = world()
    one, other = made.submit(lease(cpus=2, term=MINUTE), lease(cpus=2, term=MINUTE))
    (lasting,) = made.submit(lease(cpus=2))
    made.run_all()
    made.step(RenewLeases(job=one), after=50 * SECOND)
    made.step(after=50 * SECOND)
    assert {one, other, lasting} <= made.machine.jobs.keys()
    made.step(after=11 * SECOND)
    end_halted(made)
    assert made.over[one].reason == made.over[other].reason == "nothing was heard of the holder for its term"
    assert lasting in made.machine.jobs


def test_terms_begin_anew_when_a_center_takes_over() -> None:
    made = world()
    (held,) = made.submit(lease(term=MINUTE))
    made.run_all()
    made.step(Restarted(epoch=2), after=59 * SECOND)
    made.join("n1")
    made.step(after=59 * SECOND)
    assert held in made.machine.jobs
    made.step(after=2 * SECOND)
    assert made.machine.jobs[held].cancelling


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (UseLease(job=1, task=0, amounts=cores(5)), "more cpu than the lease has"),
        (UseLease(job=1, task=1, amounts=cores(1)), "lease 1.1 is not held now"),
        (RenewLeases(job=2), "job 2 is not a lease"),
        (RenewLeases(job=9), "lease 9 has ended"),
        (ReleaseLeases(job=1, tasks=(1,)), "lease 1.1 is not held now"),
    ],
)
def test_what_is_refused(what: UseLease | RenewLeases | ReleaseLeases, sentence: str) -> None:
    made = world()
    made.submit(lease(2))
    made.submit(job())
    made.run_all()
    assert sentence in made.refuse(what)


def test_leases_outlive_new_dimensions_and_other_options() -> None:
    made = world()
    (held,) = made.submit(lease())
    made.run_all()
    borrower = loan(made)
    made.step(Declare(dimensions=("gpu",)))
    options = made.machine.core.options
    for lending in ("off", "on"):
        made.step(Configure(options=dataclasses.replace(options, lending=lending), licences=(), groups=(), by="eve"))
        assert running(made, borrower) == 1
    made.step(UseLease(job=held, task=0, amounts=cores(2)))
    end_halted(made)
    assert made.machine.core.attempts[1].amounts == (*cores(2), 0, 0, 0, 0, 0, 0)


def test_a_lease_that_is_taken_waits_again_although_its_program_leaves_in_good_order() -> None:
    made = world(options=dataclasses.replace(LENDING, min_runtime=0))
    made.step(GroupsApplied(groups=(group("a", 1), group("b", 3))))
    (held,) = made.submit(lease(group="a", uses=None))
    made.run_all()
    made.submit(job(cpus=2, group="b", time_limit=MINUTE))
    (halt,) = made.last.halts
    # The holder told it before the executor did.
    made.step(Reported(node="n1", reports=(ended(halt.attempt, 0, Cause.EXITED),)))
    assert (made.machine.jobs[held].waiting, made.machine.jobs[held].preempted) == (1, 1)


def test_a_lease_that_is_lost_with_its_node_waits_again() -> None:
    made = world()
    (held,) = made.submit(lease())
    made.run_all()
    made.leave("n1")
    made.step(NodeDead(name="n1"))
    assert (made.machine.jobs[held].waiting, made.machine.core.pool.leases) == (1, {})


def test_a_lease_is_preempted_after_its_minimum_time_and_its_holder_is_told() -> None:
    made = world(options=dataclasses.replace(LENDING, grace=3 * SECOND, min_runtime=0))
    made.step(GroupsApplied(groups=(group("a", 1), group("b", 3))))
    (held,) = made.submit(lease(group="a", uses=None, min_time=MINUTE))
    made.run_all()
    (entitled,) = made.submit(job(cpus=2, group="b", time_limit=MINUTE))
    assert made.last.halts == []
    step = made.step(after=61 * SECOND)
    assert [(each.job, each.grace) for each in step.halts] == [(held, 3 * SECOND)]
    (told,) = [each for each in step.notices if isinstance(each, LeaseChanged)]
    rule = "group b is owed its quota (uses 0 of 3 cores), and group a uses 4 of 1 core"
    assert told.text == f"preempted for job {entitled} (job of 1) of group b: {rule}; it is stopped in 3s"
    assert "is not held now" in made.refuse(UseLease(job=held, task=0, amounts=cores(1)))
    end_halted(made)
    assert (running(made, held), running(made, entitled), made.machine.jobs[held].preempted) == (0, 1, 1)


def test_a_lease_that_returns_a_part_for_another_group_tells_what_it_holds() -> None:
    made = world(options=Options(lease_idle=MINUTE))
    made.step(GroupsApplied(groups=(group("a", 1), group("b", 3))))
    (number,) = made.submit(job(cpus=4, group="a", workload="w", time_limit=MINUTE))
    made.run_all()
    made.finish(number)
    made.submit(job(cpus=1, group="b"))
    assert [told for told in made.last.notices if isinstance(told, LeaseResized)] == [
        LeaseResized(1, None, None, "w", "n1", "a", "holds <3,1G>")
    ]
    assert made.machine.core.pool.resized == {}


def test_a_held_lease_tells_what_it_holds_after_its_node_changed() -> None:
    """What it had lent is the borrower's own from then on."""
    made = world()
    (held,) = made.submit(lease())
    made.run_all()
    loan(made)
    made.leave("n1")
    step = made.join("n1", 8, reports=tuple(started(number) for number in made.machine.attempts))
    assert [told.text for told in step.notices if isinstance(told, LeaseResized)] == ["holds <1,4G>"]
    assert [told.job for told in step.notices if isinstance(told, LeaseResized)] == [held]


# --- jobs that were submitted inside a lease --------------------------------------------------------------------------


def with_jobs_inside() -> tuple[World, int, dict[int, tuple[int, int]]]:
    """Two leases of 4 cores, each with a job of 3 tasks of 2 cores inside, two of which run at once; and a job of the
    workload beside them.
    """
    made = world(12)
    (held,) = made.submit(lease(2, term=MINUTE))
    made.run_all()
    inside = job(3, cpus=2, max_running=2, workload="w", requirement="Nodes in (n1)")
    jobs = [msgspec.structs.replace(inside, inside=(held, task)) for task in (0, 1)]
    inner = made.submit(*jobs)
    made.submit(job(cpus=2, workload="w"))
    made.run_all()
    assert [running(made, number) for number in inner] == [2, 2]
    return made, held, {number: (held, task) for task, number in enumerate(inner)}


ENDS: dict[str, tuple[Callable[[World, int], object], str]] = {
    "one is released": (lambda made, held: made.step(ReleaseLeases(job=held, tasks=(0,), by="ann")), "released by ann"),
    "all are released": (lambda made, held: made.step(ReleaseLeases(job=held, by="ann")), "released by ann"),
    "they are cancelled": (lambda made, held: made.cancel(held), ""),
    "the holder is silent": (lambda made, _: made.step(after=61 * SECOND), "nothing was heard of the holder"),
    "the programs end": (lambda made, held: made.finish(held), "its program has ended"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_job_inside_a_lease_ends_with_it(how: str) -> None:
    made, held, inner = with_jobs_inside()
    end, why = ENDS[how]
    end(made, held)
    ended_now = [number for number, lease in inner.items() if lease[1] == 0 or how != "one is released"]
    for number, (_, task) in inner.items():
        live = made.machine.jobs[number]
        assert live.cancelling == (number in ended_now), how
        assert live.reason.startswith(f"lease {held}.{task}, in which it was to run, has ended") == live.cancelling
        assert not live.cancelling or why in live.reason
    end_halted(made)
    assert [number for number in inner if number in made.over] == ended_now
    assert {made.over[number].state for number in ended_now} == {JobState.CANCELLED}
    # The job of the workload that was not submitted inside goes on.
    assert running(made, 4) == 1


@pytest.mark.parametrize("how", ["preempted", "lost"])
def test_a_job_inside_a_lease_waits_with_a_lease_that_comes_back(how: str) -> None:
    made, held, inner = with_jobs_inside()
    if how == "lost":
        made.leave("n1")
        made.step(NodeDead(name="n1"))
    else:
        made.step(GroupsApplied(groups=(group("default", 1), group("b", 11))))
        made.submit(job(cpus=11, group="b"))
        end_halted(made)
    assert made.machine.jobs[held].waiting
    assert inner.keys() <= made.machine.jobs.keys()
    made.step(ReleaseLeases(job=held, by="ann"))
    end_halted(made)
    assert inner.keys() <= made.over.keys()


def test_a_job_does_not_enter_a_lease_that_has_ended() -> None:
    made, held, _ = with_jobs_inside()
    made.step(ReleaseLeases(job=held, tasks=(1,), by="ann"))
    for task in (1, 2):
        assert f"lease {held}.{task} is not held now" in made.refuse(Submit(jobs=(job(inside=(held, task)),)))
    restored = Machine.restore(made.machine.export())
    assert restored.inside == made.machine.inside
