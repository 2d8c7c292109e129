"""Copies between stores of any kind: a file, or a shared log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from cress.store.base import StoreError
from cress.store.checkpoint import pieces_of, write_pieces
from cress.store.commit_journal import StoredCommit
from cress.store.opening import connected
from cress.store.replica import CHAIN, LOG
from cress.store.replicated import ReplicatedStore
from cress.store.shared_log import encode_entry
from cress.store.sqlite_file import connect, told, transaction
from cress.store.sqlite_tables import EPOCH, RECORDS, cluster_of, create, number_of
from cress.store.tools import reading


def copy_to_file(address: str, path: Path, *, last: bool = False) -> None:
    """Write the store at ``address``, as of one moment, into the new file ``path``. Raises StoreError and InputError.

    ``last``: nothing is stored there after this moment; the center that uses it is fenced off.
    """
    replica = path.with_name(f"{path.name}.replica")
    try:
        with closing(ReplicatedStore(connected(address), replica)) as store:
            saved = store.load()
            if not store.log.head().last:
                raise StoreError(f"the store {store.log.name} is empty")
            if last:
                store.take_over(saved.epoch, saved.number, saved.cluster)
        with (
            told(path, "cannot be written"),
            closing(connect(replica, read_only=True)) as source,
            closing(connect(path)) as target,
        ):
            path.chmod(0o600)
            target.execute("PRAGMA synchronous=FULL")
            create(target)
            with transaction(target):
                write_pieces(target, pieces_of(source, 0, without=(LOG, CHAIN)))
    finally:
        for ending in ("", "-wal", "-shm"):
            path.with_name(f"{replica.name}{ending}").unlink(missing_ok=True)


def copy_from_file(path: Path, address: str, *, over: bool = False) -> None:
    """Replace the content of the store at ``address`` with the file ``path``. Raises StoreError and InputError.

    That store must be empty, unless ``over`` allows replacing its content: then the center that uses it is fenced off.
    """
    with closing(connected(address)) as log, reading(path) as source:
        for problem in source.damage():
            raise StoreError(f"{path} is damaged: {problem}")
        head = log.head()
        if head.last and not over:
            raise StoreError(f"the store {log.name} is not empty; nothing was changed")
        connection = source.connection
        with told(path, "cannot be read"):
            epoch = max(number_of(connection, EPOCH), head.epoch + bool(head.last))
            number, cluster = number_of(connection, RECORDS), cluster_of(connection)
            entry, chain = encode_entry(StoredCommit(epoch, cluster=cluster, covered=number), 0)
            # After a gap: the following entries do not depend on earlier ones.
            last = head.last + 2
            log.append(last, entry, epoch, log.put_checkpoint(last, pieces_of(connection, chain)))
