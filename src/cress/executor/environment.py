"""What Cress tells a task about itself in its environment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from cress.executor.runtimes.base import Spawn
from cress.model.job import JobType
from cress.model.run import Host, Run

# The file with the hosts of a gang, in the attempt's folder.
HOST_FILE = b"hosts"
# Linux takes no variable of 128 KiB; who has more hosts reads the file.
MOST_HOSTS = 100_000


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
    given = what.given
    found = {
        b"CRESS_TASK_INDEX": b"%d" % what.task,
        b"CRESS_ATTEMPT": b"%d" % what.attempt,
        b"CRESS_DIRECTORY": what.folder,
    }
    if what.data:
        found[b"CRESS_STATE"] = what.data
    if given.address:
        found[b"CRESS_ADDRESS"] = os.fsencode(given.address)
    if given.rack:
        found[b"CRESS_RACK"] = os.fsencode(given.rack)
    if given.ports:
        found[b"CRESS_PORT"] = b"%d" % given.ports[0]
        for (name, _), number in zip(what.run.ports, given.ports, strict=False):
            if name:
                found[b"CRESS_PORT_" + os.fsencode(name)] = b"%d" % number
    if given.hosts:
        found |= _of_gang(what.run, given.hosts)
        found[b"CRESS_HOSTFILE"] = what.folder + b"/" + HOST_FILE
    return found


def host_file(hosts: Sequence[Host]) -> bytes:
    """A line for each address, with the number of tasks there, as ``mpirun --hostfile`` takes it."""
    slots = Counter(host.address for host in hosts)
    return b"".join(b"%s slots=%d\n" % (os.fsencode(address), count) for address, count in slots.items())


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
