"""The lead in PostgreSQL: a row with its holder and its expiry, by the server's clock."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time

import psycopg

from cress.store.base import StoreError
from cress.store.lead import boottime
from cress.store.shared_log import LogUnreachable

_TABLES = """
CREATE TABLE IF NOT EXISTS cress_lead (
    one INTEGER PRIMARY KEY CHECK (one = 1), holder TEXT NOT NULL, address TEXT NOT NULL, until TIMESTAMPTZ NOT NULL
);
CREATE TABLE IF NOT EXISTS cress_centers (holder TEXT PRIMARY KEY, address TEXT NOT NULL, until TIMESTAMPTZ NOT NULL)
"""
_CLAIM = """
INSERT INTO cress_lead VALUES (1, %(me)s, %(address)s, clock_timestamp() + %(session)s * interval '1 second')
ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, address = excluded.address, until = excluded.until
WHERE cress_lead.holder = %(me)s OR cress_lead.until < clock_timestamp()
"""
_STAND_BY = """
INSERT INTO cress_centers VALUES (%(me)s, %(address)s, clock_timestamp() + %(session)s * interval '1 second')
ON CONFLICT (holder) DO UPDATE SET until = excluded.until
"""
_OTHERS = "SELECT address FROM cress_centers WHERE holder <> %(me)s AND until >= clock_timestamp() ORDER BY address"
# Seconds between two checks whether the lead is free.
POLL = 0.05


class PostgresLead:
    """A ``Lead`` in the database at ``url``; ``address`` is that of this center."""

    def __init__(self, url: str, address: str, session: float) -> None:
        self._url = url
        self._address = address
        self._me = secrets.token_hex(8)
        self.session = session
        self.until = 0
        self._connection: psycopg.Connection | None = None
        self._turn = threading.Lock()

    def claim(self) -> bool:
        """See ``Lead.claim``."""
        begin = boottime()
        mine = self._execute(_CLAIM, self._values()).rowcount == 1
        self.until = begin + int(self.session * 1e6) if mine else 0
        return mine

    def leader(self) -> str:
        """See ``Lead.leader``."""
        row = self._execute("SELECT address FROM cress_lead WHERE until >= clock_timestamp()", {}).fetchone()
        return "" if row is None else str(row[0])

    def wait(self, seconds: float) -> None:
        """See ``Lead.wait``."""
        end = time.monotonic() + seconds
        with contextlib.suppress(StoreError):
            while self.leader() and time.monotonic() < end:
                time.sleep(POLL)
            return
        time.sleep(max(0.0, end - time.monotonic()))

    def stand_by(self) -> None:
        """See ``Lead.stand_by``."""
        self._execute(_STAND_BY, self._values())

    def others(self) -> list[str]:
        """See ``Lead.others``."""
        return [str(address) for (address,) in self._execute(_OTHERS, self._values()).fetchall()]

    def release(self) -> None:
        """See ``Lead.release``."""
        self.until = 0
        with contextlib.suppress(StoreError):
            self._execute("DELETE FROM cress_lead WHERE holder = %(me)s", self._values())

    def close(self) -> None:
        """See ``Lead.close``."""
        with contextlib.suppress(StoreError):
            self._execute("DELETE FROM cress_centers WHERE holder = %(me)s", self._values())
        if self._connection is not None:
            self._connection.close()

    def _values(self) -> dict[str, object]:
        return {"me": self._me, "address": self._address, "session": self.session}

    def _execute(self, sql: str, values: dict[str, object]) -> psycopg.Cursor:
        with self._turn:
            return self._execute_now(sql, values)

    def _execute_now(self, sql: str, values: dict[str, object]) -> psycopg.Cursor:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(
                    self._url, autocommit=True, connect_timeout=max(2, int(self.session))
                )
                self._connection.execute(f"SET statement_timeout = {int(self.session * 1000)}")
                self._connection.execute(_TABLES)
            return self._connection.execute(sql, values)
        except psycopg.OperationalError:
            if self._connection is not None:
                self._connection.close()
            raise LogUnreachable("the server of the store does not answer") from None
        except psycopg.Error as error:
            raise StoreError(f"the lead cannot be claimed: {error}") from None
