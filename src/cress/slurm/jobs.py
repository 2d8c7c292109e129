"""Options of Slurm as a job of Cress."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from cress.model.errors import InputError, InputErrors
from cress.model.whole_numbers import whole_number
from cress.slurm.arrays import Array, parse_array
from cress.slurm.command_line import Given, notes, refused, values_of
from cress.slurm.dependencies import Dependency, parse_dependency
from cress.slurm.moments import read_begin, read_deadline
from cress.slurm.nodelist import expanded
from cress.slurm.pbs import THREADS
from cress.slurm.sites import Meaning, Site
from cress.slurm.task_head import HEAD
from cress.slurm.values import memory, node_count, number, seconds

# Characters of one piece of a script: arguments of programs may have 128 KB.
PIECE = 30_000
MOST_NAME = 128
# Variables of the shell itself, and those of a job in which sbatch runs.
_OWN_VARIABLES = re.compile(r"(CRESS_|SLURM_|SBATCH_|SRUN_|BASH_FUNC_|PBS_).*|_|PWD|OLDPWD|SHLVL")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_T = TypeVar("_T")


class Surroundings(NamedTuple):
    """The place of a submission: directory, time, host, variables, folder of the commands, names of groups."""

    directory: str
    now: float
    host: str = ""
    variables: Mapping[str, str] = {}
    commands: str = ""
    groups: Collection[str] = ()
    site: Site = Site()


class Layout(NamedTuple):
    """The Cress tasks of an allocation: ``places`` of ``slots`` Slurm tasks with ``cpus`` processors in all each."""

    places: int
    slots: int
    ntasks: int
    cpus: int
    one_per_node: bool


class SlurmRequest(msgspec.Struct):
    """The request of the options of a job, each as it was read."""

    values: dict[str, str]
    array: Array | None = None
    dependencies: tuple[Dependency, ...] = ()
    notes: list[str] = []

    def text(self, name: str) -> str:
        """Return the value of an option, empty if it is not given."""
        return self.values.get(name, "")


class Translated(NamedTuple):
    """A job of Cress and the notes for its user; ``singleton``: it waits for jobs of its name and user."""

    job: dict[str, object]
    notes: list[str]
    layout: Layout
    singleton: bool = False


def read_request(given: Sequence[Given], now: float) -> SlurmRequest:
    """Return the request of the options at a time; the last of several counts. Raises InputError with all mistakes."""
    errors = refused(given)
    request = SlurmRequest(values_of(given), notes=notes(given))
    last = {one.option.name: one for one in given}

    def read(name: str, reader: Callable[[str], _T]) -> _T | None:
        if name not in last:
            return None
        try:
            return reader(last[name].value)
        except InputError as error:
            errors.append(error.at(file=last[name].file, line=last[name].line, field=f"--{name}"))
            return None

    request.array = read("array", parse_array)
    request.dependencies = read("dependency", parse_dependency) or ()
    for name, check in _CHECKS.items():
        read(name, check)
    read("begin", lambda text: read_begin(text, now))
    read("deadline", lambda text: read_deadline(text, now))
    if request.array is not None and len(errors) == 0 and _nodes_of(request) > 1:
        hint = "one job for each element, or `tasks` steps of a dag (docs/workflows.md)"
        errors.append(InputError("elements of an array run on one node each", hint=hint, field="--array"))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return request


def _gpus(text: str) -> tuple[int, str]:
    """Return number and model in ``2``, ``a100:2``, ``gpu:2`` or ``gpu:a100:2``."""
    parts = text.strip().removeprefix("gpu:").split(":")
    if parts == ["gpu"]:
        return 1, ""
    if len(parts) == 1 and not parts[0].isdigit():
        return 1, parts[0]
    return number(parts[-1], least=0), parts[0] if len(parts) > 1 else ""


def _gres(text: str) -> dict[str, tuple[int, str]]:
    """Return the amounts and models by kind in ``gpu:a100:2,licence:1``."""
    found = {}
    for item in filter(None, text.split(",")):
        word = re.sub(r"\(S:[^)]*\)|^gres[/:]", "", item.strip())
        if word.lower() == "none":
            continue
        kind, _, rest = word.partition(":")
        found[kind] = _gpus(rest) if rest else (1, "")
    return found


def _warn(text: str) -> str:
    found = re.fullmatch(r"(?:[BR]{1,2}:)?(?:SIG)?([A-Z]+\d?|\d{1,2})(?:@(\d{1,5}))?", text.strip(), re.IGNORECASE)
    if found is None:
        raise InputError(f"{text!r} is not a signal with its time", hint="such as USR1@90 or B:TERM@120")
    script = "B:" if "B" in text.partition(":")[0].upper() and ":" in text else ""
    return f"{script}{found[1].upper()}@{found[2] or 60}"


def _nice(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,7}", text.strip() or "100"):
        raise InputError(f"{text!r} is not a number", hint="such as --nice=100")
    return int(text.strip() or "100")


_CHECKS: dict[str, Callable[[str], object]] = {
    "time": seconds,
    "nodes": node_count,
    "ntasks": number,
    "ntasks-per-node": number,
    "ntasks-per-gpu": number,
    "cpus-per-task": number,
    "cpus-per-gpu": number,
    "mem": memory,
    "mem-per-cpu": memory,
    "mem-per-gpu": memory,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _gpus,
    "gres": _gres,
    "signal": _warn,
    "nice": _nice,
    "nodelist": expanded,
    "exclude": expanded,
}


def _nodes_of(request: SlurmRequest) -> int:
    return node_count(request.text("nodes") or "1")


def layout_of(request: SlurmRequest) -> Layout:
    """Return the tasks of Cress for a request: one on each node, or one for each Slurm task if no node is named."""
    given = request.values
    per_task = int(given.get("cpus-per-task") or 1)
    per_node = int(given.get("ntasks-per-node") or 0)
    ntasks = int(given.get("ntasks") or 0)
    gpus = _gpus(given["gpus"])[0] if given.get("gpus") else 0
    if not ntasks and "ntasks-per-gpu" in given and gpus:
        ntasks = gpus * int(given["ntasks-per-gpu"])
    nodes = _nodes_of(request) if "nodes" in given else 0
    if not nodes and per_node:
        nodes = -(-ntasks // per_node) if ntasks else 1
    shared = {"mem", "gres", "gpus-per-node", "gpus", "nodelist"} & given.keys() or request.array is not None
    if not nodes and ntasks > 1 and not shared:
        return Layout(ntasks, 1, ntasks, per_task, one_per_node=False)
    nodes = nodes or 1
    ntasks = ntasks or nodes * (per_node or 1)
    nodes = min(nodes, ntasks) if "nodes" not in given else nodes
    slots = -(-ntasks // nodes)
    return Layout(nodes, slots, ntasks, slots * per_task, one_per_node=nodes > 1)


def _resource(request: SlurmRequest, layout: Layout) -> tuple[dict[str, object], str]:
    """Return the resources of one task of Cress, and the model of its GPUs."""
    given = request.values
    amounts = _gres(given["gres"]) if given.get("gres") else {}
    gpus, model = amounts.pop("gpu", (0, ""))
    if given.get("gpus-per-node"):
        gpus, model = _gpus(given["gpus-per-node"])
    elif given.get("gpus-per-task"):
        each, model = _gpus(given["gpus-per-task"])
        gpus = each * layout.slots
    elif given.get("gpus"):
        whole, model = _gpus(given["gpus"])
        gpus = -(-whole // layout.places)
    cpus = layout.cpus
    if given.get("cpus-per-gpu") and gpus:
        cpus = max(cpus, int(given["cpus-per-gpu"]) * gpus)
    asked = 0
    if given.get("mem"):
        asked = memory(given["mem"])
    elif given.get("mem-per-cpu"):
        asked = memory(given["mem-per-cpu"]) * cpus
    elif given.get("mem-per-gpu"):
        asked = memory(given["mem-per-gpu"]) * gpus
    resource: dict[str, object] = {}
    if cpus > 1 or asked or gpus or amounts:
        resource["cpu"] = cpus
    if asked:
        resource["memory"] = f"{asked >> 20}M" if asked % (1 << 20) == 0 else str(asked)
    if gpus:
        resource["gpu"] = gpus
    resource |= {kind: amount for kind, (amount, _) in amounts.items()}
    return resource, model


def job_name(text: str) -> str:
    """Return a text as the name of a job of Cress: other letters become ``-``."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:MOST_NAME] or "job"
    return f"job-{name}"[:MOST_NAME] if re.fullmatch(r"[\d.]+", name) or not re.match(r"[A-Za-z0-9]", name) else name


