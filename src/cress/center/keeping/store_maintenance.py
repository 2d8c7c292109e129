"""Maintenance of a store without a running center: check, backup, restore."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from cress.center.keeping import skipped_ids
from cress.center.keeping.anchor_notes import AUDIT as AUDIT_NOTE
from cress.center.keeping.anchor_notes import note_at
from cress.center.keeping.audit import FOLDER as AUDIT
from cress.center.keeping.audit_check import accepted, check_audit
from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.event_log import EVENTS
from cress.center.keeping.event_log_check import check_witness, damaged_files, last_record, missing_records
from cress.center.keeping.file_names import STORE
from cress.center.keeping.files_check import audit_mark, check_files
from cress.center.keeping.files_table import irregular
from cress.center.keeping.history_reader import FILE as HISTORY
from cress.center.keeping.loss_proof import forget_proof, loss_in, loss_told, ways_out
from cress.center.keeping.owner_token import (
    FINGERPRINT,
    TOKEN_FILE,
    cluster_secret,
    fingerprint_of,
    fresh_token,
    read_token,
)
from cress.center.keeping.recovery import restored, version_note
from cress.center.keeping.store_migration import as_file
from cress.center.settings import CenterSettings
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.family import Dag
from cress.model.run import Run
from cress.shell.center.events import Events
from cress.shell.center.runs import template_of
from cress.shell.center.witness import KEY, Lineage, LogPosition
from cress.store.base import Batch, Saved, StateSnapshot, StoreError
from cress.store.commit_journal import COMMITS as JOURNAL
from cress.store.copying import copy_from_file
from cress.store.history_mark import FILE as MARK_OF_HISTORY
from cress.store.history_mark import check_history, read_mark
from cress.store.opening import REPLICA, check_address, open_store
from cress.store.shared_log import without_password
from cress.store.sqlite import SqliteStore
from cress.store.sqlite_file import MARK, beside
from cress.store.tools import put_in_place, reading

__all__ = [
    "STORE",
    "StoreError",
    "accept_loss",
    "backup",
    "change_secret",
    "check",
    "check_address",
    "obstacles",
    "restore",
    "restore_shared",
    "without_password",
]  # the names that the command line uses

# Added to the numbers if the count given out since a backup is unknown.
JUMP_JOBS = JUMP_EPOCHS = 1_000_000
JUMP = 1_000_000_000

_decode_run = msgspec.msgpack.Decoder(Run).decode


class StoreReport(msgspec.Struct, kw_only=True):
    """The contents of a store in numbers; ``problems`` are messages.

    ``completed`` is the number of changes that the store lacks and the next start takes from the commit journal.
    ``secret`` is the problem with the secret of the data directory, ``files`` are those with other files, and
    ``others`` are the names of files that do not belong there. ``loss`` says that the store is an older copy.
    """

    size: int = 0
    completed: int = 0
    snapshot: int = 0
    records: int = 0
    jobs: int = 0
    attempts: int = 0
    nodes: int = 0
    finished_jobs: int = 0
    finished_attempts: int = 0
    problems: list[str] = []
    files: list[str] = []
    others: list[str] = []
    secret: str = ""
    loss: str = ""


class Replaced(msgspec.Struct, kw_only=True):
    """The result of a restore; ``kept`` is the folder with the replaced store (None if there was none)."""

    jobs: int
    attempts: int
    kept: Path | None
    jumped: bool


class _Numbers(msgspec.Struct):
    """Numbers that are used only once, and other state that a restore must not undo."""

    job: int
    attempt: int
    epoch: int
    record: int
    event: int
    secret: bytes | None  # the fingerprint of the secret
    witness: bytes | None  # the key with which centers sign positions


def check(path: Path, data: Path | None = None) -> StoreReport:
    """Read the whole store at ``path``, as of one moment, and step through its log.

    ``data`` is the data directory of a center whose store is elsewhere. Raises StoreError if there is no readable
    store.
    """
    events, home = path.parent / EVENTS, data or path.parent
    for error in irregular(home):
        # To read further could take for ever.
        raise StoreError(f"{error.filename}: {error.strerror}; move it away, and check again")
    found = StoreReport(size=path.stat().st_size if path.is_file() else 0)
    name = str(path) if data is None else "of the centers"
    # Read before the store, which is never behind the event log.
    last = last_record(events)
    with reading(path) as store:
        found.problems += store.damage()
        found.completed = store.completed
        try:
            saved = store.saved()
            check_witness(events, path, saved.number, last)
            found.files += damaged_files(events)
            if data is None and not _is_untouched(saved):
                found.files += filter(None, (missing_records(events, saved.number, len(saved.records), last),))
            files, found.others = check_files(home, saved, shared=data is not None)
            found.files += files
            if history := wrong_history(home, deep=True):
                found.files.append(history)
            found.snapshot, found.records = len(saved.snapshot or b""), len(saved.records)
            if (loss := loss_in(home, _lineage(saved), saved.number)) is not None:
                found.loss = f"{loss_told(name, *loss, saved.number)}; {ways_out('')}"
            if data is None or (data / TOKEN_FILE).exists() or (data / REPLICA).exists():
                found.secret = _wrong_secret(home, saved.meta.get(FINGERPRINT))
            machine = restored(saved, CenterSettings(data=path.parent)).machine
            found.jobs, found.attempts, found.nodes = len(machine.jobs), len(machine.attempts), len(machine.nodes)
            found.problems += machine.validate()
            damaged = store.damaged_runs()
            found.problems += damaged
            runs = {job for job, data in store.runs() if (run := _decode_run(data)).command or run.steps}
            alive: list[LiveJob | Family] = [*machine.jobs.values(), *machine.families.values()]
            for job in alive:
                if not damaged and template_of(job) not in runs and not isinstance(job.job.plan, Dag):
                    found.problems.append(f"how to run job {job.job.id} is missing")
            found.finished_jobs = sum(1 for _ in store.jobs())
            found.finished_attempts = sum(1 for _ in store.attempts())
        except (StoreError, InputError) as error:
            found.problems.append(str(error))
        except msgspec.MsgspecError as error:
            found.problems.append(f"how to run a job cannot be read: {error}")
    return found


def _is_untouched(saved: Saved) -> bool:
    """Return whether no center has begun since a restore: the event log goes on, after a gap, at the next start."""
    lineage = _lineage(saved)
    return lineage is not None and bool(lineage.begun) and lineage.begun[-1][1] == saved.number


def wrong_history(data: Path, *, deep: bool = False) -> str:
    """Return the reason why a center would refuse the history in ``data``, else empty; ``deep``: read all of it."""
    try:
        mark = read_mark(data / MARK_OF_HISTORY)
        if mark is None or mark.file:
            check_history(data / HISTORY, data / MARK_OF_HISTORY, deep=deep)
    except StoreError as error:
        return str(error)
    return ""


def obstacles(data: Path) -> list[str]:
    """Return the reasons why a center cannot start with the store in ``data``, although the store is intact."""
    return list(filter(None, (wrong_secret(data), wrong_history(data))))


def wrong_secret(data: Path) -> str:
    """Return the reason why the secret in ``data`` keeps a center from starting with the store there, else empty."""
    with reading(data / STORE) as store:
        return _wrong_secret(data, store.saved().meta.get(FINGERPRINT))


def _wrong_secret(data: Path, known: bytes | None) -> str:
    try:
        if known is not None:
            cluster_secret(data, known)
    except InputError as error:
        return str(error)
    return ""


def change_secret(data: Path, address: str, *, new: bool) -> Path:
    """Give the store the secret in the file of ``data``, or a ``new`` one; return that file.

    No center may run on ``data``; a leader on the shared store at ``address`` is fenced off. Raises StoreError and
    InputError.
    """
    if not address and not (data / STORE).exists():
        raise InputError("has no store", hint="the data directory of a center", file=str(data))
    directory = DataDirectory(data)
    try:
        with closing(open_store(address, data)) as store:
            saved, path = store.load(), data / TOKEN_FILE
            if not saved.epoch:
                raise InputError("no center has run here yet", hint="the first start makes the secret", file=str(data))
            if new and path.is_dir():
                raise InputError("there is a directory in the place of the token", hint="move it away", file=str(path))
            fresh = fresh_token(data) if new else path
            try:
                fingerprint = fingerprint_of(read_token(fresh))
                epoch = store.take_over(saved.epoch, saved.number, saved.cluster)
                store.commit(Batch(meta={FINGERPRINT: fingerprint}), epoch)
                fresh.replace(path)
            finally:
                if new:
                    fresh.unlink(missing_ok=True)
            return path
    finally:
        directory.close()


def backup(path: Path, target: Path) -> int:
    """Copy the store at ``path``, as of one moment, to the new file ``target``; return its size in bytes.

    Raises StoreError, also if the store is damaged, and InputError.
    """
    if target.exists():
        raise InputError("already exists", hint="a backup overwrites nothing", file=str(target))
    with reading(path) as store:
        for problem in store.damage():
            raise StoreError(f"the store {path} is damaged, and a copy would be too: {problem}")
        store.copy_to(target)
    return target.stat().st_size


def restore(data: Path, file: Path) -> Replaced:
    """Make ``file`` the store of the data directory ``data``; the present store is moved to a folder beside it.

    Numbers of jobs and attempts continue after all that were given out since the backup, since executors remember
    attempts and must not confuse a new one with an old one. Raises StoreError and InputError, also if a center runs
    there.
    """
    directory = DataDirectory(data)
    try:
        path = data / STORE
        # Read first, since opening a store that has lost its write-ahead file makes a new one.
        given, lost = _given_away(path, data)
        fresh = _room_for_restored(path)
        machine = _renumbered(file, fresh, given, lost)
        kept = put_in_place(fresh, path)
        return Replaced(jobs=len(machine.jobs), attempts=len(machine.attempts), kept=kept, jumped=given is None)
    finally:
        directory.close()


class AcceptedLoss(msgspec.Struct, kw_only=True):
    """The result of accepting losses: ``store`` if the store was an older copy, ``audit`` what the audit log lacks."""

    store: Replaced | None
    audit: list[str]


def accept_loss(data: Path, address: str) -> AcceptedLoss:
    """Go on with what the data directory ``data`` has, and forget what is proven to be lost.

    If the store, that in ``data`` or the shared one at ``address``, is an older copy, its numbers continue far above
    all that were given; the replaced one is kept as by ``restore``. The audit log is accepted as it is. Raises
    StoreError and InputError, also if no loss is known.
    """
    directory = DataDirectory(data)
    try:
        with _present(data, address) as present:
            with reading(present) as store:
                saved = store.saved()
            mark = audit_mark(data, saved, shared=bool(address))
            audit = check_audit(data / AUDIT, mark)
            loss = loss_in(data, _lineage(saved), saved.number)
            if not audit and loss is None:
                raise InputError(
                    "there is no loss to accept: no executor has shown that the store is an older copy, and the audit "
                    "log is complete",
                    hint="`cress store check` says what is wrong; `cress store restore` restores a backup",
                    file=str(data),
                )
            replaced = None if loss is None else _go_on_with(data, address, present, loss[1])
        forget_proof(data)
        if audit:
            note = note_at(AUDIT_NOTE, data, shared=bool(address))
            with closing(open_store(address, data)) as opened:
                saved = opened.load()
                epoch = opened.take_over(saved.epoch, saved.number, saved.cluster)
                meta = {note: msgspec.msgpack.encode(accepted(data / AUDIT, mark))}
                opened.commit(Batch(meta=meta), epoch)
        return AcceptedLoss(store=replaced, audit=audit)
    finally:
        directory.close()


def _go_on_with(data: Path, address: str, present: Path, lost: LogPosition) -> Replaced:
    """Give the store ``present`` numbers far above its own, in the data directory or at the shared address."""
    if not address:
        fresh = _room_for_restored(data / STORE)
        machine = _renumbered(present, fresh, None, lost)
        kept = put_in_place(fresh, data / STORE)
    else:
        kept = None
        with tempfile.TemporaryDirectory(prefix="cress-store-") as folder:
            fresh = Path(folder) / STORE
            machine = _renumbered(present, fresh, None, lost)
            copy_from_file(fresh, address, over=True)
    return Replaced(jobs=len(machine.jobs), attempts=len(machine.attempts), kept=kept, jumped=True)


@contextmanager
def _present(data: Path, address: str) -> Iterator[Path]:
    """Yield the store as a file: that of the data directory, or a copy of the shared one."""
    if not address:
        yield data / STORE
        return
    with as_file(address) as path:
        yield path


def _room_for_restored(path: Path) -> Path:
    """Return the place of a new store beside ``path``, without what an interrupted command left there."""
    fresh = beside(path, ".restored")
    for ending in ("", MARK, JOURNAL, "-wal", "-shm"):
        beside(fresh, ending).unlink(missing_ok=True)
    return fresh


def restore_shared(address: str, file: Path, data: Path) -> Replaced:
    """Make ``file`` the content of the shared store at ``address``; the center that uses it is fenced off.

    Numbers continue as in ``restore``. ``data`` is the data directory of a center. Raises StoreError and InputError.
    """
    with tempfile.TemporaryDirectory(prefix="cress-store-") as folder:
        fresh = Path(folder) / STORE
        try:
            with as_file(address) as present:
                given, lost = _given_away(present, data)
        except StoreError:
            given = lost = None
        machine = _renumbered(file, fresh, given, lost)
        copy_from_file(fresh, address, over=True)
    return Replaced(jobs=len(machine.jobs), attempts=len(machine.attempts), kept=None, jumped=given is None)


def _renumbered(file: Path, fresh: Path, given: _Numbers | None, lost: LogPosition | None = None) -> Machine:
    """Write the backup ``file`` to the new store ``fresh``, continuing after the numbers given out since.

    ``lost`` is a position to which the cluster had come, if the numbers are not known.
    """
    with reading(file, as_it_is=True) as source:
        for problem in source.damage():
            raise StoreError(f"{file} is damaged: {problem}")
        saved = source.saved()
        source.copy_to(fresh)
        state = restored(saved, CenterSettings(data=fresh.parent), source.run)
    machine, events = state.machine, state.events
    numbers = _numbers(saved, machine, events)
    if lost is not None:
        numbers = _behind(numbers, _Numbers(lost.job, lost.attempt, lost.epoch, lost.record, 0, None, None))
    _renumber(fresh, machine, events, _behind(numbers, given) if given else _far_behind(numbers))
    return machine


def _renumber(fresh: Path, machine: Machine, events: Events, numbers: _Numbers) -> None:
    """Make a snapshot of ``machine`` the whole state of the store ``fresh``, continuing after ``numbers``."""
    first = machine.next_job
    machine.general.next_job, machine.general.epoch = numbers.job, numbers.epoch
    machine.core.books.next_attempt = numbers.attempt
    events.skip_to(numbers.event)
    store = SqliteStore(fresh)
    try:
        meta = {
            "events": events.save(),
            "version": version_note(),
        }
        if numbers.job > first:
            meta[skipped_ids.NOTE] = skipped_ids.note_with(store.note(skipped_ids.NOTE), first, numbers.job - 1)
        if numbers.secret is not None:
            meta[FINGERPRINT] = numbers.secret
        if numbers.witness is not None:
            # The numbers go on above all positions that were signed before.
            meta |= Lineage(numbers.witness, "", [(numbers.epoch, numbers.record)]).notes()
        store.snapshot(StateSnapshot(numbers.record, machine.export(), meta), numbers.epoch)
    finally:
        store.close()
        for ending in (MARK, JOURNAL):
            beside(fresh, ending).unlink(missing_ok=True)


def _given_away(path: Path, data: Path) -> tuple[_Numbers | None, LogPosition | None]:
    """Return the numbers that the present store has reached, None if it is damaged or an older copy; and the position
    that proves the latter.

    ``data`` is the data directory of its center.
    """
    try:
        with reading(path) as store:
            if store.damage():
                return None, None
            saved = store.saved()
        check_witness(path.parent / EVENTS, path, saved.number)
        if (loss := loss_in(data, _lineage(saved), saved.number)) is not None:
            return None, loss[1]
        state = restored(saved, CenterSettings(data=path.parent))
    except (StoreError, InputError):
        return None, None
    return _numbers(saved, state.machine, state.events), None


def _numbers(saved: Saved, machine: Machine, events: Events) -> _Numbers:
    return _Numbers(
        machine.next_job,
        machine.core.books.next_attempt,
        saved.epoch,
        saved.number,
        events.last,
        saved.meta.get(FINGERPRINT),
        saved.meta.get(KEY),
    )


def _lineage(saved: Saved) -> Lineage | None:
    return Lineage.of(saved.meta.get, saved.cluster)


def _behind(one: _Numbers, other: _Numbers) -> _Numbers:
    # One more record, so that the event log can see that it never had this state.
    return _Numbers(
        max(one.job, other.job),
        max(one.attempt, other.attempt),
        max(one.epoch, other.epoch),
        max(one.record, other.record) + 1,
        max(one.event, other.event) + 1,
        # Executors have the present secret, whatever the backup contains.
        other.secret or one.secret,
        other.witness or one.witness,
    )


def _far_behind(one: _Numbers) -> _Numbers:
    return _Numbers(
        one.job + JUMP_JOBS,
        one.attempt + JUMP,
        one.epoch + JUMP_EPOCHS,
        one.record + JUMP,
        one.event + JUMP,
        one.secret,
        one.witness,
    )
