"""Job files: what a user writes to submit a job, read into what the scheduler and the executors need (docs/commands.md).

The center reads them, so that command line, API and Python get the same errors. Keys are read without regard to
capitals, ``_`` and ``-``: ``time_limit``, ``TimeLimit`` and ``time-limit`` are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from cress.model import jobclauses
from cress.model import jobvalues as values
from cress.model.errors import InputError, NotAccepted
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Condition, Job, JobType, OnPartition
from cress.model.jobclauses import CLAUSES, ClauseText
from cress.model.jobports import UNNAMED, Ports, ports
from cress.model.jobvalues import DEFAULT_RESOURCE, MAX_ERRORS, MAX_NAME_LENGTH, SHELL, mistakes, raise_all, shown
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.units import one_of
from cress.model.vectors import parse_vector

# Linux takes 2 MB of arguments and variables together by default.
MAX_RUN_BYTES = 1_000_000
# Jobs that are submitted together.
MAX_JOBS = 10_000

KEYS = (
    "command",
    "name",
    "type",
    "group",
    "tasks",
    "resource",
    "priority",
    "time_limit",
    "environment",
    "directory",
    "gang",
    "stop_grace",
    "on_partition",
    "retries",
    "backoff",
    "hold",
    "after",
    "requirement",
    "rank",
    "nodes",
    "data_locality",
    "network_adjacent",
    "job_dependency",
    "exclusive_disk",
    "ports",
    "dynamic_port",
    "max_per_node",
    "max_per_rack",
    "application",
    "job_failure",
)
ALIASES = {
    "issue_as_whole": "gang",
    "env": "environment",
    "dir": "directory",
    "port": "ports",
    "depended_job": "job_dependency",
}
_NO_COMMAND: tuple[str, ...] = ()
_NO_VARIABLES: tuple[tuple[str, str], ...] = ()
_NO_JOBS: tuple[tuple[int | str, Condition], ...] = ()
_NO_TEXTS: jobclauses.Texts = ()
_NO_PORTS: Ports = ()
_T = TypeVar("_T")


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


_PLAIN_KEYS = {_plain(key): key for key in KEYS} | {_plain(alias): key for alias, key in ALIASES.items()}


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One job as submitted: what the scheduler sees of it, and how to run it. Both ids are 0: the center gives them.

    ``behind`` are the jobs of the same submit that it comes after, by name; ``parse_jobs`` has made places of them.
    ``clauses`` and ``ranks`` (one at most) are what must become ``requirement`` and ``rank`` of the job: whoever
    knows the language reads them.
    """

    job: Job
    run: Run
    behind: tuple[tuple[str, Condition], ...] = ()
    clauses: tuple[ClauseText, ...] = ()
    ranks: tuple[ClauseText, ...] = ()


def parse_jobs(entries: object, *, dimensions: Dimensions, user: str) -> list[JobSpec]:
    """The jobs of one submit, read together or not at all.

    Raises InputError, or InputErrors with every mistake; ``field`` begins with the place of its job: ``jobs[2].tasks``.
    """
    hint = "a list of mappings, one for each job"
    if not isinstance(entries, (list, tuple)):
        raise InputError(f"{shown(entries)} is no list", hint=hint, field="jobs")
    if not entries:
        raise InputError("there is no job in it", hint=hint, field="jobs")
    if len(entries) > MAX_JOBS:
        raise InputError(
            f"{len(entries)} jobs at once are too many", hint=f"at most {MAX_JOBS}; many alike: tasks", field="jobs"
        )
    specs: list[JobSpec] = []
    errors: list[InputError] = []
    for position, entry in enumerate(entries):
        place = f"jobs[{position}]"
        try:
            specs.append(parse_job(_mapping(entry), dimensions=dimensions, user=user))
        except InputError as error:
            errors += [below(each, place) for each in mistakes(error)]
    raise_all(errors)
    return _resolved(specs)


