"""Hosts of a small network: each is a network namespace with an address of its own, behind one switch."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

# Nobody has this address: what is sent there is lost without a word.
_NOWHERE = "02:00:00:00:00:fe"
# What a lossy host loses of the packets that it sends, and of those that it gets.
LOSS = 0.2


def is_missing() -> str:
    """Return why there can be no such hosts here, empty if there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2: centers on hosts of their own were not tried"
    # Another test process may try at the same moment.
    name = f"cress-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return f"no network namespaces here: {tried.stderr.decode().strip()}" if tried.returncode else ""


class Network:
    """Hosts ``names``, and this process as a further one."""

    def __init__(self, names: Sequence[str]) -> None:
        if why := is_missing():
            pytest.skip(why)
        self.names = list(names)
        self._mark = f"c{os.getpid() % 100000}"
        # Several test processes have networks side by side.
        self._net = f"10.96.{os.getpid() % 250}"
        self.close()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        switch = f"{self._mark}s"
        _ip("link", "add", "dev", switch, "type", "bridge")
        _ip("address", "add", f"{self._net}.1/24", "dev", switch)
        _ip("link", "set", switch, "up")
        for name in self.names:
            outer, space = self._outer(name), self._space(name)
            _ip("netns", "add", space)
            _ip("link", "add", "dev", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", switch, "up")
            _ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            for each in ("lo", "eth0"):
                _ip("-n", space, "link", "set", each, "up")

    def address(self, name: str) -> str:
        return f"{self._net}.{10 + self.names.index(name)}"

    def begin(self, name: str) -> list[str]:
        """What a command begins with that runs on a host."""
        return ["nsenter", f"--net=/run/netns/{self._space(name)}", "--"]

    def cut(self, name: str, how: str) -> None:
        """Cut a host off: ``both`` ways, only what it sends (``out``), or only what it gets (``in``); ``lossy``: by
        chance.
        """
        if how == "both":
            _ip("link", "set", self._outer(name), "down")
            return
        if how == "lossy":
            self._lose(name)
            return
        for other in self.names:
            if other != name:
                lost, sender = (self.address(other), name) if how == "out" else (self.address(name), other)
                where = ("neigh", "replace", lost, "lladdr", _NOWHERE, "nud", "permanent", "dev", "eth0")
                _ip("-n", self._space(sender), *where)

    def _lose(self, name: str) -> None:
        """Drop a part of the packets by chance: a filter of four instructions, where kernels may have no ``netem``."""
        least = int(LOSS * 2**32)
        # Load a random number; if it is at least this, accept (0), else drop (2).
        program = f"4,32 0 0 4294963256,53 0 1 {least},6 0 0 0,6 0 0 2"
        _tc("qdisc", "add", "dev", self._outer(name), "clsact")
        for way in ("ingress", "egress"):
            _tc("filter", "add", "dev", self._outer(name), way, "bpf", "da", "bytecode", program)

    def heal(self) -> None:
        """Connect everybody again."""
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                _tc("qdisc", "del", "dev", self._outer(name), "clsact")
            _ip("link", "set", self._outer(name), "up")
            _ip("-n", self._space(name), "neigh", "flush", "all", "nud", "permanent")
            _ip("-n", self._space(name), "neigh", "flush", "all")

    def processes(self, name: str) -> list[int]:
        """Return the processes that run on a host."""
        space = Path(f"/run/netns/{self._space(name)}").stat().st_ino
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/net").stat().st_ino == space:
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._space(name))
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", f"{self._mark}s")

    def _space(self, name: str) -> str:
        return f"{self._mark}-{name}"

    def _outer(self, name: str) -> str:
        return f"{self._mark}{name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True, capture_output=True)
