"""Opening of stores by address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.store.replicated import ReplicatedStore
from cress.store.shared_log import without_password
from cress.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from cress.store.shared_log import SharedLog

SQLITE, REPLICA = "cress.db", "replica.db"
MOST_SESSION = 60
KINDS = ("zookeeper://HOST,HOST,HOST/PATH", "postgresql://USER@HOST/DATABASE")


def open_store(address: str, folder: Path) -> SqliteStore | ReplicatedStore:
    """Open the store at ``address``; empty: the file in ``folder``. Raises InputError and StoreError.

    For a store elsewhere, ``folder`` holds the replica.
    """
    if not address:
        if (folder / REPLICA).exists() and not (folder / SQLITE).exists():
            what = f"{folder} belongs to a center whose store is elsewhere; without it an empty cluster would begin"
            raise InputError(what, hint=" or ".join(KINDS), field="--store")
        return SqliteStore(folder / SQLITE)
    if (folder / SQLITE).exists():
        what = f"{folder} has a store already, whose jobs the other one does not know"
        raise InputError(
            what, hint=f"`cress store migrate {folder} {without_password(address)}` moves it", field="--store"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ReplicatedStore(connected(address), folder / REPLICA)


def check_address(address: str) -> None:
    """Raise InputError unless this can be the address of a store."""
    parts = urlsplit(address)
    if parts.scheme not in ("zookeeper", "postgresql") or not parts.netloc:
        raise InputError(
            f"{address.partition(':')[0]!r} is not a kind of store", hint=" or ".join(KINDS), field="--store"
        )
    if parts.scheme == "zookeeper":
        session_in(parts.query)
    if parts.scheme == "zookeeper" and not parts.path.strip("/"):
        hint = f"{KINDS[0]}: a path of its own, such as /cress"
        raise InputError("the address of the store has no path", hint=hint, field="--store")


def connected(address: str) -> SharedLog:
    """Connect to the shared log at ``address``. Raises InputError and StoreError."""
    check_address(address)
    if address.startswith("postgresql:"):
        try:
            from cress.store.postgres_log import PostgresLog
        except ModuleNotFoundError:
            raise _missing("psycopg", "postgres") from None
        return PostgresLog(address)
    try:
        from cress.store.zookeeper_log import ZooKeeperLog
    except ModuleNotFoundError:
        raise _missing("kazoo", "zookeeper") from None
    parts = urlsplit(address)
    login, _, hosts = parts.netloc.rpartition("@")
    root, session = "/" + parts.path.strip("/"), session_in(parts.query)
    return ZooKeeperLog(hosts, root, unquote(login), **({} if session is None else {"session": session}))


def session_in(query: str) -> float | None:
    """Return the value of ``session=`` in the query of an address in seconds, None if it is missing.
    Raises InputError.
    """
    given = parse_qs(query).get("session")
    if given is None:
        return None
    if not 1 <= (whole_number(given[0]) or 0) <= MOST_SESSION:
        hint = f"whole seconds from 1 to {MOST_SESSION}, such as ?session=4"
        raise InputError(f"{given[0][:20]!r} is not the length of a session", hint=hint, field="--store")
    return float(given[0])


def _missing(package: str, extra: str) -> InputError:
    return InputError(f"{package} is not installed here", hint=f"pip install 'cress[{extra}]'", field="--store")
