"""Messages between center, agent and supervisor: msgpack, each in a WebSocket frame or a length-prefixed frame.

The agent exchanges them with the center over a WebSocket, and with its supervisor over a Unix socket; it passes most
messages on unchanged.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from cress.model.bounds import Amount, Count, Epoch, ExitCode, Name, Port, Small, Text
from cress.model.job import DEFAULT_STOP_GRACE
from cress.model.node import DYNAMIC_PORTS, Allocated, Device, Supervisor, Value
from cress.model.node import Load as Measured
from cress.model.reports import Report
from cress.model.run import Host, Run
from cress.model.start_material import StartMaterial
from cress.protocol.file_views import MOST_LISTED, TaskFile

# The version (major, minor) of this release, and the oldest major version that it understands; see ``versions``.
PROTOCOL, OLDEST = (6, 3), 5
# The first version whose executors request start material; older ones would start a program without it.
MATERIAL_SINCE = (6, 1)
# The first version in which runs have parts.
PARTS_SINCE = (6, 2)
# The first version in which executors report processes that belong to no attempt.
STRANGERS_SINCE = (6, 3)
# The first version whose executors can change the time limit of a running task.
LIMITS_SINCE = (6, 3)
# The first version whose executors know that tasks use other jobs, and request their addresses.
USES_SINCE = (6, 3)
# The number that a center of protocol 5 demands of an executor, otherwise unused. Versions are announced since protocol
# 6.
VERSION = 5
UNSAID = (5, 0)
# Bytes of a command's output, and of its input, that may be in transit; further ones wait for ``taken``.
EXEC_OUTPUT, EXEC_INPUT = 262_144, 65_536
# A position of the log, signed by a center (``shell.center.witness``): executors keep the newest one, and cannot read
# it.
Signed: TypeAlias = Annotated[bytes, Meta(max_length=256)]
# Most bytes of one message of an executor, and most entries of each of its lists. No executor comes near: it has at
# most 1,000 paths of data, and two reports for each of its attempts.
MOST_BYTES = 8 * 2**20
MOST_REPORTS, MOST_ATTEMPTS, MOST_PATHS, MOST_PORTS = 50_000, 10_000, 4_000, 65_536
MOST_LABELS, MOST_SENTENCES, MOST_DEVICES, MOST_STRANGERS = 1_024, 1_024, 1_024, 100

Reported: TypeAlias = Annotated[tuple[Report, ...], Meta(max_length=MOST_REPORTS)]
Attempts: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=MOST_ATTEMPTS)]
Paths: TypeAlias = Annotated[tuple[Text, ...], Meta(max_length=MOST_PATHS)]
OpenPorts: TypeAlias = Annotated[tuple[Port, ...], Meta(max_length=MOST_PORTS)]
Sentences: TypeAlias = Annotated[tuple[Text, ...], Meta(max_length=MOST_SENTENCES)]
Part: TypeAlias = Annotated[bytes, Meta(max_length=2**20)]


class Struct(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """A message; its type travels as its name."""


# --- agent to center ---------------------------------------------------------------------------------------------


class Hello(Struct, frozen=True):
    """First message of an agent: its identity, the offer of its node, and all that its supervisor knows.

    ``resource`` is as in a node file (``<4, 8G, 1G, 500M>``). ``boot`` is the boot id of the machine. ``reports`` has
    ``Started`` for every running attempt, and ``Ended`` for every one whose end is not yet confirmed as stored.

    ``address`` is that of its tasks, ``ports`` are the first and the last of its dynamic ports, ``listening`` is as in
    ``Ports``.

    ``sent`` is as in ``Beat``. ``bound`` says that everything running there has a term. ``epoch`` is the highest in its
    orders so far, from the cluster with the id ``cluster`` (empty: none yet).
    ``unlimited`` are messages about limits that are not enforced there. ``devices``, ``data``, ``judged``, ``accepts``
    and ``repels`` are as in ``Node``.

    ``protocol`` is the agent's newest version, ``oldest`` its oldest major one; ``version`` is 5. ``bulk`` says that it
    opens a second connection when ``OpenBulk`` requests one, ``files`` that it answers ``ListFiles`` and ``ReadFile``.
    ``witness`` is the newest position of the log in its
    orders, which shows a center whose store was replaced by an older copy.
    """

    version: Small
    name: Name
    resource: Text
    boot: Name
    rack: Name = ""
    address: Name = ""
    attributes: Annotated[dict[Name, Value], Meta(max_length=MOST_LABELS)] = {}
    ports: tuple[Port, Port] = DYNAMIC_PORTS
    listening: OpenPorts = ()
    reports: Reported = ()
    sent: Count = 0
    bound: bool = False
    epoch: Epoch = 0
    cluster: Name = ""
    supervisor: Supervisor | None = None
    unlimited: Sentences = ()
    devices: Annotated[tuple[Device, ...], Meta(max_length=MOST_DEVICES)] = ()
    data: Paths = ()
    judged: bool = True
    protocol: tuple[Small, Small] = UNSAID
    oldest: Small = VERSION
    bulk: bool = False
    files: bool = False
    accepts: Text = ""
    repels: Sentences = ()
    witness: Signed = b""

    @property
    def speaks(self) -> tuple[int, int]:
        """The agent's newest version of the protocol."""
        return (self.version, 0) if self.protocol == UNSAID else self.protocol


