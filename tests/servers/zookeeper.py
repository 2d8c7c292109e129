"""Real ZooKeeper servers, from Debian's package, on loopback."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.ports import free_ports

_JARS = "/etc/zookeeper/conf:/usr/share/java/*"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def is_missing() -> str:
    """Return why there can be no server here, empty if there can."""
    if shutil.which("java") is None or not Path("/usr/share/java/zookeeper.jar").exists():
        return "no ZooKeeper (apt install zookeeper): the store was not tried on it"
    return ""


def command(file: str) -> list[str]:
    """Return the command of a server with this configuration file."""
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", _JARS, _MAIN, file]


class Ensemble:
    """``count`` servers whose files are in ``folder``; ``hosts`` is what clients are given."""

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        tick: int = 500,
        addresses: Sequence[str] = (),
        begin: Callable[[int], Sequence[str]] = lambda _: (),
        sync_limit: int = 8,
    ) -> None:
        """``tick``: ms, in whole numbers of which sessions end. ``addresses`` are those of the servers, ``begin`` what
        their commands begin with. After ``sync_limit`` ticks servers give each other up.
        """
        if why := is_missing():
            pytest.skip(why)
        self._folder, self._begin = folder, begin
        ports = free_ports(3 * count)
        addresses = addresses or ["127.0.0.1"] * count
        self._clients, peers = list(zip(addresses, ports[:count], strict=True)), ports[count:]
        self.hosts = ",".join(f"{address}:{port}" for address, port in self._clients)
        for number, (address, port) in enumerate(self._clients, 1):
            data = folder / str(number)
            data.mkdir(parents=True)
            lines = [
                f"tickTime={tick}",
                "initLimit=20",
                f"syncLimit={sync_limit}",
                f"dataDir={data}",
                f"clientPort={port}",
                f"clientPortAddress={address}",
                "admin.enableServer=false",
                "4lw.commands.whitelist=srvr,mntr",
                "minSessionTimeout=1000",
            ]
            if count > 1:
                (data / "myid").write_text(f"{number}\n")
                pairs = zip(peers[::2], peers[1::2], strict=True)
                places = enumerate(zip(addresses, pairs, strict=True), 1)
                lines += [f"server.{each}={place}:{a}:{b}" for each, (place, (a, b)) in places]
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
            words = [*self._begin(number), *command(str(data / "zoo.cfg"))]
            self.servers[number] = subprocess.Popen(words, stdout=out, stderr=out)

    def signal(self, number: int, which: signal.Signals) -> None:
        server = self.servers[number]
        assert server is not None
        os.kill(server.pid, which)

    def kill(self, number: int) -> None:
        self.signal(number, signal.SIGKILL)
        server, self.servers[number] = self.servers[number], None
        assert server is not None
        server.wait()

    def modes(self) -> list[str]:
        """Return what each server is to the others: leader, follower, or empty for one that does not serve."""
        told = (re.search(rb"Mode: (\w+)", _asked(place)) for place in self._clients)
        return ["" if found is None else found[1].decode() for found in told]

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        waiting = set(self._clients)
        while waiting:
            assert time.monotonic() < deadline, "ZooKeeper does not come up"
            waiting -= {place for place in waiting if b"Mode:" in _asked(place)}
            time.sleep(0.1)

    def close(self) -> None:
        for number, server in enumerate(self.servers):
            if server is not None:
                self.signal(number, signal.SIGCONT)
                self.kill(number)


def _asked(place: tuple[str, int]) -> bytes:
    try:
        with socket.create_connection(place, 1) as wire:
            wire.sendall(b"srvr")
            return wire.recv(4096)
    except OSError:
        return b""
