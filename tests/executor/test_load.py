"""How busy the machine is: smoothing, shares of what the kernel counts, what the center is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.executor.load import (
    AGAIN,
    BYTES,
    NETWORK,
    POINT,
    Counted,
    CounterFiles,
    LoadReporter,
    Sample,
    Sampler,
    between,
    differs,
    disks,
    interfaces,
    load_of,
    offered_network,
    processors,
    smoothed,
    speed,
    used_part,
)
from cress.model.node import Device, Load
from tests.executor.centers import AgentProcess, Center, clean_up
from tests.executor.harness import PATIENCE

shares = st.floats(0, 1)
samples = st.builds(Sample, shares, shares, shares, shares, st.floats(0, 2**45))
times = st.floats(0, 1000)


# --- smoothing -------------------------------------------------------------------------------------------------------


def test_half_of_a_change_counts_after_the_half_life() -> None:
    idle, busy = Sample(0, 0, 0, 0, 8e9), Sample(1, 1, 1, 1, 0)
    assert smoothed(idle, busy, 10.0) == pytest.approx((0.5, 0.5, 0.5, 0.5, 4e9))
    assert smoothed(idle, busy, 20.0).cpu == pytest.approx(0.75)
    assert smoothed(busy, idle, 3.25).cpu == pytest.approx(0.8, abs=0.002), "an idle machine is back after 3 s"
    assert smoothed(None, busy, 0.0) == busy, "the first sample is all that is known"
    assert smoothed(idle, busy, 5.0, half_life=5.0).cpu == pytest.approx(0.5)


@given(samples, samples, times, times)
def test_two_steps_are_as_one_of_both_lengths(before: Sample, sample: Sample, first: float, second: float) -> None:
    """So samples may come irregularly."""
    twice = smoothed(smoothed(before, sample, first), sample, second)
    once = smoothed(before, sample, first + second)
    assert twice[:4] == pytest.approx(once[:4], abs=1e-9)
    assert twice.free_memory == pytest.approx(once.free_memory, abs=1.0)


@given(samples, samples, times)
def test_what_is_smoothed_lies_between(before: Sample, sample: Sample, elapsed: float) -> None:
    for x, y, z in zip(before, sample, smoothed(before, sample, elapsed), strict=True):
        # A difference of numbers is as exact as the larger one.
        slack = 1e-12 * max(x, y)
        assert min(x, y) - slack <= z <= max(x, y) + slack
    assert smoothed(before, sample, 0.0) == before
    assert smoothed(before, before, elapsed) == before
    assert smoothed(before, sample, -1.0) == before, "a clock that goes back says nothing"


@given(samples, st.lists(st.tuples(samples, st.floats(0.1, 10)), max_size=20))
def test_all_that_is_sent_is_within_its_bounds(first: Sample, story: list[tuple[Sample, float]]) -> None:
    now = first
    for sample, elapsed in story:
        now = smoothed(now, sample, elapsed)
    load = load_of(now)
    assert all(0 <= each <= 1000 for each in (load.cpu, load.memory, load.network, load.disk))
    assert load.free_memory >= 0


# --- what the kernel counts ------------------------------------------------------------------------------------------


def counted(
    at: float, busy: dict[int, int], ticks: dict[int, int], sent: int = 0, blocks: dict[str, int] | None = None
) -> Counted:
    return Counted(at, busy, ticks, {"eth0": sent}, blocks or {})


def test_shares_between_two_counts() -> None:
    first = counted(10.0, {0: 100, 1: 0}, {0: 1000, 1: 1000}, 5_000, {"sda": 100, "sdb": 0})
    second = counted(12.0, {0: 300, 1: 50}, {0: 1200, 1: 1200}, 5_000 + 25_000_000, {"sda": 2_100, "sdb": 1_000})
    sample = between(first, second, 10**9, (8 * 2**30, 2 * 2**30))
    assert sample == pytest.approx((250 / 400, 0.75, 0.1, 0.75, 2 * 2**30))


def test_an_interface_that_comes_has_not_sent_all_that_it_ever_has_just_now() -> None:
    first, second = counted(0.0, {}, {}, 1_000), counted(1.0, {}, {}, 12_501_000)
    second.sent["eth1"] = 10**12
    assert between(first, second, 10**9, (0, 0)).network == pytest.approx(0.1)
    assert between(second, first, 10**9, (0, 0)).network == 0


def test_a_processor_or_disk_that_comes_or_goes_says_nothing() -> None:
    first = counted(0.0, {0: 0, 1: 900}, {0: 0, 1: 1000}, 0, {"sda": 0, "old": 50})
    second = counted(1.0, {0: 50, 2: 900}, {0: 100, 2: 1000}, 0, {"sda": 500, "new": 9})
    assert between(first, second, 10**9, (1, 1)) == pytest.approx((0.5, 0, 0, 0.5, 1))
    # Counters that begin anew, and a machine that tells nothing.
    assert between(second, first, 10**9, (0, 0))[:4] == (0, 0, 0, 0)
    assert between(counted(0, {}, {}), counted(0, {}, {}), 0, (0, 0)) == (0, 0, 0, 0, 0)


@pytest.fixture
def machine(tmp_path: Path) -> CounterFiles:
    """A machine of files: two processors, one real and one virtual interface, a disk and a loop device."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(
        "cpu  30 0 30 300 30 0 0 0 7 0\ncpu0 10 1 10 100 10 1 1 2 7 0\ncpu1 20 0 20 200 20 0 0 0 0 0\nintr 5 5\n"
    )
    for name, real, rate in (
        ("eth0", True, "1000"),
        ("eth1", True, "-1"),
        ("docker0", False, "10000"),
        ("lo", False, ""),
    ):
        place = tmp_path / "sys/class/net" / name
        (place / "statistics").mkdir(parents=True)
        (place / "statistics/tx_bytes").write_text("1000\n")
        (place / "speed").write_text(rate + "\n")
        if real:
            (place / "device").mkdir()
    for name, real in (("sda", True), ("loop0", False)):
        place = tmp_path / "sys/block" / name
        place.mkdir(parents=True)
        (place / "stat").write_text("1 2 3 4 5 6 7 8 0 4321 11\n")
        if real:
            (place / "device").mkdir()
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    return CounterFiles(0, tmp_path / "proc", tmp_path / "sys")


