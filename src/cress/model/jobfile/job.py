"""One job of a job file: its keys read into a ``Job`` for the scheduler and a ``Run`` for the executors (docs/jobs.md).

The center reads job files, so that command line, API and Python report the same errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from cress.model.errors import InputError
from cress.model.family import Cron, Database, FamilySpec, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Condition, Job, JobType, least_request
from cress.model.jobfile import files, images, values
from cress.model.jobfile.checks import port_of_check
from cress.model.jobfile.clauses import CONTAINER, IMAGES, ClauseText, Texts, issue_as_whole
from cress.model.jobfile.deadlines import NONE, deadline
from cress.model.jobfile.key import CLAUSES, FAMILY, KEPT, RANK, Key
from cress.model.jobfile.keys import ALIASES, KEYS, TABLE
from cress.model.jobfile.misplaced import misplaced
from cress.model.jobfile.parts import PartSpec, check_beside, parts
from cress.model.jobfile.ports import UNNAMED, Ports, ports
from cress.model.jobfile.reader import Reader, below
from cress.model.jobfile.values import DEFAULT_RESOURCE, MAX_NAME_LENGTH, READS_AS_ID, SHELL, raise_all
from cress.model.resources import Dimensions
from cress.model.run import IMAGE_CREDENTIALS, Check, Image, Run, SecretUse
from cress.model.vectors import parse_vector

# Maximum size of arguments and variables together, in bytes: Linux takes 2 MB by default.
MAX_RUN_BYTES = 1_000_000

__all__ = ["KEYS", "JobSpec", "below", "default_name", "parse_job", "read_job"]

_NO_JOBS: tuple[tuple[int | str, Condition], ...] = ()
_NO_PORTS: Ports = ()
_NO_PARTS: tuple[PartSpec, ...] = ()
_ONE_TASK: tuple[int, int, values.Ranges] = (1, 0, ())
# Defaults of the keys.
_DEFAULTS = {"job": Job(id=0, group=DEFAULT_GROUP, request=()), "run": Run(job=0, command=())}
_FAMILIES: dict[JobType, Service | Database | Cron] = {
    JobType.SERVICE: Service(),
    JobType.DATABASE: Database(),
    JobType.CRON: Cron(when=""),
}


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One submitted job: the scheduler's part and the executors' part. Both ids are 0: the center assigns them.

    ``behind`` are its dependencies on jobs of the same submit, by name; ``parse_jobs`` turns them into places.
    ``clauses`` and ``ranks`` (at most one) become ``requirement`` and ``rank`` of the job once the language has parsed
    them. ``part_clauses`` and ``part_ranks`` are those of its parts. ``clocks`` is its deadline in local time of the
    cluster, if given without a zone. ``place`` is its place in the submit: ``jobs[2]``, ``jobs[0].steps.load``.
    ``steps`` are those of a cron job whose runs are dags.
    """

    job: Job
    run: Run
    behind: tuple[tuple[str, Condition], ...] = ()
    clauses: tuple[ClauseText, ...] = ()
    ranks: tuple[ClauseText, ...] = ()
    part_clauses: tuple[tuple[ClauseText, ...], ...] = ()
    part_ranks: tuple[tuple[ClauseText, ...], ...] = ()
    clocks: str = ""
    place: str = ""
    steps: tuple[JobSpec, ...] = ()


def has_steps(mapping: Mapping[str, object]) -> bool:
    """Return whether a job has steps: a dag, or a cron job whose runs are dags."""
    type_ = type_of(mapping)
    return type_ is JobType.DAG or (type_ is JobType.CRON and Reader(mapping, KEYS, aliases=ALIASES).has("steps"))


def type_of(mapping: Mapping[str, object]) -> JobType:
    """Return the type of a job; ``batch`` if the given one is wrong."""
    return Reader(mapping, KEYS, aliases=ALIASES).read("type", values.job_type, JobType.BATCH)


def parse_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> JobSpec:
    """Read one job other than a dag.

    Raises InputError, or InputErrors with every mistake; ``field`` is the key as written.
    """
    spec, errors = read_job(mapping, dimensions=dimensions, user=user)
    raise_all(errors)
    return spec


