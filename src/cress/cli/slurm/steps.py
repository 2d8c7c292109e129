"""``srun``: inside an allocation a step on its nodes, outside a job of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from cress.cli.slurm.allocations import allocate, release
from cress.cli.slurm.common import FAILED, center, say
from cress.cli.slurm.layout import (
    AllocatedPlace,
    Allocation,
    StepRank,
    TakenProcessors,
    find_allocation,
    ranks_of,
    spread,
    step_number,
)
from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.slurm.command_line import Given, parse, values_of, without_components
from cress.slurm.jobs import SlurmRequest, read_request
from cress.slurm.nodelist import compressed, expanded
from cress.slurm.option_table import STEP

# Seconds between two looks for free processors, and before a note that there are none.
PAUSE, NOTE_AFTER = 0.1, 2.0


def srun(name: str, words: Sequence[str]) -> int:
    """Run a command as the tasks of a step, or of a new job."""
    given, command = parse(words, STEP)
    if "mpi" in (on := values_of(given)) and on["mpi"] == "list":
        print("MPI plugin types are...\n\tnone")
        return 0
    if not command:
        raise InputError("No command given to execute.", hint="srun -n 4 ./program")
    without_components([word for word in command if word == ":"])
    request = read_request(given, time.time())
    found = find_allocation(request.text("jobid"))
    if found is None:
        return _job(name, given, request, command)
    return _step(name, request, command, found)


def _step(name: str, request: SlurmRequest, command: list[str], found: Allocation) -> int:
    from cress.cli.slurm.running import RunningStep, run_step

    folder = found.folder
    number = step_number(folder)
    taken = TakenProcessors(folder)
    try:
        ranks, cpus = _placed(name, request, found, taken)
        if request.text("chdir"):
            os.chdir(request.text("chdir"))
        step = RunningStep(
            name=name,
            job=found.job,
            number=number,
            ranks=ranks,
            here=found.here,
            variables=_variables(found, ranks, number, cpus),
            output=request.text("output"),
            error=request.text("error"),
            input=request.text("input"),
            append=request.text("open-mode").startswith("a"),
            labelled="label" in request.values,
            kills=request.values.get("kill-on-bad-exit", "0") != "0" or request.values.get("kill-on-bad-exit") == "",
            terminal="pty" in request.values,
            warn=_warn(),
            limit=_limit(request),
        )
        return run_step(step, _commands(request, command, ranks))
    finally:
        taken.release()


def _limit(request: SlurmRequest) -> float | None:
    from cress.slurm.values import seconds

    return seconds(request.text("time")) if request.text("time") else None


def _warn() -> tuple[str, float] | None:
    """Return the signal that the job asked for and the moment of it; ``None`` for none, or one for the script."""
    text, end = os.environ.get("SLURM_CRESS_WARN", ""), os.environ.get("SLURM_JOB_END_TIME", "")
    if not text or whole_number(end) is None or text.startswith("B:"):
        return None
    word, _, before = text.partition("@")
    return word, int(end) - int(before or 60)


def _placed(name: str, request: SlurmRequest, found: Allocation, taken: TakenProcessors) -> tuple[list[StepRank], int]:
    """Return the ranks of a step, once their processors are free, and the processors of each."""
    given = request.values
    cpus = int(given.get("cpus-per-task") or os.environ.get("SLURM_CPUS_PER_TASK") or 1)
    places = list(found.places)
    if given.get("nodelist"):
        names = expanded(given["nodelist"])
        places = [place for place in places if place.node in names]
        if not places:
            raise InputError(f"{given['nodelist']} is not in the allocation", hint=compressed(
                place.node for place in found.places), field="--nodelist")  # fmt: skip
    places = places[whole_number(given.get("relative", "")) or 0 :]
    per_node = int(given.get("ntasks-per-node") or 0)
    nodes = int(given["nodes"].partition("-")[0]) if given.get("nodes") else 0
    if nodes:
        chosen = list(dict.fromkeys(place.node for place in places))
        if nodes > len(chosen) and nodes > len(places):
            raise InputError(
                f"{nodes} nodes are more than the {len(places)} of the allocation", hint="fewer", field="--nodes"
            )
    if given.get("ntasks"):
        ntasks = int(given["ntasks"])
    elif per_node:
        ntasks = per_node * (nodes or len(places))
    elif nodes:
        ntasks = nodes
    else:
        ntasks = found.ntasks if "nodelist" not in given else len(places)
    shares = not given.keys().isdisjoint(("overlap", "overcommit", "external-launcher"))
    whole = sum(place.cpus // cpus for place in places)
    if ntasks > whole:
        if not shares:
            say(name, f"{ntasks} tasks of {cpus} CPUs are more than the allocation has; they share its CPUs")
        shares = True
    if shares:
        return ranks_of(places, spread(places, ntasks, per_node or None)), cpus
    return ranks_of(*_free(name, places, ntasks, cpus, per_node, nodes, taken)), cpus


def _free(
    name: str, places: list[AllocatedPlace], ntasks: int, cpus: int, per_node: int, nodes: int, taken: TakenProcessors
) -> tuple[list[AllocatedPlace], list[int]]:
    """Wait until the processors are free; return the places and the number of ranks at each."""
    since, told = time.monotonic(), False
    while True:
        counts = []
        left = ntasks
        for index, place in enumerate(places):
            room = min(left, place.cpus // cpus)
            if per_node:
                room = min(room, per_node)
            elif nodes:
                # Every one of so many places gets a rank.
                room = min(room, max(-(-ntasks // nodes), 1), max(left - max(nodes - 1 - index, 0), 1))
            got = taken.take(place, room * cpus) // cpus if room else 0
            counts.append(got)
            left -= got
        if not left:
            return places, counts
        taken.release()
        if not told and time.monotonic() - since > NOTE_AFTER:
            told = True
            say(name, "Job step creation temporarily disabled, retrying (Requested nodes are busy)")
        time.sleep(PAUSE)


def _variables(found: Allocation, ranks: list[StepRank], number: int, cpus: int) -> dict[str, str]:
    nodes = list(dict.fromkeys(rank.place.node for rank in ranks))
    sizes = [sum(rank.place.node == node for rank in ranks) for node in nodes]
    hosts = compressed(nodes)
    return {
        "SLURM_STEP_ID": str(number),
        "SLURM_STEPID": str(number),
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_NUM_NODES": str(len(nodes)),
        "SLURM_STEP_NUM_TASKS": str(len(ranks)),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, sizes)),
        "SLURM_NTASKS": str(len(ranks)),
        "SLURM_NPROCS": str(len(ranks)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_CPUS_PER_TASK": str(cpus),
        "SLURM_JOB_NODELIST": compressed(place.node for place in found.places),
        "SLURM_NODELIST": hosts,
        "SLURM_TASKS_PER_NODE": ",".join(map(str, sizes)),
        "SLURM_LAUNCH_NODE_IPADDR": os.environ.get("CRESS_ADDRESS", "127.0.0.1"),
    }


def _commands(request: SlurmRequest, command: list[str], ranks: list[StepRank]) -> list[list[str]]:
    """Return the command of each rank: the same, or by the file of ``--multi-prog``."""
    if "multi-prog" not in request.values:
        return [command] * len(ranks)
    import shlex

    from cress.slurm.arrays import parse_array

    file = Path(command[0])
    found: dict[int, list[str]] = {}
    rest: list[str] = []
    for line, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        words = shlex.split(text, comments=True)
        if not words:
            continue
        if len(words) < 2:
            raise InputError("names no program", hint="RANKS PROGRAM ARGUMENTS…", file=str(file), line=line)
        if words[0] == "*":
            rest = words[1:]
            continue
        try:
            members = parse_array(words[0]).elements
        except InputError as error:
            raise error.at(file=str(file), line=line) from None
        for offset, member in enumerate(members):
            found[member] = [word.replace("%t", str(member)).replace("%o", str(offset)) for word in words[1:]]
    missing = [rank.rank for rank in ranks if rank.rank not in found]
    if missing and not rest:
        raise InputError(f"has no program for task {missing[0]}", hint="* PROGRAM for the rest", file=str(file))
    return [found.get(rank.rank, rest) for rank in ranks]


def _job(name: str, given: Sequence[Given], request: SlurmRequest, command: list[str]) -> int:
    """Run the command as the only step of a new allocation."""
    with center() as client:
        held = allocate(name, client, request, given, Path(command[0]).name, tells=False)
        if held is None:
            return FAILED
        code = FAILED
        try:
            own = held.variables
            os.environ.update(own)
            found = Allocation(held.id, held.places, int(own.get("SLURM_NTASKS", "1")), -1, held.steps)
            for option in ("nodes", "nodelist", "ntasks-per-node"):
                request.values.pop(option, None)
            code = _step(name, request, command, found)
        finally:
            release(client, held.id, [place.task for place in held.places], failed=code != 0)
            shutil.rmtree(held.steps, ignore_errors=True)
        return code
