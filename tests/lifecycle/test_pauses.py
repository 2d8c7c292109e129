"""A large submit pauses: in between everything can be read, and it is accepted as a whole or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
import pytest

from cress.center.requests.validation import read_jobs
from cress.core.groups import shares
from cress.core.jobs import GroupState
from cress.core.placing import matching
from cress.lifecycle.inputs import Cancel, Input, NodeJoined, Reported, Scale, Submit
from cress.lifecycle.jobs.reasons import reason
from cress.lifecycle.machine import Machine
from cress.lifecycle.slices import SLICE, Slices
from cress.model.errors import InputError
from cress.model.events import GroupsApplied
from cress.model.groups.conf import parse_groups
from cress.model.job import Condition, Job
from cress.model.options import Options
from cress.model.reports import Started
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.shell.center.commit import InputCall
from cress.shell.center.effects import AnswerCaller, Commit, Work
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, job, node
from tests.lifecycle.kept import service
from tests.lifecycle.test_slices import loop_of

SIZE = 8 * SLICE


def pauses(work: Slices[Work], looks: list[int], machine: Machine) -> Work:
    """Do work, look at everything at each pause and note how many jobs are there; return the result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Work = done.value
            return result
        looks.append(len(machine.jobs))
        assert machine.core.jobs.keys() == machine.jobs.keys()
        for number in list(machine.jobs)[-3:]:
            reason(machine, number)


def submit(jobs: Sequence[Job]) -> InputCall:
    return InputCall(Submit(jobs=tuple(jobs)), [Run(job=0, command=("true",))] * len(jobs), caller="client")


def test_a_large_submit_pauses_often_and_can_be_read_at_each_pause() -> None:
    loop, looks = loop_of(), list[int]()
    loop.machine.step(0, UTC_AT_START, (NodeJoined(node=node("n", 2), boot="b"),))
    loop.post(submit([job()] * SIZE))
    work = pauses(loop.slices(0, UTC_AT_START), looks, loop.machine)
    assert isinstance(work, Commit)
    assert len(work.batch.runs) == SIZE
    entered = [more - before for before, more in itertools.pairwise(looks)]
    assert max(entered) == SLICE
    assert len(looks) >= 4 * SIZE / SLICE
    (answer,) = [each for each in loop.committed() if isinstance(each, AnswerCaller)]
    assert answer.reply == tuple(range(1, SIZE + 1))


def test_a_large_submit_with_one_wrong_job_changes_nothing() -> None:
    loop, looks = loop_of(), list[int]()
    loop.post(submit([*[job()] * (SIZE - 1), msgspec.structs.replace(job(), group="nobody")]))
    pauses(loop.slices(0, UTC_AT_START), looks, loop.machine)
    assert set(looks) == {0}
    (answer,) = [each for each in loop.committed() if isinstance(each, AnswerCaller)]
    assert isinstance(answer.reply, InputError)
    assert answer.reply.field == f"jobs[{SIZE - 1}].group"
    assert not loop.machine.jobs


def test_inputs_that_come_at_a_pause_wait_for_the_next_step() -> None:
    loop = loop_of()
    loop.post(submit([job()] * SIZE))
    work = loop.slices(0, UTC_AT_START)
    next(work)
    loop.post(submit([job()]))
    assert isinstance(pauses(work, [], loop.machine), Commit)
    assert len(loop.machine.jobs) == SIZE
    loop.committed()
    assert isinstance(loop.next(1, UTC_AT_START), Commit)
    assert len(loop.machine.jobs) == SIZE + 1


def test_what_ends_in_a_step_is_never_missing_at_its_pauses() -> None:
    loop = loop_of()
    loop.post(submit([job()]))
    loop.next(0, UTC_AT_START)
    loop.committed()
    late = msgspec.structs.replace(job(), after=((1, Condition.OK),))
    loop.post(InputCall(Cancel(job=1, by="ann")))
    loop.post(submit([late] * 10))
    work: Work | None = None
    slices = loop.slices(1, UTC_AT_START)
    while work is None:
        try:
            next(slices)
        except StopIteration as done:
            work = done.value
        assert 1 in loop.machine.jobs or 1 in loop.uncommitted.jobs
    assert isinstance(work, Commit)
    assert 1 in loop.uncommitted.jobs


@pytest.mark.parametrize("size", [1, SLICE, SLICE + 1])
def test_a_step_in_slices_is_the_step_without_pauses(size: int) -> None:
    one, other = Machine(DIMENSIONS, Options()), Machine(DIMENSIONS, Options())
    inputs = (NodeJoined(node=node("n", 2), boot="b"), Submit(jobs=(job(),) * size))
    whole = one.step(0, UTC_AT_START, inputs)
    slices = other.stepping(0, UTC_AT_START, inputs)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            assert done.value == whole
            break
    assert one.export() == other.export()


