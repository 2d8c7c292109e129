"""Job files: what a user writes to submit a job, read into what the scheduler and the executors need (docs/jobs.md).

The center reads them, so that command line, API and Python get the same errors. Keys are read without regard to
capitals, ``_`` and ``-``: ``time_limit``, ``TimeLimit`` and ``time-limit`` are one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from cress.model import jobclauses, jobfiles
from cress.model import jobvalues as values
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Condition, Job, JobType, OnPartition
from cress.model.jobchecks import check, port_of_check
from cress.model.jobclauses import CLAUSES, ClauseText
from cress.model.jobkeys import ALIASES, KEPT, KEYS, misplaced
from cress.model.joblicences import Licences, licences
from cress.model.jobplans import plan
from cress.model.jobports import UNNAMED, Ports, ports
from cress.model.jobreader import Reader, below
from cress.model.jobvalues import DEFAULT_RESOURCE, MAX_NAME_LENGTH, SHELL, raise_all, shown
from cress.model.plan import Service
from cress.model.resources import Dimensions
from cress.model.run import Check, File, Run
from cress.model.units import one_of, parse_count
from cress.model.vectors import parse_vector

# Linux takes 2 MB of arguments and variables together by default.
MAX_RUN_BYTES = 1_000_000
# Jobs that are submitted together, steps of dags among them.
MAX_JOBS = 10_000

__all__ = ["KEYS", "JobSpec", "below", "default_name", "parse_job", "parse_jobs"]

_NO_COMMAND: tuple[str, ...] = ()
_NO_VARIABLES: tuple[tuple[str, str], ...] = ()
_NO_JOBS: tuple[tuple[int | str, Condition], ...] = ()
_NO_PORTS: Ports = ()
_NO_LICENCES: Licences = ()
_NO_FILES: tuple[File, ...] = ()


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One job as submitted: what the scheduler sees of it, and how to run it. Both ids are 0: the center gives them.

    ``behind`` are the jobs of the same submit that it comes after, by name; ``parse_jobs`` has made places of them.
    ``clauses`` and ``ranks`` (one at most) are what must become ``requirement`` and ``rank`` of the job: whoever
    knows the language reads them. ``place`` is where it stands in the submit: ``jobs[2]``, ``jobs[0].steps.load``.
    """

    job: Job
    run: Run
    behind: tuple[tuple[str, Condition], ...] = ()
    clauses: tuple[ClauseText, ...] = ()
    ranks: tuple[ClauseText, ...] = ()
    place: str = ""


def parse_jobs(entries: object, *, dimensions: Dimensions, user: str) -> list[JobSpec]:
    """The jobs of one submit, read together or not at all; the steps of a dag follow it.

    Raises InputError, or InputErrors with every mistake; ``field`` begins with the place of its job: ``jobs[2].tasks``.
    """
    specs, errors = read_jobs(entries, dimensions=dimensions, user=user)
    raise_all(errors)
    return specs


def read_jobs(entries: object, *, dimensions: Dimensions, user: str) -> tuple[list[JobSpec], list[InputError]]:
    """The same for who wants to look for more mistakes: where there are some, what is wrong is as if it were not given."""
    from cress.model.jobsteps import parse_dag  # which reads steps by what stands here

    hint = "a list of mappings, one for each job"
    if not isinstance(entries, (list, tuple)):
        return [], [InputError(f"{shown(entries)} is no list", hint=hint, field="jobs")]
    if not entries:
        return [], [InputError("there is no job in it", hint=hint, field="jobs")]
    if len(entries) > MAX_JOBS:
        return [], [_too_many(len(entries))]
    specs: list[JobSpec] = []
    errors: list[InputError] = []
    for position, entry in enumerate(entries):
        place = f"jobs[{position}]"
        try:
            mapping = _mapping(entry)
        except InputError as error:
            errors.append(error.at(field=place))
            continue
        if type_of(mapping) is JobType.DAG:
            made, wrong = parse_dag(mapping, dimensions=dimensions, user=user, base=len(specs))
        else:
            one, wrong = read_job(mapping, dimensions=dimensions, user=user)
            made = [one]
        specs += (msgspec.structs.replace(each, place=place + each.place) for each in made)
        errors += [below(each, place) for each in wrong]
    if not errors and len(specs) > MAX_JOBS:
        errors = [_too_many(len(specs))]
    if not errors:
        specs, errors = _resolved(specs)
    return specs, errors


def _too_many(number: int) -> InputError:
    what = f"{number} jobs at once are too many"
    return InputError(what, hint=f"at most {MAX_JOBS}; many alike: tasks", field="jobs")


