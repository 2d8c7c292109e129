"""Fixtures: a cluster that several tests share, and one that belongs to a test alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.cluster import Cluster


@pytest.fixture
def bare() -> Iterator[Cluster]:
    """A cluster of which nothing runs yet."""
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def own(bare: Cluster) -> Cluster:
    """A center with one executor, ``n1``, of 4 cores and 8G, for one test alone."""
    bare.start_center()
    bare.start_executor()
    return bare


@pytest.fixture(scope="session")
def shared() -> Iterator[Cluster]:
    """The same for many tests; each leaves nothing running and changes no groups."""
    cluster = Cluster()
    try:
        cluster.start_center()
        # Files come from servers of this machine.
        cluster.start_executor("n1", "<4, 8G>", "--allow-host", "any", "--allow-host", "127.0.0.1")
        yield cluster
    finally:
        cluster.stop()
