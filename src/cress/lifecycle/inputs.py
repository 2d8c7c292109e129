"""Inputs of the machine. A log of these, with their times, replays to the same state.

An input that the scheduler gets unchanged is one type for both: an event of ``model.events``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from cress.core.moving.plan import Move
from cress.model.access import JoinToken, Token, User
from cress.model.bounds import Amount
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    DataLocated,
    GroupsApplied,
    LicencesSet,
    LoadSeen,
    NodeCordoned,
    PortsSeen,
    RacksSet,
)
from cress.model.group import Group
from cress.model.job import Job
from cress.model.node import Local, Node, Value
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.reports import Report
from cress.model.resources import ResourceVector
from cress.model.secrets import Secret
from cress.model.waits import WaitFor


class _Input(msgspec.Struct, frozen=True, tag=True, kw_only=True, omit_defaults=True):
    pass


class Restarted(_Input, frozen=True):
    """A center took over, as epoch ``epoch``; no executor is connected to it yet.

    ``options`` hold from now on, and the cluster is in the time zone ``zone``; empty: both stay. The center went on
    from a snapshot after record ``loaded``, with what the scheduler foresaw then; -1: unknown, as in older records.
    """

    epoch: int
    options: Options | None = None
    zone: str = ""
    loaded: int = -1


class Submit(_Input, frozen=True):
    """A submit of jobs, accepted together or not at all; the context assigns their ids. Steps follow their dag.

    ``known`` are the states of ended jobs on which some of these depend. A submit with the ``key`` of an earlier one
    gets the same ids if ``digest``, a fingerprint of the content, is equal too. The shell keeps the keys of different
    users apart. ``strict``: refuse the jobs if one of their deadlines cannot be met.
    """

    jobs: tuple[Job, ...]
    known: tuple[tuple[int, JobState], ...] = ()
    key: str = ""
    digest: str = ""
    strict: bool = False


class Cancel(_Input, frozen=True):
    """A job was cancelled by the user ``by``."""

    job: int
    by: str = ""


class Update(_Input, frozen=True):
    """An update of a service, database or cron job to ``spec``; the reply is the id of its new run.

    ``same_as`` is the id of the family's run if its tasks run in the same way; 0: none. Then no task is replaced,
    unless something else of importance to the tasks changed. ``anew``: all tasks are replaced even so.
    """

    job: int
    spec: Job
    same_as: int = 0
    anew: bool = False


class Promote(_Input, frozen=True):
    """An update that waits after its canaries goes on, by order of the user ``by``."""

    job: int
    by: str = ""


class Scale(_Input, frozen=True):
    """A new task count for a service or database."""

    job: int
    tasks: int


class Hold(_Input, frozen=True):
    """A job was held or released by the user ``by``; its running tasks go on.

    ``more`` are further jobs: all of them, or none.
    """

    job: int
    held: bool
    by: str = ""
    more: tuple[int, ...] = ()


class Trigger(_Input, frozen=True):
    """Runs of a cron job are made for these moments (wall clock, µs), by order of the user ``by``.

    The reply has the ids of the runs.
    """

    job: int
    moments: tuple[int, ...]
    by: str = ""


class ChangeJobs(_Input, frozen=True):
    """Unfinished jobs get the values that ``values`` has for these keys of job files: all of them, or none.

    With ``new_runs`` each job gets a new run, whose id is in the reply. ``what`` is the change as text, ``by`` the
    user.
    """

    jobs: tuple[int, ...]
    values: Job
    keys: tuple[str, ...]
    new_runs: bool = False
    what: str = ""
    by: str = ""


class Requeue(_Input, frozen=True):
    """The running tasks of these jobs are stopped and wait again; with ``hold`` the jobs are held as well."""

    jobs: tuple[int, ...]
    hold: bool = False
    by: str = ""


class UseLease(_Input, frozen=True):
    """The holder of a lease, task ``task`` of job ``job``, uses these amounts of it from now on."""

    job: int
    task: int
    amounts: ResourceVector


class RenewLeases(_Input, frozen=True):
    """The holder of a lease is alive: the terms of its user's leases of that workload begin anew."""

    job: int


class ReleaseLeases(_Input, frozen=True):
    """Leases were returned by the user ``by``: these tasks of a job, or the whole job (``None``)."""

    job: int
    tasks: tuple[int, ...] | None = None
    by: str = ""


class Rebalance(_Input, frozen=True):
    """A round of moves begins, ordered by the user ``by`` (empty: by the option ``rebalance``).

    With a ``job`` the moves make room for its next unit, which starts on ``place`` (nodes and task numbers).
    """

    moves: tuple[Move, ...]
    job: int = 0
    place: tuple[tuple[str, int], ...] = ()
    by: str = ""


class StopMoves(_Input, frozen=True):
    """No tasks are moved after the present step of the round, by order of the user ``by``."""

    by: str = ""


class SetGroup(_Input, frozen=True):
    """New values of keywords of one group, as in ``Group.conf``; ``None`` removes a keyword.

    ``by`` is the user.
    """

    name: str
    values: tuple[tuple[str, str | None], ...]
    by: str = ""