class Bulk(Struct, frozen=True):
    """First message of an agent on its second connection, with the ``ticket`` that it received for it.

    ``ReadLog``, commands, and the answers to them use this connection.
    """

    name: Name
    ticket: Name


class Beat(Struct, frozen=True):
    """A sign of life, answered with a ``Term``; ``sent`` is the executor's CLOCK_BOOTTIME in µs."""

    sent: Count


class Reports(Struct, frozen=True):
    """Reports about attempts since the last message, in order; ``leaving`` says that nothing starts there any more."""

    reports: Reported
    leaving: bool = False


class Ports(Struct, frozen=True):
    """All ports on which other programs than this executor's tasks listen; sent when they have changed."""

    ports: OpenPorts


class Load(Struct, frozen=True):
    """The measured load of the node, smoothed; sent when it has changed noticeably.

    ``full`` is the used part of the disk with the executor's directory, in thousandths (0: unknown).
    """

    load: Measured
    full: Small = 0


class Data(Struct, frozen=True):
    """All paths that the node has, as in ``Hello``; sent when they have changed."""

    data: Paths


class HiddenProcess(msgspec.Struct, frozen=True, array_like=True):
    """A process below the supervisor that belongs to no running attempt for certain: its pid, its command, and a
    sentence about what becomes of it. ``since`` is its start in ticks, which tells processes of one pid apart.
    """

    pid: Small
    since: Count
    command: Name
    what: Name


class Strangers(Struct, frozen=True):
    """All processes below the supervisor that belong to no running attempt for certain; sent when they have changed.

    ``killed`` are those that the supervisor has just killed.
    """

    processes: Annotated[tuple[HiddenProcess, ...], Meta(max_length=MOST_STRANGERS)] = ()
    killed: Annotated[tuple[HiddenProcess, ...], Meta(max_length=MOST_STRANGERS)] = ()


class FileList(Struct, frozen=True):
    """Answer to ``ListFiles`` with the same ``id``. ``more``: there are others after the last of these ``files``.

    ``error`` says why there is nothing to list.
    """

    id: Count
    files: Annotated[tuple[TaskFile, ...], Meta(max_length=MOST_LISTED)] = ()
    more: bool = False
    error: Text = ""


class LogData(Struct, frozen=True):
    """Answer to ``ReadLog`` or ``ReadFile`` with the same ``id``: ``data`` from the requested offset on (may be empty).

    The first ``gone`` bytes from there are no longer kept: the data begins after them, and the log keeps its last
    ``kept`` bytes. ``over`` says that the attempt has ended and the stream ends after ``data``. ``error`` says why
    there is nothing to read.
    """

    id: Count
    data: Part = b""
    over: bool = False
    error: Text = ""
    gone: Amount = 0
    kept: Amount = 0


class ExecData(Struct, frozen=True):
    """Output ``data`` of the command ``id``, to standard error or not; ``taken`` bytes of its input have been read."""

    id: Count
    data: Part = b""
    error: bool = False
    taken: Count = 0


class AskMaterial(Struct, frozen=True):
    """A request for the start material of these attempts, which start once they have it.

    ``epoch`` is that of their order. The supervisor sends it, and repeats it after each ``Welcome``. Every attempt is
    answered with ``Material``.
    """

    epoch: Epoch
    attempts: Attempts


# --- in both directions ------------------------------------------------------------------------------------------


class ExecOver(Struct, frozen=True):
    """Last message about the command ``id``.

    From the agent: its exit ``code`` (128 + n after signal n), or ``why`` it did not run to its end. From the center:
    its client is gone, so its processes are killed.
    """

    id: Count
    code: ExitCode | None = None
    why: Text = ""


# --- center to agent ---------------------------------------------------------------------------------------------