def environment(request: SlurmRequest, around: Surroundings, default: str) -> dict[str, str]:
    """Return the variables that ``--export`` passes on."""
    everything = {
        name: value
        for name, value in around.variables.items()
        if _NAME.fullmatch(name) and not _OWN_VARIABLES.fullmatch(name)
    }
    found: dict[str, str] = {}
    for word in filter(None, (request.text("export") or default).split(",")):
        name, equals, value = word.strip().partition("=")
        if equals:
            found[name] = value
        elif name.upper() == "ALL":
            found = everything | found
        elif name.upper() not in ("NONE", "NIL") and name in around.variables:
            found[name] = around.variables[name]
    return found


def _threads(request: SlurmRequest) -> dict[str, str]:
    threads = request.text(THREADS.name)
    return {"OMP_NUM_THREADS": threads} if threads else {}


def _meanings(request: SlurmRequest, around: Surroundings, notes: list[str]) -> list[Meaning]:
    """Return what account, partition and qos stand for; the first one with a group decides the group."""
    found = []
    for option, kind in (("account", "accounts"), ("partition", "partitions"), ("qos", "qos")):
        for name in filter(None, (request.text(option)).split(",")):
            meaning = around.site.meaning(kind, name, around.groups)
            if meaning is not None:
                found.append(meaning)
                break
        else:
            if request.text(option):
                notes.append(
                    f"--{option}={request.text(option)} names no group and is passed over; `slurm.toml` may say what "
                    "it stands for"
                )
    return found


