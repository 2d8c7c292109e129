"""Replay of a recorded log: each step is decided again, and compared with what the center stored, byte for byte."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from cress.lifecycle import replay
from cress.lifecycle.effects import StepResult
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import Restarted
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import Record, decode_record, decode_without_facts, has_facts, inputs_of
from cress.model.decisions import Preempt, Start, Stop
from cress.model.errors import InputError
from cress.past.event_file import EventFile
from cress.past.recorded_log import Gap, RecordedLog
from cress.past.state_lines import state_lines

# A record with this input has its name.
_RESTARTED = Restarted.__name__.encode()

# Called with the number of the record that was decided last, and its wall clock (µs).
Tell = Callable[[int, int], None]


@dataclass
class Replayed:
    """The result of a replay: counts of what was decided again and compared, and the first difference, if any.

    ``first`` and ``last`` are the numbers of the compared records, ``since`` and ``until`` their wall clocks (µs).
    ``reread`` are records before which the center had read its state from the store, without a restart. ``before``
    tells the state before the different record, in the ``file``, which ``release`` wrote.
    """

    first: int = 0
    last: int = 0
    since: int = 0
    until: int = 0
    records: int = 0
    starts: int = 0
    preemptions: int = 0
    stops: int = 0
    restarts: int = 0
    reread: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    difference: replay.Difference | None = None
    utc: int = 0
    before: list[str] = field(default_factory=list)
    file: Path | None = None
    release: str = ""


class Stored:
    """The state that the store had at each moment: that of a snapshot, and the facts of the records since then.

    The scheduler foresees what was foreseen at the snapshot: what it foresaw since then is not in the records.
    """

    def __init__(self, snapshot: bytes) -> None:
        self._snapshot = snapshot
        self._follower: Follower | None = None
        self._behind: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Take in the next record; the work is done when a state is asked for."""
        self._behind.append(data)

    def machine(self) -> Machine:
        """Return a machine that continues after the last record."""
        follower = self._follower
        if follower is None:
            follower = self._follower = Follower.restore(self._snapshot)
        for data in self._behind:
            follower.apply(decode_record(data))
        self._behind.clear()
        return Machine.restore(follower.export())


def restored(file: EventFile) -> Machine:
    """Return the machine with which a file begins. Raises ``InputError`` if this release cannot read it."""
    try:
        return Machine.restore(file.header.state)
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise InputError(
            f"begins with a state that this release cannot read (cress {file.header.release} wrote it): {error}",
            hint="replay it with that release",
            file=str(file.path),
        ) from None


def records_of(file: EventFile, having: bytes = b"") -> Iterator[tuple[int, bytes, Record]]:
    """Yield the records of a file that have these bytes, with their numbers and bytes, without their facts."""
    for number, data in file.raw():
        if having not in data:
            continue
        try:
            yield number, data, decode_without_facts(data)
        except (ValueError, msgspec.MsgspecError) as error:
            what = f"record {number} cannot be read (cress {file.header.release} wrote it): {error}"
            raise InputError(what, hint="replay it with that release", file=str(file.path)) from None


def _snapshots(file: EventFile) -> frozenset[int]:
    """Return the numbers of the records after which a snapshot was stored from which a center of this file went on.

    Behind a damage there are none: whoever reads the records so far is told of it.
    """
    found: set[int] = set()
    with contextlib.suppress(InputError):
        for _, _, record in records_of(file, _RESTARTED):
            found.update(one.loaded for one in inputs_of(record) if isinstance(one, Restarted))
    return frozenset(found)


class RecordedSteps:
    """Steps a machine through a log as the center did: with its restarts, and over the gaps between files."""

    def __init__(self, log: RecordedLog, since: int = 0, until: int | None = None) -> None:
        self._log = log
        self._since, self._until = since, until
        self.gaps: list[Gap] = []
        self.files: list[EventFile] = []
        self.machine: Machine | None = None
        self.stored: Stored | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes, Record]]:
        """Yield each record when the machine is in the state before it; the caller steps the machine."""
        last: int | None = None
        for file in self._log.files(self._since):
            if last is None or file.header.before != last:
                if last is not None:
                    self.gaps.append(Gap(last, file.header.before + 1, file.path))
                self.machine = restored(file)
            self.files.append(file)
            self.stored, last = Stored(file.header.state), file.header.before
            snapshots = _snapshots(file)
            for number, data, record in records_of(file):
                if self._until is not None and record.utc >= self._until:
                    return
                if any(isinstance(input_, Restarted) for input_ in inputs_of(record)):
                    # The center that wrote this record had just read the state from its store.
                    self.machine = self.stored.machine()
                yield number, data, record
                self.stored.add(data)
                if number in snapshots and self.machine is not None:
                    self.stored = Stored(self.machine.export())
                last = number