class Welcome(Struct, frozen=True):
    """Confirms the registration of the node. ``epoch`` is the center's; orders of older ones are refused from now on.

    ``cluster`` is its id, ``name`` its name for people. ``sent`` and ``term`` are as in ``Term``; a ``term`` of 0 means
    none, since the center observes the executor itself. ``kinds`` of devices count in the cluster, beside disks.
    ``protocol`` is the center's newest version. ``witness`` is its position, for the next ``Hello``.
    """

    epoch: Epoch
    cluster: str = ""
    name: str = ""
    sent: Count = 0
    term: Count = 0
    kinds: tuple[str, ...] = ()
    protocol: tuple[Small, Small] = UNSAID
    witness: Signed = b""


class Term(Struct, frozen=True):
    """The answer to the ``Beat`` (or ``Hello``) sent at ``sent``, on the executor's clock.

    Unless another one follows, tasks of jobs that stop in a partition have ended ``term`` µs after ``sent``; the margin
    is already subtracted. ``witness`` is as in ``Welcome``.
    """

    epoch: Epoch
    sent: Count
    term: Count
    witness: Signed = b""


class OpenBulk(Struct, frozen=True):
    """Requests a second connection to the same address, with this ``ticket``."""

    ticket: str


class Refused(Struct, frozen=True):
    """Refuses the registration and says why; the center closes the connection. ``permanent``: do not try again."""

    what: str
    hint: str = ""
    permanent: bool = False


class NewCertificate(Struct, frozen=True):
    """The next certificate (PEM) of the executor for its present key; the present one expires soon."""

    pem: bytes


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """Start task ``task`` of job ``job`` as attempt ``attempt``; a second order for the same attempt does nothing.

    ``ports`` are its numbers, in the order of the job's ports; ``devices`` are its devices of the node.
    """

    attempt: Count
    job: Count
    task: Count
    ports: tuple[Port, ...] = ()
    devices: tuple[Allocated, ...] = ()


class Gang(msgspec.Struct, frozen=True, array_like=True):
    """The hosts of the tasks of a gang, in order."""

    job: Count
    hosts: tuple[Host, ...]


class Launches(Struct, frozen=True):
    """Start these attempts; ``runs`` has the runs of their jobs, ``gangs`` the hosts of gangs.

    ``address`` and ``rack`` are those of the node, as the center knows them. ``witness`` is as in ``Welcome``.
    ``restarts`` are attempts of tasks that ran before, with the number of times.
    """

    epoch: Epoch
    runs: tuple[Run, ...]
    launches: tuple[Launch, ...]
    gangs: tuple[Gang, ...] = ()
    address: str = ""
    rack: str = ""
    witness: Signed = b""
    restarts: tuple[tuple[Count, Count], ...] = ()


class Stop(msgspec.Struct, frozen=True, array_like=True):
    """Send SIGTERM to the attempt, and SIGKILL after ``grace`` µs (0: at once)."""

    attempt: Count
    grace: Amount


class Stops(Struct, frozen=True):
    """Stop these attempts. An attempt that is unknown to the supervisor will never start."""

    epoch: Epoch
    stops: tuple[Stop, ...]


class TimeLimit(msgspec.Struct, frozen=True, array_like=True):
    """The attempt has this time limit from its start on, in µs; ``None``: none."""

    attempt: Count
    limit: Amount | None


class TimeLimits(Struct, frozen=True):
    """The time limits of these attempts have changed; unknown attempts are passed over."""

    epoch: Epoch
    limits: tuple[TimeLimit, ...]


class Signal(Struct, frozen=True):
    """Send this signal to the processes of the attempt, and nothing else."""

    epoch: Epoch
    attempt: Count
    number: Small


class Durable(Struct, frozen=True):
    """The ends of these attempts are stored, so their reports may be dropped."""

    epoch: Epoch
    attempts: tuple[Count, ...]


class Material(Struct, frozen=True):
    """The start material of an attempt, for the supervisor.

    With a reason in ``refused`` there is none, and the attempt must not start.
    """

    epoch: Epoch
    attempt: Count
    material: StartMaterial = StartMaterial()
    refused: str = ""


class ReadLog(Struct, frozen=True):
    """Read up to ``limit`` bytes of the attempt's ``stream`` (``stdout``, ``stderr``) from ``offset`` on.

    If there is nothing to read yet, the answer waits for up to ``wait`` milliseconds.
    """

    id: Count
    attempt: Count
    stream: str
    offset: Amount
    limit: Amount = 262_144
    wait: Small = 0