def _constraint(text: str, site: Site) -> str:
    """Return the requirement for a constraint of features. Raises InputError."""
    if re.search(r"[=<>\"']", text):
        return text
    parts = re.split(r"([&|()])", text)
    written = []
    for part in filter(None, (one.strip() for one in parts)):
        if part in "&|()":
            written.append({"&": " && ", "|": " || "}.get(part, part))
        elif part in site.features:
            written.append(f"({site.features[part]})")
        else:
            known = ", ".join(sorted(site.features)) or "none"
            raise InputError(
                f"unknown feature {part!r}",
                hint=f"in the table [features] of slurm.toml: {known}; or an expression of Cress: --constraint='zone = "
                '"eu"\'',
                field="--constraint",
            )
    return "".join(written)


def allocation(
    request: SlurmRequest, around: Surroundings, *, default_name: str, default_export: str = "ALL"
) -> Translated:
    """Return the job without its command. Raises InputError."""
    notes = list(request.notes)
    layout = layout_of(request)
    resource, model = _resource(request, layout)
    title = request.text("job-name") or default_name
    meanings = _meanings(request, around, notes)
    if request.text("mem") and memory(request.text("mem")) == 0:
        notes.append("--mem=0 is passed over: a job that names no memory has no limit of it")
    directory = request.text("chdir") or around.directory
    # Values that say nothing are left out below.
    job: dict[str, object] = {
        "name": job_name(title),
        "group": next((meaning.group for meaning in meanings if meaning.group), ""),
        "priority": _priority(request, meanings),
        "resource": resource,
        "requirement": _requirement(request, around, meanings, model),
        "nodes": expanded(request.text("nodelist")),
        "licences": _licences(request.text("licenses")),
        "time_limit": _limit(request),
        "deadline": read_deadline(request.text("deadline"), around.now) if request.text("deadline") else "",
        "hold": "hold" in request.values,
        "wait_for": _begin(request, around),
        "after": {str(id): wait.condition for wait in request.dependencies for id in wait.ids},
        "directory": directory if directory.startswith("/") else f"{around.directory}/{directory}",
        # A number of threads that the submission sets counts more than that of a directive.
        "environment": _threads(request)
        | environment(request, around, default_export)
        | _variables(request, layout, around, title),
        **_tasks(request, layout),
    }
    job = {key: value for key, value in job.items() if value}
    if "no-requeue" in request.values:
        job["job_failure"] = False
    singleton = any(dependency.singleton for dependency in request.dependencies)
    return Translated(job, notes, layout, singleton)


def _begin(request: SlurmRequest, around: Surroundings) -> dict[str, str]:
    at = read_begin(request.text("begin"), around.now) if request.text("begin") else ""
    return {"time": at} if at else {}


def _licences(text: str) -> list[str]:
    """Return licences such as ``matlab:2``; the server in ``matlab@server`` names no other licence here."""
    return [re.sub(r"@[^:]*", "", word).replace(":", "=") for word in text.split(",") if word]


def _limit(request: SlurmRequest) -> str:
    limit = seconds(request.text("time")) if request.text("time") else None
    return f"{limit}s" if limit else ""


def _priority(request: SlurmRequest, meanings: Sequence[Meaning]) -> int:
    given = request.text("priority")
    size = whole_number(given.lstrip("-"))
    priority = sum(meaning.priority for meaning in meanings) if size is None else -size if given[0] == "-" else size
    return priority - (_nice(request.text("nice")) if "nice" in request.values else 0)


def _requirement(request: SlurmRequest, around: Surroundings, meanings: Sequence[Meaning], model: str) -> list[str]:
    found = [meaning.requirement for meaning in meanings if meaning.requirement]
    if request.text("constraint"):
        found.append(_constraint(request.text("constraint"), around.site))
    if model:
        found.append(f'GPUModel = "{model}"')
    return found + [f'Name != "{name}"' for name in expanded(request.text("exclude"))]


