"""Programs that cannot be started: other nodes are tried, broken nodes are closed, typos march over no cluster."""

from __future__ import annotations

from cress.lifecycle.inputs import NodeJoined, NodeLeft
from cress.model.events import NodeCordoned, Outcome
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Cause
from cress.model.times import HOUR, SECOND
from tests.lifecycle.builders import World, ended, job, launched, node, started


def test_what_cannot_be_started_on_one_node_runs_on_another() -> None:
    world = World()
    world.join("bad")
    world.join("good")
    (number,) = world.submit(job(cpus=4))
    assert launched(world.last) == [(number, 0, "bad")]
    step = world.cannot_start(1)
    assert [(each.outcome, each.final, each.error) for each in step.attempts] == [
        (Outcome.FAILED, False, "no such file")
    ]
    assert launched(world.wake()) == [(number, 0, "good")]
    world.report("good", started(2))
    assert not world.machine.nodes["good"].closed


def test_a_task_is_failed_after_three_tries_and_the_record_says_why() -> None:
    world = World()
    for name in ("n1", "n2", "n3", "n4"):
        world.join(name)
    world.submit(job())
    for attempt in (1, 2):
        assert not world.cannot_start(attempt).jobs
        while not world.last.launches:
            world.wake()
    (record,) = world.cannot_start(3).jobs
    assert (record.state, record.failed, record.started) == (JobState.FAILED, 1, 0)
    assert record.reason == "the program could not be started: no such file"


def test_without_another_node_a_typo_is_told_at_once_and_the_node_goes_on() -> None:
    world = World()
    world.join("n1")
    for attempt in range(1, 9):
        world.submit(job())
        (record,) = world.cannot_start(attempt).jobs
        assert record.state is JobState.FAILED
        assert not world.machine.nodes["n1"].closed


def test_a_start_in_between_is_the_end_of_a_row() -> None:
    world = World()
    for name in ("n1", "n2", "n3"):
        world.join(name)
    world.submit(job(retries=9, backoff=0))
    attempt = 0
    for _ in range(4):
        for _ in range(2):
            attempt += 1
            assert not world.cannot_start(attempt).jobs
            while not world.last.launches:
                world.wake()
        attempt += 1
        node = world.machine.attempts[attempt].node
        assert not world.report(node, started(attempt), ended(attempt, 1)).jobs
        while not world.machine.attempts or world.machine.timers.times:
            world.wake()


