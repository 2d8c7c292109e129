"""Views of devices and of the measured load of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cress.core.scheduler import Scheduler
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveAttempt, LiveNode
from cress.model.devices import WHOLE, devices_of, read_back
from cress.model.node import DISK_KIND, Allocated, Device, Load
from cress.model.resources import DISK_DIMENSIONS, Dimensions
from cress.model.units import format_amount
from cress.protocol.cluster_views import DeviceUser, DeviceView, LoadView
from cress.protocol.job_views import HeldDevice
from cress.protocol.views import Resources

# Most tasks shown for one device.
MOST_USERS = 1_000


def held(devices: Iterable[Allocated]) -> tuple[HeldDevice, ...]:
    """Return the devices of a task."""
    return tuple(HeldDevice(kind=device.kind, id=device.id, amount=device.amount) for device in devices)


def held_then(devices: Iterable[str]) -> tuple[HeldDevice, ...]:
    """Return the devices of a finished attempt."""
    return held(map(read_back, devices))


def load_view(load: Load | None, full: int = 0) -> LoadView | None:
    """Return the view of a measured load; None if it is not measured. ``full``: of the disk, in thousandths."""
    if load is None:
        return None
    return LoadView(
        cpu=load.cpu / WHOLE,
        memory=load.memory / WHOLE,
        network=load.network / WHOLE,
        disk=load.disk / WHOLE,
        free_memory=load.free_memory,
        full=full / WHOLE,
    )


def overload(core: Scheduler, name: str) -> str:
    """Return the measured loads of a node that are too high for new tasks; empty if the node accepts tasks."""
    f = core.cluster.index.get(name)
    return "" if f is None else core.cluster.overloaded[f] or ""


def device_views(machine: Machine, node: LiveNode) -> tuple[DeviceView, ...]:
    """Return the devices of a node one by one, with the tasks that use them."""
    dimensions = machine.core.dimensions
    users: dict[tuple[str, str], list[tuple[LiveAttempt, int]]] = {}
    for attempt in machine.attempts.values():
        if attempt.node == node.node.name:
            for allocated in attempt.devices:
                users.setdefault((allocated.kind, allocated.id), []).append((attempt, allocated.amount))
    views = []
    for device in devices_of(node.node, dimensions):
        having = sorted(users.get((device.kind, device.id), ()), key=lambda user: user[0].id)
        tasks = tuple(
            DeviceUser(job=attempt.job, task=attempt.task, attempt=attempt.id, amount=amount)
            for attempt, amount in having[:MOST_USERS]
        )
        common = {"kind": device.kind, "id": device.id, "model": device.model, "path": device.path}
        state, more = _disk(machine, device, having) if device.kind == DISK_KIND else _other(having)
        views.append(DeviceView(**common, state=state, users=len(having), tasks=tasks, **more))  # type: ignore[arg-type]
    return tuple(views)


def _other(having: list[tuple[LiveAttempt, int]]) -> tuple[str, Mapping[str, object]]:
    free = max(0, WHOLE - sum(amount for _, amount in having))
    state = "free" if free == WHOLE else "shared" if free else "used"
    return state, {"free": free}


def _disk(machine: Machine, disk: Device, having: list[tuple[LiveAttempt, int]]) -> tuple[str, Mapping[str, object]]:
    dimensions = machine.core.dimensions
    alone = any(amount for _, amount in having)
    idle = [0] * len(DISK_DIMENSIONS) if alone else list(disk.bandwidth)
    if not alone:
        for attempt, _ in having:
            request = machine.jobs[attempt.job].job.request_of(attempt.task)
            for k, name in enumerate(DISK_DIMENSIONS):
                idle[k] = max(0, idle[k] - request[dimensions.index[name]])
    state = "exclusive" if alone else "shared" if having else "free"
    return state, {"bandwidth": _speeds(disk.bandwidth, dimensions), "idle": _speeds(idle, dimensions, disk.bandwidth)}


def _speeds(amounts: Iterable[int], dimensions: Dimensions, offered: Iterable[int] | None = None) -> Resources:
    """Return the amounts that a disk offers, by dimension."""
    return {
        name: format_amount(amount, dimensions.measure(name))
        for name, amount, there in zip(DISK_DIMENSIONS, amounts, offered or amounts, strict=True)
        if there
    }
