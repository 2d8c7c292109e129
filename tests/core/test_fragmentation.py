"""The order ``fragmentation``: where what the likely mix cannot use of the devices grows least (design note 0026)."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.center.views.jobs import why_chosen
from cress.core.kernels.filling import fill_values
from cress.core.scheduler import Scheduler
from cress.model.decisions import Preempt, Start
from cress.model.events import (
    GroupsApplied,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    Outcome,
    TaskEnded,
)
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Device, Node
from cress.model.option_text import parse_assignments
from cress.model.resources import Dimensions
from tests.examples import examples

DIMENSIONS = Dimensions(("gpu",))
GIB = 2**30
f32 = np.float32


def gpu_node(name: str, gpus: int, cpu: int = 16, model: str = "A10") -> Node:
    devices = tuple(Device(kind="gpu", id=str(i), model=model) for i in range(gpus))
    capacity = DIMENSIONS.vector(cpu=cpu * 1000, memory=64 * GIB, gpu=gpus * 1000)
    return Node(name=name, capacity=capacity, devices=devices, attributes=(("GPUModel", model),))


def scheduler(*nodes: Node, **options: object) -> Scheduler:
    core = Scheduler(DIMENSIONS, parse_assignments([f"{key}={value}" for key, value in options.items()]))
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied((Group(name="g", quota=Quota(scalar=10**9)),))])
    return core


def task(number: int, gpu: int, cpu: int = 1, requirement: str = "") -> Job:
    request = DIMENSIONS.vector(cpu=cpu * 1000, memory=GIB, gpu=gpu)
    return Job(id=number, name="t", group="g", request=request, requirement=requirement)


def run(core: Scheduler, job: Job) -> Start | None:
    """Submit a job and start it at once, or cancel it."""
    core.observe(0, [JobSubmitted(job)])
    for each in core.decide(0).items:
        if isinstance(each, Start):
            return each
    core.observe(0, [JobCancelled(job.id)])
    return None


# --- the value of what is left -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "worth"),
    [
        pytest.param({500: 1}, {499: 0, 500: 500, 999: 500, 1000: 1000}, id="halves"),
        pytest.param({470: 5, 810: 5, 1000: 5}, {190: 0, 530: 500, 810: 1000}, id="what is left of 470 holds one more"),
        # Two thirds and one third share a device; the many small pieces beside 810 are worth nothing.
        pytest.param({160: 1, 320: 5, 650: 3, 810: 9}, {190: 0, 350: 333, 650: 667, 1000: 1000}, id="scarce pairs"),
        pytest.param({}, {1000: 0}, id="nothing is likely"),
    ],
)
def test_the_value_of_an_idle_part(wanted: dict[int, int], worth: dict[int, int]) -> None:
    out = np.zeros(1001, np.int64)
    fill_values(np.array(list(wanted), np.int64), np.array(list(wanted.values()), np.float64), out)
    assert {left: int(out[left]) for left in worth} == worth


@examples(5)
@given(st.dictionaries(st.integers(50, 1000), st.integers(1, 20), min_size=1, max_size=5))
def test_values_are_dual_prices(wanted: dict[int, int]) -> None:
    """They never fall, join without loss, and the whole mix is worth the fewest devices that a fractional packing
    takes.
    """
    out = np.zeros(1001, np.int64)
    sizes = sorted(wanted)
    fill_values(np.array(sizes, np.int64), np.array([wanted[size] for size in sizes], np.float64), out)
    values = out.tolist()
    assert values == sorted(values)
    assert values[1000] == 1000
    for one, other in product(sizes, sizes):
        if one + other <= 1000:
            assert values[one + other] >= values[one] + values[other] - 1  # rounded
    devices = sum(wanted[size] * values[size] for size in sizes) / 1000
    assert devices >= sum(wanted[size] * size for size in sizes) / 1000 - 0.001 * sum(wanted.values())
    assert devices <= sum(wanted.values()) + 0.001 * sum(wanted.values())


# --- the choice ----------------------------------------------------------------------------------------------


class Twin:
    """The order by its definition, one node after the other, without a cache."""

    def __init__(self, core: Scheduler) -> None:
        self.core = core

    def fragment(self, free: list[int], left: list[int], f: int) -> np.float32:
        order, total, options = self.core.books.fragmentation, f32(0), self.core.options
        if not sum(left):
            return total
        for request, share, may in zip(order._requests.tolist(), order._shares, order._may, strict=True):
            amount = request[-1]
            if amount < 1000:
                usable, copies = sum(x for x in left if x >= amount), sum(x // amount for x in left)
            else:
                copies = left.count(1000) * 1000 // amount
                usable = 1000 * left.count(1000) if copies else 0
            copies = min([copies, *(have // need for have, need in zip(free, request, strict=True) if need)])
            copies *= int(may[f])
            now = f32(sum(left) - (usable if copies > 0 else 0))
            full = f32(sum(left) - copies * amount)
            total += share * ((now + f32(options.fragmentation_copies) * full) / f32(1000))
        unfilled = sum(x - int(order._values[0, x]) for x in left)
        total += f32(options.fragmentation_filling) * (f32(unfilled) / f32(1000))
        # What the allowed tasks request together, in the proportions of the mix, for the idle devices.
        allowed = [
            (request, np.float64(share))
            for request, share, may in zip(order._requests.tolist(), order._shares, order._may, strict=True)
            if may[f]
        ]
        together = sum((share * request[-1] for request, share in allowed), np.float64(0))
        held = np.float64(sum(left))
        for k, have in enumerate(free):
            of_k = sum((share * request[k] for request, share in allowed), np.float64(0))
            if of_k > 0:
                held = min(held, np.float64(max(0, have)) / (of_k / together))
        return total + f32(options.fragmentation_blend) * (f32(sum(left) - held) / f32(1000))

    def lefts(self, f: int) -> list[int]:
        from cress.core.tables.devices import device_use

        return [left[0] for _, left, _ in device_use(self.core.cluster, f)]

    def choose(self, job: Job) -> tuple[str, list[int]] | None:
        core, shape = self.core, self.core.jobs[job.id].shape
        core.books.fragmentation._follow()
        squares = core.books.balance.squares(shape)
        best: tuple[np.float32, str, list[int]] | None = None
        for f, name in enumerate(core.cluster.names):
            if core.cluster.lack[shape.row, f]:
                continue
            free, left, amount = list(core.cluster.free(f)), self.lefts(f), job.request[-1]
            after = [have - need for have, need in zip(free, job.request, strict=True)]
            chosen: list[int] = []
            rest = list(left)
            if 0 < amount < 1000:
                worth = core.books.fragmentation._values[0]
                fitting = [d for d, x in enumerate(left) if x >= amount]
                chosen = [min(fitting, key=lambda d: (worth[left[d]] - worth[left[d] - amount], left[d]))]
                rest[chosen[0]] -= amount
            elif amount:
                chosen = [d for d, x in enumerate(left) if x == 1000][: amount // 1000]
                rest = [0 if d in chosen else x for d, x in enumerate(left)]
            growth = self.fragment(after, rest, f) - self.fragment(free, left, f)
            score = growth + f32(core.options.fragmentation_balance) * np.sqrt(squares[f])
            if best is None or score < best[0]:
                best = score, name, chosen
        return None if best is None else best[1:]


@examples(3)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([4, 16]), st.sampled_from(["A10", "T4"])), min_size=2, max_size=4),  # noqa: E501
    st.lists(
        st.tuples(st.sampled_from([0, 160, 320, 470, 530, 810, 1000, 2000]), st.integers(1, 4), st.booleans()),
        min_size=40,
        max_size=60,
    ),
)  # fmt: skip
def test_the_kernel_chooses_as_its_plain_twin(
    nodes: list[tuple[int, int, str]], tasks: list[tuple[int, int, bool]]
) -> None:
    core = scheduler(*(gpu_node(f"n{i}", *each) for i, each in enumerate(nodes)))
    twin = Twin(core)
    for number, (gpu, cpu, asks) in enumerate(tasks, 1):
        job = task(number, gpu, cpu, 'GPUModel = "T4"' if asks and gpu else "")
        core.observe(0, [JobSubmitted(job)])
        foreseen = twin.choose(job)
        started = [each for each in core.decide(0).items if isinstance(each, Start)]
        assert [(each.node, [int(device.id) for device in each.devices]) for each in started] == (
            [] if foreseen is None else [foreseen]
        )
        if not started:
            core.observe(0, [JobCancelled(number)])
    assert not core.validate()


@examples(4)
@given(
    st.lists(st.tuples(st.sampled_from([0, 160, 470, 810, 1000, 2000]), st.integers(0, 9)), min_size=40, max_size=80)
)
def test_the_choice_is_that_of_a_scheduler_that_remembers_nothing(steps: list[tuple[int, int]]) -> None:
    """Tasks come and end, nodes join and change, with other devices: what is kept of earlier nodes and choices changes
    none.
    """
    nodes = [gpu_node(f"n{i}", 1 + i % 2, model=("A10", "T4")[i % 2]) for i in range(4)]
    core = scheduler(*nodes)
    running: list[int] = []
    for number, (gpu, turn) in enumerate(steps, 1):
        if turn == 0:
            name = f"n{number % 6}"
            node = gpu_node(name, 1 + number % 4, 8 + number % 16)
            core.observe(0, [NodeChanged(node) if name in core.cluster.names else NodeAdded(node)])
        elif turn == 1 and running:
            core.observe(0, [TaskEnded(running.pop(number % len(running)))])
        job = task(number, gpu, 1, 'GPUModel = "T4"' if turn > 6 else "")
        core.observe(0, [JobSubmitted(job)])
        fresh = Scheduler.restore(core.export())
        decided = core.decide(0).items
        assert decided == fresh.decide(0).items
        running += [each.attempt for each in decided if isinstance(each, Start)]
        if not decided:
            core.observe(0, [JobCancelled(number)])
    assert not core.validate()


def test_a_restored_scheduler_and_one_that_replays_decide_the_same() -> None:
    nodes = [gpu_node("a", 2), gpu_node("b", 4, 32), gpu_node("c", 8, 48, "T4")]
    amounts = [470, 810, 1000, 320, 160, 650, 2000]
    core, replayed = scheduler(*nodes), scheduler(*nodes)
    restored: Scheduler | None = None
    for number in range(1, 90):
        job = task(number, amounts[number * 5 % 7], 1 + number % 3)
        submitted = JobSubmitted(job)
        core.observe(0, [submitted])
        decided = core.decide(0).items
        replayed.apply(0, [submitted, *decided])
        if restored is not None:
            restored.observe(0, [submitted])
            assert restored.decide(0).items == decided
        if not decided:
            for each in filter(None, (core, replayed, restored)):
                each.observe(0, [JobCancelled(number)])
        if number == 40:
            restored = Scheduler.restore(core.export())
    assert core.books.mix.version > 1
    assert restored is not None
    assert restored.export().mix == core.export().mix == replayed.export().mix
    last = task(99, 50)
    assert {each.node for each in (run(core, last), run(replayed, last), run(restored, last)) if each} != set()


def test_models_that_others_need_are_left_to_them() -> None:
    """Most tasks need a T4; one that could run anywhere does not take it, although that node came first."""
    core = scheduler(gpu_node("t4", 2, model="T4"), gpu_node("a10", 2, model="A10"))
    for number in range(1, 40):
        core.observe(0, [JobSubmitted(task(number, 1000, 1, 'GPUModel = "T4"')), JobCancelled(number)])
    start = run(core, task(50, 1000))
    assert start is not None
    assert start.node == "a10"


def test_cores_for_idle_devices_are_kept() -> None:
    """A task without a device goes where no device needs the cores, as long as the mix asks for some with each."""
    core = scheduler(gpu_node("short of cores", 4, 16), gpu_node("rich in cores", 1, 64))
    for number in range(1, 40):
        core.observe(0, [JobSubmitted(task(number, 1000, 4)), JobCancelled(number)])
    start = run(core, task(50, 0, 4))
    assert start is not None
    assert start.node == "rich in cores"


@pytest.mark.parametrize(("blend", "node"), [(0, "enough cores"), (2, "too few cores")])
def test_a_light_task_goes_where_the_cores_are_too_few_for_the_likely_tasks_together(blend: float, node: str) -> None:
    """Half of the tasks take 8 cores with a GPU, the others 1: together 4.5 for each, and one node has 4."""
    core = scheduler(gpu_node("too few cores", 4, 16), gpu_node("enough cores", 4, 28), fragmentation_blend=blend)
    for number in range(1, 41):
        core.observe(0, [JobSubmitted(task(number, 1000, 8 if number % 2 else 1)), JobCancelled(number)])
    start = run(core, task(50, 1000, 1))
    assert start is not None
    assert start.node == node


def test_without_devices_the_order_is_balance() -> None:
    plain = [Node(name=f"n{i}", capacity=DIMENSIONS.vector(cpu=(4 + i) * 1000, memory=8 * GIB)) for i in range(3)]
    one, other = scheduler(*plain), scheduler(*plain, node_order="balance")
    for number in range(1, 12):
        job = task(number, 0, 1 + number % 2)
        assert run(one, job) == run(other, job)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ((0.0123, 0.314, 14), "chosen for least fragmentation 0.012, balance 0.31; 14 others fit"),
        ((-1.5, 0.0, 1), "chosen for least fragmentation -1.500, balance 0.00; 1 other fits"),
        ((0.0, 0.2, 0), "chosen for least fragmentation 0.000, balance 0.20; no other fits"),
        (None, ""),
    ],
)
def test_a_start_says_why_its_node_was_chosen(chosen: tuple[float, float, int] | None, said: str) -> None:
    assert why_chosen(chosen) == said


def test_the_decision_carries_why() -> None:
    start = run(scheduler(gpu_node("a", 2), gpu_node("b", 2)), task(1, 500))
    assert start is not None
    assert start.chosen is not None
    assert start.chosen[2] == 1


def test_every_task_of_a_gang_says_why() -> None:
    core = scheduler(gpu_node("a", 2), gpu_node("b", 2))
    core.observe(0, [JobSubmitted(msgspec.structs.replace(task(1, 1000), tasks=4, gang=True))])
    starts = [each for each in core.decide(0).items if isinstance(each, Start)]
    # Another node has an idle device too, but not for the last task.
    assert [start.chosen and start.chosen[2] for start in starts] == [1, 1, 1, 0]


def test_every_job_of_a_unit_says_why() -> None:
    """A task and its dependant whose node failed start together on one node, which was chosen for both."""
    core = scheduler(gpu_node("n1", 2))
    core.observe(0, [JobSubmitted(task(1, 500))])
    core.observe(0, [JobSubmitted(msgspec.structs.replace(task(2, 500), name="b", requirement='JobDependency = "t"'))])
    core.decide(0)
    core.observe(1, [NodeLost("n1"), NodeAdded(gpu_node("n2", 2)), NodeAdded(gpu_node("n3", 4))])
    starts = [each for each in core.decide(1).items if isinstance(each, Start)]
    assert [start.leader for start in starts] == [None, 1]
    assert starts[0].chosen is not None
    assert starts[0].chosen == starts[1].chosen
    assert starts[0].chosen[2] == 1


def test_a_start_in_kept_room_says_why_there_was_room() -> None:
    group = Group(name="new", quota=Quota(scalar=10**9))
    core = scheduler(gpu_node("a", 2), preemption="on")
    core.observe(0, [GroupsApplied((Group(name="g", quota=Quota(scalar=1)), group))])
    for number in (1, 2):
        run(core, task(number, 1000))
    core.observe(0, [JobSubmitted(msgspec.structs.replace(task(3, 2000), group="new"))])
    victims = [each for each in core.decide(0).items if isinstance(each, Preempt)]
    core.observe(1, [TaskEnded(each.attempt, Outcome.PREEMPTED) for each in victims])
    (start,) = [each for each in core.decide(1).items if isinstance(each, Start) and each.job == 3]
    assert (start.chosen, start.kept) == (None, ("preempted", 2))


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (("preempted", 1), "chosen for the room of 1 task, which had to stop for it"),
        (("preempted", 2), "chosen for the room of 2 tasks, which had to stop for it"),
        (("moves", 3), "chosen for the room of 3 tasks, moved away for it"),
        (("moved", 0), "chosen as the place to which it was moved"),
        (("planned", 0), "chosen when its start was planned"),
        (("of a later release", 0), ""),
    ],
)
def test_what_is_said_of_kept_room(kept: tuple[str, int], said: str) -> None:
    assert why_chosen(None, kept) == said
