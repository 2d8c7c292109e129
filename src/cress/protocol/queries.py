"""Query parameters of the calls of the API: one struct for each set, named in the rows of the table of calls."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from cress.model.bounds import MOST, Count

# The year 9999, in seconds since the epoch.
MOST_TIME = 253_402_300_799
# Most seconds for which a center waits for a change before it answers.
MOST_WAIT = 3600.0
# Entries of one page, by default and at most.
JOBS_OF_A_PAGE, TASKS_OF_A_PAGE = 50, 100
MOST_JOBS = 1_000
MOST_FILES = 2_000
MOST_TASKS = 10_000
MOST_NODES = 10_000
MOST_LEASES = 10_000
MOST_ATTEMPTS = 10_000
MOST_ENTRIES = 10_000
# Added to the numbers of waiting requests for leases, so that they precede all attempts on pages.
WAITING_FIRST = -(2**52)
# Most tasks that one plan may move.
MOST_MOVES = 2**31

Moment: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_TIME)]
Patience: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_WAIT)]
AttemptId: TypeAlias = Annotated[int, Meta(ge=1, le=MOST)]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters in the address of a call. Each has a default; an unknown one is refused."""

    def given(self) -> dict[str, object]:
        """Return the parameters that differ from their defaults, by their names in the address."""
        values = ((field, getattr(self, field.name)) for field in msgspec.structs.fields(self))
        return {field.encode_name: value for field, value in values if value != field.default}


class DryRunQuery(Query, frozen=True):
    """A dry run checks and answers, and changes nothing."""

    dry_run: bool = False


class SubmitQuery(DryRunQuery, frozen=True):
    """``strict`` refuses jobs whose deadlines cannot be met. ``starts`` asks for expected starts in the answer."""

    strict: bool = False
    starts: bool = False


class JobsQuery(Query, frozen=True):
    """A page of jobs and its filters; ``since`` and ``until`` bound the submission time, in seconds since the epoch."""

    limit: Annotated[int, Meta(ge=1, le=MOST_JOBS)] = JOBS_OF_A_PAGE
    before: Count | None = None
    group: str = ""
    user: str = ""
    state: str = ""
    name: str = ""
    type: str = ""
    family: Count | None = None
    since: Moment | None = None
    until: Moment | None = None


class JobQuery(Query, frozen=True):
    """``wait``: most seconds for which the answer waits for the end of the job."""

    wait: Patience = 0.0


class TasksQuery(Query, frozen=True):
    """A page of tasks, in one state."""

    limit: Annotated[int, Meta(ge=1, le=MOST_TASKS)] = TASKS_OF_A_PAGE
    after: Annotated[int, Meta(ge=-1, le=MOST)] | None = None
    state: str = ""


class LogsQuery(Query, frozen=True):
    """Output of a task from byte ``offset`` on: of its last attempt, of ``attempt``, or of ``since`` and later ones."""

    task: Count = 0
    stream: str = "stdout"
    offset: Count = 0
    follow: bool = False
    attempt: AttemptId | None = None
    since: AttemptId | None = None
    framed: bool = False


class FilesQuery(Query, frozen=True):
    """Files of a task's last attempt, or of ``attempt``: those at ``path`` or below it, after the path ``after``.

    With ``written`` only those that were changed after the input files of the task were there.
    """

    task: Count = 0
    attempt: AttemptId | None = None
    path: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_FILES)] = MOST_FILES
    written: bool = False


class FileQuery(Query, frozen=True):
    """A file of a task's last attempt, or of ``attempt``, from byte ``offset`` on."""

    path: str = ""
    task: Count = 0
    attempt: AttemptId | None = None
    offset: Count = 0


class UploadQuery(Query, frozen=True):
    """The content of an upload from byte ``offset`` on."""

    offset: Count = 0


class NodesQuery(Query, frozen=True):
    """A page of nodes; ``where`` and ``rank`` are texts in the constraint language."""

    limit: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 1_000
    after: str = ""
    where: str = ""
    rank: str = ""


class AttemptsQuery(Query, frozen=True):
    """Attempts on ``nodes`` (names separated by commas) that ran in a span of time, in seconds since the epoch."""

    nodes: Annotated[str, Meta(max_length=100_000)] = ""
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)] = 1_000


class PlacesQuery(Query, frozen=True):
    """Places of a name, in one group or in all."""

    group: str = ""


class PlacesStreamQuery(PlacesQuery, frozen=True):
    """``after`` is a revision from an earlier answer. Without ``follow`` the stream ends with the present state."""

    after: str = ""
    follow: bool = True


class UsageQuery(Query, frozen=True):
    """Usage of one group or of all, by ``hour`` or ``day``; times in seconds since the epoch."""

    group: str = ""
    since: Moment | None = None
    until: Moment | None = None
    by: str = "hour"


class PastUseQuery(Query, frozen=True):
    """The use over the past ``hour``, ``day`` or ``week``; of one group only, if it is named."""

    span: str = "hour"
    group: str = ""


class EfficiencyQuery(Query, frozen=True):
    """Work of the jobs that ended in a span of time, by ``name``, ``user``, ``group`` or ``label:NAME``; times as in
    ``UsageQuery``.
    """

    by: str = "name"
    user: str = ""
    group: str = ""
    name: str = ""
    since: Moment | None = None
    until: Moment | None = None


class HistoryRowsQuery(Query, frozen=True):
    """Finished work that ended from ``since`` (µs since the epoch) on: all blocks, or the rows of one ``block``, with
    the attempts after number ``after``.
    """

    since: Count = 0
    block: Count | None = None
    after: Count = 0


class EventsQuery(Query, frozen=True):
    """Events after a number, of one job or group. Without ``follow`` the stream ends with the latest event.

    With ``last`` earlier ones than so many before the latest event are left out.
    """

    after: Count | None = None
    job: Count | None = None
    group: str = ""
    follow: bool = True
    last: Count | None = None


class LeaseQuery(Query, frozen=True):
    """``wait``: most seconds for which the answer waits for another ``stamp``."""

    wait: Patience = 0.0
    stamp: str = ""


class LeasesQuery(LeaseQuery, frozen=True):
    """A page of leases, of one group or workload."""

    group: str = ""
    workload: str = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_LEASES)] = 1_000
    after: Annotated[int, Meta(ge=WAITING_FIRST, le=2**63 - 1)] | None = None


class WorkloadsQuery(Query, frozen=True):
    """The sums of workloads of one group, or of the workload with this name."""

    group: str = ""
    workload: str = ""


class MovesQuery(Query, frozen=True, rename={"job": "for"}):
    """A plan for a waiting job (``for``), or for goals separated by commas.

    At most ``moves`` tasks move, and lose at most ``lost`` hours of cores and devices.
    """

    job: Annotated[str, Meta(max_length=20)] = ""
    goal: Annotated[str, Meta(max_length=100)] = ""
    moves: Annotated[int, Meta(ge=1, le=MOST_MOVES)] | None = None
    lost: Annotated[float, Meta(ge=0, le=1e12)] | None = None


class TokenQuery(Query, frozen=True):
    """The user who owns the token; the caller by default."""

    user: str = ""


class SecretQuery(TokenQuery, frozen=True):
    """The owner of a secret: a user or a group."""

    group: str = ""


class AuditQuery(Query, frozen=True):
    """The latest ``limit`` entries, of one user, or only requests that were ``refused``."""

    limit: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] = 100
    user: str = ""
    refused: bool = False
