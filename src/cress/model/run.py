"""What an executor needs to know to run the tasks of a job."""

from __future__ import annotations

import msgspec

from cress.model.job import OnPartition


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a job that the scheduler does not look at; the same for all its tasks.

    ``command`` is the program and its arguments; a shell command is ``("/bin/sh", "-c", text)``. ``environment``
    is added to the executor's own, minus what is secret. ``directory`` is where the task starts; empty: a directory
    of the attempt's own. ``memory_limit`` in bytes (0: none) bounds the private memory of each process.
    ``time_limit`` and ``stop_grace`` (between SIGTERM and SIGKILL) are microseconds. ``ports`` are those of the job:
    names and numbers, 0 for a dynamic one; each attempt gets its numbers with its launch, in this order.
    """

    job: int
    command: tuple[str, ...]
    name: str = ""
    group: str = ""
    user: str = ""
    tasks: int = 1
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""
    memory_limit: int = 0
    time_limit: int | None = None
    stop_grace: int = 5_000_000
    on_partition: OnPartition = OnPartition.STOP
    ports: tuple[tuple[str, int], ...] = ()


class Host(msgspec.Struct, frozen=True, array_like=True):
    """Where a task of a gang is reached: the address of its node, its ports in the order of its job's."""

    address: str
    ports: tuple[int, ...] = ()