def _resolved(specs: list[JobSpec]) -> tuple[list[JobSpec], list[InputError]]:
    """Names of jobs of this submit as their places, in the way of ``Job.after``: ``-1`` is the first one."""
    places: dict[str, list[int]] = {}
    for position, spec in enumerate(specs):
        places.setdefault(spec.job.name, []).append(position)
    resolved: list[JobSpec] = []
    errors: list[InputError] = []
    for spec in specs:
        after = list(spec.job.after)
        for name, condition in spec.behind:
            found = places.get(name, [])
            if len(found) == 1:
                after.append((-found[0] - 1, condition))
                continue
            if found:
                what, hint = f"{len(found)} jobs of this submit are called {name}", "a name of its own for each"
            else:
                what = f"no job of this submit is called {name}"
                hint = "a job that was submitted before by its id; " + one_of(name, places)
            errors.append(InputError(what, hint=hint, field=f"{spec.place}.after"))
        job = msgspec.structs.replace(spec.job, after=tuple(after))
        resolved.append(msgspec.structs.replace(spec, job=job, behind=()))
    return resolved, errors


def type_of(mapping: Mapping[str, object]) -> JobType:
    """The type that a job has, as far as it can be told: of one that is wrong, ``batch``."""
    return Reader(mapping, KEYS, aliases=ALIASES).read("type", values.job_type, JobType.BATCH)


def parse_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> JobSpec:
    """One job that is no dag. Raises InputError, or InputErrors with every mistake; ``field`` is the key as it was written."""
    spec, errors = read_job(mapping, dimensions=dimensions, user=user)
    raise_all(errors)
    return spec


def read_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> tuple[JobSpec, list[InputError]]:
    """One job that is no dag, and what is wrong with it."""
    type_ = type_of(mapping)
    reader = Reader(mapping, KEYS, aliases=ALIASES, misplaced=lambda key: misplaced(key, type_))
    reader.read("type", values.job_type, JobType.BATCH)
    spec = read_spec(reader, type_, dimensions=dimensions, user=user)
    if type_ is not JobType.BATCH and not reader.errors:
        spec = msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, source=source_of(mapping, reader)))
    return spec, reader.errors


def source_of(mapping: Mapping[str, object], reader: Reader) -> str:
    """A job as it was submitted, as JSON; that of a dag has its steps in their order, others are alike in any order."""
    try:
        return msgspec.json.encode(mapping, order=None if type_of(mapping) is JobType.DAG else "deterministic").decode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "texts, numbers, lists, mappings"
        reader.errors.append(InputError(f"is nothing that JSON could hold: {error}", hint=hint))
        return ""