def read_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> tuple[JobSpec, list[InputError]]:
    """Read one job other than a dag; return it with its mistakes."""
    keys = Reader(mapping, KEYS, aliases=ALIASES)
    type_, assumed = keys.read("type", values.job_type, JobType.BATCH), not keys.has("type")
    reader = Reader(mapping, KEYS, aliases=ALIASES, misplaced=lambda key: misplaced(key, type_, assumed=assumed))
    reader.read("type", values.job_type, JobType.BATCH)
    spec = read_spec(reader, type_, dimensions=dimensions, user=user)
    if not reader.errors:
        spec = msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, source=source_of(mapping, reader)))
    return spec, reader.errors


def source_of(mapping: Mapping[str, object], reader: Reader) -> str:
    """Return a job as submitted, as JSON; a dag keeps the order of its steps, other keys are sorted."""
    order: Literal["deterministic"] | None = None if has_steps(mapping) else "deterministic"
    try:
        try:
            return msgspec.json.encode(mapping, order=order).decode()
        except TypeError:
            # In Python the id of a job may be a key.
            return msgspec.json.encode(_with_texts_as_keys(mapping), order=order).decode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "texts, numbers, lists, mappings"
        reader.errors.append(InputError(f"cannot be written as JSON: {error}", hint=hint))
        return ""


