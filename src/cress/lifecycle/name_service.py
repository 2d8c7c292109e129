"""The places of running tasks, as the name service gives them.

Source E §3.2: jobs ask by name for host, rack, address, disk and ports of the jobs with which they work.
"""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.group import DEFAULT_GROUP
from cress.model.jobfile.ports import named
from cress.model.node import DISK_KIND, Allocated, Node


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a running task, and its start: wall clock, µs since the epoch.

    ``address`` is the name of the node if the node has no other. ``ports`` are names and numbers. ``devices`` are its
    devices; ``disk`` is the path of its disk (the id if there is no path; empty: no disk), exclusive or shared; several
    are separated by ``:``. ``user`` is the owner of the job.
    """

    job: int
    name: str
    group: str
    task: int
    attempt: int
    node: str
    rack: str
    address: str
    ports: tuple[tuple[str, int], ...]
    since: int
    disk: str = ""
    devices: tuple[Allocated, ...] = ()
    user: str = ""


def place_of(context: Context, job: LiveJob, attempt: LiveAttempt) -> Place | None:
    """Return the place of an attempt of a job; None if it cannot be found by its name.

    An attempt has a place from the start of its program until it ends or is told to stop; in a service or database,
    while it is ready.
    """
    if _can_be_found(job, attempt) and attempt.node in context.nodes:
        return _place(context, job, attempt)
    return None


def order(place: Place) -> tuple[int, int]:
    """Return the key that orders places: by job and task."""
    return place.job, place.task


def _can_be_found(job: LiveJob, attempt: LiveAttempt) -> bool:
    if job.kept is not None and attempt.ready_at is None:
        return False
    return bool(attempt.started) and not attempt.halted


def ports_of(job: LiveJob, attempt: LiveAttempt) -> tuple[tuple[str, int], ...]:
    """Return the ports of an attempt: names and numbers."""
    return tuple(named((name for name, _ in job.job.ports), attempt.ports).items())


def _place(context: Context, job: LiveJob, attempt: LiveAttempt) -> Place:
    node = context.nodes[attempt.node].node
    return Place(
        job=attempt.job if job.kept is None else job.job.family,
        name=job.job.name,
        group=job.job.group or DEFAULT_GROUP,
        task=attempt.task if job.kept is None else job.index,
        attempt=attempt.id,
        node=node.name,
        rack=node.rack,
        address=node.address or node.name,
        ports=ports_of(job, attempt),
        since=attempt.started,
        disk=disk_of(node, attempt.devices),
        devices=attempt.devices,
        user=job.job.user,
    )


def disk_of(node: Node, devices: tuple[Allocated, ...]) -> str:
    """Return the disks among these devices: their paths, or else their ids."""
    paths = {device.id: device.path for device in node.devices if device.kind == DISK_KIND}
    return ":".join(paths.get(device.id) or device.id for device in devices if device.kind == DISK_KIND)
