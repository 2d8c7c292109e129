"""Empty shared logs in real servers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from cress.store.postgres_log import PostgresLog
from cress.store.shared_log import SharedLog
from cress.store.zookeeper_log import ZooKeeperLog
from tests.servers.postgresql import PostgreSql
from tests.servers.zookeeper import Ensemble

_NUMBERS = itertools.count(1)


def empty_place(server: Ensemble | PostgreSql) -> str:
    """Return the address of a new place in this server."""
    if isinstance(server, Ensemble):
        return f"zookeeper://{server.hosts}/cress/{next(_NUMBERS)}"
    return server.database()


def empty_log(server: Ensemble | PostgreSql) -> Callable[[], SharedLog]:
    """Return what connects to an empty log of this server, the same one each time."""
    address = empty_place(server)
    if isinstance(server, Ensemble):
        return lambda: ZooKeeperLog(server.hosts, "/cress/" + address.rpartition("/")[2])
    return lambda: PostgresLog(address)