def _with_texts_as_keys(value: object) -> object:
    """Return a value of a job file with keys as JSON has them."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _with_texts_as_keys(inner) for key, inner in value.items()}
    return [_with_texts_as_keys(inner) for inner in value] if isinstance(value, list | tuple) else value


def read_spec(reader: Reader, type_: JobType, *, dimensions: Dimensions, user: str) -> JobSpec:
    """Read the keys of a job from a reader, which collects the mistakes."""
    # In the order of the guide, tasks and resource first: mistakes are reported in this order.
    tasks, max_running, indices = _tasks(reader, type_)
    default = parse_vector(DEFAULT_RESOURCE, dimensions)
    request = reader.read("resource", lambda value: values.resource(value, dimensions), default)
    read = _read_table(reader)
    command, environment, ready = read["command"], read["environment"], read["ready"]
    image = _read_inputs(reader, read)
    runs_something = any(map(reader.has, ("command", "parts", "steps"))) or bool(image) or type_ is JobType.DAG
    if not runs_something and "steps" not in reader.misplaced:
        reader.errors.append(InputError("is missing", hint=values.COMMAND_HINT, field="command"))
    if read["gang"] and max_running:
        hint = "only one of them: a gang starts all its tasks together"
        reader.wrong("gang", "cannot be combined with a limit of running tasks", hint)
    if ((read["gang"] and type_ is not JobType.SERVICE) or reader.has("parts")) and read["movable"]:
        reader.wrong("movable", "the tasks of a gang are not moved", "leave it out")
    # The default request is no limit, since the user has not chosen it.
    limits = tuple((name, amount) for name, amount in zip(dimensions.names, request, strict=True) if amount)
    limits = limits if reader.has("resource") else ()
    given_parts = reader.read(
        "parts", lambda value: parts(value, dimensions, request, limits, command, KEYS), _NO_PARTS
    )
    if "parts" in reader.given:
        check_beside(reader, gang=bool(read["gang"]) or "gang" not in reader.given)
    if given_parts:
        tasks = sum(part.part.tasks for part in given_parts)
        request = least_request(part.part for part in given_parts)
        read["gang"], command = True, command or given_parts[0].run.command
    read["name"] = read["name"] or default_name(command or image)
    after = reader.read("after", values.after, _NO_JOBS)
    given_ports = _ports(reader)
    _check_port(reader, "ready", ready, given_ports)
    _check_port(reader, "alive", read["alive"], given_ports)
    if read["minimum"] > tasks:
        reader.wrong("minimum", f"{read['minimum']} is more than the {tasks} tasks", f"0 to {tasks}")
    if ready is not None and "ready_after" in reader.given:
        reader.wrong("ready_after", "cannot be combined with ready", "delay in ready: when it is first asked")
    plan = _family(reader, type_, checked=ready is not None)
    if type_ is JobType.CRON and "when" not in reader.given:
        reader.errors.append(InputError("is missing", hint='such as "0 8 * * 1-5"', field="when"))
    if isinstance(plan, Service) and "zone" in reader.given and "timetable" not in reader.given:
        reader.wrong("zone", "has no effect without a timetable", "timetable: [{at: …, tasks: …}]")
    due = reader.read("deadline", deadline, NONE)
    if type_ is JobType.CRON and (due.moment or due.clocks):
        reader.wrong(
            "deadline", "is a moment, and each run has its own", "a time from the start of a run on, such as 6h"
        )
    both = {name for name, _ in environment} & {use.name for use in read["secrets"] if not use.file}
    for name in sorted(both):
        reader.wrong("secrets", f"{name} is in environment too", "only one of them", inner=f".{name}")
    commands = (command, *(part.run.command for part in given_parts if part.run.command is not command))
    size = sum(len(word.encode()) for words in commands for word in words)
    size += sum(len(key) + len(value.encode()) for key, value in environment)
    if size > MAX_RUN_BYTES and not reader.errors:
        what = f"command and environment have {size} bytes together"
        reader.wrong("command", what, f"at most {MAX_RUN_BYTES}; put large inputs into files")
    job = Job(
        id=0,
        request=request,
        user=user,
        tasks=tasks,
        type=type_,
        after=tuple((number, condition) for number, condition in after if isinstance(number, int)),
        ports=given_ports,
        max_running=max_running,
        plan=plan,
        deadline=due.moment,
        within=due.within,
        parts=tuple(part.part for part in given_parts),
        **_fields(read, "job"),
    )
    run = Run(
        job=0,
        user=user,
        tasks=tasks,
        memory_limit=dict(limits).get("memory", 0),
        ports=given_ports,
        type=type_,
        limits=limits,
        deadline=due.moment,
        within=due.within,
        parts=tuple(part.run for part in given_parts),
        indices=indices,
        **_fields(read, "run"),
    )
    whole = _whole(reader, tasks) if read["gang"] else ()
    texts, ranks = (*_texts(reader, CLAUSES), *whole, *_container(run)), _texts(reader, RANK)
    others = tuple(text for text in texts if not text.field.startswith(reader.given.get("requirement", "requirement")))
    return JobSpec(
        job=job,
        run=run,
        behind=tuple((name, condition) for name, condition in after if isinstance(name, str)),
        clauses=texts if not given_parts else (),
        ranks=ranks if not given_parts else (),
        part_clauses=tuple(
            texts if part.clauses is None else (*_in_parts(reader, part.clauses), *others) for part in given_parts
        ),
        part_ranks=tuple(ranks if part.ranks is None else _in_parts(reader, part.ranks) for part in given_parts),
        clocks=due.clocks,
    )


def _read_table(reader: Reader) -> dict[str, Any]:
    """Read the keys that become fields with the same name in ``Job`` and ``Run``."""
    read: dict[str, Any] = {}
    for key in TABLE:
        if key.read is not None and (into := next((struct for struct in key.into if struct in _DEFAULTS), None)):
            read[key.name] = reader.read(key.name, key.read, getattr(_DEFAULTS[into], key.name))
    return read


def _fields(read: Mapping[str, Any], struct: str) -> dict[str, Any]:
    return {key.name: read[key.name] for key in TABLE if struct in key.into}


def _texts(reader: Reader, into: tuple[str, ...]) -> tuple[ClauseText, ...]:
    return tuple(text for key in TABLE if key.into == into and key.read for text in reader.texts(key.name, key.read))


def _read_inputs(reader: Reader, read: dict[str, Any]) -> tuple[str, ...]:
    """Read what the tasks bring, into the values of the table; return the program for the name of a job with an image.

    The folder ``workdir`` is one more file; an image needs a container, and the credentials of its registry a secret.
    """
    workdir = reader.read("workdir", files.workdir, None)
    if workdir is not None:
        read["files"] = (workdir, *read["files"])
    image: Image | None = read["image"]
    if image is None:
        return ()
    if "root" in reader.given:
        reader.wrong("root", "cannot be combined with image", "only one of them: each is a root file system")
    if read["runtime"] == "process":
        reader.wrong("runtime", "an image needs a container", "runtime: container, or leave it out")
    read["runtime"] = "container"
    if image.secret:
        read["secrets"] = (*read["secrets"], SecretUse(name=IMAGE_CREDENTIALS, secret=image.secret))
    return (images.program_of(image),)


def _container(run: Run) -> Texts:
    """Return the clauses of a job that needs a container: on nodes that can run one, and have the tools for images."""
    found = (ClauseText("runtime", CONTAINER),) if run.runtime == "container" else ()
    return (*found, ClauseText("image", IMAGES)) if run.image is not None else found


def _whole(reader: Reader, tasks: int) -> Texts:
    """Return the clause of a gang that may start in part."""
    whole = reader.texts("gang", issue_as_whole) if reader.has("gang") else ()
    least = re.match(r"IssueAsWhole = (\d+)", whole[0].text) if whole else None
    if least is not None and not 1 <= int(least[1]) <= tasks:
        reader.wrong("gang", f"starts with at least {least[1]} of {tasks} tasks", f"1 to {tasks} && f(x) = (…)")
    return whole


def _in_parts(reader: Reader, texts: Texts) -> Texts:
    """Return texts of a part with the parts key put before their fields."""
    return tuple(msgspec.structs.replace(text, field=f"{reader.given['parts']}.{text.field}") for text in texts)


def _family(reader: Reader, type_: JobType, *, checked: bool) -> FamilySpec | None:
    """Read the keys of a service, database or cron job; ``checked``: it has a readiness check."""
    base = _FAMILIES.get(type_)
    if base is None:
        return None
    keys: list[Key] = [key for key in TABLE if key.into == FAMILY and type_ in key.types]
    read = {key.name: reader.read(key.name, key.read, getattr(base, key.name)) for key in keys if key.read is not None}
    if hasattr(base, "checked"):
        read["checked"] = checked
    return msgspec.structs.replace(base, **read)


def _tasks(reader: Reader, type_: JobType) -> tuple[int, int, values.Ranges]:
    """Read the number of tasks, the maximum that run at once (0: no limit), and the indices of an array, if given."""
    tasks, at_once, indices = reader.read("tasks", values.array, _ONE_TASK)
    if indices and type_ in KEPT:
        reader.wrong("tasks", f"the tasks of a {type_.value} have no other indices than 0 and up", "a number")
    if tasks > values.most_tasks(type_):
        most = values.most_tasks(type_)
        reader.wrong("tasks", f"{tasks:,} tasks are too many for a {type_.value}", f"at most {most:,}")
    if at_once and type_ in KEPT:
        reader.wrong("tasks", f"all tasks of a {type_.value} run at once", "a number without %")
    elif at_once and "max_running" in reader.given:
        reader.wrong("max_running", "cannot be combined with a % in tasks", "only one of them")
    return tasks, reader.read("max_running", values.tasks, at_once), indices


def _ports(reader: Reader) -> Ports:
    found = reader.read("ports", ports, _NO_PORTS)
    wanted = reader.read("dynamic_port", lambda value: values.truth(value, "each task gets a port"), False)
    if wanted and "ports" in reader.given and "dynamic_port" in reader.given:
        hint = "of several ports each with a name: {http: 80, admin: dynamic}"
        reader.wrong("dynamic_port", f"cannot be combined with {reader.given['ports']}", hint)
    return found or (((UNNAMED, 0),) if wanted else ())


def _check_port(reader: Reader, key: str, check: Check | None, given: Ports) -> None:
    error = port_of_check(check, given) if check is not None and key in reader.given else None
    if error is not None:
        reader.errors.append(below(error, reader.given[key]))


def default_name(command: Sequence[str]) -> str:
    """Return the default name of a job: the last path component of its program, with ``-`` for invalid characters."""
    words = list(command)
    if tuple(words[:2]) == SHELL and len(words) == 3:
        # For a shell text, the first word that is not an assignment.
        words = [word for word in words[2][:4096].split() if "=" not in word]
    program = words[0].rstrip("/").rpartition("/")[2] if words else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", program).lstrip("._-")[:MAX_NAME_LENGTH].rstrip("-")
    # A program such as ./12 must not look like the id of a job.
    return f"run-{name}" if READS_AS_ID.fullmatch(name) else name or "job"