class Configure(_Input, frozen=True):
    """The whole configuration from now on: options, licences, groups; ``moves`` and ``zone`` as in ``GroupsApplied``.

    It is refused unless ``base`` is the number of the present revision (0: any). ``by`` and ``what`` are the user and
    the action.
    """

    options: Options
    licences: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]
    moves: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    base: int = 0
    by: str = ""
    what: str = ""


class NodeJoined(_Input, frozen=True):
    """An executor connected. ``reports`` is all that it knows: an attempt that is missing there does not run on it.

    ``terms``: its supervisor keeps terms for all its attempts. ``local``: data with which the center itself can check
    its processes. ``ports`` as in ``PortsSeen``.
    """

    node: Node
    boot: str
    reports: tuple[Report, ...] = ()
    terms: bool = False
    local: Local | None = None
    ports: tuple[int, ...] = ()


class NodeLeft(_Input, frozen=True):
    """The connection to an executor is gone; its tasks may go on.

    ``granted`` is the end of the last term granted over it, on the clock of the steps; 0: none.
    """

    name: str
    granted: int = 0


class NodeDead(_Input, frozen=True):
    """No task runs any more on a node that is away, as checked by the center or stated by an operator.

    ``forget``: it leaves the cluster until it joins again.
    """

    name: str
    forget: bool = False


class Reported(_Input, frozen=True):
    """Reports of an executor about attempts."""

    node: str
    reports: tuple[Report, ...]


class Awaited(_Input, frozen=True):
    """Something that a job waits for is there; with ``problem``, nobody may or can ever look for it."""

    job: int
    what: WaitFor
    problem: str = ""


class DataFound(_Input, frozen=True):
    """All paths of data on a node, as in ``Node``."""

    name: str
    data: tuple[str, ...]


class Declare(_Input, frozen=True):
    """Kinds of resources that a node offers or an operator names: new ones become custom dimensions."""

    dimensions: tuple[str, ...]


class Drain(_Input, frozen=True):
    """An operator drains a node: it is cordoned, and tasks still running ``deadline`` µs from now run elsewhere.

    Without a deadline (``None``) they run to their end.
    """

    name: str
    deadline: int | None
    reason: str = ""
    by: str = ""


class SetNode(_Input, frozen=True):
    """An operator changes settings of a node (``NodeSettings``), or restores those of revision ``revert``; 0: none.

    ``labels`` are set, or removed (``None``); other given values hold from now on. It is refused unless ``base`` is the
    number of the present revision (-1: any). ``by`` and ``what`` are the user and the action.
    """

    name: str
    labels: tuple[tuple[str, Value | None], ...] = ()
    rack: str | UnsetType | None = UNSET
    reserve: tuple[tuple[str, Amount], ...] | UnsetType = UNSET
    judged: bool | UnsetType | None = UNSET
    note: str | UnsetType = UNSET
    revert: int | None = None
    base: int = -1
    by: str = ""
    what: str = ""
    accepts: str | UnsetType | None = UNSET
    repels: tuple[str, ...] | UnsetType | None = UNSET


class SetUser(_Input, frozen=True):
    """The role of a user from now on. A user without a role loses all tokens."""

    user: User


class AddToken(_Input, frozen=True):
    """A new token; ``replaces`` is the id of the token that it replaces."""

    token: Token
    replaces: str = ""


class RevokeToken(_Input, frozen=True):
    """A token is revoked."""

    id: str


class AddJoinToken(_Input, frozen=True):
    """A new token with which nodes join."""

    token: JoinToken


class UseJoinToken(_Input, frozen=True):
    """A node with this name and public key (its digest) joins with a token."""

    id: str
    node: str
    key: bytes


class RevokeJoinToken(_Input, frozen=True):
    """A join token is revoked."""

    id: str


class SetSecret(_Input, frozen=True):
    """A new secret, or a new value of one."""

    secret: Secret


class DeleteSecret(_Input, frozen=True):
    """A secret is deleted."""

    owner: str
    name: str
    is_group: bool = False


class RekeySecret(_Input, frozen=True):
    """The value of a secret, ``before`` until now, is encrypted with another key; a value set meanwhile stays."""

    owner: str
    name: str
    key: str
    sealed: bytes
    before: bytes
    is_group: bool = False


Input: TypeAlias = (
    Restarted
    | Submit
    | Cancel
    | Update
    | Scale
    | Hold
    | ChangeJobs
    | Requeue
    | Promote
    | Trigger
    | UseLease
    | RenewLeases
    | ReleaseLeases
    | Rebalance
    | StopMoves
    | GroupsApplied
    | SetGroup
    | Configure
    | NodeJoined
    | NodeLeft
    | NodeDead
    | Reported
    | PortsSeen
    | RacksSet
    | LoadSeen
    | DataLocated
    | DataFound
    | Awaited
    | LicencesSet
    | Declare
    | NodeCordoned
    | Drain
    | SetNode
    | AdvanceReserved
    | AdvanceReservationRemoved
    | SetUser
    | AddToken
    | RevokeToken
    | SetSecret
    | DeleteSecret
    | RekeySecret
    | AddJoinToken
    | UseJoinToken
    | RevokeJoinToken
)
