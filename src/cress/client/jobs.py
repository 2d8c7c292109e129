"""Jobs as Python objects: the keys of a job file as keywords, converted to the mapping of such a file.

The job file (docs/jobs.md) is the definition: an object knows its valid keys, and the center the meaning of values.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, Unpack

from cress.client.job_keywords import (
    CronKeys,
    DagKeys,
    DatabaseKeys,
    JobKeys,
    Named,
    NamedStep,
    ServiceKeys,
    StepKeys,
)
from cress.model.errors import InputError
from cress.model.jobfile.directory import in_folder, needs_folder
from cress.model.units import one_of

Command: TypeAlias = str | Sequence[str]


class JobFile:
    """The contents of a job file; ``keys`` are its keys with the given values."""

    TYPE: ClassVar[str]
    KEYS: ClassVar[frozenset[str]]

    def __init__(self, keys: Mapping[str, object]) -> None:
        self.keys = checked(type(self).__name__, keys, self.KEYS)

    def mapping(self) -> dict[str, object]:
        """Return the job as the mapping of a job file, with only texts, numbers, lists and mappings."""
        return {"type": self.TYPE, **plain_keys(self.keys)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.keys.items())})"


class Job(JobFile):
    """A batch job: ``tasks`` copies of a program that end.

    ``command`` is a list, or one text for the shell; ``None`` if its ``parts`` have theirs. The other keys are those of
    ``job_keywords.JobKeys``. Raises ``InputError`` for a key that batch jobs lack.
    """

    TYPE = "batch"
    KEYS = frozenset({"command", *JobKeys.__annotations__})

    def __init__(self, command: Command | None = None, **keys: Unpack[JobKeys]) -> None:
        super().__init__({**({} if command is None else {"command": command}), **keys})


class Service(JobFile):
    """A program that is kept running in ``tasks`` copies (``job_keywords.ServiceKeys``), known by its ``name``."""

    TYPE = "service"
    KEYS = frozenset({"command", "name", *ServiceKeys.__annotations__})

    def __init__(self, name: str, command: Command, **keys: Unpack[ServiceKeys]) -> None:
        super().__init__({"name": name, "command": command, **keys})


class Database(JobFile):
    """A service whose tasks keep index, node and directory (``job_keywords.DatabaseKeys``)."""

    TYPE = "database"
    KEYS = frozenset({"command", "name", *DatabaseKeys.__annotations__})

    def __init__(self, name: str, command: Command, **keys: Unpack[DatabaseKeys]) -> None:
        super().__init__({"name": name, "command": command, **keys})


class Cron(JobFile):
    """A job that runs at the moments of the cron expression ``when`` (``job_keywords.CronKeys``).

    It runs a command, or all steps of a ``Dag``, whose keys are then keys of the cron job.
    """

    TYPE = "cron"
    KEYS = frozenset({"command", "name", "when", "steps", *CronKeys.__annotations__})

    def __init__(self, name: str, when: str, command: Command | Dag, **keys: Unpack[CronKeys]) -> None:
        if isinstance(command, Dag):
            of_dag = {key: value for key, value in command.mapping().items() if key not in ("type", "name")}
            super().__init__({**of_dag, "name": name, "when": when, **keys})
        else:
            super().__init__({"name": name, "when": when, "command": command, **keys})


class Step(NamedStep):
    """A step of a dag; other steps name it in their ``after``."""

    KEYS: ClassVar[frozenset[str]] = frozenset({"command", *StepKeys.__annotations__})

    def __init__(self, dag: Dag, name: str, keys: Mapping[str, object]) -> None:
        self.dag = dag
        self.name = name
        self.keys = checked("Step", keys, self.KEYS)

    def mapping(self) -> dict[str, object]:
        """Return the step as its mapping in a job file."""
        return {key.rstrip("_"): value for key, value in plain_keys(self.keys).items()}

    def __repr__(self) -> str:
        return f"<step {self.name}>"


class Dag(JobFile):
    """Steps with dependencies on each other (``job_keywords.DagKeys``); ``step`` adds one.

    >>> dag = Dag("etl", retries=2)
    >>> extract = dag.step("extract", command="./extract.sh")
    >>> load = dag.step("load", command="./load.sh", after=[extract])
    """

    TYPE = "dag"
    KEYS = frozenset({"name", *DagKeys.__annotations__})

    def __init__(self, name: str, **keys: Unpack[DagKeys]) -> None:
        super().__init__({"name": name, **keys})
        self.steps: dict[str, Step] = {}

    def step(self, name: str, command: Command, **keys: Unpack[StepKeys]) -> Step:
        """Add a step, whose ``after`` names existing steps. Raises ``InputError`` for a name that is taken."""
        if name in self.steps:
            raise InputError(f"there is already a step {name}", hint="step names must be unique", field="name")
        step = Step(self, name, {"command": command, **keys})
        for previous in _steps_in(keys.get("after")):
            if previous.dag is not self:
                raise InputError(f"{previous.name} is a step of another dag", field="after")
        self.steps[name] = step
        return step

    def mapping(self) -> dict[str, object]:
        """Return the dag as the mapping of a job file."""
        return {**super().mapping(), "steps": {name: step.mapping() for name, step in self.steps.items()}}


def checked(what: str, keys: Mapping[str, object], known: frozenset[str]) -> dict[str, object]:
    """Return the given keys without those that are ``None``. Raises ``InputError`` for unknown ones."""
    for key in keys:
        if key not in known:
            raise InputError(f"{what} has no key {key!r}", hint=one_of(key, sorted(known)), field=key)
    return {key: value for key, value in keys.items() if value is not None}


def plain_keys(keys: Mapping[str, object]) -> dict[str, object]:
    """Return keys with JSON values. Raises ``InputError`` that names the key."""
    made = {}
    for key, value in keys.items():
        try:
            made[str(key)] = plain(value)
        except InputError as error:
            raise error.at(field=str(key)) from None
    return made


def plain(value: object) -> object:
    """Return a value as JSON: durations in seconds, moments and paths as texts, handles as ids, steps as names."""
    match value:
        case None | bool() | str() | int() | float():
            return value
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case Step():
            return value.name
        case Named():
            return value.id
        case os.PathLike():
            return os.fspath(value)
        case Mapping():
            return {_key(key): plain(element) for key, element in value.items()}
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case Iterable() if not isinstance(value, (bytes, bytearray, memoryview)):
            return [plain(element) for element in value]
        case _:
            raise InputError(f"{value!r} of {type(value).__name__} cannot stand in a job file")


def _key(key: object) -> str:
    made = plain(key)
    return made if isinstance(made, str) else str(made)


def _steps_in(after: Any) -> list[Step]:
    given = [after] if isinstance(after, (str, Step)) else after or ()
    return [given_step for given_step in given if isinstance(given_step, Step)] if isinstance(given, Iterable) else []


def mapping_of(job: JobFile | Mapping[str, object]) -> dict[str, object]:
    """Return the mapping of a job file, from any form of a job.

    The job starts in the current directory unless it names a directory or files.
    """
    mapping = job.mapping() if isinstance(job, JobFile) else plain_keys(job)
    if not needs_folder(mapping):
        return mapping
    try:
        return in_folder(mapping, os.fspath(Path.cwd()))
    except OSError as error:
        raise InputError(
            f"the current directory is not there: {error.strerror}", hint="os.chdir, or directory= in the job"
        ) from None


# A job as an object, or the mapping of a job file.
JobLike: TypeAlias = JobFile | Mapping[str, object]


def several(jobs: JobLike | Sequence[JobLike]) -> Sequence[JobLike]:
    """Return jobs as a sequence, also a single one."""
    return [jobs] if isinstance(jobs, (JobFile, Mapping)) else jobs
