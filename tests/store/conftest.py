"""Servers of stores, shared by the tests of a process, and an empty place in them for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cress.store.postgres_log import PostgresLog
from cress.store.shared_log import SharedLog
from cress.store.zookeeper_log import ZooKeeperLog
from tests.store.postgresql import PostgreSql
from tests.store.zookeeper import Ensemble

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    ensemble = Ensemble(tmp_path_factory.mktemp("zookeeper"))
    yield ensemble
    ensemble.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    server = PostgreSql()
    yield server
    server.close()


@pytest.fixture(params=["zookeeper", "postgresql"])
def connect(request: pytest.FixtureRequest) -> Callable[[], SharedLog]:
    """Connects to an empty log, the same one each time."""
    return empty_log(request.getfixturevalue(request.param))


def empty_log(server: Ensemble | PostgreSql) -> Callable[[], SharedLog]:
    """Return what connects to an empty log of this server."""
    if isinstance(server, Ensemble):
        root = f"/cress/{next(_NUMBERS)}"
        return lambda: ZooKeeperLog(server.hosts, root)
    address = server.database()
    return lambda: PostgresLog(address)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "replica.db"
