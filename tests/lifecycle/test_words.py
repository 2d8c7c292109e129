"""What people say: hold and release, drain, submits that come twice, groups that are removed; and what they are
told.
"""

from __future__ import annotations

import pytest

from cress.lifecycle.effects import NodeDrained
from cress.lifecycle.inputs import Drain, Hold, Submit
from cress.lifecycle.nodes.cordons import why_closed
from cress.model.events import GroupsApplied, NodeCordoned, Outcome
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.times import DAY, MINUTE, SECOND
from tests.lifecycle.builders import World, ended, group, ids, job, launched, started


def test_a_held_job_waits_and_what_runs_of_it_goes_on() -> None:
    world = World()
    world.join("n1", cpus=2)
    (number,) = world.submit(job(4))
    assert not world.hold(number, by="bob").halts
    assert world.machine.reason(number) == f"held by bob until it is released (cress release {number})"
    assert not world.report("n1", ended(1)).launches
    assert launched(world.hold(number, held=False)) == [(number, 2, "n1")]
    assert not world.machine.jobs[number].held


def test_a_job_can_be_submitted_held() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(hold=True))
    assert not world.last.launches
    assert world.machine.reason(number) == f"held by ann until it is released (cress release {number})"
    assert launched(world.hold(number, held=False)) == [(number, 0, "n1")]


def test_a_held_job_can_be_cancelled() -> None:
    world = World()
    (number,) = world.submit(job(3, hold=True))
    assert [each.state for each in world.cancel(number).jobs] == [JobState.CANCELLED]


def test_only_what_lives_can_be_held() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job())
    world.cancel(number)
    assert "job 1 is ending" in world.refuse(Hold(job=number, held=True))
    world.finish(number)
    assert "job 1 has ended" in world.refuse(Hold(job=number, held=True))
    assert "there is no job 7" in world.refuse(Hold(job=7, held=False))


def test_many_jobs_are_held_all_or_none() -> None:
    world = World()
    first, ending, last = world.submit(job(), job(), job(hold=True))
    site = world.machine
    for gone, why in ((9, "there is no job 9; none was held"), (ending, "job 2 has ended; none was held")):
        world.cancel(ending)
        assert why in world.refuse(Hold(job=last, held=True, more=(first, gone)))
        assert not site.jobs[first].held
    world.step(Hold(job=first, held=True, by="eve", more=(last,)))
    assert [(each.held, each.held_by) for each in site.jobs.values()] == [(True, "eve"), (True, "eve")]
    world.join("n1")
    assert not world.last.launches
    world.step(Hold(job=last, held=False, more=(first,)))
    assert [launch.job for launch in world.last.launches] == [first, last]


def test_a_drained_node_is_empty_at_the_deadline_and_its_tasks_run_elsewhere() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2, cpus=2))
    world.run_all()
    world.join("n2")
    assert not world.step(Drain(name="n1", deadline=MINUTE, reason="new disk")).halts
    assert _why(world, "n1") == "draining: new disk; running tasks are stopped in 1m"
    world.report("n1", ended(1))
    world.submit(job())
    assert [node for _, _, node in launched(world.last)] == ["n2"], "it takes no new tasks"
    deadline = world.now
    step = world.wake()
    assert (ids(step.halts), (world.now - deadline) // SECOND) == ([2], 59)
    assert _why(world, "n1") == "draining: new disk; running tasks are being stopped"
    step = world.report("n1", ended(2, -15, Cause.STOPPED))
    assert [(each.outcome, each.final) for each in step.attempts] == [(Outcome.PREEMPTED, False)]
    assert launched(step) == [(number, 1, "n2")]
    assert _why(world, "n1") == "draining: new disk"


def test_nothing_is_stopped_on_a_node_that_is_empty_before_its_deadline() -> None:
    world = World()
    world.join("n1")
    world.step(Drain(name="n1", deadline=MINUTE, reason="new disk"))
    assert _why(world, "n1") == "draining: new disk"


def _why(world: World, name: str) -> str:
    return why_closed(world.machine, world.machine.nodes[name], world.now)


def test_a_drain_without_patience_stops_everything_at_once() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2))
    assert ids(world.step(Drain(name="n1", deadline=0)).halts) == [1, 2]


def test_an_uncordoned_node_is_not_drained_any_more() -> None:
    world = World()
    world.join("n1")
    world.submit(job(5))
    world.step(Drain(name="n1", deadline=MINUTE))
    step = world.step(NodeCordoned(name="n1", cordoned=False))
    assert not world.machine.timers.times
    assert not step.halts
    assert not world.step(after=2 * MINUTE).halts
    assert len(world.report("n1", ended(1)).launches) == 1


