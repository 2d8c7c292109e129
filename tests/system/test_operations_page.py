"""``docs/operations.md`` done as it stands there: three machines (namespaces of network, mounts and host name) from
nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.servers import zookeeper
from tests.system.cluster import wait_until
from tests.system.namespaces import Network

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text()
NAMES = ("m1", "m2", "m3")
# Folders of the page that each machine has for itself.
OWN = ("/etc/cress", "/var/lib/cress", "/var/lib/cress-executor", "/var/lib/zookeeper")
# What a machine does first: these folders and its hosts file in the places of the computer's, and its name.
ENTER = (
    "cd {0}; for each in {1}; do mount --bind .$each $each; done; mount --bind hosts /etc/hosts; hostname {2}; cd /; "
)


def block(kind: str, having: str) -> str:
    """Return the block of the page in which these words are."""
    found = [text for text in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) if having in text]
    (text,) = found
    return textwrap.dedent(text)


def unit(name: str) -> tuple[list[str], dict[str, str]]:
    """Return what a unit of systemd starts, and its environment."""
    text = (ROOT / f"examples/systemd/cress-{name}.service").read_text()
    started = re.findall(r"^ExecStart=/opt/cress/bin/(.*)$", text, re.MULTILINE)[0].split()
    return started, dict(each.split("=", 1) for each in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))


class Machine:
    """One machine; ``folder`` has its own folders, ``hosts`` is its file of that name."""

    def __init__(self, name: str, network: Network, folder: Path, hosts: str) -> None:
        self.name, self.folder, self._network = name, folder / name, network
        for each in OWN:
            self.place(each).mkdir(parents=True, mode=0o700)
        (self.folder / "hosts").write_text(hosts)
        enter = ENTER.format(self.folder, " ".join(OWN), name)
        inside = ["unshare", "--mount", "--uts", "sh", "-ec", f'{enter}exec "$@"', "sh"]
        self._begin = [*network.begin(name), *inside]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("CRESS_")}

    def place(self, path: str) -> Path:
        """Return where a path of this machine is."""
        return self.folder / path.removeprefix("/")

    def spawn(self, words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a program; what it says goes to a file."""
        words = [sys.executable, "-m", *words] if words[0] == "cress" else words
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*self._begin, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment | (environment or {}),
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def unit(self, name: str) -> subprocess.Popen[bytes]:
        """Start what a unit of systemd does."""
        return self.spawn(*unit(name))

    def status(self) -> str:
        """Return what ``cress status`` says, once it can."""
        with contextlib.suppress(AssertionError):
            return self.cress("status")
        return ""

    def cress(self, *words: str) -> str:
        """Run a command as root, who has the center's data directory; return what it says."""
        done = subprocess.run(
            [*self._begin, sys.executable, "-m", "cress", *words],
            capture_output=True,
            text=True,
            check=False,
            env=self._environment | {"CRESS_DATA": "/var/lib/cress"},
            timeout=120,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Three machines with ZooKeeper, by the first step of the page."""
    if why := zookeeper.is_missing():
        pytest.skip(why)
    made = [Path(each) for each in OWN if not Path(each).exists()]
    for each in made:
        each.mkdir(parents=True)
    network = Network(NAMES)
    hosts = "127.0.0.1 localhost\n" + "".join(f"{network.address(name)} {name}\n" for name in NAMES)
    machines = {name: Machine(name, network, tmp_path, hosts) for name in NAMES}
    try:
        for number, machine in enumerate(machines.values(), 1):
            folder = machine.place("/var/lib/zookeeper")
            (folder / "myid").write_text(f"{number}\n")
            # No page for its administrator on a fixed port of the test's computer.
            (folder / "zoo.cfg").write_text(f"{block('ini', 'tickTime')}admin.enableServer=false\n")
            machine.spawn(zookeeper.command("/var/lib/zookeeper/zoo.cfg"))
        yield machines
    finally:
        for _ in range(3):
            for name in NAMES:
                for pid in network.processes(name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        for process in (each for machine in machines.values() for each in machine.processes):
            process.wait()
        network.close()
        for each in made:
            each.rmdir()


def _shows(machine: Machine, what: str) -> bool:
    return what in machine.status()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_machines_from_nothing(machines: dict[str, Machine]) -> None:
    m1, m2, m3 = machines.values()

    # Step 3: certificates and the token.
    m1.cress(*"tls init --name m1 --name m2 --name m3 --data /var/lib/cress".split())
    for other in (m2, m3):
        shutil.copytree(m1.place("/var/lib/cress/tls"), other.place("/var/lib/cress/tls"))

    # Step 4: the centers. The history of the example needs a database; without it each has its own.
    centers = {}
    for machine in machines.values():
        text = re.sub(r"^history.*\n", "", block("toml", "store ="), flags=re.MULTILINE)
        machine.place("/etc/cress/center.toml").write_text(text.replace('"m1"', f'"{machine.name}"'))
        assert "(center): no mistakes" in machine.cress("config", "check")
        if machine is not m1:
            shutil.copy(m1.place("/var/lib/cress/token"), machine.place("/var/lib/cress/token"))
        centers[machine.name] = machine.unit("center")
        wait_until(machine.place("/var/lib/cress/token").exists, "a token")
        wait_until(partial(_shows, machine, machine.name), "the center")
    wait_until(lambda: m1.status().count("stands by") == 2, "two centers that stand by")
    assert re.search(r"Center +https://m1:7411", m1.status())

    # Step 5: the executors.
    for machine in machines.values():
        m1.cress("tls", "issue", machine.name, "--out", f"/etc/cress/{machine.name}.tls", "--data", "/var/lib/cress")
        bundle = m1.place(f"/etc/cress/{machine.name}.tls")
        shutil.move(bundle, machine.place("/etc/cress/node.tls"))
        machine.place("/etc/cress/executor.toml").write_text(
            # However busy the test's computer is.
            block("toml", "center = [") + "no-overload = true\n"
        )
        assert machine.cress("config", "check").count(": no mistakes\n") == 2
        machine.unit("executor")
    wait_until(lambda: "3 of 3" in m1.status(), "all nodes")

    # Step 6: users.
    assert "cress_" in m1.cress("token", "create", "laptop", "--user", "ann")
    assert "hello" in m2.cress("run", "--resource", "<0.1, 16M>", "echo", "hello")

    # A gap-free upgrade, beside a task that runs on.
    (m1.folder / "long.yaml").write_text("name: long\nresource: <0.1, 16M>\ncommand: sleep 1000\n")
    m1.cress("submit", str(m1.folder / "long.yaml"))
    m1.cress("center", "--hand-over")
    (leader,) = wait_until(lambda: re.findall(r"https://(m[23]):7411 leads", m1.status()), "another leader")
    m1.cress("store", "backup", "/var/lib/cress/before.db", "--store", "zookeeper://m1,m2,m3/cress")
    centers["m1"].send_signal(signal.SIGTERM)
    assert centers["m1"].wait(60) == 0
    centers["m1"] = m1.unit("center")
    m2.cress("nodes", "drain", "m3", "--deadline", "10m")
    assert set(re.findall(r"\bm[123]\b", m2.cress("nodes", "--where", "Cress < 99"))) == set(NAMES)

    # What fails: the leader dies, and nobody does anything.
    centers[leader].send_signal(signal.SIGKILL)
    other = next(machine for machine in (m2, m3) if machine.name != leader)
    assert "again" in other.cress("run", "--resource", "<0.1, 16M>", "echo", "again")
    assert "running" in other.cress("jobs", "--name", "long")
