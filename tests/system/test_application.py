"""An application of three tiers, examples/guestbook: applied, scaled, updated, killed piece by piece, answering all
along.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from cress.client import ClientError, PlaceView
from tests.system.cluster import Cluster, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "guestbook"
# Nodes on one machine share its ports.
PORTS = {"n1": "20000-22999", "n2": "23000-25999", "n3": "26000-28999"}
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or POSTGRES is None or "postgres" not in {each.pw_name for each in pwd.getpwall()},
    reason="needs root, and PostgreSQL from Debian's packages",
)


class Visitors:
    """People who sign and read without a pause, each time at a task that the name service tells.

    ``signed`` are the entries that were confirmed; ``unanswered`` are moments at which none of the web tasks gave the
    page.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.signed: list[int] = []
        self.unanswered: list[str] = []
        self.pages = 0
        self.fewest = 10**6
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._visit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _visit(self) -> None:
        with self.cluster.client() as client:
            while not self._stop.is_set():
                try:
                    places = client.resolve("web")
                except ClientError:
                    continue  # the center was killed: who knows the addresses goes on with them
                self.fewest = min(self.fewest, len(places))
                tried = [self._ask(place) for place in places]
                if any(tried):
                    self.pages += 1
                else:
                    self.unanswered.append(f"{len(places)} places, {time.strftime('%X')}")
                for place in places[:1]:
                    answer = self._ask(place, b"me")
                    if answer.isdigit():
                        self.signed.append(int(answer))
                time.sleep(0.05)

    @staticmethod
    def _ask(place: PlaceView, data: bytes | None = None) -> str:
        try:
            with urllib.request.urlopen(address(place), data, timeout=10) as answer:
                return str(answer.read().decode())
        except (OSError, urllib.error.URLError):
            return ""


def address(place: PlaceView) -> str:
    return f"http://{place.address}:{place.ports['http']}/"


def start_executor(cluster: Cluster, name: str) -> None:
    cluster.start_executor(name, "<4, 4G>", "--address", "127.0.0.1", "--ports", PORTS[name])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        made.folder.chmod(0o755)
        made.start_center()
        for name in PORTS:
            start_executor(made, name)
        yield made
    finally:
        made.stop()


def files(cluster: Cluster, **changes: str) -> str:
    """The job file of the example where it lies now, with another text for some of its own."""
    folder = cluster.folder / "guestbook"
    if not folder.exists():
        shutil.copytree(EXAMPLE, folder)
    text = (EXAMPLE / "guestbook.yaml").read_text().replace("/srv/guestbook", str(folder))
    text = text.replace(
        "resource: <0.2, 128M>", f"environment: {{CLUSTER: {cluster.data}}}\n  resource: <0.2, 128M>", 1
    )
    text = text.replace("{GREETING: Hello}", f"{{GREETING: Hello, CLUSTER: {cluster.data}}}")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return str(cluster.file("guestbook.yaml", text))


def applied(cluster: Cluster, **changes: str) -> dict[str, str]:
    """What `cress apply` did with each job."""
    done = cluster.cress("apply", "--json", files(cluster, **changes))
    assert done.returncode == 0, done.stderr
    return {each["name"]: each["what"] for each in json.loads(done.stdout)["jobs"]}


def service(cluster: Cluster, name: str = "web") -> dict[str, Any]:
    done = cluster.cress("job", "--json", name)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pids(cluster: Cluster, word: str) -> list[int]:
    """The processes of tasks whose command line has this word."""
    found = []
    for pid in cluster._left():
        with suppress(OSError):  # it has ended meanwhile
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def page(cluster: Cluster) -> str:
    with cluster.client() as client:
        return next((text for place in client.resolve("web") if (text := Visitors._ask(place))), "")


def greeted(cluster: Cluster, text: str, count: int) -> bool:
    """Whether so many tasks answer, each with this text."""
    with cluster.client() as client:
        places = client.resolve("web")
    return len(places) == count and all(Visitors._ask(place).startswith(text) for place in places)


def test_an_application_of_three_tiers_lives_through_everything(cluster: Cluster) -> None:
    assert applied(cluster) == {"db": "created", "worker": "created", "web": "created"}
    wait_until(lambda: greeted(cluster, "Hello!", 3), "three tasks that answer", 120)
    wait_until(lambda: "entries" in page(cluster), "a page with a database behind it", 120)
    with cluster.client() as client:
        assert len({place.node for place in client.resolve("web")}) == 3, "on different nodes"
        home = client.resolve("db")[0].node
    assert applied(cluster) == {"db": "unchanged", "worker": "unchanged", "web": "unchanged"}
    assert pwd.getpwuid(Path(f"/proc/{pids(cluster, 'bin/postgres')[0]}").stat().st_uid).pw_name == "postgres"

    with Visitors(cluster) as visitors:
        # Scaled.
        assert cluster.cress("scale", "web", "4").returncode == 0
        wait_until(lambda: greeted(cluster, "Hello!", 4), "a fourth task")

        # Updated, one after the other.
        visitors.fewest = 10**6
        assert applied(cluster, **{"GREETING: Hello": "GREETING: Welcome", "tasks: 3": "tasks: 4"})["web"] == "updated"
        wait_until(lambda: greeted(cluster, "Welcome!", 4), "the new version", 120)
        assert visitors.fewest >= 3, "at most one was out"

        # A version that does not come up: the service returns to the one before.
        broken = {
            "GREETING: Hello": "GREETING: Broken",
            "tasks: 3": "tasks: 4",
            "[python3, web.py]": "[python3, webb.py]",
        }
        assert applied(cluster, **broken)["web"] == "updated"
        wait_until(lambda: service(cluster)["service"]["returned"], "the return", 120)
        wait_until(lambda: greeted(cluster, "Welcome!", 4), "the version before", 120)
        assert visitors.fewest >= 3, "at most one was out"

        # Killed piece by piece.
        os.kill(pids(cluster, "web.py")[0], signal.SIGKILL)
        wait_until(lambda: greeted(cluster, "Welcome!", 4), "four again")
        os.kill(pids(cluster, "worker.py")[0], signal.SIGKILL)
        cluster.kill_center()
        cluster.start_center()
        before = pids(cluster, "bin/postgres")[0]
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: "entries" in page(cluster) and pids(cluster, "bin/postgres")[0] != before, "a database again", 120
        )
        cluster.executors["n2"].kill()  # an agent: its tasks do not notice
        cluster.executors["n2"].wait()
        wait_until(lambda: len(visitors.signed) and page(cluster), "pages")
        wait_until(lambda: pids(cluster, "worker.py"), "a worker again")
        start_executor(cluster, "n2")

    with cluster.client() as client:
        assert client.resolve("db")[0].node == home, "a database returns to its node"
    assert visitors.unanswered == []
    assert visitors.pages > 20
    count = int(page(cluster).split()[1])
    assert count >= len(visitors.signed) > 0, "what was confirmed is there"
    assert len(set(visitors.signed)) == len(visitors.signed)

    for name in ("web", "worker", "db"):
        assert cluster.cress("cancel", name).returncode == 0
    wait_until(lambda: not pids(cluster, "web.py") and not pids(cluster, "bin/postgres"), "the end of all tiers", 120)
