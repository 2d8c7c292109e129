"""The keys of a job file (docs/jobs.md) as Python keywords: names and types, for people, editors and type checkers.

The center decides which values are valid; these are the sensible types. Durations are texts such as ``"10min"``,
seconds, or ``timedelta``; paths are texts or ``Path``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, TypeAlias, TypedDict

Duration: TypeAlias = str | float | timedelta
# A time from the submission, or a moment; a datetime without a zone is in the zone of the cluster.
Deadline: TypeAlias = Duration | datetime
Resource: TypeAlias = str | Mapping[str, str | float]
Path: TypeAlias = str | PathLike[str]
Licences: TypeAlias = str | Sequence[str] | Mapping[str, int]
Check: TypeAlias = Mapping[str, Any]
# One dependency: an id, a name, a handle or a step.
Behind: TypeAlias = "int | str | Named | NamedStep"
After: TypeAlias = "Behind | Sequence[Behind] | Mapping[Any, str]"
Secrets: TypeAlias = Mapping[str, str | Mapping[str, str]] | Sequence[str]
Files: TypeAlias = Path | Mapping[str, Any] | Sequence[Path | Mapping[str, Any]]
WaitFor: TypeAlias = "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]"


class Named:
    """An object with the id of a job: a handle."""

    id: int


class NamedStep:
    """An object with the name of a step of a dag."""

    name: str


class RunKeys(TypedDict, total=False):
    """Keys about how and where tasks run, common to all types of jobs and to leases.

    ``environment``: variables.
    ``secrets``: ``{"DB_PASSWORD": "db"}`` or ``{"key.pem": {"secret": "db", "as": "file"}}`` (docs/secrets.md).
    ``directory``: where they start; by default the current directory. ``requirement`` and ``rank`` select nodes
    (docs/constraints.md). ``spread``, ``away_from``, ``near``, ``within``: ``"zone"``, ``{"by": "zone", "most_skew":
    2}``, or a list; ``labels``: ``{"tier": "db"}``. ``licences``: those of each task (``"matlab"``, ``{"matlab": 2}``).
    ``runtime``: process or container. ``files`` are copied before the start, ``outputs`` are saved after success
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
    workdir: Path
    outputs: Files
    log_size: str | int
    log_copy: str
    job_token: bool


class TaskKeys(RunKeys, total=False):
    """Keys of tasks: how and where they run, and their request ``resource`` (``"<2, 4G>"`` or ``{"cpu": 2, "memory":
    "4G"}``).

    ``workload`` is the framework whose leases they use.
    """

    resource: Resource
    workload: str


class CallKeys(TaskKeys, total=False):
    """The keys of the tasks that run functions (``Client.map``, ``Executor``).

    ``retries``: how often a task whose process died is tried again.
    """

    name: str
    group: str
    retries: int
    job_failure: bool
    after: After


class CountKeys(TaskKeys, total=False):
    """Keys of jobs with a number of tasks.

    ``hold``: the job waits until it is released. ``after``: jobs that must end first; a list of ids, names of jobs of
    the same submit, handles or steps, or a mapping of these to ``"ok"``, ``"any"`` or ``"failed"``. ``ports``: a
    number, ``"dynamic"``, or several by name. ``image``: the name or archive of an image for a container
    (docs/containers.md). ``uses``: jobs whose addresses the tasks get (docs/names.md). ``notify``:
    addresses that are told what becomes of the job (docs/notifications.md).
    """

    tasks: int | str
    hold: bool
    after: After
    ports: Any
    dynamic_port: bool
    uses: str | Sequence[str]
    notify: Any
    image: str | Mapping[str, str]


class EndingKeys(CountKeys, total=False):
    """Keys of jobs whose tasks end.

    ``gang``: all start at once or none; ``max_running``: the most that run at once; ``movable``: they may begin anew on
    other nodes. ``retries``: how often a failed task is tried again, ``backoff`` after its end.
    """

    gang: bool | str
    max_running: int
    retries: int
    job_failure: bool
    movable: bool


class JobKeys(EndingKeys, total=False):
    """The keys of a batch job except its command.

    ``parts`` are those of a gang, by name (``{"driver": {"command": …}, "workers": {"tasks": 8, …}}``); ``deadline`` is
    the time by which all its tasks should have ended (``"6h"``, a ``datetime``). ``wait_for``: things that must be
    there before it starts (``"/data/in.csv"``, ``{"url": "https://…", "timeout": "6h"}``, or a list).
    """

    name: str
    group: str
    deadline: Deadline
    wait_for: WaitFor
    parts: Mapping[str, Mapping[str, Any]]


class StepKeys(EndingKeys, total=False):
    """The keys of a step of a dag except its command.

    With ``continue_`` the following steps start however it ends; ``parts`` are those of a gang. ``when`` is a condition
    on earlier steps (``"check.rows > 10"``), ``wait_for`` are things that must be there before it starts.
    """

    parts: Mapping[str, Mapping[str, Any]]
    continue_: bool
    when: str
    wait_for: WaitFor


class DagKeys(EndingKeys, total=False):
    """The keys of a dag except its name and steps; keys that steps also have are their defaults.

    ``deadline`` is the time by which all its steps should have ended.
    """

    group: str
    deadline: Deadline
    command: str | Sequence[str]


class CronKeys(EndingKeys, total=False):
    """The keys of a cron job except its name, moments and command.

    ``overlap``: ``"forbid"``, ``"allow"`` or ``"replace"``; ``missed``: ``"skip"`` or ``"once"``. ``deadline``: of each
    run, from its start. ``wait_for``: things that must be there before a run starts.
    """

    group: str
    wait_for: WaitFor
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
    """The keys of a service except its name and command.

    ``gang``: its tasks start together; ``minimum`` tasks are never preempted; an update stops ``max_unavailable`` tasks
    at once, runs ``surge`` tasks in addition, and waits after ``canary`` tasks; ``timetable``: ``[{"at": "0 8 * * 1-5",
    "tasks": 10}]``, in the time zone ``zone``; with ``job_failure=False`` a task that is lost with its node is not
    replaced; with ``movable=False`` its tasks are not moved to other nodes.
    """

    gang: bool | str
    job_failure: bool
    movable: bool
    minimum: int
    max_unavailable: int
    surge: int
    canary: int
    timetable: Sequence[Mapping[str, Any]]
    zone: str


class DatabaseKeys(KeptKeys, total=False):
    """The keys of a database except its name and command; a task away from its node for ``move_after`` may move."""

    move_after: Duration
