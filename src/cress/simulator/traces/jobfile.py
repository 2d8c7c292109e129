"""Jobs as in job files, with the times that a simulation needs: a YAML file with a list ``jobs``.

Each entry has the keys of a job file (docs/jobs.md) and those of ``SIMULATED``; a ``command`` is optional and never
run. ``after`` names other jobs of the file. A dag becomes one job for each of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cress.formats.yaml_text import line_at, line_of
from cress.model.critical_path import longest_behind
from cress.model.errors import InputError, InputErrors
from cress.model.family import Dag, Database, Service
from cress.model.job import JobType
from cress.model.jobfile.job import JobSpec, type_of
from cress.model.jobfile.reader import plain
from cress.model.jobfile.submit import read_jobs
from cress.model.jobfile.values import mistakes
from cress.model.units import parse_count, parse_duration
from cress.simulator.files import UNREADABLE, text_of
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.dag_steps import dag_of, predecessors
from cress.simulator.traces.jobkeys import template_of_spec
from cress.simulator.workload import NO_LIMIT, Ints, SimulatedCluster, Workload
from cress.simulator.yamltext import parse_yaml, plain_text

# Key → its parser and its default.
SIMULATED: dict[str, tuple[Callable[[str], int], int]] = {
    "submit": (parse_duration, 0),
    "run": (parse_duration, NO_LIMIT),
    "fails": (parse_count, 0),
    "until": (parse_duration, NO_LIMIT),
}
# Keys that the steps of a dag may have; the default is the value of their dag.
OF_STEPS = ("run", "fails")
USER = "user"


def load(path: Path, cluster: SimulatedCluster | None) -> Workload:
    """Read a file of jobs. Raise ``InputError`` with file, line and field for every mistake."""
    if cluster is None:
        raise InputError("a file of jobs has no cluster", hint="give --cluster FILE", file=str(path))
    try:
        with text_of(path) as file:
            document = parse_yaml(file.read(), str(path))
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", hint="YAML in UTF-8", file=str(path)) from error
    except UNREADABLE as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from error
    reader = _EntryReader(document, cluster)
    if reader.errors:
        # Without jobs there is no line.
        there = "jobs" in document
        found = [error.at(file=str(path), line=there and line_at(document, error.field)) for error in reader.errors]
        raise found[0] if len(found) == 1 else InputErrors(found)
    return tidy(reader.workload(path.name.rsplit(".", 1)[0]))


@dataclass(frozen=True)
class _Times:
    """The keys of the simulation in an entry or a step, with its user, its place in the file and its line."""

    values: Mapping[str, int]
    user: str
    place: str
    line: int


class _EntryReader:
    """The entries of a file, and all their mistakes."""

    def __init__(self, document: Mapping[str, Any], cluster: SimulatedCluster) -> None:
        self.errors: list[InputError] = []
        self._cluster = cluster
        self._times: list[_Times] = []  # in the order of the jobs read: the steps of a dag follow it
        entries = document.get("jobs")
        bare: object = entries
        if isinstance(entries, list):
            bare = [self._entry(entries, i, entry) for i, entry in enumerate(entries)]
        self._specs: list[JobSpec]
        self._specs, errors = read_jobs(bare, dimensions=cluster.dimensions, user="")
        self.errors += errors
        if self.errors:
            return
        for times, spec in zip(self._times, self._specs, strict=True):
            if spec.job.deadline or spec.clocks:
                what = InputError("is a date, but a simulation has no calendar", hint="from the submission on: 6h")
                self._wrong(times.place, what, "deadline")
        self._after, errors = predecessors(self._specs)
        self.errors += errors
        self._rows = [i for i, spec in enumerate(self._specs) if not isinstance(spec.job.plan, Dag)]
        self._templates = [self._template(self._times[i], self._specs[i]) for i in self._rows]

    def _entry(self, entries: Any, i: int, entry: object) -> object:
        """Return an entry without the keys of the simulation, after these have been read."""
        if not isinstance(entry, Mapping):
            return entry
        place, line = f"jobs[{i}]", line_of(entries, i)
        values = self._read(entry, place, {key: default for key, (_, default) in SIMULATED.items()})
        if NO_LIMIT < values["until"] <= values["submit"]:
            self._wrong(place, InputError("is not after submit", hint="a later time"), "until")
        times = _Times(values, plain_text(entry.get(USER)), place, line)
        self._times.append(times)
        rest = {str(key): value for key, value in entry.items() if key not in (*SIMULATED, USER)}
        if type_of(rest) is not JobType.DAG:
            return {"command": "true", **rest}
        for key, steps in rest.items():
            if plain(key) == "steps" and isinstance(steps, Mapping):
                rest[key] = {name: self._step(times, key, steps, name) for name in steps}
        return rest

    def _step(self, dag: _Times, key: str, steps: Any, name: Any) -> object:
        """Return a step without the keys of the simulation."""
        step = steps[name]
        if not isinstance(step, Mapping):
            return step
        place = f"{dag.place}.{key}.{name}"
        values = self._read(step, place, dag.values)
        for other in (*SIMULATED, USER):
            if other in step and other not in OF_STEPS:
                self._wrong(place, InputError("belongs to the whole dag", hint="it holds for all steps"), other)
        self._times.append(_Times(values, dag.user, place, line_of(steps, name)))
        return {"command": "true"} | {
            str(keyword): value for keyword, value in step.items() if keyword not in (*SIMULATED, USER)
        }

    def _read(self, entry: Mapping[str, Any], place: str, defaults: Mapping[str, int]) -> dict[str, int]:
        """Return the values of the keys of the simulation."""
        values = dict(defaults)
        for key, (parse, _) in SIMULATED.items():
            try:
                values[key] = parse(plain_text(entry[key])) if key in entry else defaults[key]
            except InputError as error:
                self._wrong(place, error, key)
        return values

    def _template(self, times: _Times, spec: JobSpec) -> Any:
        if times.values["run"] == NO_LIMIT and not isinstance(spec.job.plan, Service | Database):
            self._wrong(times.place, InputError("is missing", hint="how long a task runs: run: 10min"), "run")
        # In a simulation nothing is handed on, and nobody looks for things outside.
        spec = msgspec.structs.replace(spec, job=msgspec.structs.replace(spec.job, when="", wait_for=()))
        try:
            return template_of_spec(spec, self._cluster.dimensions, dict(self._cluster.licences))
        except InputError as error:
            for mistake in mistakes(error):
                self._wrong(times.place, mistake, mistake.field.removeprefix("."))
            return None

    def _wrong(self, place: str, error: InputError, key: str) -> None:
        self.errors.append(InputError(error.what, hint=error.hint, field=f"{place}.{key}"))

    def workload(self, name: str) -> Workload:
        """Return the workload of a file without mistakes."""
        jobs = [self._specs[i].job for i in self._rows]
        times = [self._times[i] for i in self._rows]
        dags = [dag_of(self._specs, i) for i in self._rows]
        n = len(jobs)
        column = {key: np.array([simulated.values[key] for simulated in times], dtype=np.int64) for key in SIMULATED}
        asked = [job.mean_request for job in jobs]
        requests = sorted(set(asked))
        groups = sorted({job.group for job in jobs})
        users = sorted({simulated.user for simulated in times})
        families = sorted({dag for dag in dags if dag is not None})
        row = {i: k for k, i in enumerate(self._rows)}
        after = tuple(tuple((row[before], how) for before, how in self._after[i]) for i in self._rows)
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
            request_index=np.array([requests.index(request) for request in asked], dtype=np.int64),
            requests=requests,
            user_index=np.array([users.index(simulated.user) for simulated in times], dtype=np.int64),
            users=users,
            group_index=np.array([groups.index(job.group) for job in jobs], dtype=np.int64),
            group_names=groups,
            line=np.array([simulated.line for simulated in times], dtype=np.int64),
            notes=TraceNotes(),
            templates=tuple(self._templates),
            template_index=np.arange(n, dtype=np.int64),
            after=after if any(after) else None,
            family_index=np.array([0 if dag is None else families.index(dag) + 1 for dag in dags], dtype=np.int64),
            family_names=("", *(self._specs[dag].job.name for dag in families)),
            fails=column["fails"] if column["fails"].any() else None,
            until=column["until"] if (column["until"] != NO_LIMIT).any() else None,
            deadline=self._deadlines(dags),
        )

    def _deadlines(self, dags: Sequence[int | None]) -> Ints | None:
        """Return the time by which each job should have ended; ``None`` if no job has a deadline.

        For a step of a dag, the time of the steps behind it is subtracted.
        """
        jobs = [spec.job for spec in self._specs]
        behind = longest_behind(jobs)
        found = np.full(len(dags), NO_LIMIT, dtype=np.int64)
        for row, (i, dag) in enumerate(zip(self._rows, dags, strict=True)):
            whole = i if dag is None else dag
            if jobs[whole].within and jobs[whole].type is not JobType.CRON:
                found[row] = max(0, self._times[whole].values["submit"] + jobs[whole].within - behind[i])
        return found if (found != NO_LIMIT).any() else None
