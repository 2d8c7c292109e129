"""Runs: the part of a job with which executors run its tasks."""

from __future__ import annotations

import re

import msgspec

from cress.model.bounds import Amount, Count, Port, Small
from cress.model.family import StepEnd
from cress.model.job import DEFAULT_STOP_GRACE, JobType, OnPartition
from cress.model.notify import Notify
from cress.model.parts import part_of
from cress.model.times import SECOND


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A readiness or liveness check of a task. Exactly one of ``port``, ``url`` and ``command`` is given.

    ``port`` (a name or number): passes if a connection is accepted there. ``url``: the path of a page that answers with
    a status below 400 within ``timeout``, on the port ``on`` (a name or number; empty: the only one). ``command``:
    passes if it exits with 0, run inside the task. The check runs every ``interval`` µs, first ``delay`` µs after the
    start; ``failures`` in a row make it fail.
    """

    port: str = ""
    url: str = ""
    on: str = ""
    command: tuple[str, ...] = ()
    interval: Amount = 2 * SECOND
    timeout: Amount = 2 * SECOND
    delay: Amount = 0
    failures: Small = 3


# The scheme of the address of an upload; the rest is the SHA-256 of its content.
UPLOAD = "upload:"


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a task: fetched from ``source`` (an address) to ``path``, or saved from ``path`` (may be a pattern) to
    it.

    A relative path is below the task's directory. ``mode`` as in chmod; 0: unchanged. ``unpack``: an archive, unpacked
    into the folder ``path``. ``$CRESS_…`` variables in both are replaced. Without a source the content is ``text``.
    """

    source: str
    path: str
    mode: Small = 0
    unpack: bool = False
    text: str = ""


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The image of a container, by its ``name`` as in a job file. ``secret`` has the credentials of its registry."""

    name: str
    secret: str = ""


# The variable with the credentials for an image. Only the stage of an attempt gets it.
IMAGE_CREDENTIALS = "CRESS_IMAGE_CREDENTIALS"


class SecretUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of the secret ``secret`` by a task: as the environment variable ``name``, or with ``file`` as a file of
    that name.
    """

    name: str
    secret: str
    file: bool = False


class RunPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tasks of one part of a gang: their program, and the resource limits of their containers, as in ``Run``.

    ``requirement`` and ``rank`` are those of the part, shown for finished jobs.
    """

    name: str
    tasks: Count
    command: tuple[str, ...]
    memory_limit: Amount = 0
    limits: tuple[tuple[str, Amount], ...] = ()
    requirement: str = ""
    rank: str = ""


def used_variable(name: str) -> str:
    """Return the environment variable with the address of the job ``name``."""
    return "CRESS_SERVICE_" + re.sub("[^A-Z0-9]", "_", name.upper())


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a job that the scheduler does not need; common to all its tasks.

    ``command`` is the program and its arguments; a shell command is ``("/bin/sh", "-c", text)``. ``environment`` is
    added to the executor's own without its secrets. The task starts in ``directory``; empty: a directory of the
    attempt's own. ``memory_limit`` in bytes (0: none) limits the private memory of each process. ``time_limit`` and
    ``stop_grace`` (between SIGTERM and SIGKILL) are in µs. ``ports`` are those of the job: names and numbers, 0 for a
    dynamic one; each attempt gets its numbers with its launch, in this order.

    ``type`` is the job's, ``family`` the job of which it is a member. ``runtime`` is a name; empty: the executor's
    default. ``limits`` are the resource limits of a container, by dimension, and ``pids`` its maximum number of
    processes (0: the executor's default). ``root`` is the folder of its root file system, and ``image`` an image with
    one; neither: the node's own, read-only. ``run_as`` is an account of the node; empty: that of ``user`` where the
    executor is root.

    ``files`` are fetched before the program starts, ``outputs`` are saved after its success. The last ``log_size``
    bytes of stdout and of stderr are kept (0: the executor's default); both are copied to the folder ``log_copy`` at
    the end. ``ready`` and ``alive`` are the checks of a service or database. ``source`` is the job as submitted (JSON).
    ``notify`` are the addresses that are told what becomes of the job, ``uses`` the jobs whose addresses its
    tasks get.
    ``secrets`` are those that its tasks use; their values are not part of a run. ``job_token``: its tasks get a token
    for the API, which is not part of the run either. ``deadline`` and ``within`` are the job's, as submitted; for a
    finished job they show whether it met its deadline. ``parts`` are those of a gang, whose tasks are numbered part by
    part. ``indices`` are ranges (first and last) of the indices that its tasks get in their order; empty: their
    numbers. ``labels`` are the job's, for its record. ``before`` is that of a resumed dag, for its record.
    ``steps`` are the runs of the steps of a cron job whose runs are dags.
    """

    job: Count
    command: tuple[str, ...]
    name: str = ""
    group: str = ""
    user: str = ""
    tasks: Count = 1
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""
    memory_limit: Amount = 0
    time_limit: Amount | None = None
    stop_grace: Amount = DEFAULT_STOP_GRACE
    on_partition: OnPartition = OnPartition.STOP
    ports: tuple[tuple[str, Port], ...] = ()
    type: JobType = JobType.BATCH
    family: Count = 0
    runtime: str = ""
    limits: tuple[tuple[str, Amount], ...] = ()
    pids: Amount = 0
    root: str = ""
    image: Image | None = None
    run_as: str = ""
    files: tuple[File, ...] = ()
    outputs: tuple[File, ...] = ()
    log_size: Amount = 0
    log_copy: str = ""
    ready: Check | None = None
    alive: Check | None = None
    source: str = ""
    notify: tuple[Notify, ...] = ()
    uses: tuple[str, ...] = ()
    secrets: tuple[SecretUse, ...] = ()
    job_token: bool = False
    deadline: Amount = 0
    within: Amount = 0
    parts: tuple[RunPart, ...] = ()
    indices: tuple[tuple[Count, Count], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    before: tuple[StepEnd, ...] = ()
    steps: tuple[Run, ...] = ()

    def index_of(self, task: int) -> int:
        """Return the index of a task: its number, unless the job has a list of indices."""
        left = task
        for first, last in self.indices:
            if left <= last - first:
                return first + left
            left -= last - first + 1
        return task

    def of_task(self, task: int) -> Run:
        """Return the run of a task: with the program and the limits of its part, if the job has parts."""
        found = part_of(self.parts, task)
        if found is None:
            return self
        part = found[0]
        return msgspec.structs.replace(self, command=part.command, memory_limit=part.memory_limit, limits=part.limits)

    @property
    def needs_material(self) -> bool:
        """Return whether an attempt waits for its start material before it starts."""
        return bool(self.secrets or self.uses) or self.job_token or self.has_uploads

    @property
    def has_uploads(self) -> bool:
        """Return whether its tasks fetch files that the submitter uploaded."""
        uploaded = any(file.source.startswith(UPLOAD) for file in self.files)
        return uploaded or (self.image is not None and f":{UPLOAD}" in self.image.name)

    @property
    def staged(self) -> bool:
        """Return whether files or an image are fetched before the program starts, or files are saved after its end."""
        return bool(self.files or self.outputs or self.image)


class Host(msgspec.Struct, frozen=True, array_like=True):
    """The endpoint of a task of a gang: the address of its node, and its ports in the job's order."""

    address: str
    ports: tuple[Port, ...] = ()