def test_what_is_read(machine: CounterFiles, tmp_path: Path) -> None:
    # Waiting for a disk is idle, time that the hypervisor took is busy, time of guests is in that of their users.
    assert processors(machine, [0, 1, 7]) == ({0: 25, 1: 40}, {0: 135, 1: 260})
    assert processors(machine, [1]) == ({1: 40}, {1: 260}), "only those that it may run on"
    assert [each.name for each in interfaces(machine)] == ["eth0", "eth1"]
    assert speed(interfaces(machine)) == 10**9
    assert [each.name for each in disks(machine, ())] == ["sda"]
    number = tmp_path.stat().st_dev
    mine = machine.sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
    mine.mkdir()
    device = Device(kind="disk", id="a", path=str(tmp_path))
    twice = Device(kind="disk", id="b", path=str(tmp_path / "proc"))
    gone = Device(kind="disk", id="c", path=str(tmp_path / "gone"))
    assert disks(machine, (device, twice, gone)) == [mine], "those of the node, each once"
    assert [each.name for each in disks(machine, (gone,))] == ["sda"]
    for each in ("eth0", "eth1"):
        (machine.sys / "class/net" / each / "device").rmdir()
    assert [each.name for each in interfaces(machine)] == ["docker0", "eth0", "eth1"], "in a container"
    nowhere = CounterFiles(0, tmp_path, tmp_path / "nowhere")
    assert (interfaces(nowhere), disks(nowhere, ()), speed([])) == ([], [], NETWORK)


def test_what_a_node_offers_of_the_network_counts_before_what_its_interfaces_can() -> None:
    assert offered_network("<4, 8G, 200M, 500M>") == 200_000_000
    assert offered_network("<4, 8G>") == offered_network("") == 0
    assert offered_network("<cpu=1, tapes=3>") == 0, "only the center knows all dimensions"


def test_this_machine_is_sampled(tmp_path: Path) -> None:
    sampler = Sampler("<1, 1G>", folder=tmp_path)
    sampler.sample()
    assert sampler.load is None, "one count is no share"
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        pass
    sampler.sample()
    assert sampler.load is not None
    assert 0 < sampler.load.cpu <= 1000
    assert 0 < sampler.load.memory < 1000
    assert sampler.load.free_memory > 2**20
    usage = shutil.disk_usage(tmp_path)
    assert sampler.full == pytest.approx(1000 * usage.used / (usage.used + usage.free), abs=20)
    assert used_part(tmp_path / "nowhere") == 0


# --- what is told ----------------------------------------------------------------------------------------------------


def test_it_tells_what_is_noticeable_and_the_rest_now_and_then() -> None:
    reporter = LoadReporter()
    first = Load(cpu=500, free_memory=2**33)
    assert not reporter.is_due(None, 0.0)
    assert reporter.is_due(first, 0.0)
    assert not reporter.is_due(Load(cpu=500 + POINT - 1, free_memory=2**33 + BYTES - 1), 1.0)
    assert reporter.is_due(Load(cpu=500 + POINT, free_memory=2**33), 2.0)
    assert reporter.is_due(Load(cpu=500 + POINT, free_memory=2**33 - BYTES), 3.0)
    assert not reporter.is_due(Load(cpu=500 + POINT, free_memory=2**33 - BYTES), 3.0 + AGAIN - 0.1)
    assert reporter.is_due(Load(cpu=500 + POINT, free_memory=2**33 - BYTES), 3.0 + AGAIN)
    assert LoadReporter().is_due(first, 0.0), "every center anew"


@given(st.lists(st.builds(Load, *[st.integers(0, 1000)] * 4, st.integers(0, 2**36)), min_size=1))
def test_what_was_told_is_never_far_from_what_is(story: list[Load]) -> None:
    reporter, told = LoadReporter(), story[0]
    for at, load in enumerate(story):
        if reporter.is_due(load, at / 10):
            told = load
        assert not differs(told, load)


def test_a_disk_that_never_answers_keeps_no_agent_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answers, over = threading.Event(), threading.Event(), threading.Event()

    def hang(_: Sampler) -> None:
        begun.set()
        answers.wait(20)
        over.set()

    async def work() -> None:
        task = asyncio.create_task(Sampler().run())
        await asyncio.sleep(0)
        assert begun.wait(20)
        task.cancel()

    monkeypatch.setattr(Sampler, "sample", hang)
    asyncio.run(work())
    assert not over.is_set()
    answers.set()


def test_an_agent_tells_every_center_its_load(tmp_path: Path) -> None:
    above = Center()
    agent = AgentProcess(tmp_path / "executor", above.port, load_every=0.2, load_half_life=1.0, judged=False)
    try:
        session = above.session()
        assert session.hello.judged is False
        for _ in range(2):
            load = session.loads.get(timeout=PATIENCE)
            assert 0 <= load.cpu <= 1000
            assert load.free_memory > 0
            session.connection.close()
            session = above.session()
    finally:
        agent.close()
        above.close()
        clean_up(tmp_path / "executor")
