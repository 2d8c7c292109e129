"""Fixtures: a cluster with a portal, and a browser, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.portal.running import CHROMIUM, Portal
from tests.system.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A center with one executor, ``n1``, of 2 cores and 4G."""
    cluster = Cluster()
    # No start files of whoever runs the tests.
    cluster.environment["HOME"] = str(cluster.folder)
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<2, 4G>")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def portal(cluster: Cluster) -> Iterator[Portal]:
    """The portal of that cluster."""
    portal = Portal(cluster)
    try:
        yield portal
    finally:
        portal.stop()


@pytest.fixture(scope="module")
def owner(portal: Portal) -> Iterator[httpx.Client]:
    """A client of the portal that is signed in as the owner of the cluster."""
    client = portal.signed_in()
    yield client
    client.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed (Debian package chromium; `make packages` as root)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
