"""Messages between center, agent and supervisor: msgpack, one message a WebSocket frame or a length-prefixed frame.

The agent speaks to the center with these over a WebSocket, and to its supervisor over a Unix socket; most of what
it gets from one side it hands to the other as it is.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.model.bounds import Amount, Count, Epoch, ExitCode, Port, Small
from cress.model.job import DEFAULT_STOP_GRACE
from cress.model.node import DYNAMIC_PORTS, Allocated, Device, Supervisor, Value
from cress.model.node import Load as Measured
from cress.model.reports import Report
from cress.model.run import Host, Run
from cress.model.start_material import StartMaterial

# The version (major, minor) that is spoken here, and the oldest major version that is understood; see ``versions``.
PROTOCOL, OLDEST = (6, 2), 5
# The first version whose executors ask for start material; older ones would start a program without it.
MATERIAL_SINCE = (6, 1)
# The first version in which runs have parts.
PARTS_SINCE = (6, 2)
# The number that a center of protocol 5 demands of an executor; nothing else reads it. Versions are told since protocol
# 6.
VERSION = 5
UNSAID = (5, 0)
# Bytes of a command's output, and of its input, that may be under way; who sends waits for ``taken`` beyond that.
EXEC_OUTPUT, EXEC_INPUT = 262_144, 65_536


class Struct(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """A message: its type travels as its name."""


# --- agent to center ---------------------------------------------------------------------------------------------


class Hello(Struct, frozen=True):
    """First message of an agent: who it is, what its node offers, and everything that its supervisor knows.

    ``resource`` as in a node file (``<4, 8G, 1G, 500M>``). ``boot`` is the boot id of the machine. ``reports`` holds
    ``Started`` for every attempt that runs and ``Ended`` for every one whose end is not known to be durable.

    ``address`` is where its tasks are reached, ``ports`` are the first and the last of its dynamic ports, ``listening``
    as in ``Ports``.

    ``sent`` as in ``Beat``. ``bound``: a term holds for everything that runs there. ``epoch`` is the highest that it
    has had orders of, from the cluster with the id ``cluster`` (empty: none yet). ``unlimited`` are sentences about
    limits that do not hold there. ``devices``, ``data``, ``judged``, ``accepts`` and ``repels`` as in ``Node``.

    ``protocol`` is the newest version that the agent speaks, ``oldest`` the oldest major one; ``version`` is 5.
    ``bulk``: it opens a second connection when ``OpenBulk`` asks for one.
    """

    version: Small
    name: str
    resource: str
    boot: str
    rack: str = ""
    address: str = ""
    attributes: dict[str, Value] = {}
    ports: tuple[Port, Port] = DYNAMIC_PORTS
    listening: tuple[Port, ...] = ()
    reports: tuple[Report, ...] = ()
    sent: Count = 0
    bound: bool = False
    epoch: Epoch = 0
    cluster: str = ""
    supervisor: Supervisor | None = None
    unlimited: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    data: tuple[str, ...] = ()
    judged: bool = True
    protocol: tuple[Small, Small] = UNSAID
    oldest: Small = VERSION
    bulk: bool = False
    accepts: str = ""
    repels: tuple[str, ...] = ()

    @property
    def speaks(self) -> tuple[int, int]:
        """The newest version of the protocol that the agent speaks."""
        return (self.version, 0) if self.protocol == UNSAID else self.protocol


class Bulk(Struct, frozen=True):
    """First message of an agent on its second connection, with the ``ticket`` that it was given for it.

    Over it go ``ReadLog``, commands, and the answers to what was asked there.
    """

    name: str
    ticket: str


class Beat(Struct, frozen=True):
    """A sign of life, answered with a ``Term``: ``sent`` is the executor's CLOCK_BOOTTIME in microseconds."""

    sent: Count


class Reports(Struct, frozen=True):
    """Reports about attempts since the last message, in order. ``leaving``: nothing starts there any more."""

    reports: tuple[Report, ...]
    leaving: bool = False


class Ports(Struct, frozen=True):
    """All ports that somebody listens on who is not a task of this executor; sent when they are others than before."""

    ports: tuple[Port, ...]


