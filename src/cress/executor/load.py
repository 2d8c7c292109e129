"""Load of the machine (docs/load.md): the kernel's counters as shares of the machine's capacity, smoothed.

Only processors that this program may run on count, so that an executor pinned to a part of the machine measures that
part. All input is read from ``/proc`` and ``/sys``; ``smoothed`` and ``differs`` only calculate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from cress.executor.background import in_background
from cress.executor.settings import LOAD_EVERY, LOAD_HALF_LIFE
from cress.model.errors import InputError
from cress.model.node import DISK_KIND, Device, Load
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector

# Smaller changes are not reported: in a share (thousandths), and in the free memory (bytes).
POINT, BYTES = 10, 32 * 2**20
# Seconds after which an unchanged load is reported again, since the center's verdict depends on more than the load.
AGAIN = 15.0
# Seconds between two scans for disks and interfaces.
LOOK = 60.0
# Assumed speed of an interface that does not report one, in bit/s.
NETWORK = 10**9
WHOLE = 1000


class Counted(NamedTuple):
    """The kernel's counters at one time.

    Busy and all ticks of each processor, bytes sent, busy milliseconds of each disk.
    """

    at: float
    busy: dict[int, int]
    ticks: dict[int, int]
    sent: dict[str, int]
    disks: dict[str, int]


class Sample(NamedTuple):
    """Shares in use between two times (0 … 1), and the free memory at the second time, in bytes."""

    cpu: float
    memory: float
    network: float
    disk: float
    free_memory: float


class CounterFiles(NamedTuple):
    """The directories of the kernel's counters, and the node's network in bit/s (0: the speed of its interfaces)."""

    network: int = 0
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


def smoothed(before: Sample | None, sample: Sample, elapsed: float, half_life: float = LOAD_HALF_LIFE) -> Sample:
    """Return ``before`` moved towards ``sample``, ``elapsed`` seconds later: half of the distance in a half-life.

    Two steps with the same sample equal one step of the total length, so irregular sampling makes no difference.
    """
    if before is None:
        return sample
    weight = 1.0 - 2.0 ** (-max(0.0, elapsed) / half_life)
    return Sample(*(x + weight * (y - x) for x, y in zip(before, sample, strict=True)))


def between(first: Counted, second: Counted, bits: int, memory: tuple[int, int]) -> Sample:
    """Return the shares in use between two counts.

    ``bits`` is the speed of the network in bit/s, ``memory`` the total and the available memory in bytes. A processor,
    interface or disk is left out if only one of the counts has it, or if its counter was reset.
    """
    elapsed = max(1e-3, second.at - first.at)
    cpus = first.ticks.keys() & second.ticks.keys()
    ticks = sum(second.ticks[tick] - first.ticks[tick] for tick in cpus)
    busy = sum(second.busy[tick] - first.busy[tick] for tick in cpus)
    sent = sum(
        max(0, second.sent[interface] - first.sent[interface]) for interface in first.sent.keys() & second.sent.keys()
    )
    disks = [
        _share((second.disks[disk] - first.disks[disk]) / 1e3 / elapsed)
        for disk in first.disks.keys() & second.disks.keys()
    ]
    total, available = memory
    return Sample(
        cpu=_share(busy / ticks) if ticks > 0 else 0.0,
        memory=_share(1.0 - available / total) if total else 0.0,
        network=_share(8 * sent / elapsed / bits) if bits else 0.0,
        disk=sum(disks) / len(disks) if disks else 0.0,
        free_memory=float(available),
    )


def _share(value: float) -> float:
    return max(0.0, min(1.0, value))


def load_of(sample: Sample) -> Load:
    """Return the smoothed sample as the message to the center."""
    cpu, memory, network, disk = (round(WHOLE * share) for share in sample[:4])
    return Load(cpu, memory, network, disk, int(sample.free_memory))


def differs(told: Load, load: Load) -> bool:
    """Return whether a load differs noticeably from the one reported last."""
    shares = ((told.cpu, load.cpu), (told.memory, load.memory), (told.network, load.network), (told.disk, load.disk))
    return any(abs(x - y) >= POINT for x, y in shares) or abs(told.free_memory - load.free_memory) >= BYTES


# --- reading ---------------------------------------------------------------------------------------------------


def processors(machine: CounterFiles, allowed: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return busy ticks and all ticks of those of the ``allowed`` processors that exist.

    Waiting for a disk counts as idle, stolen time as busy.
    """
    busy: dict[int, int] = {}
    ticks: dict[int, int] = {}
    wanted = set(allowed)
    with (machine.proc / "stat").open() as lines:
        for line in lines:
            if not line.startswith("cpu"):
                break
            name, *rest = line.split()
            if name == "cpu" or int(name[3:]) not in wanted:
                continue
            # user nice system idle iowait irq softirq steal; the fields after these are part of the first two.
            counts = [int(count) for count in rest[:8]]
            number = int(name[3:])
            ticks[number] = sum(counts)
            busy[number] = ticks[number] - counts[3] - counts[4]
    return busy, ticks