def test_a_node_rests_longer_and_longer_and_a_success_ends_it() -> None:
    world = World(Options(start_tries=100, start_failures=100))
    world.join("n1")
    world.join("small", cpus=1)  # takes tasks, but not this one
    world.submit(job(1, cpus=4))
    rests = []
    for attempt in range(1, 8):
        world.cannot_start(attempt)
        assert world.machine.nodes["n1"].closed
        began = world.now
        while not world.last.launches:
            world.wake()
        rests.append((world.now - began) // SECOND)
    assert rests == [2, 4, 8, 16, 32, 60, 60]
    world.report("n1", started(8))
    assert world.machine.nodes["n1"].rests == 0
    world.report("n1", ended(8))
    world.submit(job(cpus=4))
    world.cannot_start(9)
    began = world.now
    while not world.last.launches:
        world.wake()
    assert (world.now - began) // SECOND == 2


def test_what_was_placed_together_makes_one_rest() -> None:
    world = World(Options(start_failures=100))
    world.join("n1")
    world.join("small", cpus=1)
    world.submit(job(2, cpus=2))
    world.cannot_start(1, 2)
    began = world.now
    while not world.last.launches:
        world.wake()
    assert (world.now - began) // SECOND == 2


def test_a_resting_node_starts_as_soon_as_something_started_there() -> None:
    world = World()
    world.join("n1", cpus=8)
    world.join("small", cpus=1)
    world.submit(job(2, cpus=2))
    world.cannot_start(1)
    (other,) = world.submit(job(cpus=2))
    assert not world.last.launches
    assert world.machine.nodes["n1"].why.startswith("resting after a failed start")
    assert other in [launch.job for launch in world.report("n1", started(2)).launches]


def test_a_node_whose_failures_start_elsewhere_is_closed_until_somebody_looks() -> None:
    world = World(Options(start_failures=3))
    world.join("bad")
    world.join("good")
    number = 0
    for _ in range(3):
        while world.machine.nodes["bad"].closed:
            world.wake()
        (number,) = world.submit(job(cpus=4))
        (attempt,) = world.machine.attempts.values()
        assert attempt.node == "bad"
        world.cannot_start(attempt.id)
        while not world.machine.attempts:
            world.wake()
        (attempt,) = world.machine.attempts.values()
        assert attempt.node == "good"
        world.report("good", started(attempt.id), ended(attempt.id))
    assert world.machine.nodes["bad"].why == (
        f"3 programs could not be started here and ran on other nodes, the last of job {number}"
    )
    world.step(after=3 * HOUR)
    assert world.machine.nodes["bad"].closed
    world.leave("bad")
    world.join("bad")
    assert world.machine.nodes["bad"].closed, "an executor that joins again is no word of an operator"
    world.step(NodeCordoned(name="bad", cordoned=False))
    assert not world.machine.nodes["bad"].closed


def test_typos_close_no_node() -> None:
    world = World(Options(start_failures=3))
    for name in ("n1", "n2", "n3"):
        world.join(name)
    for _ in range(10):
        world.submit(job())
        for _ in range(30):
            if not world.machine.jobs:
                break
            if world.machine.attempts:
                world.cannot_start(*world.machine.attempts)
            else:
                world.wake()
        assert not world.machine.jobs
    while world.machine.timers.times:
        world.wake()
    assert not any(node.closed for node in world.machine.nodes.values())


def test_one_job_alone_closes_no_node() -> None:
    world = World(Options(start_failures=3, start_tries=100))
    world.join("bad", cpus=1)
    world.join("good", cpus=1)
    world.submit(job(9))
    for failures in range(1, 6):
        while world.machine.nodes["bad"].closed:
            world.wake()
        tried = {attempt.node: attempt.id for attempt in world.machine.attempts.values()}
        world.cannot_start(tried["bad"])
        world.report("good", started(tried["good"]), ended(tried["good"]))
        assert world.machine.nodes["bad"].failures == failures, "all are counted"
    while world.machine.nodes["bad"].closed:
        world.wake()
    assert "resting" not in world.machine.nodes["bad"].why


def test_a_typo_in_a_large_array_marches_over_no_cluster() -> None:
    world = World()
    for name in ("n1", "n2", "n3"):
        world.join(name, cpus=2)
    (number,) = world.submit(job(1_000_000))
    world.cannot_start(1, 3, 5)
    assert world.machine.jobs[number].failed == 1, "the last of them had no other node"
    world.cannot_start(2, 4)
    live = list(world.machine.attempts)
    assert world.machine.jobs[number].failed == 1_000_000 - len(live), "all that waits"
    assert len(live) < 4
    for attempt in live:
        assert world.machine.attempts[attempt].halted
        node = world.machine.attempts[attempt].node
        world.report(node, ended(attempt, None, Cause.NOT_STARTED, ran=False))
    (record,) = world.last.jobs
    assert (record.state, record.failed, record.cancelled) == (JobState.FAILED, 1_000_000, 0)
    assert record.reason == "the program could not be started: no such file"


def test_a_job_of_which_one_program_ran_is_not_failed_as_a_whole() -> None:
    world = World(Options(start_tries=1))
    world.join("n1")
    (number,) = world.submit(job(20))
    world.report("n1", started(1))
    for _ in range(7):
        attempt = max(world.machine.attempts)
        world.cannot_start(attempt)
        while max(world.machine.attempts) == attempt or not world.last.launches:
            world.wake()
    assert world.machine.jobs[number].failed == 7
    assert world.machine.jobs[number].waiting > 0


def test_an_operators_cordon_is_not_touched() -> None:
    world = World()
    world.join("n1")
    world.submit(job(2))
    world.step(NodeCordoned(name="n1", cordoned=True, reason="new disk"))
    world.cannot_start(1)
    assert world.machine.nodes["n1"].why == "new disk"
    world.report("n1", started(2))
    while world.machine.next_wakeup() is not None:
        world.wake()
    assert world.machine.nodes["n1"].why == "new disk"
    assert world.machine.core.cluster.cordoned == ["new disk"]


def test_a_node_without_room_rests_longer_and_longer_and_no_job_is_blamed() -> None:
    world = World(Options(start_backoff=SECOND, start_rest_most=10 * SECOND, start_failures=2, start_tries=1))
    world.join("n1", 4)
    numbers = world.submit(job(), job())
    rests = []
    for _ in range(6):
        live = list(world.machine.attempts)
        step = world.report("n1", *(ended(each, None, Cause.NODE, ran=False) for each in live))
        assert [(each.outcome, each.final) for each in step.attempts] == [(Outcome.LOST, False)] * 2
        assert "could not start a program" in world.machine.nodes["n1"].rest
        assert not world.last.launches
        before = world.now
        while not world.last.launches:
            world.wake()
        rests.append((world.now - before) // SECOND)
    assert rests == [2, 4, 8, 10, 10, 10]
    assert not world.over
    # There is room again: nothing is remembered.
    world.report("n1", *(started(each) for each in world.machine.attempts))
    assert (world.machine.nodes["n1"].rests, world.machine.nodes["n1"].closed) == (0, False)
    world.report("n1", *(ended(each) for each in list(world.machine.attempts)))
    assert {record.state for record in world.over.values()} == {JobState.SUCCEEDED}
    assert set(world.over) == set(numbers)


def test_what_a_node_was_to_be_told_over_a_connection_that_is_gone_is_worked_out_again() -> None:
    world = World()
    world.join("n1")
    world.submit(job())
    world.leave("n1")
    # The order of the first connection is on its way while the node connects twice, all before the next step.
    back = NodeJoined(node=node("n1", 4), boot="b1", reports=())
    again = NodeJoined(node=node("n1", 4), boot="b1", reports=(ended(1),))
    step = world.step(back, NodeLeft(name="n1"), again)
    assert [each.state for each in step.jobs] == [JobState.SUCCEEDED]
    assert not step.launches, "it would run a second time"
    world.submit(job())
    world.leave("n1")
    step = world.step(back, NodeLeft(name="n1"), back)
    assert [each.attempt for each in step.launches] == [2], "the order is given once"