class Load(Struct, frozen=True):
    """The measured load of the node, smoothed; sent when it has changed noticeably."""

    load: Measured


class Data(Struct, frozen=True):
    """All paths that the node has, as in ``Hello``; sent when they are others than before."""

    data: tuple[str, ...]


class LogData(Struct, frozen=True):
    """Answer to ``ReadLog`` with the same ``id``: ``data`` from the asked offset on (may be empty).

    ``gone`` bytes from there on are not kept any more: the data begins behind them, and the log keeps its last ``kept``
    bytes. ``over``: the attempt has ended and the stream ends behind ``data``. ``error``: why there is nothing to read.
    """

    id: Count
    data: bytes = b""
    over: bool = False
    error: str = ""
    gone: Amount = 0
    kept: Amount = 0


class ExecData(Struct, frozen=True):
    """From the command ``id``: ``data`` that it wrote, to standard error or not; ``taken`` bytes of its input are
    read.
    """

    id: Count
    data: bytes = b""
    error: bool = False
    taken: Count = 0


class AskMaterial(Struct, frozen=True):
    """The start material of these attempts is needed: they start when it has come. ``epoch`` is that of their order.

    From the supervisor, which asks again after each ``Welcome``. Every attempt is answered with ``Material``.
    """

    epoch: Epoch
    attempts: tuple[Count, ...]


# --- in both directions ------------------------------------------------------------------------------------------


class ExecOver(Struct, frozen=True):
    """Last message about the command ``id``. From the agent: its exit ``code`` (128 + n after signal n), or why it did
    not run to its end (``why``). From the center: nobody wants it any more; its processes are killed.
    """

    id: Count
    code: ExitCode | None = None
    why: str = ""


# --- center to agent ---------------------------------------------------------------------------------------------


class Welcome(Struct, frozen=True):
    """The node is registered. ``epoch`` is the center's: orders of an older one are refused from now on.

    ``cluster`` is its id, ``name`` what people call it. ``sent`` and ``term`` as in ``Term``; a ``term`` of 0: none
    holds there, the center looks by itself. ``kinds`` of devices count in the cluster, beside disks. ``protocol`` is
    the newest version that the center speaks.
    """

    epoch: Epoch
    cluster: str = ""
    name: str = ""
    sent: Count = 0
    term: Count = 0
    kinds: tuple[str, ...] = ()
    protocol: tuple[Small, Small] = UNSAID


class Term(Struct, frozen=True):
    """The answer to the ``Beat`` (or ``Hello``) of the time ``sent``, on the executor's clock.

    Unless another one follows, tasks of jobs that stop in a partition are gone ``term`` microseconds after ``sent``;
    the margin is taken off already.
    """

    epoch: Epoch
    sent: Count
    term: Count


class OpenBulk(Struct, frozen=True):
    """Open a second connection to the same address, and say this ``ticket`` there."""

    ticket: str


class Refused(Struct, frozen=True):
    """The node is not registered, and why; the center closes the connection. ``permanent``: do not try again."""

    what: str
    hint: str = ""
    permanent: bool = False


class NewCertificate(Struct, frozen=True):
    """The next certificate of the executor, for the key that it has, as PEM: the present one expires soon."""

    pem: bytes


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """Start task ``task`` of job ``job`` as attempt ``attempt``; a second order for the same attempt does nothing.

    ``ports`` are its numbers, in the order of the job's ports; ``devices`` are those of the node that it has.
    """

    attempt: Count
    job: Count
    task: Count
    ports: tuple[Port, ...] = ()
    devices: tuple[Allocated, ...] = ()


class Gang(msgspec.Struct, frozen=True, array_like=True):
    """The hosts of the tasks of a gang, in their order."""

    job: Count
    hosts: tuple[Host, ...]


class Launches(Struct, frozen=True):
    """Start these attempts; ``runs`` has the run of every job among them, ``gangs`` the hosts of those that are gangs.

    ``address`` and ``rack`` are those of the node, as the center knows them.
    """

    epoch: Epoch
    runs: tuple[Run, ...]
    launches: tuple[Launch, ...]
    gangs: tuple[Gang, ...] = ()
    address: str = ""
    rack: str = ""


