"""Bodies of the calls of the API, read strictly: an unknown field is an error."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cress.model.bounds import Count, Real, Whole
from cress.model.node import Value

# Most groups and kinds of licences of a cluster, and most options in one body, far more than there are. Larger mappings
# are refused before anything is done with their entries.
MOST_GROUPS, MOST_LICENCES, MOST_OPTIONS = 2_000, 10_000, 500
# Most nodes of a list, and most seconds in which consequences are computed.
MOST_NODES, MOST_SECONDS = 10_000, 45.0
Moves: TypeAlias = Annotated[dict[str, str], Meta(max_length=MOST_GROUPS)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class SubmitBody(Body, frozen=True):
    """Jobs to be accepted all or none, each as in a job file (docs/commands.md)."""

    jobs: list[dict[str, Any]]


class ApplyBody(Body, frozen=True):
    """The wanted services, databases and cron jobs; a dry run changes nothing."""

    jobs: list[dict[str, Any]]
    dry_run: bool = False


class JobsBody(Body, frozen=True):
    """The ids of jobs to be cancelled, held or released."""

    jobs: list[int]


class UpdateBody(Body, frozen=True):
    """The ids of jobs, and new values of keys of job files; null: as if not given."""

    jobs: list[int]
    values: dict[str, Any]


class RequeueBody(Body, frozen=True):
    """The ids of jobs whose running tasks wait again; with ``hold`` the jobs are held too."""

    jobs: list[int]
    hold: bool = False


class RetryBody(Body, frozen=True):
    """A retry of an ended job; with ``failed`` only of its tasks that did not succeed."""

    failed: bool = False


class RevertBody(Body, frozen=True):
    """The number of an earlier version of a service or database, which becomes the newest one."""

    version: Whole


class TriggerBody(Body, frozen=True):
    """The moment of a run of a cron job in seconds since the epoch; null: now.

    Or all moments of its expression from ``since`` until before ``until``.
    """

    at: Real | None = None
    since: Real | None = None
    until: Real | None = None


class ResumeBody(Body, frozen=True):
    """The rest of a dag: without ``steps`` those that did not succeed.

    With ``steps``: these run again too, with all steps behind them; or these alone, if ``only``. ``job`` is the dag of
    a corrected file.
    """

    steps: list[str] = []
    only: bool = False
    job: dict[str, Any] | None = None


class ScaleBody(Body, frozen=True):
    """The wanted number of tasks of a service or database."""

    tasks: Whole


class MoveBody(Body, frozen=True):
    """A move of a task: its attempt and its new node; ``goal`` as in the plan."""

    attempt: Whole
    to: str
    goal: str = ""


class RebalanceBody(Body, frozen=True):
    """Moves in order; for a waiting job they make room on ``place`` (tasks by node)."""

    moves: list[MoveBody]
    job: Whole = 0
    place: dict[str, Whole] = {}


class ReserveBody(Body, frozen=True, rename={"start": "from", "length": "for"}):
    """An advance reservation of ``nodes`` (names and patterns) or of a ``count`` of nodes.

    The nodes satisfy ``requirement``. It takes whole nodes, or ``resource`` on each. ``from`` and ``until`` are
    moments, ``for`` is a duration, ``every`` the days on which it repeats; ``at_end`` is keep or stop. Without a group
    it is for maintenance. Without a name it has the name of its group.
    """

    name: str = ""
    group: str = ""
    nodes: list[str] = []
    count: Whole = 0
    resource: str | dict[str, Any] = ""
    requirement: str = ""
    start: str = "now"
    until: str = ""
    length: str = ""
    every: str = ""
    at_end: str = ""
    replace: bool = False
    dry_run: bool = False


class SignalBody(Body, frozen=True):
    """A signal by name (``INT``, ``SIGUSR1``) or number, for the running attempts of a job or of one task."""

    signal: str | Whole
    task: Whole | None = None


class LeaseBody(msgspec.Struct, frozen=True, kw_only=True):
    """A request of ``count`` leases of ``resource`` each for a workload; further keys are those of a batch job
    (docs/jobs.md).

    A ``command`` is a program of the framework, which runs in each lease until it is released and uses all of it.
    Without one, an idle program holds the lease. ``uses`` is the use at first (``all``, ``nothing`` or amounts). For
    ``min_time`` the lease is not preempted. It ends if its holder is silent for ``term``.
    """

    workload: str
    count: int = 1
    resource: str | dict[str, Any] = ""
    group: str = ""
    gang: bool = False
    command: str | list[str] = ""
    requirement: str | list[str] = ""
    uses: str | dict[str, Any] = ""
    min_time: str | Real = 0
    term: str | Real = 60


class InsideBody(msgspec.Struct, frozen=True, kw_only=True):
    """A batch job that runs in a lease, with the keys of a job file."""

    command: str | list[str]
    resource: str | dict[str, Any] = ""


class UseBody(Body, frozen=True):
    """The amounts of a lease that its holder uses by itself, as the ``resource`` of a job."""

    amounts: str | dict[str, Any]


class CountBody(Body, frozen=True):
    """A number of leases."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1


