"""What becomes of jobs: stories of submits, ends, nodes that come and go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from cress.lifecycle.facts import Configured, Facts
from cress.lifecycle.inputs import Cancel, NodeDead, NodeJoined, Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import MAJOR, decode_record, encode_record, inputs_of, record_of
from cress.lifecycle.replay import stepped
from cress.model.events import GroupsApplied, NodeCordoned, Outcome
from cress.model.node import Device
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause, Started
from cress.model.times import SECOND
from cress.model.vectors import parse_vector
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, World, ended, group, ids, job, launched, node, started


def test_a_job_runs_and_its_record_says_so() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(2))
    assert launched(world.last) == [(number, 0, "n1"), (number, 1, "n1")]
    world.report("n1", started(1), started(2))
    assert world.machine.jobs[number].running == 2
    world.report("n1", ended(1))
    step = world.report("n1", ended(2))
    (record,) = step.jobs
    assert (record.state, record.succeeded, record.started > 0) == (JobState.SUCCEEDED, 2, True)
    assert [each.outcome for each in step.attempts] == [Outcome.SUCCEEDED]
    assert not world.machine.jobs
    assert not world.machine.attempts


@pytest.mark.parametrize(
    ("code", "cause", "outcome", "state"),
    [
        (0, Cause.EXITED, Outcome.SUCCEEDED, JobState.SUCCEEDED),
        (3, Cause.EXITED, Outcome.FAILED, JobState.FAILED),
        (-11, Cause.EXITED, Outcome.FAILED, JobState.FAILED),
        (-15, Cause.TIME_LIMIT, Outcome.TIMED_OUT, JobState.TIMED_OUT),
        (0, Cause.TIME_LIMIT, Outcome.TIMED_OUT, JobState.TIMED_OUT),
    ],
)
def test_what_an_end_means(code: int | None, cause: Cause, outcome: Outcome, state: JobState) -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    step = world.report("n1", ended(1, code, cause))
    assert [each.outcome for each in step.attempts] == [outcome]
    assert [each.state for each in step.jobs] == [state]


@pytest.mark.parametrize(
    ("code", "cause"), [(-15, Cause.SHUTDOWN), (0, Cause.SHUTDOWN), (None, Cause.UNKNOWN), (-9, Cause.STOPPED)]
)
def test_what_the_task_did_not_end_by_itself_runs_again(code: int | None, cause: Cause) -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job())
    step = world.report("n1", ended(1, code, cause))
    assert not step.jobs
    assert [each.final for each in step.attempts] == [False]
    assert launched(step) == [(number, 0, "n1")]
    assert ids(step.launches) == [2]


def test_a_report_that_comes_twice_is_no_news() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2))
    world.report("n1", ended(1))
    step = world.report("n1", ended(1), ended(1, 1))
    assert (step.attempts, step.jobs, step.launches, step.halts) == ([], [], [], [])


def test_cancel_drops_what_waits_and_stops_what_runs() -> None:
    world = World()
    world.join("n1", cpus=2)
    (number,) = world.submit(job(5))
    world.run_all()
    step = world.cancel(number)
    assert ids(step.halts) == [1, 2]
    assert [each.grace for each in step.halts] == [None, None]
    assert world.machine.jobs[number].waiting == 0
    world.report("n1", ended(1, -15, Cause.STOPPED))
    step = world.report("n1", ended(2, 0))
    (record,) = step.jobs
    assert (record.state, record.succeeded, record.cancelled) == (JobState.CANCELLED, 1, 4)


def test_cancel_of_what_waits_ends_the_job_at_once() -> None:
    world = World()
    (number,) = world.submit(job(3))
    (record,) = world.cancel(number).jobs
    assert (record.state, record.cancelled, record.started) == (JobState.CANCELLED, 3, 0)
    assert world.cancel(number).replies == [None]
    assert "there is no job 99" in world.refuse(Cancel(job=99))


def test_jobs_of_one_submit_are_accepted_together_or_not_at_all() -> None:
    world = World()
    world.join("n1")
    sentence = world.refuse(Submit(jobs=(job(), job(cpus=5), job())))
    assert "one task is larger than every node" in sentence
    assert "jobs[1]" in sentence or "resource" in sentence
    assert not world.machine.jobs
    assert world.submit(job(), job()) == (1, 2)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (job(group="labb"), "there is no group 'labb'"),
        (job(group="lab", user="eve"), "eve may not submit to group lab (its users: ann)"),
        (job(cpus=5), "one task is larger than every node"),
        (job(3, cpus=3, gang=True), "all nodes together are too small for the gang"),
        (job(0), "0 tasks"),
    ],
)
def test_refused(wrong: object, sentence: str) -> None:
    world = World()
    world.join("n1")
    world.step(GroupsApplied(groups=(group("lab", 2, users=("ann",)),)))
    assert sentence in world.refuse(Submit(jobs=(wrong,)))  # type: ignore[arg-type]
    assert not world.machine.jobs


def test_without_any_node_a_job_waits_for_the_first() -> None:
    world = World()
    (number,) = world.submit(job(cpus=64))
    assert not world.last.launches
    assert launched(world.join("big", cpus=64)) == [(number, 0, "big")]


def test_an_executor_that_is_away_gets_nothing_and_keeps_its_tasks() -> None:
    world = World()
    world.join("n1", cpus=1)
    world.submit(job())
    world.report("n1", started(1))
    world.leave("n1")
    world.submit(job())
    assert not world.last.launches
    step = world.join("n1", cpus=1, reports=(started(1),))
    assert (step.launches, step.halts) == ([], [])
    assert ids(world.report("n1", ended(1)).launches) == [2]


def test_an_end_that_happened_while_the_executor_was_away_comes_with_the_greeting() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.leave("n1")
    step = world.join("n1", reports=(ended(1),))
    assert [each.state for each in step.jobs] == [JobState.SUCCEEDED]


def test_a_launch_that_never_arrived_is_ordered_again_with_the_same_attempt() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.leave("n1")
    assert ids(world.join("n1").launches) == [1]


def test_a_stop_that_never_arrived_is_ordered_again() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job())
    world.report("n1", started(1))
    world.leave("n1")
    assert ids(world.cancel(number).halts) == [1]
    assert ids(world.join("n1", reports=(started(1),)).halts) == [1]


def test_a_task_that_its_executor_has_forgotten_is_lost_and_runs_again() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.report("n1", started(1))
    world.leave("n1")
    step = world.join("n1", boot="b2")
    assert [each.outcome for each in step.attempts] == [Outcome.LOST]
    assert ids(step.launches) == [2]


def test_what_nobody_ordered_is_stopped() -> None:
    world = World()
    step = world.join("n1", reports=(started(77), ended(78)))
    assert [(each.attempt, each.node, each.grace) for each in step.halts] == [(77, "n1", 0)]


def test_a_node_that_was_forgotten_and_joins_again_is_a_node_like_any_other() -> None:
    world = World()
    world.join("n1")
    world.leave("n1")
    world.step(NodeDead(name="n1", forget=True))
    world.submit(job())
    assert not world.last.launches
    assert len(world.join("n1").launches) == 1


def test_two_executors_cannot_have_one_name() -> None:
    world = World()
    world.join("n1")
    assert "node n1 is connected already" in world.refuse(NodeJoined(node=node("n1"), boot="b1"))


def test_a_node_comes_back_larger_while_a_task_runs_there() -> None:
    world = World(followed=True)
    world.join("n1", cpus=2)
    world.submit(job(), job(cpus=2))
    world.report("n1", started(1))
    world.leave("n1")
    step = world.join("n1", cpus=3, reports=(started(1),))
    assert launched(step) == [(2, 0, "n1")]
    assert list(world.machine.attempts) == [1, 2]


def test_a_node_that_comes_back_with_less_than_its_tasks_hold_gets_new_ones_when_enough_have_ended() -> None:
    world = World(followed=True)
    world.join("n1", cpus=4)
    world.submit(job(4))
    world.run_all()
    world.leave("n1")
    world.submit(job(3))
    shrunk = world.join("n1", cpus=2, reports=tuple(started(number) for number in (1, 2, 3, 4)))
    assert launched(shrunk) == []
    assert world.machine.nodes["n1"].node == node("n1", 2)
    assert (
        world.machine.reason(2)
        == "every node is closed to new tasks; n1: overcommitted: its tasks use more than it offers"
    )
    world.machine = Machine.restore(world.machine.export())
    assert launched(world.report("n1", ended(1), ended(2))) == []
    assert launched(world.report("n1", ended(3))) == [(2, 0, "n1")]
    assert launched(world.report("n1", ended(4))) == [(2, 1, "n1")]


DISK = Device(kind="disk", id="sda", path="/data/disk1", bandwidth=(100, 50, 0, 0))
OTHER_DEVICES: dict[str, dict[str, Any]] = {
    "one is gone": {"devices": ()},
    "another bandwidth": {"devices": (replace(DISK, bandwidth=(50, 100, 0, 0)),)},
    "another path": {"devices": (replace(DISK, path="/data/disk2"),)},
    "how many, by a label": {"devices": (), "attributes": (("disks", 1),)},
}


@pytest.mark.parametrize("case", OTHER_DEVICES)
def test_a_node_comes_back_with_other_devices_while_a_task_has_them(case: str) -> None:
    world = World(followed=True)
    before = replace(node("n1"), capacity=parse_vector("<4, 8G, 0, 100:50>", DIMENSIONS), devices=(DISK,))
    now = replace(before, **OTHER_DEVICES[case])
    world.step(NodeJoined(node=before, boot="b1"))
    (number,) = world.submit(replace(job(), request=parse_vector("<1, 1G, 0, 50:50>", DIMENSIONS)))
    world.report("n1", started(1))
    world.leave("n1")
    world.step(NodeJoined(node=now, boot="b1", reports=(started(1),)))
    assert world.machine.nodes["n1"].node == now
    assert launched(world.last) == []
    world.report("n1", ended(1))
    assert world.over[number].state is JobState.SUCCEEDED
    assert world.machine.core.cluster.specs[0] == now


def test_a_log_without_facts_is_stepped_through_by_the_rule_that_held_when_it_was_written() -> None:
    world = World()
    world.join("n1", cpus=2)
    world.submit(job())
    world.leave("n1")
    larger = (NodeJoined(node=node("n1", 8), boot="b1", reports=(started(1),)),)
    record = record_of(world.now + 1, UTC_AT_START, larger, Facts())
    stepped(world.machine, replace(record, version=(5, 0)))
    assert not world.machine.nodes["n1"].connected
    stepped(world.machine, record)
    assert world.machine.nodes["n1"].node == node("n1", 8)
    world.submit(job())
    assert len(world.last.launches) == 1


def test_a_node_comes_back_with_other_data_or_unjudged_while_tasks_run_on_it() -> None:
    world = World()
    before = replace(node("n1"), capacity=parse_vector("<4, 8G, 0, 100:50>", DIMENSIONS), devices=(DISK,))
    world.step(NodeJoined(node=before, boot="b1"))
    world.submit(job())
    world.report("n1", started(1))
    world.leave("n1")
    now = replace(before, data=("/data/set1",), judged=False, attributes=(("zone", "eu"),))
    world.step(NodeJoined(node=now, boot="b1", reports=(started(1),)))
    known = world.machine.nodes["n1"]
    assert (known.connected, known.node, len(world.machine.attempts)) == (True, now, 1)


def test_an_operators_cordon_stays_whatever_the_executor_does() -> None:
    world = World()
    world.join("n1")
    world.step(NodeCordoned(name="n1", cordoned=True, reason="disk"))
    world.leave("n1")
    world.join("n1")
    world.submit(job())
    assert not world.last.launches
    assert len(world.step(NodeCordoned(name="n1", cordoned=False)).launches) == 1
    assert "did you mean n1" in world.refuse(NodeCordoned(name="n11", cordoned=True))


def test_after_a_restart_every_executor_has_to_say_what_it_knows() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2))
    world.report("n1", started(1))
    world.step(Restarted(epoch=2))
    assert not world.machine.nodes["n1"].connected
    world.submit(job())
    assert not world.last.launches
    step = world.join("n1", reports=(started(1),))
    assert sorted(ids(step.launches)) == [2, 3]


def test_a_preempted_task_runs_again_and_counts_as_preempted() -> None:
    options = Options(grace=SECOND, cooling=0, cooling_above_quota=0, max_per_round=1.0)
    world = World(options)
    world.join("n1")
    world.step(GroupsApplied(groups=(group("own", 2), group("borrow", 2))))
    (borrower,) = world.submit(job(4, group="borrow"))
    world.run_all()
    (owner,) = world.submit(job(1, cpus=2, group="own"))
    assert [(each.job, each.grace) for each in world.last.halts] == [(borrower, SECOND)] * 2
    victims = ids(world.last.halts)
    # One of them ends well by itself before the signal: that is a success.
    step = world.report("n1", ended(victims[0], 0), ended(victims[1], -15, Cause.STOPPED))
    assert [each.outcome for each in step.attempts] == [Outcome.SUCCEEDED, Outcome.PREEMPTED]
    assert [each.job for each in step.launches] == [owner]
    assert world.machine.jobs[borrower].preempted == 1
    # A victim is tried again however it ended.
    assert world.machine.jobs[borrower].waiting == 1


def test_cancelling_a_job_whose_tasks_are_being_preempted_does_not_run_them_again() -> None:
    world = World(Options(grace=SECOND, max_per_round=1.0))
    world.join("n1")
    world.step(GroupsApplied(groups=(group("own", 2), group("borrow", 2))))
    (borrower,) = world.submit(job(4, group="borrow"))
    world.run_all()
    world.submit(job(1, cpus=2, group="own"))
    victims = ids(world.last.halts)
    world.cancel(borrower)
    step = world.report("n1", *(ended(each, -15, Cause.STOPPED) for each in (1, 2, 3, 4)))
    assert set(victims) <= {1, 2, 3, 4}
    assert [(each.id, each.state, each.cancelled) for each in step.jobs] == [(borrower, JobState.CANCELLED, 4)]


def test_a_gang_that_loses_a_task_starts_again_as_a_whole() -> None:
    world = World()
    world.join("n1")
    (number,) = world.submit(job(3, gang=True))
    world.run_all()
    step = world.report("n1", ended(1, None, Cause.UNKNOWN))
    assert ids(step.halts) == [2, 3]
    step = world.report("n1", ended(2, -15, Cause.STOPPED), ended(3, -15, Cause.STOPPED))
    assert launched(step) == [(number, 0, "n1"), (number, 1, "n1"), (number, 2, "n1")]


def test_other_options_hold_from_a_restart_on_and_nothing_is_forgotten() -> None:
    world = World(Options(grace=SECOND))
    world.join("n1")
    (number,) = world.submit(job(6))
    world.run_all()
    world.step(Restarted(epoch=2, options=Options(grace=2 * SECOND, max_per_round=1.0)))
    assert world.machine.core.options.grace == 2 * SECOND
    world.step(GroupsApplied(groups=(group("own", 3),)))
    world.join("n1", reports=tuple(started(each) for each in (1, 2, 3, 4)))
    world.submit(job(1, cpus=2, group="own"))
    assert [(each.job, each.grace) for each in world.last.halts] == [(number, 2 * SECOND)] * 2


def test_options_survive_the_log() -> None:
    restarted = Restarted(epoch=1, options=Options(initial_weights=(("cpu", 0.5), ("memory", 0.5))))
    record = record_of(1, 2, (restarted,), Facts([Configured(restarted.options or Options())]))
    again = decode_record(encode_record(record))
    assert again == record
    assert inputs_of(again) == (restarted,)


def test_what_quotas_are_counted_in_cannot_change_under_groups() -> None:
    world = World()
    world.step(GroupsApplied(groups=(group("own", 3),)))
    sentence = world.refuse(Restarted(epoch=2, options=Options(accounting="dominant")))
    assert "start it with --option accounting=cpu" in sentence


def test_a_state_of_another_version_is_refused() -> None:
    data = World().machine.export().replace(b"version" + bytes([0x92, MAJOR]), b"version\x92\x7f", 1)
    with pytest.raises(ValueError, match="version 127"):
        Machine.restore(data)


def test_a_wall_clock_that_is_set_makes_nothing_that_lives_older_or_younger() -> None:
    hour = 3600 * SECOND
    world = World()
    world.join("n1", 1)
    (number,) = world.submit(job(2))
    world.report("n1", Started(attempt=1, at=UTC_AT_START + world.now, pid=7))
    first = msgspec.structs.replace(world.machine.jobs[number])
    now = world.now + 5 * SECOND
    for by in (hour, -2 * hour):
        world.machine.step(now, UTC_AT_START + now + by)
        live = world.machine.jobs[number]
        assert (live.submitted - first.submitted, live.started - first.started) == (by, by)
        assert (live.attempts[1].placed, live.attempts[1].started) == (first.submitted + by, first.started + by)
    # A clock that is only a little off is none that was set.
    world.machine.step(now, UTC_AT_START + now - 2 * hour + SECOND // 2)
    assert world.machine.jobs[number].submitted == first.submitted - 2 * hour