class Stop(msgspec.Struct, frozen=True, array_like=True):
    """Send SIGTERM to the attempt, and SIGKILL after ``grace`` microseconds (0: at once)."""

    attempt: Count
    grace: Amount


class Stops(Struct, frozen=True):
    """Stop these attempts. One that the supervisor has never heard of never starts any more."""

    epoch: Epoch
    stops: tuple[Stop, ...]


class Signal(Struct, frozen=True):
    """Send this signal to the processes of the attempt, and nothing else."""

    epoch: Epoch
    attempt: Count
    number: Small


class Durable(Struct, frozen=True):
    """The ends of these attempts are stored: their reports need not be kept any longer."""

    epoch: Epoch
    attempts: tuple[Count, ...]


class Material(Struct, frozen=True):
    """The start material of an attempt, for the supervisor; ``refused``: there is none, for this reason, and it must
    not start.
    """

    epoch: Epoch
    attempt: Count
    material: StartMaterial = StartMaterial()
    refused: str = ""


class ReadLog(Struct, frozen=True):
    """Read up to ``limit`` bytes of what the attempt wrote to ``stream`` (``stdout``, ``stderr``) from ``offset`` on.

    With nothing to read yet the answer waits for up to ``wait`` milliseconds.
    """

    id: Count
    attempt: Count
    stream: str
    offset: Amount
    limit: Amount = 262_144
    wait: Small = 0


class Exec(Struct, frozen=True):
    """Run a command inside a running attempt, and call it ``id`` on this connection.

    ``environment`` is added to the task's own. ``terminal``: with one of so many rows and columns, else with pipes.
    """

    id: Count
    attempt: Count
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    terminal: tuple[Small, Small] | None = None


class ExecInput(Struct, frozen=True):
    """For the command ``id``: more input, its end (``over``), and that ``taken`` bytes of output have been read."""

    id: Count
    data: bytes = b""
    over: bool = False
    taken: Count = 0


class ExecSize(Struct, frozen=True):
    """The terminal of the command ``id`` has another size now."""

    id: Count
    rows: Small
    columns: Small


# --- agent to supervisor, besides the orders of the center ---------------------------------------------------------


class Shutdown(Struct, frozen=True):
    """Stop every task with its grace, at most ``grace`` microseconds, then end; ``keep``: nothing, the agent leaves."""

    grace: Amount = DEFAULT_STOP_GRACE
    keep: bool = False


class Greeting(Struct, frozen=True):
    """First message of an agent to a supervisor that says a version: the newest that the agent speaks."""

    protocol: tuple[Small, Small]


class Devices(Struct, frozen=True):
    """Those of the node that count; what has been given to attempts before stays theirs."""

    devices: tuple[Device, ...]


class Inventory(Struct, frozen=True):
    """First message of the supervisor to an agent that connects: what ``Hello`` and ``Supervisor`` say about it.

    ``ports`` are those of every attempt that has some and is not over. ``container`` is the engine that makes
    containers, empty: there can be none. ``unlimited`` are sentences about limits that do not hold there. ``protocol``
    and ``oldest`` as in ``Hello``; an agent of protocol 5 hands ``version`` on in its own.
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


FromAgent: TypeAlias = Hello | Bulk | Beat | Reports | Ports | Load | Data | LogData | ExecData | ExecOver | AskMaterial
FromCenter: TypeAlias = (
    Welcome
    | OpenBulk
    | Refused
    | NewCertificate
    | Term
    | Launches
    | Stops
    | Signal
    | Durable
    | Material
    | ReadLog
    | Exec
    | ExecInput
    | ExecSize
    | ExecOver
)
ToSupervisor: TypeAlias = (
    Greeting | Welcome | Devices | Term | Launches | Stops | Signal | Durable | Material | Shutdown
)
FromSupervisor: TypeAlias = Inventory | Reports | AskMaterial

encode = msgspec.msgpack.Encoder().encode
decode_from_agent = msgspec.msgpack.Decoder(FromAgent).decode
decode_from_center = msgspec.msgpack.Decoder(FromCenter).decode
decode_to_supervisor = msgspec.msgpack.Decoder(ToSupervisor).decode
decode_from_supervisor = msgspec.msgpack.Decoder(FromSupervisor).decode