def test_consequences_pause_as_often_as_jobs_that_come() -> None:
    """Ends of a job with many dependents, many services scaled at once, many reports: each in small parts."""
    machine = Machine(DIMENSIONS, Options())
    machine.step(0, UTC_AT_START, (NodeJoined(node=node("n", 40), boot="b"),))
    services = tuple(service(1, f"s{number}") for number in range(SIZE // 4))
    (made,) = machine.step(1, UTC_AT_START, (Submit(jobs=(*services, job(hold=True))),)).replies
    assert not isinstance(made, InputError), made
    assert made is not None
    first, last = made[0], made[-1]
    changes = [Scale(job=first + number, tasks=3) for number in range(len(services))]
    assert most_between_pauses(machine, *changes, count=lambda: len(machine.jobs)) <= 2
    after = msgspec.structs.replace(job(), after=((last, Condition.OK),))
    machine.step(3, UTC_AT_START, (Submit(jobs=(after,) * SIZE),))
    waiting = sum(1 for live in machine.jobs.values() if live.unmet)
    assert waiting == SIZE
    cancelled = most_between_pauses(machine, Cancel(job=last, by="ann"), count=lambda: len(machine.jobs))
    assert cancelled <= SLICE + 1
    assert not any(live.unmet for live in machine.jobs.values())
    launched = [Started(attempt=number, at=1, pid=1) for number in machine.attempts]
    assert len(launched) == 40
    told = most_between_pauses(
        machine,
        Reported(node="n", reports=tuple(launched)),
        count=lambda: sum(1 for attempt in machine.attempts.values() if attempt.started),
    )
    assert told == SLICE


def test_a_node_that_joins_is_matched_with_some_constraints_between_two_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "PAUSE", 3)
    entries = [{"command": ["true"], "resource": "<1, 1M>", "requirement": f"Memory > {n}M"} for n in range(20)]
    _, jobs = read_jobs(entries, dimensions=DIMENSIONS, user="ann")
    one, other = Machine(DIMENSIONS, Options()), Machine(DIMENSIONS, Options())
    for machine in (one, other):
        machine.step(0, UTC_AT_START, (NodeJoined(node=node("n1", 2), boot="b"),))
        machine.step(1, UTC_AT_START, (Submit(jobs=jobs),))
    monkeypatch.setattr(one.core, "begin_batch", lambda: None)
    joins = (NodeJoined(node=node("n2", 2), boot="b"),)
    plain = one.step(2, UTC_AT_START, joins)
    slices, pauses_made = other.stepping(2, UTC_AT_START, joins), 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            assert done.value == plain
            break
        pauses_made += 1
        assert other.reason(20)
    assert pauses_made >= len(jobs) // 3
    assert [launch.node for launch in plain.launches] == ["n2", "n2"]
    assert one.export() == other.export()
    assert not other.validate()


def _groups(count: int, more: str = "") -> GroupsApplied:
    text = "\n\n".join(f"Name: g{number}\nResourceQuota: 1\nUsers: *{more}" for number in range(count))
    return GroupsApplied(parse_groups(text, dimensions=DIMENSIONS).groups)


def test_groups_are_prepared_in_parts_and_come_to_be_what_they_are_without_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups, their policies and their quotas are made before the change, which then only puts them in place."""
    one, other = Machine(DIMENSIONS, Options()), Machine(DIMENSIONS, Options())
    monkeypatch.setattr(one.core, "preparing_groups", lambda _: ())
    made: list[str] = []
    make = GroupState.__init__

    def noted(self: GroupState, name: str) -> None:
        make(self, name)
        made.append(name)

    monkeypatch.setattr(GroupState, "__init__", noted)
    count = 3 * shares.PAUSE
    capacity = "\nSchedPolicy: Capacity\nUserWeights: ann=2 | bob=1"
    tree = msgspec.structs.replace(
        (flat := _groups(count)), groups=(*flat.groups, *parse_groups(_TREE, dimensions=DIMENSIONS).groups)
    )
    jobs = tuple(msgspec.structs.replace(job(), group=f"g{number % 9}") for number in range(40))
    for inputs in (
        (NodeJoined(node=node("n", 4), boot="b"), _groups(count)),
        (Submit(jobs=jobs),),
        (_groups(count, capacity),),
        (tree,),
        (_groups(count, "\nMaxQuota: 2"),),
        (_groups(20),),
    ):
        plain = one.step(one.now + 1, UTC_AT_START, inputs)
        most = most_between_pauses(other, *inputs, count=lambda: len(made))
        assert most <= shares.PAUSE
        assert not [reply for reply in plain.replies if isinstance(reply, InputError)]
        assert one.export() == other.export()
        assert not other.validate()


def test_groups_are_prepared_that_are_the_first_to_name_a_kind_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus, options = Dimensions(("gpu",)), Options(accounting="dominant")
    one, other = Machine(gpus, options), Machine(gpus, options)
    monkeypatch.setattr(one.core, "preparing_groups", lambda _: ())
    for quotas in ("<1>", "<1, gpu=1>"), ("<1>", "<2, gpu(A100)=1>", "<1, gpu(T4)=1>"), ("<1, gpu(T4)=1>", "<1>"):
        text = "\n\n".join(
            f"Name: g{len(quotas)}{number}\nResourceQuota: {quota}" for number, quota in enumerate(quotas)
        )
        applied = GroupsApplied(parse_groups(text, dimensions=gpus, accounting="dominant").groups)
        for machine in (one, other):
            result = machine.step(machine.now + 1, UTC_AT_START, (applied,))
            assert not [reply for reply in result.replies if isinstance(reply, InputError)]
        assert one.export() == other.export()
        assert not other.validate()


_TREE = """\
Name: all
ResourceQuota: 8
Users: *

Name: low
Parent: all
ResourceQuota: 4
Users: *
Lendable: 2

Name: high
Parent: all
ResourceQuota: 4
Users: *
"""


def most_between_pauses(machine: Machine, *inputs: Input, count: Callable[[], int]) -> int:
    """Make a step, read everything at each of its pauses, and return the largest change of ``count`` between two."""
    counts = [count()]
    work = machine.stepping(machine.now + 1, UTC_AT_START, inputs)
    while True:
        try:
            next(work)
        except StopIteration:
            break
        counts.append(count())
        for number in (*list(machine.jobs)[::7], *machine.families):
            machine.reason(number)
    return max(abs(more - before) for before, more in itertools.pairwise([*counts, count()]))