def interfaces(machine: CounterFiles) -> list[Path]:
    """Return the hardware interfaces; if there are none (in some containers), all but the loopback."""
    try:
        there = [path for path in sorted((machine.sys / "class/net").iterdir()) if path.name != "lo"]
    except OSError:
        return []
    return [path for path in there if (path / "device").exists()] or there


def speed(found: Iterable[Path]) -> int:
    """Return the total speed of these interfaces in bit/s, as far as they report one."""
    total = 0
    for folder in found:
        with contextlib.suppress(OSError, ValueError):
            total += max(0, int((folder / "speed").read_text())) * 10**6
    return total or NETWORK


def disks(machine: CounterFiles, devices: Iterable[Device]) -> list[Path]:
    """Return the block devices of these disks; without disks, all hardware block devices."""
    blocks: dict[Path, None] = {}
    for device in devices:
        with contextlib.suppress(OSError):
            number = Path(device.path).stat().st_dev
            block = machine.sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
            if device.kind == DISK_KIND and block.exists():
                blocks[block.resolve()] = None
    if blocks:
        return list(blocks)
    with contextlib.suppress(OSError):
        return [path for path in sorted((machine.sys / "block").iterdir()) if (path / "device").exists()]
    return []


def used_part(folder: Path | None) -> int:
    """Return the used part of a folder's disk in thousandths, of what users may use of it; 0 if it cannot be told."""
    if folder is None:
        return 0
    try:
        room = os.statvfs(folder)
    except OSError:
        return 0
    used = room.f_blocks - room.f_bfree
    return round(WHOLE * used / max(1, used + room.f_bavail))


class Sampler:
    """Samples the machine while the agent runs; ``load`` is the latest, None before the second sample."""

    def __init__(
        self,
        resource: str = "",
        every: float = LOAD_EVERY,
        half_life: float = LOAD_HALF_LIFE,
        machine: CounterFiles | None = None,
        folder: Path | None = None,
    ) -> None:
        """``folder``: the one whose disk must not fill up."""
        self.machine = machine or CounterFiles(offered_network(resource))
        self.folder = folder
        # The used part of the disk of the folder in thousandths; 0 if it cannot be told.
        self.full = 0
        self.devices: tuple[Device, ...] = ()
        self.load: Load | None = None
        self._every, self._half_life = every, half_life
        self._smooth: Sample | None = None
        self._last: Counted | None = None
        self._looked = -LOOK
        self._disks: list[Path] = []
        self._interfaces: list[Path] = []
        self._bits = NETWORK
        self._fresh = asyncio.Event()

    async def run(self) -> None:
        """Sample for ever; a counter that cannot be read is tried again the next time."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                await in_background(self.sample)
            self._fresh.set()
            self._fresh.clear()
            await asyncio.sleep(self._every)

    async def fresh(self) -> None:
        """Wait for the next sample."""
        await self._fresh.wait()

    def sample(self) -> None:
        """Take one sample; docs/load.md states the cost."""
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._look(now)
        busy, ticks = processors(self.machine, os.sched_getaffinity(0))
        counted = Counted(now, busy, ticks, self._sent(), self._busy())
        memory = psutil.virtual_memory()
        if self._last is not None:
            sample = between(self._last, counted, self._bits, (int(memory.total), int(memory.available)))
            self._smooth = smoothed(self._smooth, sample, now - self._last.at, self._half_life)
            self.load = load_of(self._smooth)
        self._last = counted
        self.full = used_part(self.folder)

    def _look(self, now: float) -> None:
        self._looked = now
        self._interfaces = interfaces(self.machine)
        self._bits = self.machine.network or speed(self._interfaces)
        self._disks = disks(self.machine, self.devices)

    def _sent(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for interface in self._interfaces:
            with contextlib.suppress(OSError, ValueError):
                found[interface.name] = int((interface / "statistics/tx_bytes").read_text())
        return found

    def _busy(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for disk in self._disks:
            # The tenth number: milliseconds during which requests were in progress.
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[disk.name] = int((disk / "stat").read_text().split()[9])
        return found


class LoadReporter:
    """The last load reported to one center, and the decision to report a new one."""

    def __init__(self) -> None:
        self._told: Load | None = None
        self._at = 0.0

    def is_due(self, load: Load | None, now: float) -> bool:
        """Return whether to report this load at ``now`` (seconds); if so, it counts as reported."""
        if load is None or (self._told is not None and not differs(self._told, load) and now < self._at + AGAIN):
            return False
        self._told, self._at = load, now
        return True


def offered_network(resource: str) -> int:
    """Return the network of a configured resource, in bit/s; 0: none."""
    dimensions = Dimensions()
    try:
        return parse_vector(resource, dimensions)[dimensions.index["network"]] if resource else 0
    except InputError:
        # The resource has dimensions that only the center can read.
        return 0