def _resolved(specs: list[JobSpec]) -> list[JobSpec]:
    """Names of jobs of this submit as their places, in the way of ``Job.after``: ``-1`` is the first one."""
    places: dict[str, list[int]] = {}
    for position, spec in enumerate(specs):
        places.setdefault(spec.job.name, []).append(position)
    resolved = []
    errors: list[InputError] = []
    for position, spec in enumerate(specs):
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
            errors.append(InputError(what, hint=hint, field=f"jobs[{position}].after"))
        job = msgspec.structs.replace(spec.job, after=tuple(after))
        resolved.append(msgspec.structs.replace(spec, job=job, behind=()))
    raise_all(errors)
    return resolved


def parse_job(mapping: Mapping[str, object], *, dimensions: Dimensions, user: str) -> JobSpec:
    """One job. Raises InputError, or InputErrors with every mistake; ``field`` is the key as it was written."""
    reader = _Reader(mapping)
    command = reader.read("command", values.command, _NO_COMMAND)
    if "command" not in reader.given:
        reader.errors.append(InputError("is missing", hint=values.COMMAND_HINT, field="command"))
    name = reader.read("name", values.name, "") or default_name(command)
    type_ = reader.read("type", values.job_type, JobType.BATCH)
    group = reader.read("group", values.group, DEFAULT_GROUP)
    tasks = reader.read("tasks", values.tasks, 1)
    default = parse_vector(DEFAULT_RESOURCE, dimensions)
    request = reader.read("resource", lambda value: values.resource(value, dimensions), default)
    priority = reader.read("priority", values.priority, 0)
    time_limit = reader.read("time_limit", values.time_limit, None)
    environment = reader.read("environment", values.environment, _NO_VARIABLES)
    directory = reader.read("directory", values.directory, "")
    gang = reader.read("gang", values.gang, False)
    stop_grace = reader.read("stop_grace", values.stop_grace, Run(job=0, command=()).stop_grace)
    on_partition = reader.read("on_partition", values.on_partition, OnPartition.STOP)
    retries = reader.read("retries", values.retries, 0)
    backoff = reader.read("backoff", values.backoff, Job(id=0, group="", request=()).backoff)
    hold = reader.read("hold", lambda value: values.truth(value, "it waits until it is released"), False)
    after = reader.read("after", values.after, _NO_JOBS)
    given_ports = _ports(reader)
    clauses = tuple(each for key in CLAUSES for each in reader.texts(key, CLAUSES[key]))
    ranks = reader.texts("rank", jobclauses.rank)
    max_per_node = reader.read("max_per_node", values.tasks, 0)
    max_per_rack = reader.read("max_per_rack", values.tasks, 0)
    application = reader.read("application", values.name, "")
    failure = "its tasks run again when their node is lost"
    job_failure = reader.read("job_failure", lambda value: values.truth(value, failure), True)
    size = sum(len(word.encode()) for word in command)
    size += sum(len(key) + len(value.encode()) for key, value in environment)
    if size > MAX_RUN_BYTES and not reader.errors:
        reader.errors.append(
            InputError(
                f"command and environment have {size} bytes together",
                hint=f"at most {MAX_RUN_BYTES}; put large inputs into files",
                field=reader.given["command"],
            )
        )
    raise_all(reader.errors)
    job = Job(
        id=0,
        group=group,
        request=request,
        name=name,
        user=user,
        tasks=tasks,
        gang=gang,
        priority=priority,
        time_limit=time_limit,
        type=type_,
        on_partition=on_partition,
        retries=retries,
        backoff=backoff,
        hold=hold,
        after=tuple((each, condition) for each, condition in after if isinstance(each, int)),
        ports=given_ports,
        max_per_node=max_per_node,
        max_per_rack=max_per_rack,
        application=application,
        job_failure=job_failure,
    )
    run = Run(
        job=0,
        command=command,
        name=name,
        group=group,
        user=user,
        tasks=tasks,
        environment=environment,
        directory=directory,
        # The default request bounds nothing: nobody has thought about it.
        memory_limit=request[dimensions.index["memory"]] if "resource" in reader.given else 0,
        time_limit=time_limit,
        stop_grace=stop_grace,
        on_partition=on_partition,
        ports=given_ports,
    )
    behind = tuple((each, condition) for each, condition in after if isinstance(each, str))
    return JobSpec(job=job, run=run, behind=behind, clauses=clauses, ranks=ranks)


