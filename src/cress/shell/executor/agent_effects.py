"""Effects of the agent's loop: actions of its driver, in the given order."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from cress.model.reports import Report
from cress.protocol.messages import BulkOrder, Launches, OpenBulk, Welcome


class ConnectSupervisor(NamedTuple):
    """Connect to the supervisor, and ``start`` one if none runs; then ``supervisor_connected`` or ``…_failed``."""

    start: bool


class ConnectCenter(NamedTuple):
    """Connect to the center; then ``center_connected`` or ``center_failed``."""


class LookAround(NamedTuple):
    """Collect the facts of the node and the listening ports, ``without`` these; then ``looked_around``."""

    without: frozenset[int]


class ScanPorts(NamedTuple):
    """Find the listening ports, ``without`` these; then ``ports_scanned``."""

    without: frozenset[int]


class LookAtData(NamedTuple):
    """Find the paths of data; then ``data_found``."""


class BeforeReports(NamedTuple):
    """End the commands that run in the attempts that ``ended``; then ``reports_ready``.

    ``without``: pass the listening ports except these; ``None``: pass none, no scan is needed.
    """

    ended: tuple[int, ...]
    without: frozenset[int] | None


class ToCenter(NamedTuple):
    """Send a message to the center."""

    message: bytes


class ToSupervisor(NamedTuple):
    """Send a message to the supervisor."""

    message: bytes


class Registered(NamedTuple):
    """The center has registered the node: begin to report load, checks and late facts."""

    welcome: Welcome


class Ordered(NamedTuple):
    """Attempts are about to be started."""

    launches: Launches


class SendingReports(NamedTuple):
    """These reports are being sent to the center: begin the checks of started attempts, and end those of ended ones."""

    reports: tuple[Report, ...]


class Serve(NamedTuple):
    """Carry out an order of the center for the agent itself."""

    order: BulkOrder | OpenBulk


class KeepCertificate(NamedTuple):
    """Store the executor's next certificate (PEM); connections from now on show it."""

    pem: bytes


class CloseBoth(NamedTuple):
    """Close both connections, and abandon those that are being made."""


class Say(NamedTuple):
    """Write a message for the operator, without repeating the previous one."""

    sentence: str


class Exit(NamedTuple):
    """End the program with this code."""

    code: int


Effect: TypeAlias = (
    ConnectSupervisor
    | ConnectCenter
    | LookAround
    | ScanPorts
    | LookAtData
    | BeforeReports
    | ToCenter
    | ToSupervisor
    | Registered
    | Ordered
    | SendingReports
    | Serve
    | KeepCertificate
    | CloseBoth
    | Say
    | Exit
)