class UserBody(Body, frozen=True):
    """The role of a user, and the groups that the user administers."""

    role: str
    administers: list[str] = []


class TokenBody(Body, frozen=True):
    """The name of a token; without ``user`` it is the caller's; it ``expires`` after these seconds, None: never."""

    name: str
    user: str = ""
    role: str = ""
    expires: Real | None = None
    rotate: bool = False


class LoginBody(Body, frozen=True):
    """The ID token that the provider issued to a user at sign-in."""

    id_token: str


class JoinTokenBody(Body, frozen=True):
    """The name of a join token with which ``uses`` nodes may join for ``expires`` seconds.

    ``nodes`` is a pattern for their names.
    """

    name: str
    uses: Whole = 1
    expires: Real = 3600.0
    nodes: str = "*"


class JoinBody(Body, frozen=True):
    """The name of a joining node, and its certificate signing request as PEM."""

    node: str
    request: str


class SecretBody(Body, frozen=True):
    """The value of a secret in base64; without ``user`` and ``group`` it is the caller's."""

    value: bytes
    user: str = ""
    group: str = ""


class UploadBody(Body, frozen=True):
    """A part of a file of ``size`` bytes, in base64, from byte ``offset`` on; without data only the state is asked."""

    size: Count
    offset: Count = 0
    data: bytes = b""


class RotateKeyBody(Body, frozen=True):
    """With ``keep_old`` the old keys stay in the key file, which older backups of the data directory need."""

    keep_old: bool = False


class GroupsBody(Body, frozen=True):
    """The text of a file of groups; ``file`` is its name in messages.

    ``moves`` are the new groups for jobs of removed groups.
    """

    text: str
    file: str = ""
    moves: Moves = {}


class GroupBody(Body, frozen=True):
    """Keywords of a group with their new values, as in ``Group.conf``; null removes a keyword."""

    values: dict[str, str | None]


class ConfigBody(Body, frozen=True):
    """A change of the configuration: a document, or single options and licences (null: the default, none).

    It is refused unless ``revision`` is the present one (0: any). ``what`` is its description in the history, ``file``
    the name of the document in messages, and ``moves`` is as in ``GroupsBody``.
    """

    text: str | None = None
    options: Annotated[dict[str, str | None], Meta(max_length=MOST_OPTIONS)] = {}
    licences: Annotated[dict[str, int | None], Meta(max_length=MOST_LICENCES)] = {}
    revision: int = 0
    what: str = ""
    file: str = ""
    moves: Moves = {}


class WhatIfBody(Body, frozen=True):
    """A change whose consequences are wanted; nothing of it is stored.

    ``jobs`` are submitted, as in job files. ``remove_nodes`` leave at once, and ``add_nodes`` come: ``10x<16, 64G>``,
    or ``10xn1`` (like node n1). ``drain`` are nodes with the seconds that their tasks still have. ``groups`` is a text
    as in ``GroupsBody``, with its ``moves`` and ``file``; ``options`` and ``licences`` as in ``ConfigBody``, and
    ``config`` is a whole document in place of these three. ``set_group`` has keywords of groups, by group, as in
    ``GroupBody``. The answer takes about ``seconds`` at most; with ``details`` it has the jobs and attempts of both
    courses.
    """

    jobs: list[dict[str, Any]] = []
    remove_nodes: Annotated[list[str], Meta(max_length=MOST_NODES)] = []
    add_nodes: Annotated[list[str], Meta(max_length=MOST_NODES)] = []
    drain: Annotated[dict[str, Real], Meta(max_length=MOST_NODES)] = {}
    groups: str | None = None
    file: str = ""
    moves: Moves = {}
    options: Annotated[dict[str, str | None], Meta(max_length=MOST_OPTIONS)] = {}
    licences: Annotated[dict[str, int | None], Meta(max_length=MOST_LICENCES)] = {}
    config: str | None = None
    set_group: Annotated[dict[str, dict[str, str | None]], Meta(max_length=MOST_NODES)] = {}
    seconds: Annotated[float, Meta(ge=0.1, le=MOST_SECONDS)] = 20.0
    details: bool = False


class CordonBody(Body, frozen=True):
    """The reason why a node accepts no new tasks."""

    reason: str = ""


class DrainBody(Body, frozen=True):
    """The reason for a drain, and its deadline in seconds; null: running tasks go on to their end."""

    deadline: Real | None = None
    reason: str = ""


class NodeSettingsBody(Body, frozen=True):
    """A change of a node's settings; missing ones stay, null restores the executor's value.

    ``reserve`` is a text such as ``<2, 8G>``, ``accepts`` a condition over jobs, ``repels`` are names, as a list or
    separated by commas. ``revert`` is the revision to return to (0: no settings), and excludes the others. The change
    is refused if ``revision`` is given and is not the present one.
    """

    labels: dict[str, Value | None] = {}
    rack: str | UnsetType | None = UNSET
    reserve: str | UnsetType | None = UNSET
    judged: bool | UnsetType | None = UNSET
    note: str | UnsetType | None = UNSET
    accepts: str | UnsetType | None = UNSET
    repels: list[str] | str | UnsetType | None = UNSET
    revert: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    revision: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
