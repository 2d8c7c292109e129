"""Checkpoints: all rows of a store in pieces, from which another store of any kind can be made."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Batch, Damaged
from cress.store.finished import ATTEMPT_COLUMNS, JOB_COLUMNS, attempt_of, job_of
from cress.store.shared_log import LARGE
from cress.store.sqlite_file import opened
from cress.store.sqlite_tables import CLUSTER, fence, note, shorten, write_batch, write_state
from cress.store.sqlite_verify import load

# Maximum number of rows in a piece, and of bytes in a piece of the state.
ROWS, PIECE = 500, 2**19

_T = TypeVar("_T")


class CheckpointPiece(msgspec.Struct, array_like=True, omit_defaults=True):
    """A piece of a checkpoint.

    The first one describes the whole: the chain after the last covered entry, the epoch, the cluster, the number of the
    last record, and the length of the state. Then come the pieces of the state, and the rows.
    """

    chain: int = 0
    epoch: int = 0
    cluster: str = ""
    number: int = 0
    length: int = 0
    state: bytes = b""
    batch: Batch | None = None


# The first byte of a compressed piece; no other piece begins with it.
_COMPRESSED = b"\x78"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CheckpointPiece).decode


def pieces_of(
    connection: sqlite3.Connection,
    chain: int,
    without: Collection[str] = (),
    snapshot: tuple[memoryview, int] | None = None,
) -> Iterator[bytes]:
    """Yield the rows of a store as a checkpoint, leaving out the notes ``without``; call it inside ``told``.

    ``chain`` is that of the shared log after the last covered entry. ``snapshot`` is a state that replaces the stored
    one and the records up to its number.
    """
    saved = load(connection)
    state = memoryview(saved.snapshot or b"")
    covered = saved.number - len(saved.records)
    if snapshot is not None:
        state, number = snapshot
        saved.records = saved.records[number - covered :]
        covered = number
    yield _packed(CheckpointPiece(chain, saved.epoch, saved.cluster, covered, len(state)))
    for at in range(0, len(state), PIECE):
        yield _packed(CheckpointPiece(state=bytes(state[at : at + PIECE])))
    notes = {key: value for key, value in saved.meta.items() if key not in without}
    yield _packed(CheckpointPiece(batch=Batch(meta=notes)))
    for batch in _batches(connection, saved.records):
        yield _packed(CheckpointPiece(batch=batch))


def _batches(connection: sqlite3.Connection, records: list[bytes]) -> Iterator[Batch]:
    for some in _grouped(iter(records)):
        yield Batch(records=some)
    execute = connection.execute
    runs = execute("SELECT job, family, run FROM runs ORDER BY job")
    for rows in _grouped((job, family, opened(run, f"how to run job {job}")) for job, family, run in runs):
        yield Batch(
            runs=[(job, run) for job, family, run in rows if not family],
            templates=[(job, family, run) for job, family, run in rows if family],
        )
    jobs: Iterator[JobRecord] = map(job_of, execute(f"SELECT {JOB_COLUMNS} FROM jobs"))  # noqa: S608 (our own names)
    for finished in _grouped(jobs):
        yield Batch(jobs=finished)
    attempts: Iterator[AttemptRecord] = map(attempt_of, execute(f"SELECT {ATTEMPT_COLUMNS} FROM attempts"))  # noqa: S608
    for ended in _grouped(attempts):
        yield Batch(attempts=ended)


def write_pieces(writer: sqlite3.Connection, pieces: Iterable[bytes]) -> int:
    """Write a checkpoint into empty tables, inside a transaction; return its chain. Raises ``Damaged``."""
    found = _decoded(pieces)
    first = _first(found)
    state = bytearray()
    if first.cluster:
        note(writer, {CLUSTER: first.cluster.encode("ascii")})
    fence(writer, first.epoch)
    shorten(writer, first.number)
    for piece in found:
        state += piece.state
        if piece.batch is not None:
            write_batch(writer, piece.batch)
    if len(state) != first.length:
        raise _incomplete()
    if state:
        write_state(writer, memoryview(state))
    return first.chain


def state_in(pieces: Iterable[bytes]) -> bytes:
    """Return the state of a checkpoint without reading its rows. Raises ``Damaged``."""
    found = _decoded(pieces)
    first = _first(found)
    state = bytearray()
    for piece in found:
        if len(state) == first.length:
            break
        state += piece.state
    if len(state) != first.length:
        raise _incomplete()
    return bytes(state)


def _first(pieces: Iterator[CheckpointPiece]) -> CheckpointPiece:
    first = next(pieces, None)
    if first is None:
        raise _incomplete()
    return first


def _incomplete() -> Damaged:
    return Damaged("a checkpoint is not complete")


def _decoded(pieces: Iterable[bytes]) -> Iterator[CheckpointPiece]:
    try:
        for piece in pieces:
            yield _decode(zlib.decompress(piece) if piece[:1] == _COMPRESSED else piece)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise Damaged(f"a checkpoint cannot be read: {error}") from None


def _packed(piece: CheckpointPiece) -> bytes:
    data = _encode(piece)
    return zlib.compress(data, 1) if len(data) > LARGE else data


def _grouped(rows: Iterator[_T]) -> Iterator[list[_T]]:
    """Yield the rows in lists of at most ``ROWS``."""
    while group := [row for _, row in zip(range(ROWS), rows, strict=False)]:
        yield group
