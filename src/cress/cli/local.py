"""A center and executors as local processes, for ``cress up`` and ``cress demo``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from cress.model.node import DYNAMIC_PORTS
from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.setting import Defaults

DEFAULT = Defaults(CENTER_SETTINGS)

# Most seconds until the center listens, and until the executors have joined.
PATIENCE = 180.0
# Most seconds from the stop order to the end of all programs.
STOP_WITHIN = 9.0
# Least seconds between two starts of a program that ends by itself. A portal that ends earlier than this cannot run.
RESTART_AFTER, PORTAL_AGAIN_AFTER = 0.5, 10.0
PORTAL = "portal"


if TYPE_CHECKING:
    from cress.client import Client

_T = TypeVar("_T")
# The names of executors of local clusters.
EXECUTOR = re.compile(r"node[1-9][0-9]*")


class NotStarted(Exception):
    """Error: a program of the cluster ended instead of starting; ``code`` is the exit code.

    The sentence is empty if the program itself has printed its error on standard error.
    """

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Endpoint(msgspec.Struct):
    """The address of the center, as stored in ``center.json``."""

    url: str
    executor_url: str
    pid: int
    socket: str
    executor_socket: str


@dataclass(frozen=True, kw_only=True)
class LocalSetup:
    """The local cluster to start.

    ``resource`` is the resource of each executor; ``""``: its share of this machine. ``racks`` are those of the
    executors in their order, if any. ``center`` are further arguments for the command of the center, ``executor`` those
    for the command of each executor, ``portal`` those for the command of the portal; None: there is no portal.
    """

    data: Path
    host: str = DEFAULT.host
    port: int = 0
    executors: int = 1
    resource: str = ""
    racks: Sequence[str] = ()
    center: Sequence[str] = ()
    executor: Sequence[str] = ()
    portal: Sequence[str] | None = None


@dataclass
class _Child:
    """A program that should run; ``since`` is its start, on the monotonic clock."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes]
    since: float = field(default_factory=time.monotonic)

    @property
    def code(self) -> int | None:
        return self.process.poll()


