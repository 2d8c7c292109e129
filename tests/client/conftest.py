"""Fixtures: a real cluster that the tests of the client share, and one that belongs to a test alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cress
from tests.system.cluster import Cluster


def _cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<8, 8G>")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A center with one executor; each test leaves nothing running."""
    yield from _cluster()


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A center with one executor for one test alone."""
    yield from _cluster()


@pytest.fixture
def center(cluster: Cluster) -> Iterator[cress.Client]:
    """A client of the shared cluster."""
    with cress.Client(data=cluster.data) as client:
        yield client
