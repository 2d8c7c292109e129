"""No step does very much: large services, many placements and many inputs are divided among several steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cress.lifecycle.families.services import MOST_AT_ONCE
from cress.lifecycle.inputs import Input, NodeJoined, Reported, Restarted, Scale, Submit
from cress.lifecycle.machine import BUDGET, PASSES, Machine
from cress.model.errors import NotAccepted
from cress.model.events import NodeCordoned
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Report, Started
from cress.protocol.messages import Reports
from cress.shell.center.commit import CommitLimits, CommitLoop, InputCall, Opened, work_of
from cress.shell.center.effects import Commit, Session, Work
from cress.shell.center.events import Events
from cress.shell.center.session import MOST_REPORTS, Sessions
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, job, node
from tests.lifecycle.kept import service


def steps_of(machine: Machine, *inputs: Input) -> int:
    """Take in inputs, and step until nothing is due any more; return how many steps that took."""
    machine.step(machine.now, UTC_AT_START, inputs)
    steps = 1
    while machine.next_wakeup() == machine.now:
        machine.step(machine.now, UTC_AT_START)
        steps += 1
        assert steps < 1_000
    return steps


def test_a_large_service_is_made_and_scaled_down_in_several_steps() -> None:
    machine = Machine(DIMENSIONS, Options())
    size = 4 * MOST_AT_ONCE + 10
    machine.step(0, UTC_AT_START, (Submit(jobs=(service(size),)),))
    number = next(iter(machine.families))
    family = machine.families[number]
    assert len(family.members) == MOST_AT_ONCE
    assert steps_of(machine) >= 3
    assert sorted(family.members) == list(range(size))
    machine.step(0, UTC_AT_START, (Scale(job=number, tasks=1),))
    assert len(family.members) == size - MOST_AT_ONCE
    steps_of(machine)
    assert list(family.members) == [0]
    assert machine.timers.next() is None


def test_a_restored_machine_makes_the_rest_of_a_service() -> None:
    machine = Machine(DIMENSIONS, Options())
    size = 4 * MOST_AT_ONCE
    machine.step(0, UTC_AT_START, (Submit(jobs=(service(size),)),))
    again = Machine.restore(machine.export())
    for each in (machine, again):
        steps_of(each)
    (family,), (other,) = machine.families.values(), again.families.values()
    assert family.members == other.members
    assert len(other.members) == size


def test_many_tasks_are_placed_in_several_steps() -> None:
    machine = Machine(DIMENSIONS, Options())
    machine.step(0, UTC_AT_START, (NodeJoined(node=node("n1", 2 * BUDGET), boot="b"),))
    step = machine.step(0, UTC_AT_START, (Submit(jobs=(job(2 * BUDGET),)),))
    assert len(step.launches) == BUDGET
    assert step.more
    steps_of(machine)
    assert len(machine.attempts) == 2 * BUDGET


def loop_of(limits: CommitLimits | None = None) -> CommitLoop:
    loop = CommitLoop(lambda _: None, lambda _now, _utc: b"", limits)
    machine = Machine(DIMENSIONS, Options())
    machine.step(0, UTC_AT_START, (Restarted(epoch=1),))
    opened = Opened(
        machine=machine,
        events=Events(),
        records=[],
        number=0,
        epoch=1,
        cluster="c",
        snapshot_size=0,
        log_size=0,
        log_count=0,
    )
    loop.began(opened)
    return loop


def inputs_of_steps(loop: CommitLoop) -> list[int]:
    """Return how many inputs each step takes until the queue is empty."""
    found: list[int] = []
    while loop.busy:
        before = len(loop._queue)
        work: Work = loop.next(0, UTC_AT_START)
        assert isinstance(work, Commit)
        loop.committed()
        found.append(before - len(loop._queue))
    return found


def cordons(count: int) -> Sequence[Input]:
    return [NodeCordoned(name="n", cordoned=True)] * count


def submits(*sizes: int) -> Sequence[Input]:
    return [Submit(jobs=(job(),) * size) for size in sizes]


@pytest.mark.parametrize(
    ("inputs", "steps"),
    [
        (cordons(25), [10, 10, 5]),
        (submits(4, 4, 4, 4), [2, 2]),
        (submits(30, 1), [1, 1]),
        ([*cordons(9), *submits(2)], [9, 1]),
    ],
)
def test_inputs_beyond_the_work_of_one_step_wait_for_the_next(inputs: Sequence[Input], steps: list[int]) -> None:
    loop = loop_of(CommitLimits(most_work=10))
    for each in inputs:
        loop.post(InputCall(each))
    assert inputs_of_steps(loop) == steps


def test_the_work_of_an_input_is_what_it_brings() -> None:
    reports: tuple[Report, ...] = (Started(attempt=1, at=1, pid=1),) * 7
    assert work_of(Reported(node="n", reports=reports)) == 7
    assert work_of(NodeJoined(node=node("n"), boot="b")) == 1
    assert [work_of(each) for each in submits(3, 5)] == [3, 5]


def test_many_reports_of_an_executor_are_several_inputs() -> None:
    loop = loop_of()
    sessions, session = Sessions(loop, "c"), Session()
    session.name = "n"
    reports = tuple(Started(attempt=number, at=1, pid=1) for number in range(2 * MOST_REPORTS + 1))
    sessions.received(session, Reports(reports=reports), 0)
    queued = [call.input.reports for call in loop._queue if isinstance(call.input, Reported)]
    assert [len(each) for each in queued] == [MOST_REPORTS, MOST_REPORTS, 1]
    assert sum(queued, ()) == reports


def test_jobs_that_ask_for_the_same_are_matched_with_the_nodes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(DIMENSIONS, Options())
    machine.step(0, UTC_AT_START, (NodeJoined(node=node("n1"), boot="b"),))
    asked: list[int] = []
    really = machine.core.never_fits

    def counted(one: Job) -> bool:
        asked.append(one.tasks)
        return really(one)

    monkeypatch.setattr(machine.core, "never_fits", counted)
    alike = (job(1), job(2), job(1, cpus=2), job(2, requirement="Memory >= 1G"), job(3, requirement="Memory >= 1G"))
    gangs = (job(1, gang=True), job(2, gang=True), job(2, gang=True))
    machine.check_submit((*alike, *gangs))
    assert asked == [1, 1, 2, 1, 2]
    with pytest.raises(NotAccepted, match=r"^jobs\[1\]"):
        machine.check_submit((job(), job(1, cpus=5), job(1, cpus=5)))


def pauses_of(machine: Machine, *inputs: Input) -> int:
    """Take in inputs in one step; return how often it pauses."""
    return sum(1 for _ in machine.stepping(machine.now, UTC_AT_START, inputs))


def test_a_step_pauses_between_passes_and_between_inputs() -> None:
    """Found by hostile requests: 256 starts of jobs with constraints of their own were one pause of 400 ms."""
    counts = []
    for jobs in (1, 1 + 4 * PASSES):
        machine = Machine(DIMENSIONS, Options())
        machine.step(0, UTC_AT_START, (NodeJoined(node=node("n1", cpus=1_000), boot="b"),))
        counts.append(pauses_of(machine, Submit(jobs=tuple(job() for _ in range(jobs)))))
        assert len(machine.attempts) == jobs
    assert counts[1] - counts[0] >= 4
    machine = Machine(DIMENSIONS, Options())
    some = [NodeJoined(node=node(f"n{number}"), boot="b") for number in range(20)]
    assert pauses_of(machine, *some) - pauses_of(Machine(DIMENSIONS, Options()), some[0]) == 19