class ListFiles(Struct, frozen=True):
    """List the files in the directory of an attempt, in the order of their paths.

    ``directory`` is the one that its job names (empty: the attempt's own), ``runtime`` the one that it requests. Only
    files at ``path`` or below it are listed, after the path ``after``, at most ``limit``; with ``written`` only those
    that were changed after the input files were there.
    """

    id: Count
    attempt: Count
    directory: Text = ""
    runtime: Name = ""
    path: Text = ""
    after: Text = ""
    limit: Small = 1_000
    written: bool = False


class ReadFile(Struct, frozen=True):
    """Read up to ``limit`` bytes of a file in the directory of an attempt from ``offset`` on; see ``ListFiles``."""

    id: Count
    attempt: Count
    path: Text
    directory: Text = ""
    runtime: Name = ""
    offset: Amount = 0
    limit: Amount = 262_144


class Exec(Struct, frozen=True):
    """Run a command inside a running attempt, with the name ``id`` on this connection.

    ``environment`` is added to the task's own. ``terminal`` gives rows and columns; without it the command has pipes.
    """

    id: Count
    attempt: Count
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    terminal: tuple[Small, Small] | None = None


class ExecInput(Struct, frozen=True):
    """For the command ``id``: more input, its end (``over``), and the number of output bytes read (``taken``)."""

    id: Count
    data: bytes = b""
    over: bool = False
    taken: Count = 0


class ExecSize(Struct, frozen=True):
    """The terminal of the command ``id`` has a new size."""

    id: Count
    rows: Small
    columns: Small


# --- agent to supervisor, besides the orders of the center ---------------------------------------------------------


class Shutdown(Struct, frozen=True):
    """Stop every task with its grace, at most ``grace`` µs, then end; with ``keep`` only the agent leaves."""

    grace: Amount = DEFAULT_STOP_GRACE
    keep: bool = False


class Greeting(Struct, frozen=True):
    """First message of an agent to a supervisor with versions: the agent's newest version."""

    protocol: tuple[Small, Small]


class Devices(Struct, frozen=True):
    """The devices of the node that count; devices already given to attempts stay theirs."""

    devices: tuple[Device, ...]


class Inventory(Struct, frozen=True):
    """First message of the supervisor to a connecting agent, with its part of ``Hello`` and ``Supervisor``.

    ``ports`` are those of every live attempt with ports. ``container`` is the container engine, empty if there is none.
    ``unlimited`` are messages about limits that are not enforced there. ``protocol``, ``oldest`` and ``witness`` are as
    in ``Hello``; an agent of protocol 5 passes ``version`` on in its own.
    """

    boot: str
    pid: Small
    ticks: Amount = 0
    attempts: str = ""
    version: Small = VERSION
    reports: tuple[Report, ...] = ()
    bound: bool = False
    epoch: Epoch = 0
    cluster: str = ""
    ports: dict[Count, tuple[Port, ...]] = {}
    container: str = ""
    unlimited: tuple[str, ...] = ()
    protocol: tuple[Small, Small] = UNSAID
    oldest: Small = VERSION
    witness: Signed = b""


# Orders that an agent carries out itself, over the connection for bulk data if there is one.
BulkOrder: TypeAlias = ReadLog | ListFiles | ReadFile | Exec | ExecInput | ExecSize | ExecOver
FromAgent: TypeAlias = (
    Hello
    | Bulk
    | Beat
    | Reports
    | Ports
    | Load
    | Data
    | Strangers
    | FileList
    | LogData
    | ExecData
    | ExecOver
    | AskMaterial
)
FromCenter: TypeAlias = (
    Welcome
    | OpenBulk
    | Refused
    | NewCertificate
    | Term
    | Launches
    | Stops
    | TimeLimits
    | Signal
    | Durable
    | Material
    | ReadLog
    | ListFiles
    | ReadFile
    | Exec
    | ExecInput
    | ExecSize
    | ExecOver
)
ToSupervisor: TypeAlias = (
    Greeting | Welcome | Devices | Term | Launches | Stops | TimeLimits | Signal | Durable | Material | Shutdown
)
FromSupervisor: TypeAlias = Inventory | Reports | AskMaterial | Strangers

encode = msgspec.msgpack.Encoder().encode
decode_from_agent = msgspec.msgpack.Decoder(FromAgent).decode
decode_from_center = msgspec.msgpack.Decoder(FromCenter).decode
decode_to_supervisor = msgspec.msgpack.Decoder(ToSupervisor).decode
decode_from_supervisor = msgspec.msgpack.Decoder(FromSupervisor).decode
