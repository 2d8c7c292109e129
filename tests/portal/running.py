"""A real portal beside a real cluster, and pages of it in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests import waiting
from tests.forked import ForkedCress
from tests.system.cluster import Cluster, wait_until

CHROMIUM = Path("/usr/bin/chromium")
# Milliseconds for which a page may keep a test waiting.
PATIENCE = 1000 * waiting.PATIENCE
expect.set_options(timeout=PATIENCE)


class Portal:
    """``cress portal`` on the data directory of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        (cluster.folder / "portal.log").touch()
        self.process = ForkedCress(["portal"], cluster.folder / "portal.log", cluster.environment)
        self.link = wait_until(self._printed, "the link of the portal")
        self.url = self.link.partition("/enter/")[0]

    def _printed(self) -> str:
        assert self.process.poll() is None, self.cluster.log("portal.log")
        found = re.search(r"Portal: (http\S+)\n", self.cluster.log("portal.log"))
        return found[1] if found else ""

    def new_link(self) -> str:
        """A link as `cress portal` prints it while the portal runs."""
        return self.cluster.cress("portal").stdout.split()[-1]

    def signed_in(self) -> httpx.Client:
        """A client without a browser, signed in as the owner of the cluster."""
        client = httpx.Client(base_url=self.url, trust_env=False, timeout=waiting.PATIENCE)
        answer = client.get(self.new_link().removeprefix(self.url))
        assert answer.status_code == 200, answer.text
        return client

    def stop(self) -> None:
        """End the portal."""
        self.process.terminate()
        self.process.wait(waiting.PATIENCE)


def csrf_of(client: httpx.Client) -> str:
    """The secret that forms of this session carry."""
    found = re.search(r'data-csrf="([^"]+)"', client.get("/jobs").text)
    assert found is not None
    return found[1]


@contextmanager
def opened(browser: Browser, portal: Portal, **settings: Any) -> Iterator[Page]:
    """A page that is signed in as the owner; it fails the test if it asks another host, or if a script fails."""
    context: BrowserContext = browser.new_context(**settings)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"a script failed: {error}"))
    page.on("request", lambda request: None if request.url.startswith(portal.url) else wrong.append(request.url))
    page.on("dialog", lambda dialog: dialog.accept())
    try:
        page.goto(portal.new_link())
        page.wait_for_url(f"{portal.url}/")
        yield page
        assert not wrong, wrong
    finally:
        context.close()
