"""Recovery: makes a machine from a stored snapshot and log, which continues where the last one stopped."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

import cress
from cress.center.keeping.loss_proof import check_loss
from cress.center.keeping.owner_token import FINGERPRINT, check_fingerprint
from cress.center.process.clock import Clock
from cress.center.process.garbage import no_collection
from cress.center.settings import CenterSettings
from cress.lifecycle import replay, snapshot
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import Declare, Input, Restarted
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import MAJOR, decode_record, encode_record, has_facts, inputs_of, record_of
from cress.model.errors import InputError
from cress.model.option_text import parse_assignments
from cress.model.options import Options
from cress.shell.center.commit import Opened
from cress.shell.center.events import Events
from cress.shell.center.log_entries import pack, unpack
from cress.shell.center.runs import decode_run
from cress.shell.center.witness import KEY_LENGTH, Lineage
from cress.store.base import Batch, Damaged, Saved, StateSnapshot, Store, StoreError
from cress.store.opening import SQLITE
from cress.store.shared_log import without_password


class _Meta(msgspec.Struct, frozen=True, array_like=True):
    machine: int
    release: str


def load_machine(store: Store, settings: CenterSettings, clock: Clock) -> Opened:
    """Load the state: the snapshot, and the facts of the log after it. Reads only.

    Raises StoreError if the store cannot be read, or a newer release wrote it.
    """
    with no_collection():
        saved = store.load()
        state = restored(saved, settings, store.run)
    machine = state.machine
    clock.resume(saved.meta.get("clock"), max(machine.now, 0))
    return Opened(
        machine=machine,
        events=state.events,
        records=state.records,
        number=saved.number,
        loaded=saved.number - len(saved.records),
        epoch=saved.epoch,
        cluster=saved.cluster,
        snapshot_size=len(saved.snapshot or b""),
        log_size=sum(map(len, state.records)),
        log_count=len(state.records),
        stepped=state.stepped,
    )


def begin_epoch(store: Store, opened: Opened, settings: CenterSettings, clock: Clock, secret: bytes = b"") -> None:
    """Continue the machine in a new epoch, with all nodes away and the options of the settings.

    ``secret`` is the fingerprint of the center's secret, which the store keeps; a center with another one is refused.
    The machine is stepped only after the store has shown that it can write. Raises StoreError, also for a store that
    was replaced by an older copy, and InputError for options that are not valid here.
    """
    if secret:
        check_fingerprint(settings.data, secret, store.note(FINGERPRINT))
    options = parse_assignments(settings.options, opened.machine.core.options)
    # Executors distinguish clusters by this id, since attempts and epochs have a meaning only within one cluster.
    opened.cluster = opened.cluster or secrets.token_hex(8)
    lineage = Lineage.of(store.note, opened.cluster)
    check_loss(settings.data, *store_named(settings), lineage, opened.number)
    lineage = lineage or Lineage(secrets.token_bytes(KEY_LENGTH), opened.cluster, ())
    opened.epoch = store.take_over(opened.epoch, opened.number, opened.cluster)
    opened.lineage = lineage.begin(opened.epoch, opened.number)
    now, utc = clock.now(), clock.utc()
    changed = None if options == opened.machine.core.options else options
    restarted = Restarted(epoch=opened.epoch, options=changed, zone=settings.zone, loaded=opened.loaded)
    inputs: tuple[Input, ...] = (restarted,)
    if not set(settings.dimensions.custom) <= set(opened.machine.core.dimensions.custom):
        inputs = (restarted, Declare(dimensions=settings.dimensions.custom))
    step = opened.machine.step(now, utc, inputs)
    for reply in step.replies:
        if isinstance(reply, InputError):
            raise reply
    events = opened.events.derive(opened.machine, inputs, step)
    opened.events.add(events)
    notes = {"clock": clock.save(now, utc), "version": version_note(), **opened.lineage.notes()}
    if secret:
        notes[FINGERPRINT] = secret
    if opened.snapshot_size and not opened.stepped:
        record = encode_record(record_of(now, utc, inputs, step.facts))
        entry = pack(record, Events.encode(events))
        store.commit(Batch(records=[entry], attempts=step.attempts, jobs=step.jobs, meta=notes), opened.epoch)
        opened.records = [*opened.records, record]
        opened.number += 1
        opened.log_size += len(record)
        opened.log_count += 1
    else:
        # The state before the log must depend neither on the settings of the next start, nor on the way in which a
        # later release would step records without facts.
        if step.attempts or step.jobs:
            store.commit(Batch(attempts=step.attempts, jobs=step.jobs), opened.epoch)
        state = opened.machine.export()
        notes["events"] = opened.events.save()
        store.snapshot(StateSnapshot(opened.number, state, notes), opened.epoch)
        opened.snapshot_size, opened.log_size, opened.log_count = len(state), 0, 0


def store_named(settings: CenterSettings) -> tuple[str, str]:
    """Return the name of the store in messages, and the option of ``cress store`` that names it."""
    if settings.store:
        address = without_password(settings.store)
        return address, f"--store {address}"
    return str(settings.data / SQLITE), f"--data {settings.data}"


def version_note() -> bytes:
    """Return the note of the release that writes the log."""
    return msgspec.msgpack.encode(_Meta(MAJOR, cress.__version__))


class Restored(msgspec.Struct):
    """A restored state; ``records`` and ``stepped`` are as in ``Opened``."""

    machine: Machine
    events: Events
    records: list[bytes]
    stepped: bool = False


def restored(saved: Saved, settings: CenterSettings, read_run: Callable[[int], bytes | None] | None = None) -> Restored:
    """Return the stored state. Raises StoreError and InputError.

    Facts are applied. Records without facts, of older releases, are stepped by a machine that decides as these did.
    ``read_run`` reads a stored run, which completes the jobs of such releases; it may be missing if the state is only
    examined.
    """
    events = Events()
    if saved.snapshot is None:
        if saved.records:
            raise StoreError("the store has a log but no snapshot to continue from; restore a backup")
        return Restored(Machine(settings.dimensions, Options()), events, [])
    _check_release(saved)
    try:
        follower = Follower.restore(saved.snapshot)
        events.load(saved.meta.get("events"))
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise StoreError(f"the store was left by another version of cress: {_said(error)}") from error
    stepper: Machine | None = None
    records: list[bytes] = []
    stepped = converted = snapshot.major_of(saved.snapshot) < MAJOR
    for number, data in enumerate(saved.records, 1):
        which = f"record {number} of {len(saved.records)} in the log of the store"
        try:
            entry = unpack(data)
            record = decode_record(entry.record)
        except msgspec.MsgspecError as error:
            raise Damaged(f"{which} cannot be read: {error}") from None
        except ValueError as error:
            raise StoreError(f"{which}: {error}") from None
        records.append(entry.record)
        try:
            if not has_facts(record):
                stepper, stepped = stepper or follower.machine(), True
                events.step(stepper, inputs_of(record), replay.stepped(stepper, record))
            else:
                if stepper is not None:
                    follower, stepper = Follower.restore(stepper.export()), None
                follower.apply(record)
                events.replay(entry.events)
        except Exception as error:
            # The record's checksum is right, so it is intact, and a backup of it would not help.
            raise StoreError(
                f"{which} cannot be read by cress {cress.__version__}: {_said(error)}; "
                "start and stop the version of cress that wrote it once, so that it leaves no log"
            ) from error
    machine = stepper or follower.machine()
    if converted and read_run is not None:
        machine = Machine.restore(snapshot.with_stop_graces(machine.export(), _graces(read_run)))
    return Restored(machine, events, records, stepped=stepped)


def _graces(read_run: Callable[[int], bytes | None]) -> Callable[[int], int | None]:
    def grace(number: int) -> int | None:
        data = read_run(number)
        return None if data is None else decode_run(data).stop_grace

    return grace


def _check_release(saved: Saved) -> None:
    """Raise StoreError if a newer major version wrote the log."""
    version = saved.meta.get("version")
    if version is None or not saved.records:
        return
    left = msgspec.msgpack.decode(version, type=_Meta)
    if left.machine > MAJOR:
        raise StoreError(
            f"cress {left.release} did not stop cleanly, and this version ({cress.__version__}) cannot read its log; "
            f"start and stop cress {left.release} once"
        )


def _said(error: Exception) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