def read_spec(reader: Reader, type_: JobType, *, dimensions: Dimensions, user: str) -> JobSpec:
    """What a reader has; its mistakes stay with it."""
    command = reader.read("command", values.command, _NO_COMMAND)
    if not reader.has("command") and type_ is not JobType.DAG:
        reader.errors.append(InputError("is missing", hint=values.COMMAND_HINT, field="command"))
    name = reader.read("name", values.name, "") or default_name(command)
    group = reader.read("group", values.group, DEFAULT_GROUP)
    tasks, max_running = _tasks(reader, type_)
    gang = reader.read("gang", values.gang, False)
    if gang and max_running:
        reader.wrong(
            "gang", "is given beside a limit of tasks at once", "one of both: a gang starts all its tasks together"
        )
    default = parse_vector(DEFAULT_RESOURCE, dimensions)
    request = reader.read("resource", lambda value: values.resource(value, dimensions), default)
    # The default request bounds nothing: nobody has thought about it.
    limits = tuple((each, amount) for each, amount in zip(dimensions.names, request, strict=True) if amount)
    limits = limits if reader.has("resource") else ()
    time_limit = reader.read("time_limit", values.time_limit, None)
    environment = reader.read("environment", values.environment, _NO_VARIABLES)
    on_partition = reader.read("on_partition", values.on_partition, OnPartition.STOP)
    after = reader.read("after", values.after, _NO_JOBS)
    given_ports = _ports(reader)
    ready = _check(reader, "ready", given_ports)
    alive = _check(reader, "alive", given_ports)
    minimum = reader.read("minimum", lambda value: parse_count(values.as_number(value), most=values.MAX_TASKS), 0)
    if minimum > tasks:
        reader.wrong("minimum", f"{minimum} is more than the {tasks} tasks", f"0 to {tasks}")
    if ready is not None and "ready_after" in reader.given:
        reader.wrong("ready_after", "is given beside ready", "delay in ready: when it is first asked")
    plan_ = plan(reader, type_, checked=ready is not None)
    if type_ is JobType.CRON and "when" not in reader.given:
        reader.errors.append(InputError("is missing", hint='such as "0 8 * * 1-5"', field="when"))
    if isinstance(plan_, Service) and "zone" in reader.given and "timetable" not in reader.given:
        reader.wrong("zone", "is the time zone of a timetable, and there is none", "timetable: [{at: …, tasks: …}]")
    size = sum(len(word.encode()) for word in command)
    size += sum(len(key) + len(value.encode()) for key, value in environment)
    if size > MAX_RUN_BYTES and not reader.errors:
        what = f"command and environment have {size} bytes together"
        reader.wrong("command", what, f"at most {MAX_RUN_BYTES}; put large inputs into files")
    job = Job(
        id=0,
        group=group,
        request=request,
        name=name,
        user=user,
        tasks=tasks,
        gang=gang,
        priority=reader.read("priority", values.priority, 0),
        time_limit=time_limit,
        type=type_,
        minimum=minimum,
        on_partition=on_partition,
        retries=reader.read("retries", values.retries, 0),
        backoff=reader.read("backoff", values.backoff, Job(id=0, group="", request=()).backoff),
        hold=reader.read("hold", lambda value: values.truth(value, "it waits until it is released"), False),
        after=tuple((each, condition) for each, condition in after if isinstance(each, int)),
        ports=given_ports,
        max_running=max_running,
        max_per_node=reader.read("max_per_node", values.tasks, 0),
        max_per_rack=reader.read("max_per_rack", values.tasks, 0),
        application=reader.read("application", values.name, ""),
        job_failure=reader.read("job_failure", lambda value: values.truth(value, _FAILURE), True),
        plan=plan_,
        licences=reader.read("licences", licences, _NO_LICENCES),
    )
    run = Run(
        job=0,
        command=command,
        name=name,
        group=group,
        user=user,
        tasks=tasks,
        environment=environment,
        directory=reader.read("directory", values.directory, ""),
        memory_limit=dict(limits).get("memory", 0),
        time_limit=time_limit,
        stop_grace=reader.read("stop_grace", values.stop_grace, Run(job=0, command=()).stop_grace),
        on_partition=on_partition,
        ports=given_ports,
        type=type_,
        runtime=reader.read("runtime", values.runtime, ""),
        limits=limits,
        pids=reader.read("pids", values.pids, 0),
        root=reader.read("root", values.directory, ""),
        run_as=reader.read("run_as", values.run_as, ""),
        files=reader.read("files", jobfiles.files, _NO_FILES),
        outputs=reader.read("outputs", jobfiles.outputs, _NO_FILES),
        log_size=reader.read("log_size", values.log_size, 0),
        log_copy=reader.read("log_copy", jobfiles.address, ""),
        ready=ready,
        alive=alive,
    )
    return JobSpec(
        job=job,
        run=run,
        behind=tuple((each, condition) for each, condition in after if isinstance(each, str)),
        clauses=(
            *(each for key in CLAUSES for each in reader.texts(key, CLAUSES[key])),
            *((ClauseText("runtime", "Container = True"),) if run.runtime == "container" else ()),
        ),
        ranks=reader.texts("rank", jobclauses.rank),
    )


_FAILURE = "its tasks run again when their node is lost"


def _tasks(reader: Reader, type_: JobType) -> tuple[int, int]:
    """How many tasks, and how many of them at once; 0: any number."""
    tasks, at_once = reader.read("tasks", values.array, (1, 0))
    if at_once and type_ in KEPT:
        reader.wrong("tasks", f"all tasks of a {type_.value} run at once", "a number without %")
    elif at_once and "max_running" in reader.given:
        reader.wrong("max_running", "is given beside a % in tasks", "one of both")
    return tasks, reader.read("max_running", values.tasks, at_once)


def _ports(reader: Reader) -> Ports:
    found = reader.read("ports", ports, _NO_PORTS)
    wanted = reader.read("dynamic_port", lambda value: values.truth(value, "each task gets a port"), False)
    if wanted and "ports" in reader.given and "dynamic_port" in reader.given:
        hint = "of several ports each with a name: {http: 80, admin: dynamic}"
        reader.wrong("dynamic_port", f"is given beside {reader.given['ports']}", hint)
    return found or (((UNNAMED, 0),) if wanted else ())


def _check(reader: Reader, key: str, given: Ports) -> Check | None:
    found = reader.read(key, check, None)
    error = port_of_check(found, given) if found is not None and key in reader.given else None
    if error is not None:
        reader.errors.append(below(error, reader.given[key]))
    return found


def default_name(command: Sequence[str]) -> str:
    """The name of a job that has none: the last path component of its program, with odd characters as ``-``."""
    words = list(command)
    if tuple(words[:2]) == SHELL and len(words) == 3:
        # Of a shell text the first word that is no assignment.
        words = [word for word in words[2][:4096].split() if "=" not in word]
    program = words[0].rstrip("/").rpartition("/")[2] if words else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", program).lstrip("._-")[:MAX_NAME_LENGTH].rstrip("-")
    return name or "job"


def _mapping(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{shown(entry)} is no mapping", hint='{"command": ["echo", "hello"]}')
    return entry
