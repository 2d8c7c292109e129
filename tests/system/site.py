"""A whole cluster on hosts of a small network: the servers of the store, three centers, executors.

Each host can be struck.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cress.client import Client, ClientError, Unreachable
from tests.servers.postgresql import PostgreSql
from tests.servers.zookeeper import Ensemble
from tests.system.cluster import wait_until
from tests.system.namespaces import Network

# The hosts of the servers of each kind of store.
SERVERS = {"zookeeper": ("z1", "z2", "z3"), "postgresql": ("p1",)}
CENTERS = ("c1", "c2", "c3")
CUTS = ("both", "in", "out", "lossy")
# ``kill``: the program, of an executor without its tasks; ``crash``: all that runs on the host. The drive of faults
# also stops all that runs on the host of an executor (``freeze``).
FAULTS = ("kill", "sleep", "crash", *CUTS)
TERM, MARGIN = 6.0, 1.0


class Site:
    """All of it, on this computer."""

    def __init__(self, executors: int, store: str = "zookeeper", tick: int = 250, sync_limit: int = 8) -> None:
        """``tick`` (ms) and ``sync_limit`` (ticks) are settings of ZooKeeper."""
        self.executors = [f"x{number}" for number in range(1, executors + 1)]
        self.servers = SERVERS[store]
        self.network = Network([*self.servers, *CENTERS, *self.executors])
        self._tick, self._sync_limit = tick, sync_limit
        self.folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
        self.folder.chmod(0o755)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.token = ""
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        self._serve()
        for name in (*CENTERS, *self.executors):
            self.start(name)
            if name == "c1":
                self.token = wait_until(self._token, "a token")
        wait_until(self._is_complete, "all nodes")

    def _serve(self) -> None:
        """Start the servers of the store."""
        names = self.servers
        addresses = [self.network.address(name) for name in names]
        if names == SERVERS["postgresql"]:
            self.database = PostgreSql(addresses[0], self.network.begin(names[0]))
            self.store = self.database.database()
            return
        begin = [self.network.begin(name) for name in names]
        self.ensemble = Ensemble(
            self.folder / "zk", 3, self._tick, addresses, begin.__getitem__, sync_limit=self._sync_limit
        )
        self.store = f"zookeeper://{self.ensemble.hosts}/cress?session=2"

    def _token(self) -> str:
        path = self.folder / "c1" / "token"
        return path.read_text().strip() if path.exists() else ""

    def _is_complete(self) -> bool:
        # A client costs some 30 ms of the processor that the centers start on.
        time.sleep(0.3)
        with contextlib.suppress(ClientError), self.client() as client:
            return {node.state for node in client.nodes()} == {"up"} and len(client.nodes()) == len(self.executors)
        return False

    def start(self, name: str) -> None:
        data = self.folder / name
        data.mkdir(mode=0o700, exist_ok=True)
        if name in CENTERS:
            if name != "c1" and not (data / "token").exists():
                shutil.copy(self.folder / "c1" / "token", data / "token")
            words = ["center", "--host", self.network.address(name), "--insecure", "--store", self.store]
            words += ["--history", f"sqlite:///{self.folder}/history.db"]
            words += ["--option", f"term={TERM:.0f}s", "--option", f"term_margin={MARGIN:.0f}s"]
        else:
            urls = ",".join(f"ws://{self.network.address(each)}:7412" for each in CENTERS)
            words = ["executor", "--name", name, "--center", urls, "--token-file", str(self.folder / "c1" / "token")]
            words += ["--resource", "<4, 4G>", "--no-overload", "--no-discovery"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*self.network.begin(name), sys.executable, "-m", "cress", *words, "--data", str(data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "CRESS_DATA": str(data), "PYTHONFAULTHANDLER": "1"},
                start_new_session=True,
            )

    @property
    def urls(self) -> list[str]:
        """The addresses of the centers."""
        return [f"http://{self.network.address(name)}:7411" for name in CENTERS]

    def client(self) -> Client:
        """A client of the first center that answers."""
        for url in self.urls:
            client = Client(url, self.token, timeout=5)
            try:
                client.health()
            except ClientError:
                client.close()
            else:
                return client
        raise Unreachable("no center answers")

    def strike(self, name: str, how: str) -> None:
        """Do this to a host."""
        if how in CUTS:
            self.network.cut(name, how)
        elif how == "freeze":
            for pid in self.network.processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        elif how == "crash" and name in self.executors:
            for _ in range(3):
                for pid in self.network.processes(name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            self.processes[name].wait()
        elif name in self.servers:
            self._strike_server(self.servers.index(name), how)
        elif how in ("kill", "crash"):
            self._each(name, signal.SIGKILL)
            self.processes[name].wait()
        else:
            self._each(name, signal.SIGSTOP)

    def heal(self, name: str, how: str) -> None:
        """Undo it; all cuts end together."""
        if how in CUTS:
            self.network.heal()
        elif how == "freeze":
            for pid in sorted(self.network.processes(name)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        elif name in self.servers:
            self._heal_server(self.servers.index(name), how)
        elif how in ("kill", "crash"):
            self.start(name)
        else:
            self._each(name, signal.SIGCONT)

    def _strike_server(self, number: int, how: str) -> None:
        if hasattr(self, "database"):
            self.database.kill() if how != "sleep" else self.database.signal(signal.SIGSTOP)
        elif how == "sleep":
            self.ensemble.signal(number, signal.SIGSTOP)
        else:
            self.ensemble.kill(number)

    def _heal_server(self, number: int, how: str) -> None:
        if hasattr(self, "database"):
            self.database.start() if how != "sleep" else self.database.signal(signal.SIGCONT)
        elif how == "sleep":
            self.ensemble.signal(number, signal.SIGCONT)
        else:
            self.ensemble.start(number)

    def leader(self) -> str:
        """Return the host of the center that leads, empty if none says so."""
        for name, url in zip(CENTERS, self.urls, strict=True):
            with contextlib.suppress(ClientError), Client(url, self.token, timeout=1) as client:
                if any(center.leads and center.here for center in client.centers().centers):
                    return name
        return ""

    def servers_leader(self) -> str:
        """Return the host of the server that leads the others; that of the only one."""
        if hasattr(self, "database"):
            return self.servers[0]
        return next(
            (name for name, mode in zip(self.servers, self.ensemble.modes(), strict=True) if mode == "leader"), ""
        )

    def _each(self, name: str, number: signal.Signals) -> None:
        """Signal a center, or the agent of an executor; its supervisor and the tasks stay."""
        pids = [self.processes[name].pid]
        if name not in CENTERS:
            with contextlib.suppress(OSError, ValueError, StopIteration):
                lock = next((self.folder / name).rglob("agent.lock"))
                pids.append(int(lock.read_text()))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def last_words(self, lines: int = 120) -> str:
        """What the centers said last, and who answers for whom."""
        said = [f"now {time.strftime('%T')}"]
        for name, url in zip(CENTERS, self.urls, strict=True):
            try:
                with Client(url, self.token, timeout=5) as client:
                    client.health()
                    said.append(f"{url}: {client.centers()}")
            except ClientError as error:
                said.append(f"{url}: {error}")
            # Then it tells what each of its threads does.
            self._each(name, signal.SIGABRT)
        time.sleep(1)
        for name in CENTERS:
            tail = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-lines:]
            said += [f"--- {name}", *tail]
        return "\n".join(said)

    def close(self) -> None:
        self.network.heal()
        for _ in range(3):
            for name in self.network.names:
                for pid in self.network.processes(name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        for process in self.processes.values():
            process.wait()
        if hasattr(self, "ensemble"):
            self.ensemble.close()
        if hasattr(self, "database"):
            self.database.remove()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)
