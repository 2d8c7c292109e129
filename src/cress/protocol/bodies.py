"""Bodies of the calls of the API, read strictly: an unknown field is an error."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cress.model.bounds import Real, Whole
from cress.model.node import Value


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class SubmitBody(Body, frozen=True):
    """Jobs to be accepted together or not at all; each as in a job file (docs/commands.md)."""

    jobs: list[dict[str, Any]]


class ApplyBody(Body, frozen=True):
    """The wanted services, databases and cron jobs; a dry run changes nothing."""

    jobs: list[dict[str, Any]]
    dry_run: bool = False


class JobsBody(Body, frozen=True):
    """The ids of jobs to be cancelled, held or released."""

    jobs: list[int]


class ScaleBody(Body, frozen=True):
    """The wanted number of tasks of a service or database."""

    tasks: Whole


class MoveBody(Body, frozen=True):
    """A task that is moved: its attempt and its new node; ``goal`` as in the plan."""

    attempt: Whole
    to: str
    goal: str = ""


class RebalanceBody(Body, frozen=True):
    """Moves in their order; for a waiting job they make room on ``place`` (tasks by node)."""

    moves: list[MoveBody]
    job: Whole = 0
    place: dict[str, Whole] = {}


class ReserveBody(Body, frozen=True, rename={"start": "from", "length": "for"}):
    """An advance reservation: of ``nodes`` (names and patterns) or a ``count`` of nodes, whole ones or ``resource`` on
    each, that satisfy ``requirement``.

    ``from`` and ``until`` are moments, ``for`` a duration, ``every`` the days on which it repeats; ``at_end`` is keep
    or stop. Without a group it is for maintenance. Without a name it is called after its group.
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

    With a ``command``, a program of the framework, that runs in each lease until it is released, and uses all of it;
    else a program that does nothing holds it. ``uses``: what is used at first (``all``, ``nothing`` or amounts).
    ``min_time``: for so long it is not preempted; ``term``: it ends unless its holder is heard of within that time.
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
    """The amounts that the holder of a lease uses of it by itself, as the ``resource`` of a job."""

    amounts: str | dict[str, Any]


class CountBody(Body, frozen=True):
    """A number of leases."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1


class UserBody(Body, frozen=True):
    """The role of a user, and the groups whose jobs the user steers."""

    role: str
    administers: list[str] = []


class TokenBody(Body, frozen=True):
    """The name of a token; without ``user`` it is the caller's; ``expires`` after so many seconds, None: never."""

    name: str
    user: str = ""
    role: str = ""
    expires: Real | None = None
    rotate: bool = False


class LoginBody(Body, frozen=True):
    """The ID token that the provider has given a user who signed in."""

    id_token: str


class JoinTokenBody(Body, frozen=True):
    """The name of a join token; ``uses`` nodes may join by it, whose names fit the pattern ``nodes``, for ``expires``
    seconds.
    """

    name: str
    uses: Whole = 1
    expires: Real = 3600.0
    nodes: str = "*"


class JoinBody(Body, frozen=True):
    """The name of a node that joins, and its certificate signing request as PEM."""

    node: str
    request: str


class SecretBody(Body, frozen=True):
    """The value of a secret, in base64; without ``user`` and ``group`` it is the caller's."""

    value: bytes
    user: str = ""
    group: str = ""


class RotateKeyBody(Body, frozen=True):
    """Old keys stay in the key file if ``keep_old``: backups of the data directory from before need them."""

    keep_old: bool = False


class GroupsBody(Body, frozen=True):
    """The text of a file of groups; ``file`` is its name in messages, ``moves`` the new groups of jobs of removed
    ones.
    """

    text: str
    file: str = ""
    moves: dict[str, str] = {}


class GroupBody(Body, frozen=True):
    """Keywords of a group with their new values, as in ``Group.conf``; null: it is not given any more."""

    values: dict[str, str | None]


class ConfigBody(Body, frozen=True):
    """A change of the configuration: a document, or single options and licences (null: the default, none).

    It is refused unless ``revision`` is the present one (0: any). ``what`` is told in the history, ``file`` is the name
    of the document in messages, ``moves`` as in ``GroupsBody``.
    """

    text: str | None = None
    options: dict[str, str | None] = {}
    licences: dict[str, int | None] = {}
    revision: int = 0
    what: str = ""
    file: str = ""
    moves: dict[str, str] = {}


class CordonBody(Body, frozen=True):
    """The reason why a node accepts no new tasks."""

    reason: str = ""


class DrainBody(Body, frozen=True):
    """The reason of a drain, and its deadline in seconds."""

    deadline: Real
    reason: str = ""


class NodeSettingsBody(Body, frozen=True):
    """A change of the settings of a node; what is not named stays, null goes back to what the executor reports.

    ``reserve`` is a text such as ``<2, 8G>``, ``accepts`` a condition over jobs, ``repels`` are names, in a list or
    with commas between. ``revert`` is a revision to go back to (0: nothing is set), alone. The change is refused unless
    ``revision`` is the present one, if it is given.
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