def _tasks(request: SlurmRequest, layout: Layout) -> dict[str, object]:
    """Return the keys for the number of tasks: a gang on several places, or an array."""
    if layout.places > 1:
        return {"tasks": layout.places, "gang": True, "max_per_node": int(layout.one_per_node)}
    if request.array is not None:
        return {"tasks": len(request.array.elements), "max_running": request.array.most_running}
    return {}


def _variables(request: SlurmRequest, layout: Layout, around: Surroundings, title: str) -> dict[str, str]:
    """Return the variables of Slurm that are known before the start."""
    given = request.values
    nodes = layout.places if layout.one_per_node or layout.places == 1 else 0
    sizes = [layout.ntasks // layout.places + (place < layout.ntasks % layout.places) for place in range(layout.places)]
    per_node = ",".join(
        f"{size}(x{sizes.count(size)})" if sizes.count(size) > 1 else str(size) for size in dict.fromkeys(sizes)
    )
    found = {
        "SLURM_JOB_NAME": title,
        "SLURM_CLUSTER_NAME": "cress",
        "SLURM_SUBMIT_DIR": around.directory,
        "SLURM_SUBMIT_HOST": around.host,
        "SLURM_JOB_NUM_NODES": str(nodes or layout.places),
        "SLURM_NNODES": str(nodes or layout.places),
        "SLURM_NTASKS": str(layout.ntasks),
        "SLURM_NPROCS": str(layout.ntasks),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_CPUS_ON_NODE": str(layout.cpus),
        "SLURM_JOB_CPUS_PER_NODE": f"{layout.cpus}(x{layout.places})" if layout.places > 1 else str(layout.cpus),
    }
    for option, name in (
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("partition", "SLURM_JOB_PARTITION"),
        ("account", "SLURM_JOB_ACCOUNT"),
        ("qos", "SLURM_JOB_QOS"),
        ("comment", "SLURM_JOB_COMMENT"),
        ("gpus", "SLURM_GPUS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
    ):
        if given.get(option):
            found[name] = given[option]
    if given.get("mem"):
        found["SLURM_MEM_PER_NODE"] = str(memory(given["mem"]) >> 20)
    if given.get("mem-per-cpu"):
        found["SLURM_MEM_PER_CPU"] = str(memory(given["mem-per-cpu"]) >> 20)
    if request.array is not None:
        elements = request.array.elements
        found |= {
            "SLURM_ARRAY_TASK_COUNT": str(len(elements)),
            "SLURM_ARRAY_TASK_MIN": str(min(elements)),
            "SLURM_ARRAY_TASK_MAX": str(max(elements)),
            "SLURM_ARRAY_TASK_STEP": str(request.array.step),
            "SLURM_CRESS_ARRAY": request.array.text,
        }
    if around.commands:
        found["SLURM_CRESS_BIN"] = around.commands
    return {name: value for name, value in found.items() if value}


def head(
    request: SlurmRequest, translated: Translated, mode: str, *, pieces: int = 0, default_output: str = ""
) -> list[str]:
    """Return the command of a task up to the arguments that follow its head."""
    layout, given = translated.layout, request.values
    limit = seconds(given["time"]) if given.get("time") else None
    settings = {
        "mode": mode,
        "pieces": pieces,
        "output": given.get("output", default_output),
        "error": given.get("error", ""),
        "input": "" if given.get("input") in (None, "none", "all") else given["input"],
        "open": "append" if given.get("open-mode", "").startswith("a") else "truncate",
        "array": request.array.text if request.array is not None else "",
        "places": layout.places,
        "slots": layout.slots,
        "cpus": layout.cpus,
        "ntasks": layout.ntasks,
        "limit": limit or "",
        "warn": _warn(given["signal"]) if given.get("signal") and limit else "",
    }
    assignments = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in settings.items())
    return ["/bin/sh", "-c", HEAD, "slurm", assignments]


def batch_job(
    request: SlurmRequest,
    around: Surroundings,
    text: str,
    arguments: Sequence[str],
    *,
    script_name: str,
    default_output: str = "",
    default_export: str = "ALL",
) -> Translated:
    """Return the job that runs a script of this text. Raises InputError."""
    translated = allocation(request, around, default_name=script_name, default_export=default_export)
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    command = head(request, translated, "batch", pieces=len(pieces), default_output=default_output)
    translated.job["command"] = [*command, *pieces, *arguments]
    if translated.layout.places > 1:
        translated.job["job_token"] = True
    return translated


def wrapped(command: str) -> str:
    """Return the script for ``--wrap``."""
    return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"
