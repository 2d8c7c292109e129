"""Real ZooKeeper servers, from Debian's package, on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

_JARS = "/etc/zookeeper/conf:/usr/share/java/*"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def is_missing() -> str:
    """Return why there can be no server here, empty if there can."""
    if shutil.which("java") is None or not Path("/usr/share/java/zookeeper.jar").exists():
        return "no ZooKeeper (apt install zookeeper): the store was not tried on it"
    return ""


class Ensemble:
    """``count`` servers whose files are in ``folder``; ``hosts`` is what clients are given."""

    def __init__(self, folder: Path, count: int = 1) -> None:
        if why := is_missing():
            pytest.skip(why)
        self._folder = folder
        ports = _free_ports(3 * count)
        self._clients, peers = ports[:count], ports[count:]
        self.hosts = ",".join(f"127.0.0.1:{port}" for port in self._clients)
        for number, port in enumerate(self._clients, 1):
            data = folder / str(number)
            data.mkdir(parents=True)
            lines = [
                "tickTime=500",
                "initLimit=20",
                "syncLimit=8",
                f"dataDir={data}",
                f"clientPort={port}",
                "clientPortAddress=127.0.0.1",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr,mntr",
                "minSessionTimeout=1000",
            ]
            if count > 1:
                (data / "myid").write_text(f"{number}\n")
                pairs = zip(peers[::2], peers[1::2], strict=True)
                lines += [f"server.{each}=127.0.0.1:{a}:{b}" for each, (a, b) in enumerate(pairs, 1)]
            (data / "zoo.cfg").write_text("\n".join(lines) + "\n")
        self.servers: list[subprocess.Popen[bytes] | None] = [None] * count
        for number in range(count):
            self.start(number)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def start(self, number: int) -> None:
        data = self._folder / str(number + 1)
        with (data / "out").open("ab") as out:
            command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", _JARS, _MAIN]
            self.servers[number] = subprocess.Popen([*command, str(data / "zoo.cfg")], stdout=out, stderr=out)

    def signal(self, number: int, which: signal.Signals) -> None:
        server = self.servers[number]
        assert server is not None
        os.kill(server.pid, which)

    def kill(self, number: int) -> None:
        self.signal(number, signal.SIGKILL)
        server, self.servers[number] = self.servers[number], None
        assert server is not None
        server.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        waiting = set(self._clients)
        while waiting:
            assert time.monotonic() < deadline, "ZooKeeper does not come up"
            waiting -= {port for port in waiting if b"Mode:" in _asked(port)}
            time.sleep(0.1)

    def close(self) -> None:
        for number, server in enumerate(self.servers):
            if server is not None:
                self.signal(number, signal.SIGCONT)
                self.kill(number)


def _asked(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as wire:
            wire.sendall(b"srvr")
            return wire.recv(4096)
    except OSError:
        return b""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
