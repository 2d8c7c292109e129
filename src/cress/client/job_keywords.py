"""The keys of a job file (docs/jobs.md) as keywords of Python: names and types, for people, editors and type checkers.

What a value may be is the center's to say; these are the types that make sense. Durations are texts such as
``"10min"``, seconds, or ``timedelta``; paths are texts or ``Path``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, TypeAlias, TypedDict

Duration: TypeAlias = str | float | timedelta
# From the submission on, or a moment; a datetime without a zone is one in the zone of the cluster.
Deadline: TypeAlias = Duration | datetime
Resource: TypeAlias = str | Mapping[str, str | float]
Path: TypeAlias = str | PathLike[str]
Licences: TypeAlias = str | Sequence[str] | Mapping[str, int]
Check: TypeAlias = Mapping[str, Any]
# One: an id, a name, a handle or a step.
Behind: TypeAlias = "int | str | Named | NamedStep"
After: TypeAlias = "Behind | Sequence[Behind] | Mapping[Any, str]"
Secrets: TypeAlias = Mapping[str, str | Mapping[str, str]] | Sequence[str]
Files: TypeAlias = Mapping[str, str] | Sequence[Mapping[str, Any]]


class Named:
    """Something with the id of a job: a handle."""

    id: int


class NamedStep:
    """Something with the name of a step of a dag."""

    name: str


class RunKeys(TypedDict, total=False):
    """Keys about how and where tasks run, common to all types of jobs and to leases.

    ``environment``: variables.
    ``secrets``: ``{"DB_PASSWORD": "db"}`` or ``{"key.pem": {"secret": "db", "as": "file"}}`` (docs/secrets.md).
    ``directory``: where they start; the current directory if it is not given. ``requirement`` and ``rank``: of nodes
    (docs/constraints.md). ``spread``, ``away_from``, ``near``, ``within``: ``"zone"``, ``{"by": "zone", "most_skew":
    2}``, or a list; ``labels``: ``{"tier": "db"}``. ``licences``: those that each takes (``"matlab"``, ``{"matlab":
    2}``). ``runtime``: process or container. ``files`` are brought before the start, ``outputs`` saved after success
    (docs/files.md).
    """

    priority: int
    time_limit: Duration
    environment: Mapping[str, str]
    secrets: Secrets
    directory: Path
    stop_grace: Duration
    on_partition: str
    backoff: Duration
    requirement: str | Sequence[str]
    rank: str
    nodes: Any
    data_locality: Any
    network_adjacent: Any
    job_dependency: Any
    exclusive_disk: Any
    max_per_node: int
    max_per_rack: int
    spread: Any
    away_from: Any
    near: Any
    within: Any
    labels: Mapping[str, str]
    licences: Licences
    tolerates: str | list[str]
    application: str
    runtime: str
    root: Path
    pids: int
    run_as: str
    files: Files
    outputs: Files
    log_size: str | int
    log_copy: str
    job_token: bool


class TaskKeys(RunKeys, total=False):
    """Keys of tasks: how and where they run, and ``resource``, what each needs (``"<2, 4G>"`` or ``{"cpu": 2, "memory":
    "4G"}``).

    ``workload`` is the framework whose leases they use.
    """

    resource: Resource
    workload: str


class CallKeys(TaskKeys, total=False):
    """The keys of the tasks that functions run in (``Client.map``, ``Executor``).

    ``retries``: how often a task whose process died is tried again.
    """

    name: str
    group: str
    retries: int
    job_failure: bool
    after: After


class CountKeys(TaskKeys, total=False):
    """Keys of jobs with a number of tasks.

    ``hold``: it waits until it is released. ``after``: jobs that must end first; a list of ids, names of jobs of the
    same submit, handles or steps, or a mapping of these to ``"ok"``, ``"any"`` or ``"failed"``. ``ports``: a number,
    ``"dynamic"``, or several by name.
    """

    tasks: int | str
    hold: bool
    after: After
    ports: Any
    dynamic_port: bool


class EndingKeys(CountKeys, total=False):
    """Keys of jobs whose tasks end.

    ``gang``: all start at once or none; ``max_running``: at most so many; ``movable``: they may begin anew on other
    nodes. ``retries``: how often a failed task is tried again, ``backoff`` after its end.
    """

    gang: bool | str
    max_running: int
    retries: int
    job_failure: bool
    movable: bool


class JobKeys(EndingKeys, total=False):
    """The keys of a batch job, but its command; ``parts``: of a gang, by name (``{"driver": {"command": …}, "workers":
    {"tasks": 8, …}}``); ``deadline``: when all its tasks should have ended (``"6h"``, a ``datetime``).
    """

    name: str
    group: str
    deadline: Deadline
    parts: Mapping[str, Mapping[str, Any]]


class StepKeys(EndingKeys, total=False):
    """The keys of a step of a dag, but its command; ``continue_``: the steps behind it start however it ended;
    ``parts``: those of a gang.
    """

    parts: Mapping[str, Mapping[str, Any]]
    continue_: bool


class DagKeys(EndingKeys, total=False):
    """The keys of a dag, but its name and steps: those that steps have too are defaults of its steps.

    ``deadline``: when all its steps should have ended.
    """

    group: str
    deadline: Deadline
    command: str | Sequence[str]


class CronKeys(EndingKeys, total=False):
    """The keys of a cron job, but its name, moments and command.

    ``overlap``: ``"forbid"``, ``"allow"`` or ``"replace"``; ``missed``: ``"skip"`` or ``"once"``. ``deadline``: of each
    run, from its start on.
    """

    group: str
    deadline: Duration
    parts: Mapping[str, Mapping[str, Any]]
    zone: str
    overlap: str
    missed: str


class KeptKeys(CountKeys, total=False):
    """Keys common to services and databases.

    ``ready`` and ``alive``: checks, such as ``{"port": "http", "every": "2s"}``, ``{"url": "/health", "on": "http"}``
    or ``{"command": ["pg_isready"]}``; without ``ready`` a task is ready ``ready_after`` its start.
    """

    group: str
    ready: Check
    alive: Check
    ready_after: Duration
    update_timeout: Duration


class ServiceKeys(KeptKeys, total=False):
    """The keys of a service, but its name and command.

    ``minimum`` tasks are never preempted; an update takes ``max_unavailable`` out at once; ``timetable``:
    ``[{"at": "0 8 * * 1-5", "tasks": 10}]``, in the time zone ``zone``; ``job_failure=False``: a task that is lost with
    its node is not replaced; ``movable=False``: its tasks are not moved to other nodes.
    """

    job_failure: bool
    movable: bool
    minimum: int
    max_unavailable: int
    timetable: Sequence[Mapping[str, Any]]
    zone: str


class DatabaseKeys(KeptKeys, total=False):
    """The keys of a database, but its name and command; after ``move_after`` away from its node a task may move."""

    move_after: Duration
