"""Parts of a gang: tasks with their own number, request, program, requirement and rank (design note 0035)."""

from __future__ import annotations

import msgspec

from cress.model.errors import MAX_ERRORS, InputError
from cress.model.job import JobPart
from cress.model.jobfile import clauses, values
from cress.model.jobfile.clauses import ClauseText, Texts
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import MAX_TASKS, raise_all, shown
from cress.model.resources import Dimensions, ResourceVector
from cress.model.run import RunPart

MAX_PARTS = 16
PART_KEYS = ("tasks", "resource", "command", "requirement", "rank")

_HINT = "parts: {driver: {tasks: 1, command: …}, workers: {tasks: 8, resource: …, command: …}}"
_NO_COMMAND: tuple[str, ...] = ()


class PartSpec(msgspec.Struct, frozen=True):
    """One part as submitted; ``clauses`` and ``ranks`` become its requirement and rank once the language has parsed
    them; ``None``: those of the job.
    """

    part: JobPart
    run: RunPart
    clauses: tuple[ClauseText, ...] | None = None
    ranks: tuple[ClauseText, ...] | None = None


def parts(
    value: object,
    dimensions: Dimensions,
    request: ResourceVector,
    limits: tuple[tuple[str, int], ...],
    command: tuple[str, ...],
    of_job: tuple[str, ...] = PART_KEYS,
) -> tuple[PartSpec, ...]:
    """Read the parts by name; the job gives defaults: ``request`` with ``limits``, and ``command``.

    ``of_job`` are all keys of a job: keys that parts do not have belong to the whole job.
    """
    entries = mapping_of(value, _HINT)
    if not entries:
        raise InputError("is empty", hint=_HINT)
    if len(entries) > MAX_PARTS:
        raise InputError(f"{len(entries)} parts are too many", hint=f"at most {MAX_PARTS}; many alike: tasks")
    found: list[PartSpec] = []
    errors: list[InputError] = []
    for written, entry in entries.items():
        if len(errors) > MAX_ERRORS:
            break
        try:
            name = values.name(written)
            reader = Reader(mapping_of(entry, "tasks: 8, resource: …"), of_job, misplaced=_misplaced)
        except InputError as error:
            errors.append(error.at(field=shown(written).strip("'\"")))
            continue
        found.append(_part(reader, str(written), name, dimensions, request, limits, command))
        errors += [below(error, str(written)) for error in reader.errors]
    total = sum(part.part.tasks for part in found)
    if total > MAX_TASKS:
        errors.append(InputError(f"{total:,} tasks together are too many", hint=f"at most {MAX_TASKS:,}"))
    raise_all(errors)
    return tuple(found)


def _misplaced(key: str) -> InputError | None:
    """Return the error of a key of jobs that parts do not have."""
    if key in PART_KEYS:
        return None
    return InputError(
        "belongs to the job, not to a part", hint=f"it stands beside parts; a part has {', '.join(PART_KEYS)}"
    )


def check_beside(reader: Reader, *, gang: bool) -> None:
    """Note the keys of the job that do not go with its parts; ``gang``: the job does not exclude being a gang."""
    if "tasks" in reader.given:
        reader.wrong("tasks", "cannot be combined with parts, which have their own", "tasks: in each part")
    if not gang:
        reader.wrong("gang", "is false, and parts start together or not at all", "leave it out")
    if "max_running" in reader.given:
        reader.wrong("max_running", "is a limit of running tasks, and parts start all at once", "leave it out")


def _part(
    reader: Reader,
    written: str,
    name: str,
    dimensions: Dimensions,
    request: ResourceVector,
    limits: tuple[tuple[str, int], ...],
    command: tuple[str, ...],
) -> PartSpec:
    tasks = reader.read("tasks", values.tasks, 1)
    if reader.has("resource"):
        request = reader.read("resource", lambda value: values.resource(value, dimensions), request)
        limits = tuple(
            (dimension, amount) for dimension, amount in zip(dimensions.names, request, strict=True) if amount
        )
    program = reader.read("command", values.command, command)
    if not program and not reader.has("command"):
        what = "has no command, and neither has the job"
        reader.errors.append(InputError(what, hint=values.COMMAND_HINT))
    return PartSpec(
        JobPart(name=name, tasks=tasks, request=request),
        RunPart(name=name, tasks=tasks, command=program, memory_limit=dict(limits).get("memory", 0), limits=limits),
        _below(written, reader.texts("requirement", clauses.requirement)) if reader.has("requirement") else None,
        _below(written, reader.texts("rank", clauses.rank)) if reader.has("rank") else None,
    )


def _below(written: str, texts: Texts) -> Texts:
    """Return texts with the part put before their fields."""
    return tuple(msgspec.structs.replace(text, field=f"{written}.{text.field}") for text in texts)
