"""Jobs and tasks that are not offered for a while: tried again later, held, or behind another job."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from cress.model.events import JobAfter, JobHeld, Outcome, TaskEnded
from cress.model.times import SECOND
from tests.core.builders import World, group, job, nodes


def one_node(cores: int = 4) -> World:
    return World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=cores))


def test_a_failed_task_is_tried_again_when_its_time_has_come() -> None:
    world = one_node()
    world.run(job("etl").tasks(2).group("g"))
    assert not world.finish("etl", 1, outcome=Outcome.FAILED, again=True, after=20)
    assert world.core.next_wakeup() == 20 * SECOND
    assert not world.wait(20, -1).decide()
    world.wake()
    assert [(each.task, each.at) for each in world.starts[2:]] == [(1, 20)]
    assert world.core.next_wakeup() is None


def test_what_waits_for_its_time_holds_nothing_and_nobody_up() -> None:
    world = one_node(cores=1)
    world.run(job("first").group("g"))
    world.submit(job("second").group("g"))
    world.finish("first", outcome=Outcome.FAILED, again=True, after=20)
    assert world.started()[-1] == "second"


def test_a_task_that_is_tried_again_has_its_old_place() -> None:
    world = one_node(cores=1)
    world.run(job("old").group("g"))
    world.finish("old", outcome=Outcome.FAILED, again=True, after=5)
    world.wait(1).run(job("runs").group("g"))
    world.wait(1).submit(job("young").group("g")).decide()
    world.wait(8).finish("runs")
    assert world.started()[-1] == "old"


def test_a_job_is_not_over_while_a_task_waits_for_its_time() -> None:
    world = one_node()
    world.run(job("etl").group("g"))
    world.finish("etl", outcome=Outcome.FAILED, again=True, after=20)
    assert world.veto("etl").kind is Verdict.BACKOFF
    world.wake()
    world.finish("etl")
    assert not world.core.jobs


def test_a_gang_starts_again_as_a_whole_after_the_backoff_of_its_failed_task() -> None:
    world = one_node()
    world.run(job("mpi").tasks(3).gang().group("g"))
    assert len(world.finish("mpi", 1, outcome=Outcome.FAILED, again=True, after=30)) == 2, "the others are stopped"
    assert world.veto("mpi").kind is Verdict.GANG_RUNS
    world.wait(3).yield_victims()
    assert world.veto("mpi").kind is Verdict.BACKOFF
    world.wake()
    assert [(each.job, each.at) for each in world.starts[3:]] == [("mpi", 30)] * 3


@pytest.mark.parametrize("outcome", [Outcome.PREEMPTED, Outcome.LOST])
def test_what_the_task_is_not_to_blame_for_waits_for_no_time(outcome: Outcome) -> None:
    world = one_node()
    world.run(job("etl").group("g"))
    assert len(world.finish("etl", outcome=outcome, again=True, after=20)) == 1


def test_a_cancelled_job_waits_for_nothing() -> None:
    world = one_node()
    world.run(job("etl").tasks(2).group("g"))
    world.finish("etl", 0, outcome=Outcome.FAILED, again=True, after=20)
    world.cancel("etl").decide()
    world.yield_victims()
    assert world.core.next_wakeup() is None
    assert not world.core.jobs


def test_a_held_job_is_not_offered_until_it_is_released_in_its_old_place() -> None:
    world = one_node(cores=1)
    world.submit(job("held").group("g")).hold("held")
    world.wait(1).run(job("runs").group("g"))
    world.wait(1).submit(job("young").group("g")).hold("held", False).decide()
    world.finish("runs")
    assert world.started() == ["runs", "held"]


def test_what_runs_of_a_held_job_goes_on() -> None:
    world = one_node(cores=2)
    world.submit(job("etl").tasks(4).group("g")).decide()
    world.hold("etl").decide()
    assert len(world.running) == 2
    assert not world.finish("etl", 0)
    assert world.veto("etl").kind is Verdict.HELD
    world.hold("etl", False)
    assert len(world.decide()) == 1


def test_what_was_kept_for_a_held_job_is_there_for_others() -> None:
    world = World(group("new", 9), group("old", 1), nodes=nodes(1, cpu=3), cooling=0)
    world.run(job("old").tasks(3).group("old"))
    world.submit(job("new").cpu(2).group("new")).decide()
    assert world.core.claims
    world.hold("new").decide()
    assert not world.core.claims
    world.yield_victims()
    assert world.started()[-1] == "old"


def test_a_held_blocked_job_has_no_reservation() -> None:
    world = World(group("g", 9, "BackFill"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(50).group("g"))
    world.submit(job("blocked").cpu(4).limit(20).group("g"), job("late").limit(100).group("g")).decide()
    assert world.started() == ["runs"]
    world.hold("blocked").decide()
    assert world.started() == ["runs", "late"]


def test_a_job_behind_another_one_is_not_offered() -> None:
    world = one_node()
    world.submit(job("first").group("g"), job("then").group("h")).come_after("then", "first").decide()
    assert world.started() == ["first"]
    veto = world.veto("then")
    assert (veto.kind, veto.behind, veto.behind_group) == (Verdict.AFTER, world.ids["first"], "g")
    world.come_after("then", None).decide()
    assert world.started() == ["first", "then"]


def test_a_job_may_be_held_and_behind_another_one() -> None:
    world = one_node()
    world.submit(job("first").group("g"), job("then").group("g")).come_after("then", "first").hold("then").decide()
    world.come_after("then", None).decide()
    assert world.veto("then").kind is Verdict.HELD
    world.hold("then", False).decide()
    assert world.started() == ["first", "then"]


def test_words_about_jobs_that_are_gone_change_nothing() -> None:
    world = one_node()
    world.observe([JobHeld(99), JobAfter(99, 98), TaskEnded(77, again=True, after=5)])
    assert not world.decide()


def test_a_time_before_the_end_is_refused() -> None:
    world = one_node()
    with pytest.raises(InputError, match="0 or more"):
        world.core.observe(0, [TaskEnded(1, Outcome.FAILED, again=True, after=-1)])
