"""A shared log in PostgreSQL: a table of entries, a row as the fence, a table with the pieces of checkpoints."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import psycopg

from cress.store.base import Checkpoint, Damaged, Fenced, StoreError
from cress.store.postgres_lead import PostgresLead
from cress.store.shared_log import Head, LogUnreachable, Trimmed, another, without_password

# Seconds within which a server must answer, including reconnections.
PATIENCE = 6.0
# Seconds after which a lost center loses the lead.
SESSION = 4.0
# Seconds between two checks for another entry.
POLL = 0.02
# Maximum number of entries read at a time.
AT_ONCE = 500
# The advisory lock for the creation of the tables: a fixed number of this project.
_MAKING = 0x63726573

_TABLES = """
CREATE TABLE IF NOT EXISTS cress_fence (
    one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, epoch BIGINT NOT NULL, last BIGINT NOT NULL,
    checkpoint BIGINT NOT NULL, before BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS cress_log (number BIGINT PRIMARY KEY, entry BYTEA NOT NULL);
ALTER TABLE cress_fence ADD COLUMN IF NOT EXISTS place BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cress_fence ADD COLUMN IF NOT EXISTS announced BIGINT NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS cress_checkpoint (
    number BIGINT NOT NULL, piece INTEGER NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (number, piece)
);
"""
# One statement is one transaction, and one question to the server instead of four. The row of the fence is locked until
# its end, so no other center appends meanwhile.
_APPEND = """
WITH fence AS (UPDATE cress_fence SET epoch = %s, last = %s WHERE epoch <= %s AND last = %s RETURNING one)
INSERT INTO cress_log SELECT %s, %s FROM fence
"""

_T = TypeVar("_T")


class PostgresLog:
    """A ``SharedLog`` in the database at ``url`` (``postgresql://…``).

    ``patience`` is the maximum time (s) of an operation, ``session`` the time (s) after which a lost center loses the
    lead.
    """

    def __init__(self, url: str, session: float = SESSION, patience: float = PATIENCE) -> None:
        self._url = url
        self._session, self._patience = session, patience
        self.name = without_password(url)
        self._connection: psycopg.Connection | None = None
        self._watching: psycopg.Connection | None = None
        self._again(self._make_tables)

    def lead(self, address: str) -> PostgresLead:
        """See ``SharedLog.lead``."""
        return PostgresLead(self._url, address, self._session)

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._connection, self._watching):
            if connection is not None:
                connection.close()
        self._connection = self._watching = None

    def _make_tables(self, connection: psycopg.Connection) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            connection.execute(_TABLES)
            connection.execute(
                "INSERT INTO cress_fence (one, id, epoch, last, checkpoint, before) VALUES (1, %s, 0, 0, 0, 0)"
                " ON CONFLICT DO NOTHING",
                (secrets.token_hex(8),),
            )

    # --- reading -------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """See ``SharedLog.head``."""
        return self._again(_head)

    def entries(self, after: int) -> Iterator[bytes]:
        """See ``SharedLog.entries``."""
        last = self.head().last
        while after < last:
            rows = self._again(_entries_after(after))
            for number, entry in rows:
                if number != after + 1:
                    raise Trimmed(f"{self.name} does not go back to entry {after + 1}")
                yield entry
                after = number
            if not rows:
                raise Trimmed(f"{self.name} does not go back to entry {after + 1}")

    def wait(self, after: int, seconds: float) -> bool:
        """See ``SharedLog.wait``."""
        end = time.monotonic() + seconds
        try:
            if self._watching is None or self._watching.closed:
                self._watching = self._connect(autocommit=True)
            while _head(self._watching).last <= after:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(POLL, left))
        except psycopg.Error as error:
            raise LogUnreachable(f"{self.name} does not answer: {_said(error)}") from None
        return True

    def checkpoint(self) -> tuple[Checkpoint, Iterator[bytes]]:
        """See ``SharedLog.checkpoint``."""
        found = self._again(_newest)
        if not found.number:
            raise Damaged(f"{self.name} begins with missing entries, and has no checkpoint")
        return found, self._pieces(found)

    def _pieces(self, found: Checkpoint) -> Iterator[bytes]:
        count = 0
        while True:
            data = self._again(_piece(int(found.place), count))
            if data is None:
                break
            yield data
            count += 1
        if self._again(_newest).place != found.place:
            raise Trimmed("there is a newer checkpoint")

    # --- writing -------------------------------------------------------------------------------------------------

    def put_checkpoint(self, number: int, pieces: Iterable[bytes]) -> Checkpoint:
        """See ``SharedLog.put_checkpoint``."""
        place, count = secrets.randbits(62), 0
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                for count, data in enumerate(pieces, 1):
                    cursor.execute("INSERT INTO cress_checkpoint VALUES (%s, %s, %s)", (place, count - 1, data))
        except psycopg.Error as error:
            raise LogUnreachable(f"{self.name} does not take a checkpoint: {_said(error)}") from None
        return Checkpoint(number, str(place), count)

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """See ``SharedLog.append``."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._try_append(self._connected(), number, entry, epoch, checkpoint)
            except psycopg.OperationalError as error:
                self.close()
                if time.monotonic() >= deadline:
                    raise LogUnreachable(f"{self.name} does not answer: {_said(error)}") from None
                time.sleep(0.05)
            except psycopg.Error as error:
                raise StoreError(f"{self.name} refuses a change: {_said(error)}") from error

    def _try_append(
        self, connection: psycopg.Connection, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None
    ) -> None:
        if checkpoint is None:
            if connection.execute(_APPEND, (epoch, number, epoch, number - 1, number, entry)).rowcount:
                return
        elif _appended_with(connection, number, entry, epoch, checkpoint):
            return
        there = connection.execute("SELECT entry FROM cress_log WHERE number = %s", (number,)).fetchone()
        if there is not None and there[0] == entry:
            return  # the answer to an earlier try was lost
        newest = _head(connection).epoch
        if newest > epoch:
            raise Fenced(epoch, newest)
        raise another(self.name, number)

    # --- the connection ------------------------------------------------------------------------------------------

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect(autocommit=True)
            self._connection.execute("SET synchronous_commit = on")
        return self._connection

    def _connect(self, *, autocommit: bool = False) -> psycopg.Connection:
        return psycopg.connect(self._url, autocommit=autocommit, connect_timeout=max(2, int(self._patience)))

    def _again(self, work: Callable[[psycopg.Connection], _T]) -> _T:
        """Return the result of repeatable work. Raises ``LogUnreachable``."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return work(self._connected())
            except psycopg.OperationalError as error:
                self.close()
                if time.monotonic() >= deadline:
                    raise LogUnreachable(f"{self.name} does not answer: {_said(error)}") from None
                time.sleep(0.05)
            except psycopg.Error as error:
                raise StoreError(f"{self.name}: {_said(error)}") from error


def _head(connection: psycopg.Connection) -> Head:
    row = connection.execute("SELECT id, epoch, last, checkpoint FROM cress_fence").fetchone()
    assert row is not None
    return Head(*row)


def _newest(connection: psycopg.Connection) -> Checkpoint:
    row = connection.execute("SELECT checkpoint, place, announced FROM cress_fence").fetchone()
    assert row is not None
    number, place, announced = row
    # Rows of earlier releases have neither place nor entry: both equal the number.
    return Checkpoint(number, str(place or number), 0, announced or number)


def _entries_after(number: int) -> Callable[[psycopg.Connection], list[tuple[int, bytes]]]:
    sql = "SELECT number, entry FROM cress_log WHERE number > %s ORDER BY number LIMIT %s"
    return lambda connection: connection.execute(sql, (number, AT_ONCE)).fetchall()


def _piece(number: int, piece: int) -> Callable[[psycopg.Connection], bytes | None]:
    def read(connection: psycopg.Connection) -> bytes | None:
        sql = "SELECT data FROM cress_checkpoint WHERE number = %s AND piece = %s"
        row = connection.execute(sql, (number, piece)).fetchone()
        return None if row is None else row[0]

    return read


def _appended_with(
    connection: psycopg.Connection, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint
) -> bool:
    """Append an entry that announces a checkpoint, which may make up for missing entries; False if it does not fit."""
    with connection.transaction():
        # The row is locked from here on: no other center appends before the end of the transaction.
        fence = connection.execute(
            "UPDATE cress_fence SET epoch = %s, last = %s WHERE epoch <= %s AND last < %s",
            (epoch, number, epoch, number),
        )
        if fence.rowcount:
            connection.execute("INSERT INTO cress_log VALUES (%s, %s)", (number, entry))
            _announce(connection, number, checkpoint)
        return fence.rowcount > 0


def _announce(connection: psycopg.Connection, entry: int, checkpoint: Checkpoint) -> None:
    """Make a checkpoint the newest one; remove older ones, and the entries that the previous one covers."""
    connection.execute(
        "UPDATE cress_fence SET before = checkpoint, checkpoint = %s, place = %s, announced = %s",
        (checkpoint.number, int(checkpoint.place), entry),
    )
    connection.execute("DELETE FROM cress_checkpoint WHERE number <> %s", (int(checkpoint.place),))
    connection.execute("DELETE FROM cress_log WHERE number <= (SELECT before FROM cress_fence)")


def _said(error: psycopg.Error) -> str:
    with contextlib.suppress(IndexError):
        return str(error).strip().splitlines()[0]
    return type(error).__name__
