"""Jobs as in job files, with the times that a simulation needs: a YAML file with a list ``jobs``.

Each entry has the keys of a job file (docs/jobs.md) and those of ``SIMULATED``; a ``command`` is not needed, and not run.
``after`` names other jobs of the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cress.model.errors import InputError, InputErrors
from cress.model.family import Database, Service
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.submit import read_jobs
from cress.model.jobfile.values import mistakes
from cress.model.units import parse_count, parse_duration
from cress.simulator.files import text_of
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.jobkeys import template_of_spec
from cress.simulator.workload import NO_LIMIT, After, Cluster, Workload
from cress.simulator.yamltext import line_of, parse_yaml, plain_text

# Key → its parser and its default.
SIMULATED: dict[str, tuple[Callable[[str], int], int]] = {
    "submit": (parse_duration, 0),
    "run": (parse_duration, NO_LIMIT),
    "fails": (parse_count, 0),
    "until": (parse_duration, NO_LIMIT),
}
USER = "user"


def load(path: Path, cluster: Cluster | None) -> Workload:
    """Read a file of jobs. Raises ``InputError`` with file, line and field for every mistake."""
    if cluster is None:
        raise InputError("a file of jobs has no cluster", hint="give --cluster FILE", file=str(path))
    try:
        with text_of(path) as file:
            document = parse_yaml(file.read(), str(path))
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", hint="YAML in UTF-8", file=str(path)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from error
    reader = _Reader(document, cluster)
    if reader.errors:
        found = [_located(error, reader.lines, str(path)) for error in reader.errors]
        raise found[0] if len(found) == 1 else InputErrors(found)
    return tidy(reader.workload(path.name.rsplit(".", 1)[0]))


class _Reader:
    """The entries of a file, and all their mistakes; ``lines`` are the lines of entries and of their keys."""

    def __init__(self, document: Mapping[str, Any], cluster: Cluster) -> None:
        self.errors: list[InputError] = []
        self.lines: list[Any] = []
        self._cluster = cluster
        self._times: list[dict[str, int]] = []
        self._users: list[str] = []
        entries = document.get("jobs")
        plain: object = entries
        if isinstance(entries, list):
            self.lines = entries
            plain = [self._entry(i, each) for i, each in enumerate(entries)]
        specs, errors = read_jobs(plain, dimensions=cluster.dimensions, user="")
        self.errors += errors
        self._specs: list[JobSpec] = specs
        self._templates = [self._template(i, spec) for i, spec in enumerate(specs)] if not self.errors else []

    def _entry(self, i: int, entry: object) -> object:
        """An entry without the keys of the simulation, which are read."""
        if not isinstance(entry, Mapping):
            return entry
        times: dict[str, int] = {}
        for key, (parse, default) in SIMULATED.items():
            try:
                times[key] = parse(plain_text(entry[key])) if key in entry else default
            except InputError as error:
                self._wrong(i, error, key)
        self._times.append(times)
        self._users.append(plain_text(entry.get(USER)))
        if str(entry.get("type", "")).strip().lower() == "dag":
            hint = "each step as a job, with after: and the name of the dag as family:"
            self._wrong(i, InputError("dags are not read from a file of jobs", hint=hint), "type")
        rest = {str(key): value for key, value in entry.items() if key not in (*SIMULATED, USER)}
        return {"command": "true", **rest}

    def _template(self, i: int, spec: JobSpec) -> Any:
        times = self._times[i]
        if times["run"] == NO_LIMIT and not isinstance(spec.job.plan, Service | Database):
            self._wrong(i, InputError("is missing", hint="how long a task runs: run: 10min"), "run")
        if NO_LIMIT < times["until"] <= times["submit"]:
            self._wrong(i, InputError("is not after submit", hint="a later time"), "until")
        try:
            return template_of_spec(spec, dict(self._cluster.licences))
        except InputError as error:
            for each in mistakes(error):
                self._wrong(i, each, each.field.removeprefix("."))
            return None

    def _wrong(self, i: int, error: InputError, key: str) -> None:
        self.errors.append(InputError(error.what, hint=error.hint, field=f"jobs[{i}].{key}"))

    def workload(self, name: str) -> Workload:
        """The workload of a file without mistakes."""
        jobs = [spec.job for spec in self._specs]
        n = len(jobs)
        column = {key: np.array([each[key] for each in self._times], dtype=np.int64) for key in SIMULATED}
        requests = sorted({job.request for job in jobs})
        groups = sorted({job.group for job in jobs})
        users = sorted(set(self._users))
        after: After = tuple(tuple((-number - 1, how) for number, how in job.after) for job in jobs)
        return Workload(
            name=name,
            cluster=self._cluster,
            ids=[job.name for job in jobs],
            submit=column["submit"],
            run=column["run"],
            limit=np.array([NO_LIMIT if job.time_limit is None else job.time_limit for job in jobs], dtype=np.int64),
            tasks=np.array([job.tasks for job in jobs], dtype=np.int64),
            gang=np.array([job.gang for job in jobs], dtype=np.bool_),
            killed=np.zeros(n, dtype=np.bool_),
            priority=np.array([job.priority for job in jobs], dtype=np.int64),
            request_index=np.array([requests.index(job.request) for job in jobs], dtype=np.int64),
            requests=requests,
            user_index=np.array([users.index(user) for user in self._users], dtype=np.int64),
            users=users,
            group_index=np.array([groups.index(job.group) for job in jobs], dtype=np.int64),
            group_names=groups,
            line=np.array([int(each.lc.line) + 1 for each in self.lines], dtype=np.int64),
            notes=TraceNotes(),
            templates=tuple(self._templates),
            template_index=np.arange(n, dtype=np.int64),
            after=after if any(after) else None,
            fails=column["fails"] if column["fails"].any() else None,
            until=column["until"] if (column["until"] != NO_LIMIT).any() else None,
        )


def _located(error: InputError, entries: list[Any], file: str) -> InputError:
    """The mistake with its file and line; ``field`` begins with the place of its entry."""
    place, _, key = error.field.partition("].")
    number = place.removeprefix("jobs[").rstrip("]")
    if not (number.isdigit() and int(number) < len(entries)):
        return error.at(file=file)
    entry = entries[int(number)]
    line = line_of(entry, key.partition(".")[0]) if isinstance(entry, Mapping) else 0
    return error.at(file=file, line=line or int(entries.lc.item(int(number))[0]) + 1)  # type: ignore[attr-defined]