class LocalCluster:
    """Starts the programs of a cluster on this machine, restarts them when they die, and stops them.

    Each child has a session of its own, so that Ctrl-C reaches only this process. It also has the reading end of a
    pipe: when this process is killed, center and agents see its end and leave, while tasks go on under their
    supervisors.
    """

    def __init__(self, setup: LocalSetup, say: Callable[[str], None]) -> None:
        self.setup = setup
        self._say = say
        self._children: list[_Child] = []
        self.endpoint: Endpoint | None = None

    def start(self) -> Endpoint:
        """Start everything and wait until all executors have joined. Raise ``NotStarted`` if a program ends instead."""
        setup = self.setup
        setup.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.endpoint = self._endpoint_of(self._spawn("center", self._center()))
        for name in self.names:
            self._spawn(name, self._executor(name))
        self._wait_for_nodes()
        self._forget_earlier()
        if setup.portal is not None:
            # It starts last: the cluster does not wait for it.
            self._spawn(PORTAL, ["portal", "--data", str(setup.data), *setup.portal])
        return self.endpoint

    @property
    def names(self) -> list[str]:
        """Return the names of the executors."""
        return [f"node{i}" for i in range(1, self.setup.executors + 1)]

    def client(self) -> Client:
        """Return a client of the center."""
        from cress.client import Client

        assert self.endpoint is not None
        return Client(self.endpoint.url, self.token, socket=self.setup.data / self.endpoint.socket)

    @property
    def token(self) -> str:
        """Return the token for calls to the center."""
        return (self.setup.data / "token").read_text().strip()

    def check(self) -> None:
        """Restart programs that have ended by themselves; called at intervals."""
        for child in list(self._children):
            code = child.code
            if code is None or time.monotonic() - child.since < RESTART_AFTER:
                continue
            self._children.remove(child)
            if child.name == PORTAL and time.monotonic() - child.since < PORTAL_AGAIN_AFTER:
                self._say(f"the portal ended ({_how(code)}); the cluster goes on without it")
                continue
            self._say(f"{child.name} ended ({_how(code)}); starting it again")
            if child.name == "center":
                self.endpoint = self._endpoint_of(self._spawn(child.name, self._center()))
            else:
                self._spawn(child.name, child.command)

    def portal_link(self) -> str | None:
        """Return a link that opens the portal signed in; None while it does not listen, or if there is none."""
        portal = next((child for child in self._children if child.name == PORTAL), None)
        if portal is None or portal.code is not None:
            return None
        from cress.cli.portal import new_link

        return new_link(self.setup.data, portal.process.pid)

    def read_again(self) -> None:
        """Order the center to read its files again."""
        for child in self._children:
            if child.name == "center" and child.code is None:
                child.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Stop the executors (their tasks get their grace), then the center; all within ten seconds."""
        deadline = time.monotonic() + STOP_WITHIN
        center = [child for child in self._children if child.name == "center"]
        agents = [child for child in self._children if child.name != "center"]
        try:
            # The center stays until the executors have reported the ends of their tasks.
            self._end(agents, deadline - 2)
            self._end(center, deadline)
        finally:
            # A second request stops at once.
            for child in self._children:
                if child.code is None:
                    child.process.kill()
            self._children.clear()

    def _end(self, children: list[_Child], deadline: float) -> None:
        for child in children:
            child.process.send_signal(signal.SIGTERM)
        for child in children:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(f"{child.name} did not stop in time and was killed")
                child.process.kill()
                child.process.wait()
            if child.process.stdin is not None:
                child.process.stdin.close()

    def _center(self) -> list[str]:
        setup, ports = self.setup, [self.setup.port, 0]
        if self.endpoint is not None:
            # Executors and clients know the previous address.
            urls = urlsplit(self.endpoint.url), urlsplit(self.endpoint.executor_url)
            ports = [url.port or 0 for url in urls]
        # Without files: `cress up` defines this cluster, whatever other programs run on this machine.
        command = ["center", "--config", "", "--data", str(setup.data), "--host", setup.host]
        return [*command, "--port", str(ports[0]), "--executor-port", str(ports[1]), *setup.center]

    def _executor(self, name: str) -> list[str]:
        assert self.endpoint is not None
        setup = self.setup
        # A socket in the data directory is safe from others, while anyone can take the port when the center is down.
        center = f"unix:{setup.data.absolute() / self.endpoint.executor_socket}"
        command = ["executor", "--config", "", "--center", center, "--token-file", str(setup.data / "token")]
        command += ["--name", name, "--data", str(self._folder(name))]
        command += ["--resource", setup.resource or _part_of_this_machine(setup.executors)]
        number = self.names.index(name)
        command += ["--ports", _part_of_the_ports(number, setup.executors)]
        if setup.racks:
            command += ["--rack", setup.racks[number]]
        # Its executors share this machine, so the measured load says nothing about one of them.
        return [*command, "--no-overload", "--no-discovery", *setup.executor]

    def _spawn(self, name: str, arguments: list[str]) -> _Child:
        process = subprocess.Popen(
            [sys.executable, "-m", "cress", *arguments, "--parent-pipe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        child = _Child(name, arguments, process)
        self._children.append(child)
        return child

    def _endpoint_of(self, center: _Child) -> Endpoint:
        """Return the address of this center once it listens."""
        path = self.setup.data / "center.json"

        def read() -> Endpoint | None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                endpoint = msgspec.json.decode(path.read_bytes(), type=Endpoint)
                if endpoint.pid == center.process.pid:
                    return endpoint
            return None

        return _wait([center], read, "the center does not listen")

    def _wait_for_nodes(self) -> None:
        with self.client() as client:

            def joined() -> bool | None:
                up = {node.name for node in client.nodes() if node.state != "away"}
                return up.issuperset(self.names) or None

            _wait(self._children, joined, "the executors do not join")

    def _forget_earlier(self) -> None:
        """Forget the executors of an earlier start with more of them, unless tasks may still run there."""
        from cress.client import ClientError

        with self.client() as client:
            for node in client.nodes():
                earlier = EXECUTOR.fullmatch(node.name) and node.name not in self.names
                if earlier and node.state == "away" and not node.running and self._folder(node.name).is_dir():
                    # It may come back, or get a task of the center's, at this very moment.
                    with contextlib.suppress(ClientError):
                        client.forget(node.name)

    def _folder(self, name: str) -> Path:
        """Return the data directory of an executor."""
        return self.setup.data / "executors" / name


def _wait(children: Iterable[_Child], look: Callable[[], _T | None], what: str) -> _T:
    """Poll every few milliseconds until the condition holds, a child ends or the time is over."""
    deadline = time.monotonic() + PATIENCE
    while (seen := look()) is None:
        for child in children:
            code = child.code
            if code is not None:
                # It has printed the reason on standard error, which this process shares.
                raise NotStarted("", code if code > 0 else 1)
        if time.monotonic() > deadline:
            raise NotStarted(f"{what} after {PATIENCE:.0f} s", 1)
        time.sleep(0.02)
    return seen


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _part_of_the_ports(number: int, executors: int) -> str:
    """Return the dynamic ports of one of ``executors`` executors that share the network of this machine."""
    first, last = DYNAMIC_PORTS
    size = (last - first + 1) // executors
    return f"{first + number * size}-{first + (number + 1) * size - 1}"


def _part_of_this_machine(executors: int) -> str:
    """Return the resource of one of ``executors`` executors that share this machine."""
    cores = max(1, len(os.sched_getaffinity(0)) // executors)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // executors // 2**20
    return f"<{cores}, {memory}M>"