def replay_log(log: RecordedLog, since: int = 0, until: int | None = None, tell: Tell | None = None) -> Replayed:
    """Decide a log again, and compare the steps from ``since`` to ``until`` (µs of the wall clock, excluded).

    Each file begins with a state, so the files are decided at the same time, by as many processes as there are
    processors. The first difference counts. Raises ``InputError`` for damaged files, and for those of a newer release.
    """
    files = list(log.files(since))
    workers = min(len(files), len(os.sched_getaffinity(0)))
    if workers < 2:
        return _merged(files, (_replayed(file.path, since=since, until=until, tell=tell) for file in files))
    # A fork has the compiled loops of this process.
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        one = partial(_replayed, since=since, until=until)
        return _merged(files, pool.imap(one, [file.path for file in files]), tell)


def _merged(files: Sequence[EventFile], parts: Iterator[Replayed], tell: Tell | None = None) -> Replayed:
    """Return the results of files in order as one, up to the first difference."""
    whole = Replayed()
    last: int | None = None
    for file, part in zip(files, parts, strict=False):
        before = file.header.before
        if last is not None and before != last:
            whole.gaps.append(Gap(last, before + 1, file.path))
        last = part.last or before
        whole.files += part.files
        whole.first, whole.since = whole.first or part.first, whole.since or part.since
        whole.last, whole.until = part.last or whole.last, part.until or whole.until
        for name in ("records", "starts", "preemptions", "stops", "restarts"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        whole.reread += part.reread
        if tell is not None:
            tell(whole.last, whole.until)
        if part.difference is not None:
            whole.difference, whole.before, whole.utc = part.difference, part.before, part.utc
            whole.file, whole.release = part.file, part.release
            break
    return whole


def _replayed(path: Path, *, since: int, until: int | None, tell: Tell | None = None) -> Replayed:
    """Decide one file again."""
    # Nearly all objects live as long as their jobs: to examine them again and again would take a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    found = Replayed()
    steps = RecordedSteps(RecordedLog(path), since, until)
    for number, data, record in steps:
        assert steps.machine is not None
        step = replay.stepped(steps.machine, record)
        if has_facts(record) and not replay.is_as_stored(data, record, step):
            whole = decode_record(data)
            different = replay.difference(number, whole, step)
            if different is not None:
                before, step, steps.machine = _again(steps, record)
                if replay.difference(number, whole, step) is not None:
                    found.difference, found.utc = different, record.utc
                    found.before = state_lines(before, different)
                    found.file, found.release = steps.files[-1].path, steps.files[-1].header.release
                    break
                found.reread.append(number)
        if tell is not None and not number % 500:
            tell(number, record.utc)
        if record.utc >= since:
            _count(found, number, record, step)
    found.files = [file.path for file in steps.files]
    return found


def _again(steps: RecordedSteps, record: Record) -> tuple[Machine, StepResult, Machine]:
    """Return the stored state before a record, the step of a machine that continues from it, and that machine."""
    assert steps.stored is not None
    before, machine = steps.stored.machine(), steps.stored.machine()
    return before, replay.stepped(machine, record), machine


def _count(found: Replayed, number: int, record: Record, step: StepResult) -> None:
    found.first, found.since = found.first or number, found.since or record.utc
    found.last, found.until = number, record.utc
    found.records += 1
    found.restarts += any(isinstance(input_, Restarted) for input_ in inputs_of(record))
    for fact in step.facts.core:
        found.starts += isinstance(fact, Start)
        found.preemptions += isinstance(fact, Preempt)
        found.stops += isinstance(fact, Stop)
