"""The places of an allocation, and the processors of them that steps have taken."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cress.model.errors import InputError
from cress.slurm.arrays import parse_job

if TYPE_CHECKING:
    from cress.client import Client, JobView

# The file that the head of a task writes, and the folder for what steps have taken.
FILE, TAKEN = "allocation", "steps"
# Where folders of steps are without a folder of the session: their locks need a place on this machine.
TEMPORARY = "/tmp"  # noqa: S108


class AllocatedPlace(NamedTuple):
    """A Cress task of an allocation: its number, its node, and its processors."""

    task: int
    node: str
    cpus: int


class StepRank(NamedTuple):
    """A task of a step: its number, its place, its number on its node, and the number of its node."""

    rank: int
    place: AllocatedPlace
    local: int
    node: int


class Allocation(NamedTuple):
    """An allocation: the job, its places, its number of Slurm tasks, the place of this program (-1: none), a folder."""

    job: int
    places: tuple[AllocatedPlace, ...]
    ntasks: int
    here: int
    folder: Path


def find_allocation(job: str) -> Allocation | None:
    """Return the allocation in which this program runs, or that ``job`` names; ``None`` outside.

    Raises InputError if the job is not an allocation.
    """
    name = job or os.environ.get("SLURM_JOB_ID", "") or os.environ.get("SLURM_JOBID", "")
    if not name:
        return None
    own = os.environ.get("CRESS_JOB_ID", "")
    id = parse_job(name).id
    directory = Path(os.environ.get("CRESS_DIRECTORY", "/nonexistent"))
    if own == str(id) and (directory / FILE).exists():
        return _of_file(id, directory)
    return _of_center(id)


def _of_file(id: int, directory: Path) -> Allocation:
    lines = (directory / FILE).read_text(encoding="utf-8").splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    count, cpus = int(values["places"]), int(values["cpus"])
    names = values["hosts"].split(",")
    names = names if len(names) == count else names[:1] * count
    if count == 1:
        names = [os.environ.get("CRESS_NODE", names[0])]
    places = tuple(AllocatedPlace(task, node, cpus) for task, node in enumerate(names))
    here = int(os.environ.get("CRESS_TASK_INDEX", "0")) if count > 1 else 0
    return Allocation(id, places, int(values["ntasks"]), here, directory / TAKEN)


def _of_center(id: int) -> Allocation:
    from cress.cli.slurm.common import center

    with center() as client:
        job = client.job(id)
        places = places_of(client, job)
    if not places:
        raise InputError(f"job {id} does not run", hint="salloc, or sbatch, gives an allocation", field="--jobid")
    return Allocation(id, places, int(job.environment.get("SLURM_NTASKS", len(places))), -1, step_folder(job))


def step_folder(job: JobView) -> Path:
    """Return the folder of the steps that this machine starts in an allocation; it is made if necessary.

    A job of another cluster may have the same number, but hardly the same moment. Raises InputError if the folder
    cannot be made, or belongs to somebody else: everybody may make files in /tmp.
    """
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or TEMPORARY)
    # The variable outlives its session, in `tmux` for example, and the folder does not.
    if not os.access(runtime, os.W_OK | os.X_OK, effective_ids=True):
        runtime = Path(TEMPORARY)
    folder = runtime / f"cress-steps-{os.geteuid()}-{job.id}-{job.submitted * 1e6:.0f}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except OSError as error:
        raise InputError(
            f"{folder}, for the steps, cannot be made: {error.strerror}",
            hint="set XDG_RUNTIME_DIR to a folder on this machine to which you can write",
        ) from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise InputError(
            f"{folder} belongs to somebody else, so no step can be started",
            hint="set XDG_RUNTIME_DIR to a folder to which only you can write",
        )
    return folder


def places_of(client: Client, job: JobView) -> tuple[AllocatedPlace, ...]:
    """Return the places of a job whose tasks all run; empty if one does not."""
    from cress.cli.slurm.rows import tasks_of

    tasks = tasks_of(client, job.id)
    if not all(task.state == "running" and task.attempts for task in tasks):
        return ()
    cpus = int(job.environment.get("SLURM_CPUS_ON_NODE", 1))
    return tuple(AllocatedPlace(task.index, task.attempts[-1].node, cpus) for task in tasks)


def step_number(folder: Path) -> int:
    """Return the number of the next step, from 0."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "next").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0)
        file.seek(0)
        file.truncate()
        file.write(str(number + 1))
    return number


class TakenProcessors:
    """Processors of places taken by this program until it ends: a locked file for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[int] = []

    def take(self, place: AllocatedPlace, count: int) -> int:
        """Take up to ``count`` free processors of a place; return their number."""
        taken = 0
        for cpu in range(place.cpus):
            if taken == count:
                break
            file = os.open(self._folder / f"{place.task}.{cpu}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                continue
            self._files.append(file)
            taken += 1
        return taken

    def release(self) -> None:
        """Return all."""
        for file in self._files:
            with suppress(OSError):
                os.close(file)
        self._files.clear()


def spread(places: Sequence[AllocatedPlace], ntasks: int, per_place: int | None) -> list[int]:
    """Return the number of ranks of each place: in blocks, ``per_place`` at most."""
    count = len(places)
    if per_place is not None:
        return [max(min(per_place, ntasks - per_place * index), 0) for index in range(count)]
    return [ntasks // count + (index < ntasks % count) for index in range(count)]


def ranks_of(places: Sequence[AllocatedPlace], counts: Sequence[int]) -> list[StepRank]:
    """Return the ranks of a step by the number of them at each place."""
    nodes: dict[str, int] = {}
    on_node: dict[str, int] = {}
    ranks: list[StepRank] = []
    for place, count in zip(places, counts, strict=True):
        for _ in range(count):
            number = nodes.setdefault(place.node, len(nodes))
            local = on_node.get(place.node, 0)
            on_node[place.node] = local + 1
            ranks.append(StepRank(len(ranks), place, local, number))
    return ranks