def test_a_drain_reaches_a_node_that_was_away() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.report("n1", started(1))
    world.step(Drain(name="n1", deadline=MINUTE))
    world.leave("n1")
    world.wake()
    assert ids(world.join("n1", reports=(started(1),)).halts) == [1]


def test_a_gang_with_a_task_on_a_drained_node_moves_as_a_whole() -> None:
    world = World()
    world.join("n1", cpus=1)
    world.join("n2", cpus=1)
    world.submit(job(2, gang=True))
    world.step(Drain(name="n1", deadline=0))
    (attempt,) = ids(world.last.halts)
    step = world.report("n1", ended(attempt, -15, Cause.STOPPED))
    assert len(step.halts) == 1
    assert step.halts[0].node == "n2"


def test_a_submit_that_comes_twice_is_accepted_once() -> None:
    world = World()
    world.join("n1")
    request = Submit(jobs=(job(), job()), key="ann 1", digest="abc")
    assert world.step(request).replies == [(1, 2)]
    step = world.step(request, Submit(jobs=(job(),)), request)
    assert step.replies == [(1, 2), (3,), (1, 2)]
    assert step.repeated == {0, 2}
    assert list(world.machine.jobs) == [1, 2, 3]


def test_the_answer_is_the_same_after_the_jobs_have_ended_and_after_a_restart() -> None:
    world = World()
    world.join("n1")
    request = Submit(jobs=(job(),), key="ann 1", digest="abc")
    world.step(request)
    world.finish(1)
    world.machine = type(world.machine).restore(world.machine.export())
    assert world.step(request).replies == [(1,)]
    assert not world.machine.jobs


def test_a_key_belongs_to_one_submit() -> None:
    world = World()
    world.step(Submit(jobs=(job(),), key="ann 1", digest="abc"))
    assert "the key was used for another submit" in world.refuse(Submit(jobs=(job(2),), key="ann 1", digest="abd"))


def test_a_submit_that_was_refused_does_not_use_up_its_key() -> None:
    world = World()
    world.join("n1")
    world.refuse(Submit(jobs=(job(cpus=99),), key="ann 1", digest="abc"))
    assert world.step(Submit(jobs=(job(),), key="ann 1", digest="abd")).replies == [(1,)]


def test_keys_are_forgotten_after_a_day() -> None:
    world = World()
    for i in range(3):
        world.step(Submit(jobs=(job(),), key=f"ann {i}", digest="abc"), after=DAY // 4)
    world.step(Submit(jobs=(job(),), key="ann 0", digest="abc"), after=DAY // 2)
    assert list(world.machine.answers) == ["ann 1", "ann 2", "ann 0"]
    assert world.machine.next_job == 5


def test_the_record_of_a_job_that_moved_names_its_new_group() -> None:
    world = World()
    world.join("n1")
    world.step(GroupsApplied(groups=(group("old", 2), group("other", 2))))
    (number,) = world.submit(job(group="old"))
    world.step(GroupsApplied(groups=(group("other", 2),), moves=(("old", "other"),)))
    assert world.finish(number).jobs[0].group == "other"


@pytest.mark.parametrize("away", [False, True])
def test_without_a_node_that_takes_tasks_the_reason_says_so(away: bool) -> None:
    world = World()
    world.join("n1")
    world.step(NodeCordoned(name="n1", cordoned=True, reason="new disk"))
    (number,) = world.submit(job())
    if away:
        world.leave("n1")
        assert world.machine.reason(number) == "no executor is connected"
    else:
        assert world.machine.reason(number) == "every node is closed to new tasks; n1: new disk"


def test_a_deadline_in_the_past_is_refused() -> None:
    world = World()
    world.join("n1")
    assert "0 or more" in world.refuse(Drain(name="n1", deadline=-1))
    assert "did you mean n1" in world.refuse(Drain(name="n11", deadline=1))


def test_a_drain_without_a_deadline_stops_nothing_and_its_end_is_told() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2))
    world.run_all()
    step = world.step(Drain(name="n1", deadline=None, reason="new disk", by="eve"))
    assert not step.halts
    assert _why(world, "n1") == "draining: new disk; running tasks go on to their end"
    assert NodeDrained("n1") not in world.report("n1", ended(1)).notices
    assert world.report("n1", ended(2)).notices == [NodeDrained("n1")]
    assert world.step(Drain(name="n1", deadline=None, reason="new disk")).notices == [NodeDrained("n1")]
    world.step(NodeCordoned(name="n1", cordoned=False))
    assert NodeDrained("n1") not in world.step().notices


def test_a_deadline_may_be_given_to_a_drain_later_and_taken_away() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.run_all()
    world.step(Drain(name="n1", deadline=MINUTE))
    world.step(Drain(name="n1", deadline=None))
    assert not world.step(after=2 * MINUTE).halts
    assert ids(world.step(Drain(name="n1", deadline=0)).halts) + ids(world.step().halts) == [1]
