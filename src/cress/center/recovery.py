"""Recovery: from a stored snapshot and log to a machine that goes on where the last one was."""

from __future__ import annotations

import secrets

import msgspec

import cress
from cress.center.clock import Clock
from cress.center.settings import Settings
from cress.lifecycle.inputs import Restarted
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import MAJOR, decode_record, encode_record, inputs_of, record_of
from cress.model.errors import InputError
from cress.model.option_text import parse_assignments
from cress.model.options import Options
from cress.shell.center.commit import Opened
from cress.shell.center.events import Before, Events
from cress.store.base import Batch, Damaged, Saved, Store, StoreError


class _Meta(msgspec.Struct, frozen=True, array_like=True):
    machine: int
    release: str


def load_machine(store: Store, settings: Settings, clock: Clock) -> Opened:
    """Load, restore, step through the log. Reads only.

    Raises StoreError when the store cannot be read, or was left by another version.
    """
    saved = store.load()
    machine, events = restored(saved, settings)
    clock.resume(saved.meta.get("clock"), max(machine.now, 0))
    return Opened(
        machine=machine,
        events=events,
        records=saved.records,
        number=saved.number,
        epoch=saved.epoch,
        cluster=saved.cluster,
        snapshot_size=len(saved.snapshot or b""),
        log_size=sum(map(len, saved.records)),
        log_count=len(saved.records),
    )


def begin_epoch(store: Store, opened: Opened, settings: Settings, clock: Clock) -> None:
    """Make the machine go on in a new epoch, with all its nodes away, and the options that were asked for.

    The machine is stepped only when the store has shown that it can write. Raises StoreError, and InputError for
    options that cannot hold here.
    """
    options = parse_assignments(settings.options, opened.machine.core.options)
    # Attempts and epochs of one cluster mean nothing in another: executors tell clusters apart by this.
    opened.cluster = opened.cluster or secrets.token_hex(8)
    opened.epoch = store.take_over(opened.epoch, opened.number, opened.cluster)
    now, utc = clock.now(), clock.utc()
    inputs = (Restarted(epoch=opened.epoch, options=None if options == opened.machine.core.options else options),)
    before = Before(opened.machine, inputs, now)
    step = opened.machine.step(now, utc, inputs)
    if isinstance(step.replies[0], InputError):
        raise step.replies[0]
    opened.events.step(opened.machine, inputs, step, before)
    notes = {"clock": clock.save(now, utc), "version": version_note()}
    if opened.snapshot_size:
        record = encode_record(record_of(now, utc, inputs, step.facts))
        store.commit(Batch(records=[record], attempts=step.attempts, jobs=step.jobs, meta=notes), opened.epoch)
        opened.records = [*opened.records, record]
        opened.number += 1
        opened.log_size += len(record)
        opened.log_count += 1
    else:
        # The state that the log goes on from must not depend on the settings of the next start.
        state = opened.machine.export()
        notes["events"] = opened.events.save()
        store.snapshot(state, number=opened.number, meta=notes, epoch=opened.epoch)
        opened.snapshot_size = len(state)


def version_note() -> bytes:
    """What is kept with the store about who wrote its log."""
    return msgspec.msgpack.encode(_Meta(MAJOR, cress.__version__))


def restored(saved: Saved, settings: Settings) -> tuple[Machine, Events]:
    """The machine that was stored, stepped through its log. Raises StoreError and InputError."""
    events, zone = Events(), settings.zone
    if saved.snapshot is None:
        if saved.records:
            raise StoreError("the store has a log but no snapshot that it goes on from; take a backup back")
        return Machine(settings.dimensions, Options(), zone), events
    version = saved.meta.get("version")
    if version is not None and saved.records:
        left = msgspec.msgpack.decode(version, type=_Meta)
        if left.machine > MAJOR:
            raise StoreError(
                f"the store was left in the middle of work by cress {left.release}, whose log this version "
                f"({cress.__version__}) reads otherwise; start and stop it once with cress {left.release}"
            )
    try:
        machine = Machine.restore(saved.snapshot, zone)
        events.load(saved.meta.get("events"))
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise StoreError(f"the store was left by another version of cress: {_said(error)}") from error
    _check_dimensions(machine, settings)
    for number, data in enumerate(saved.records, 1):
        which = f"record {number} of {len(saved.records)} in the log of the store"
        try:
            record = decode_record(data)
        except msgspec.MsgspecError as error:
            raise Damaged(f"{which} cannot be read: {error}") from None
        except ValueError as error:
            raise StoreError(f"{which}: {error}") from None
        try:
            inputs = inputs_of(record)
            before = Before(machine, inputs, record.now)
            step = machine.step(record.now, record.utc, inputs)
            events.step(machine, inputs, step, before)
        except Exception as error:
            # Its checksum holds, so it is what was written; a backup of the same would fare no better.
            raise StoreError(
                f"{which} cannot be taken in by cress {cress.__version__}: {_said(error)}; "
                "start and stop the version of cress that wrote it, once, which leaves no log"
            ) from error
    return machine, events


def _said(error: Exception) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _check_dimensions(machine: Machine, settings: Settings) -> None:
    """Raise InputError if dimensions were asked for that are not in this data directory; it may have more."""
    asked, stored = settings.dimensions.custom, machine.core.dimensions.custom
    if not set(asked) <= set(stored):
        raise InputError(
            f"this data directory has the dimensions {', '.join(machine.core.dimensions.names)}",
            hint="they are declared when it is new",
            field="--dimension",
        )
