"""Records of the supervisor's journal, and the state that results from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from cress.model import bounds
from cress.model.bounds import Amount, Count, Small
from cress.model.reports import Ended
from cress.protocol.messages import Launch

# Number of ended attempts, forgotten by both sides, that are remembered for a while, so that a late order starts
# nothing. A center that numbers its attempts cannot order older ones; 10,000 take 200 KB.
REMEMBERED = 10_000


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A record; its tag in the file is the name of its class, unless it has another one."""


class Boot(_Record, frozen=True):
    """The intents that follow were made under this boot id of the machine."""

    boot: str


class Epoch(_Record, frozen=True):
    """Orders of an older epoch are refused from now on.

    ``witness`` is the newest position of the log that the center has signed; empty: as before.
    """

    epoch: bounds.Epoch
    witness: bytes = b""


class ClusterId(_Record, frozen=True, tag="Cluster"):
    """The epochs and attempts belong to the cluster with this id."""

    id: str


class Deadline(_Record, frozen=True):
    """Attempts without ``keep`` end by ``until`` (CLOCK_BOOTTIME; 0: no term), ``term`` after the last grant."""

    until: Amount
    term: Amount


class Intent(_Record, frozen=True):
    """The intent to start an attempt as in ``launch``, durable before the start. ``limit`` and ``grace`` are in µs.

    ``keep``: it continues after the end of the executor's term. The last ``log_size`` bytes of each of its streams are
    kept (0: the executor's default). ``folders`` are its folders on disks.
    """

    launch: Launch
    limit: Amount | None
    grace: Amount
    keep: bool = False
    log_size: Amount = 0
    folders: tuple[str, ...] = ()


class Start(_Record, frozen=True):
    """The attempt runs. ``pid`` and ``ticks`` (start time of /proc/PID/stat) together identify its process.

    ``since`` is CLOCK_BOOTTIME, ``at`` the wall clock, both in µs.
    """

    attempt: Count
    pid: Small
    ticks: Amount
    since: Amount
    at: Count


class End(_Record, frozen=True):
    """The attempt has ended, or was stopped before its launch order came."""

    report: Ended


class Forget(_Record, frozen=True):
    """The ends of these attempts are durable in the center."""

    attempts: tuple[Count, ...]


Record: TypeAlias = Boot | Epoch | ClusterId | Deadline | Intent | Start | End | Forget

# The version of the records that are written.
VERSION = 2

encode_records = msgspec.msgpack.Encoder().encode
_decode_records = msgspec.msgpack.Decoder(list[Record]).decode
_decode_values = msgspec.msgpack.Decoder(list[list[Any]]).decode


def decode_records(data: bytes, version: int = VERSION) -> list[Record]:
    """Return a batch of records written in this version. Raises msgspec.MsgspecError."""
    if version == VERSION:
        return _decode_records(data)
    values = _decode_values(data)
    for converters in CONVERTERS[version - 1 :]:
        values = [converters[record[0]](record) if record and record[0] in converters else record for record in values]
    return msgspec.convert(values, list[Record])


def _intent_2(record: list[Any]) -> list[Any]:
    """Convert an intent of version 1: since version 2 it contains its launch, not a copy of the launch's fields."""
    kind, attempt, job, task, limit, grace, *more = record
    more += (False, [], 0, [])[len(more) :]
    keep, ports, log_size, folders = more
    return [kind, [attempt, job, task, ports], limit, grace, keep, log_size, folders]


# By version, from 1 on: converters of its records to the next version, by type.
CONVERTERS: list[dict[str, Callable[[list[Any]], list[Any]]]] = [{"Intent": _intent_2}]


class OpenAttempt:
    """An attempt that has not ended."""

    __slots__ = ("boot", "intent", "start")

    def __init__(self, intent: Intent, boot: str) -> None:
        self.intent = intent
        self.boot = boot
        self.start: Start | None = None


class Known:
    """The state after the records so far: attempts under way, ends that the center has not stored yet, ended attempts.

    ``running`` and ``ends`` are by attempt, in order of arrival. ``until`` and ``term`` as in ``Deadline``.
    """

    def __init__(self) -> None:
        self.boot = ""
        self.epoch = 0
        self.witness = b""
        self.cluster = ""
        self.until = 0
        self.term = 0
        self.running: dict[int, OpenAttempt] = {}
        self.ends: dict[int, Ended] = {}
        self.forgotten: dict[int, None] = {}

    def apply(self, record: Record) -> None:
        """Apply one more record. Records may be repeated; a record about an ended attempt changes nothing."""
        if isinstance(record, Intent):
            known = self.running.get(record.launch.attempt)
            if known is not None:
                # Its time limit has changed.
                known.intent = record
            elif not self.knows(record.launch.attempt):
                self.running[record.launch.attempt] = OpenAttempt(record, self.boot)
        elif isinstance(record, Start):
            entry = self.running.get(record.attempt)
            if entry is not None:
                entry.start = record
        elif isinstance(record, End):
            self.running.pop(record.report.attempt, None)
            self.forgotten.pop(record.report.attempt, None)
            self.ends[record.report.attempt] = record.report
        elif isinstance(record, Forget):
            for attempt in record.attempts:
                self._forget(attempt)
        elif isinstance(record, Epoch):
            self.epoch = max(self.epoch, record.epoch)
            self.witness = record.witness or self.witness
        elif isinstance(record, Deadline):
            self.until, self.term = record.until, record.term
        elif isinstance(record, ClusterId):
            self.cluster = record.id
        else:
            self.boot = record.boot

    def knows(self, attempt: int) -> bool:
        """Return whether this attempt was ordered, stopped or ended before."""
        return attempt in self.running or attempt in self.ends or attempt in self.forgotten

    def records(self) -> Iterable[Record]:
        """Return the fewest records that result in this state; intents of another boot must have ended before."""
        yield Epoch(self.epoch, self.witness)
        yield ClusterId(self.cluster)
        yield Deadline(self.until, self.term)
        yield Forget(tuple(self.forgotten))
        boot = ""
        for entry in self.running.values():
            if entry.boot != boot:
                boot = entry.boot
                yield Boot(boot)
            yield entry.intent
            if entry.start is not None:
                yield entry.start
        for end in self.ends.values():
            yield End(end)
        yield Boot(self.boot)

    def _forget(self, attempt: int) -> None:
        self.ends.pop(attempt, None)
        self.running.pop(attempt, None)
        self.forgotten.pop(attempt, None)
        self.forgotten[attempt] = None
        if len(self.forgotten) > REMEMBERED:
            del self.forgotten[next(iter(self.forgotten))]
