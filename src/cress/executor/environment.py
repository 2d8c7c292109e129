"""What Cress tells a task about itself in its environment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from cress.executor.runtimes.base import Spawn
from cress.model.devices import WHOLE
from cress.model.job import JobType
from cress.model.node import DISK_KIND
from cress.model.run import Host, Run
from cress.model.units import format_share
from cress.shell.executor.node_devices import AttemptDevices

# The file with the hosts of a gang, in the attempt's folder.
HOST_FILE = b"hosts"
# Linux takes no variable of 128 KiB; who has more hosts reads the file.
MOST_HOSTS = 100_000
# The kind of device that CUDA is told of.
GPU = "gpu"


def of_job(run: Run) -> dict[bytes, bytes]:
    """The variables that all tasks of a job have in common. A task of a service or database is told its family's number."""
    kept_up = run.family and run.type in (JobType.SERVICE, JobType.DATABASE)
    found = {
        b"CRESS_JOB_ID": b"%d" % (run.family if kept_up else run.job),
        b"CRESS_JOB_NAME": os.fsencode(run.name),
        b"CRESS_GROUP": os.fsencode(run.group),
        b"CRESS_TASK_COUNT": b"%d" % run.tasks,
    }
    if run.family:
        found[b"CRESS_FAMILY_ID"] = b"%d" % run.family
    return found


def variables(what: Spawn) -> dict[bytes, bytes]:
    """The variables of one attempt, beyond those of its job."""
    context = what.context
    found = {
        b"CRESS_TASK_INDEX": b"%d" % what.task,
        b"CRESS_ATTEMPT": b"%d" % what.attempt,
        b"CRESS_DIRECTORY": what.folder,
    }
    if what.data:
        found[b"CRESS_STATE"] = what.data
    if context.address:
        found[b"CRESS_ADDRESS"] = os.fsencode(context.address)
    if context.rack:
        found[b"CRESS_RACK"] = os.fsencode(context.rack)
    if context.ports:
        found[b"CRESS_PORT"] = b"%d" % context.ports[0]
        for (name, _), number in zip(what.run.ports, context.ports, strict=False):
            if name:
                found[b"CRESS_PORT_" + os.fsencode(name)] = b"%d" % number
    found |= _of_devices(context.devices)
    if context.hosts:
        found |= _of_gang(what.run, context.hosts)
        found[b"CRESS_HOSTFILE"] = what.folder + b"/" + HOST_FILE
    return found


def host_file(hosts: Sequence[Host]) -> bytes:
    """A line for each address, with the number of tasks there, as ``mpirun --hostfile`` takes it."""
    slots = Counter(host.address for host in hosts)
    return b"".join(b"%s slots=%d\n" % (os.fsencode(address), count) for address, count in slots.items())


def _of_devices(devices: AttemptDevices) -> dict[bytes, bytes]:
    """Which devices the attempt has; of every kind that the node has devices of, also if it has none of them."""
    found: dict[bytes, bytes] = {}
    if devices.folders:
        found[b"CRESS_DISK"] = os.fsencode(devices.folders[0])
        found[b"CRESS_DISKS"] = b":".join(os.fsencode(folder) for folder in devices.folders)
    kinds = dict.fromkeys((*devices.kinds, *(each.kind for each in devices.allocated)))
    for kind in kinds:
        own = [each for each in devices.allocated if each.kind == kind]
        name = b"CRESS_DEVICES_" + os.fsencode(kind.upper())
        found[name] = ids = b",".join(os.fsencode(each.id) for each in own)
        part = sum(each.amount for each in own) if kind != DISK_KIND else 0
        shared = 0 < part < WHOLE
        if shared:
            found[name + b"_SHARE"] = os.fsencode(format_share(Decimal(part) / WHOLE))
        if kind == GPU:
            # What CUDA counts is the order of the bus: so do NVML and its tools.
            found[b"CUDA_DEVICE_ORDER"] = b"PCI_BUS_ID"
            found[b"CUDA_VISIBLE_DEVICES"] = ids
            if shared:
                found[b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = b"%d" % max(1, part * 100 // WHOLE)
    return found


def _of_gang(run: Run, hosts: Sequence[Host]) -> dict[bytes, bytes]:
    """Where its tasks find each other; the first of them is where they meet."""
    master = hosts[0]
    found = {b"CRESS_MASTER": os.fsencode(master.address)}
    addresses = b",".join(os.fsencode(host.address) for host in hosts)
    if len(addresses) <= MOST_HOSTS:
        found[b"CRESS_HOSTS"] = addresses
    if master.ports:
        # A port of its own is better to meet at than one at which it serves others.
        dynamic = [number for (_, wanted), number in zip(run.ports, master.ports, strict=False) if not wanted]
        found[b"CRESS_MASTER_PORT"] = b"%d" % (dynamic or master.ports)[0]
    return found
