"""The environment variables that tell a task about itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from cress.executor.runtimes.base import Spawn
from cress.model.devices import WHOLE
from cress.model.job import JobType
from cress.model.node import DISK_KIND
from cress.model.parts import part_of
from cress.model.run import Host, Run
from cress.model.step_values import FILE as VALUES_FILE
from cress.model.units import format_share
from cress.shell.executor.node_devices import AttemptDevices

# The file with the hosts of a gang, in the attempt's folder.
HOST_FILE = b"hosts"
# Linux limits a variable to 128 KiB; larger gangs read the file.
MOST_HOSTS = 100_000
# The kind of device for which CUDA's variables are set.
GPU = "gpu"


def of_job(run: Run) -> dict[bytes, bytes]:
    """Return the variables that all tasks of a job share; in a service or database also the family's number."""
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
    """Return the variables of one attempt, without those of its job."""
    context = what.context
    found = {
        b"CRESS_TASK_INDEX": b"%d" % what.run.index_of(what.task),
        b"CRESS_ATTEMPT": b"%d" % what.attempt,
        b"CRESS_RESTARTS": b"%d" % context.restarts,
        b"CRESS_DIRECTORY": what.folder,
        b"CRESS_OUTPUT": what.folder + b"/" + VALUES_FILE,
    }
    if (part := part_of(what.run.parts, what.task)) is not None:
        found[b"CRESS_PART"] = os.fsencode(part[0].name)
        found[b"CRESS_PART_INDEX"] = b"%d" % part[1]
        found[b"CRESS_PART_COUNT"] = b"%d" % part[0].tasks
    if what.data:
        found[b"CRESS_STATE"] = what.data
    if what.secrets:
        found[b"CRESS_SECRETS"] = what.secrets
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
    """Return a line for each address with its number of tasks, in the format of ``mpirun --hostfile``."""
    slots = Counter(host.address for host in hosts)
    return b"".join(b"%s slots=%d\n" % (os.fsencode(address), count) for address, count in slots.items())


def _of_devices(devices: AttemptDevices) -> dict[bytes, bytes]:
    """Return the variables for devices: one for each kind of the node, even if the attempt has none of it."""
    found: dict[bytes, bytes] = {}
    if devices.folders:
        found[b"CRESS_DISK"] = os.fsencode(devices.folders[0])
        found[b"CRESS_DISKS"] = b":".join(os.fsencode(folder) for folder in devices.folders)
    kinds = dict.fromkeys((*devices.kinds, *(device.kind for device in devices.allocated)))
    for kind in kinds:
        own = [device for device in devices.allocated if device.kind == kind]
        name = b"CRESS_DEVICES_" + os.fsencode(kind.upper())
        found[name] = ids = b",".join(os.fsencode(device.id) for device in own)
        part = sum(device.amount for device in own) if kind != DISK_KIND else 0
        shared = 0 < part < WHOLE
        if shared:
            found[name + b"_SHARE"] = os.fsencode(format_share(Decimal(part) / WHOLE))
        if kind == GPU:
            # Device ids are those of NVML, which counts in bus order; CUDA does so only if told.
            found[b"CUDA_DEVICE_ORDER"] = b"PCI_BUS_ID"
            found[b"CUDA_VISIBLE_DEVICES"] = ids
            if shared:
                found[b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = b"%d" % max(1, part * 100 // WHOLE)
    return found


def _of_gang(run: Run, hosts: Sequence[Host]) -> dict[bytes, bytes]:
    """Return the variables with the addresses of a gang's tasks; the first task is the rendezvous."""
    master = hosts[0]
    found = {b"CRESS_MASTER": os.fsencode(master.address)}
    addresses = b",".join(os.fsencode(host.address) for host in hosts)
    if len(addresses) <= MOST_HOSTS:
        found[b"CRESS_HOSTS"] = addresses
    if master.ports:
        # A dynamic port is a better rendezvous than a fixed one, which the program may use as a server.
        dynamic = [number for (_, wanted), number in zip(run.ports, master.ports, strict=False) if not wanted]
        found[b"CRESS_MASTER_PORT"] = b"%d" % (dynamic or master.ports)[0]
    return found
