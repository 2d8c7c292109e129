"""Effects of the center's loops: the driver carries them out in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input
from cress.model.errors import InputError
from cress.protocol.messages import FromCenter, Hello
from cress.protocol.versions import Dialect
from cress.shell.center.witness import LogPosition
from cress.store.base import Batch

Reply: TypeAlias = tuple[int, ...] | InputError | None


class Session:
    """One connection to an executor.

    ``terms``: its tasks run from term to term; ``granted`` is the end of the last term, on the center's clock (0: none
    yet). ``leaving``: no more terms are granted. ``rack`` is the rack that the executor itself names. Nothing is sent
    over a session that is ``closed``. ``dialect`` has the version of the protocol that the executor speaks.
    ``has_sent_token``: it sent the token instead of a proof. ``certified`` are the nodes in the executor's certificate;
    None: it has proven that it knows the token, and may speak for any node.
    """

    __slots__ = (
        "certified",
        "closed",
        "dialect",
        "granted",
        "has_sent_token",
        "hello",
        "leaving",
        "name",
        "rack",
        "terms",
    )

    def __init__(
        self,
        name: str = "",
        rack: str = "",
        *,
        has_sent_token: bool = False,
        certified: frozenset[str] | None = None,
    ) -> None:
        self.has_sent_token = has_sent_token
        self.certified = certified
        self.name = name
        self.rack = rack
        self.hello: Hello | None = None
        self.dialect = Dialect()
        self.terms = False
        self.granted = 0
        self.leaving = False
        self.closed = False


# --- requests of the commit loop ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Take the store over and read the state; answered with ``restored``, then ``began``, or with ``load_failed``."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Store a batch; answered with ``committed`` or ``commit_failed``."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Export the machine now, and store it in parallel with the commits that follow.

    The state is that after record ``number``. Answered with ``snapshot_stored`` or ``snapshot_failed``.
    """

    number: int
    meta: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until an input comes, or until ``until`` on the center's clock (None: no such time)."""

    until: int | None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Read the stored state once more, in the same epoch: the machine is ahead of it. Answered with ``rebuilt``."""


Work: TypeAlias = TakeOver | Commit | TakeSnapshot | Rebuild | Wait


# --- output ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message over a session, after those before it."""

    session: Session
    message: FromCenter


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection of a session, after the messages before. ``retry``: the executor should try again at once.

    ``refused``: it broke the rules of the protocol. ``abort``: the other side does not answer, so skip the closing
    handshake.
    """

    session: Session
    reason: str
    refused: bool = False
    retry: bool = False
    abort: bool = False


@dataclass(frozen=True, slots=True)
class Ping:
    """Find out whether the executor behind ``session`` is alive; answered with ``Sessions.pinged``."""

    session: Session
    rival: Session


@dataclass(frozen=True, slots=True)
class AskEpoch:
    """Read the newest epoch from the store, since an executor names a newer one, or a later record; answered with
    ``Sessions.compared``.
    """

    session: Session


@dataclass(frozen=True, slots=True)
class AnswerCaller:
    """Send the caller ``caller`` the reply to its input, which is stored."""

    caller: object
    reply: Reply


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the caller ``caller`` that its input was not stored, with the reason."""

    caller: object
    why: str


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step was stored and its effects are carried out: notify watchers of jobs and events."""

    inputs: Sequence[Input]
    step: StepResult


@dataclass(frozen=True, slots=True)
class Warn:
    """Write a sentence into the center's log."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Supply:
    """Send the executor behind a session the start material of these attempts of its node."""

    session: Session
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Keep an input that makes each step fail, for inspection; it is not tried again.

    ``why`` is the error.
    """

    input: Input
    why: str


@dataclass(frozen=True, slots=True)
class OlderCopy:
    """End this center: the store is an older copy, as the ``witness`` of a node shows.

    ``position`` is what the witness says.
    """

    node: str
    witness: bytes
    position: LogPosition


Effect: TypeAlias = (
    Send | Close | Ping | AskEpoch | AnswerCaller | Refuse | Stepped | Warn | Supply | SetAside | OlderCopy
)