def _ports(reader: _Reader) -> Ports:
    found = reader.read("ports", ports, _NO_PORTS)
    wanted = reader.read("dynamic_port", lambda value: values.truth(value, "each task gets a port"), False)
    if wanted and "ports" in reader.given:
        reader.errors.append(
            InputError(
                f"is given beside {reader.given['ports']}",
                hint="of several ports each with a name: {http: 80, admin: dynamic}",
                field=reader.given["dynamic_port"],
            )
        )
    return found or (((UNNAMED, 0),) if wanted else ())


def below(error: InputError, field: str) -> InputError:
    """The same error with its field below ``field``: ``resource`` and ``memory`` make ``resource.memory``."""
    inner = f"{'' if error.field.startswith('[') else '.'}{error.field}" if error.field else ""
    kind = NotAccepted if isinstance(error, NotAccepted) else InputError
    return kind(error.what, hint=error.hint, file=error.file, line=error.line, field=field + inner)


def default_name(command: Sequence[str]) -> str:
    """The name of a job that has none: the last path component of its program, with odd characters as ``-``."""
    words = list(command)
    if tuple(words[:2]) == SHELL and len(words) == 3:
        # Of a shell text the first word that is no assignment.
        words = [word for word in words[2][:4096].split() if "=" not in word]
    program = words[0].rstrip("/").rpartition("/")[2] if words else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", program).lstrip("._-")[:MAX_NAME_LENGTH].rstrip("-")
    return name or "job"


class _Reader:
    """Takes the values of a mapping one by one and remembers every mistake."""

    def __init__(self, mapping: Mapping[str, object]) -> None:
        self.errors: list[InputError] = []
        # Key → the key as it was written.
        self.given: dict[str, str] = {}
        self._values: dict[str, object] = {}
        unknown = 0
        for written, value in mapping.items():
            key = _known(written)
            if key is None:
                unknown += 1
                if unknown <= MAX_ERRORS:
                    self.errors.append(_unknown_key(written))
            elif key in self.given:
                self.errors.append(
                    InputError("is given twice", hint=f"it is the same as {self.given[key]}", field=str(written))
                )
            else:
                self.given[key] = written
                self._values[key] = value

    def read(self, key: str, parse: Callable[[object], _T], default: _T) -> _T:
        """What ``parse`` makes of the value of ``key``; ``default`` when there is none, or a mistake."""
        if key not in self.given:
            return default
        try:
            return parse(_present(self._values[key]))
        except InputError as error:
            self.errors += [below(each, self.given[key]) for each in mistakes(error)]
            return default

    def texts(self, key: str, parse: Callable[[object], jobclauses.Texts]) -> tuple[ClauseText, ...]:
        """The texts of the constraint language that ``parse`` makes of the value of ``key``, each with its field."""
        made = self.read(key, parse, _NO_TEXTS)
        return tuple(msgspec.structs.replace(each, field=self.given[key] + each.field) for each in made)


def _known(written: object) -> str | None:
    return _PLAIN_KEYS.get(_plain(written)) if isinstance(written, str) else None


def _mapping(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{shown(entry)} is no mapping", hint='{"command": ["echo", "hello"]}')
    return entry


def _present(value: object) -> object:
    if value is None:
        raise InputError("nothing is given", hint="leave the key out, or give it a value")
    return value


def _unknown_key(written: object) -> InputError:
    if not isinstance(written, str):
        return InputError(f"{shown(written)} is no key", hint="one of " + ", ".join(KEYS))
    hint = one_of(written[:MAX_NAME_LENGTH], KEYS)
    return InputError(f"unknown key {shown(written)}", hint=hint, field=shown(written)[1:-1])
