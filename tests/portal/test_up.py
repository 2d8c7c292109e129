"""``cress up`` with its portal."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.system.cluster import PATIENCE, Cluster, wait_until

SMALL = ("up", "--port", "0", "--executors", "1", "--node-resource", "<1, 1G>")


@pytest.fixture
def home() -> Iterator[Cluster]:
    """A folder for `cress up` whose environment does not forbid the portal."""
    cluster = Cluster()
    del cluster.environment["CRESS_NO_PORTAL"]
    yield cluster
    cluster.stop()


@pytest.mark.long
def test_up_prints_a_link_starts_a_killed_portal_again_and_stops_it(home: Cluster) -> None:
    up = home.start(*SMALL, log="up.log")
    found = wait_until(lambda: re.search(r"Portal: +(http\S+)\n", home.log("up.log")), "the link")
    assert found is not None
    link = found[1]
    with httpx.Client(trust_env=False) as client:
        assert client.get(link).status_code == 200
        assert "node1" in client.get(link.partition("/enter/")[0] + "/nodes").text
    place = home.data / "portal.json"
    before = pid_of(home)
    # A portal that dies within ten seconds of its start is taken for one that cannot run: this one is older.
    wait_until(lambda: home.log("up.log").count("Portal:") == 1, "one link")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: "the portal ended" in home.log("up.log") or pid_of(home) != before, "the news")
    # The cluster goes on in both cases.
    assert home.cress("run", "--", "echo", "hello").stdout == "hello\n"
    up.send_signal(signal.SIGTERM)
    assert up.wait(PATIENCE) == 0
    assert not place.exists() or pid_of(home) == before


def pid_of(home: Cluster) -> int:
    """The process of the portal, as it told it itself."""
    return int(re.search(r'"pid":(\d+)', (home.data / "portal.json").read_text())[1])  # type: ignore[index]


@pytest.mark.long
def test_up_without_a_portal_starts_none(home: Cluster) -> None:
    up = home.start(*SMALL, "--no-portal", log="up.log")
    wait_until(lambda: "Stop it" in home.log("up.log"), "cress up")
    assert home.cress("run", "--", "true").returncode == 0
    up.send_signal(signal.SIGTERM)
    assert up.wait(PATIENCE) == 0
    assert "Portal" not in home.log("up.log")
    assert not (home.data / "portal.json").exists()
