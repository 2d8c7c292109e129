"""A real center in a process of its own, and a small executor that speaks its protocol over a real socket."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from cress.model.reports import Cause, Ended, Report, Started
from cress.protocol import messages
from cress.protocol.messages import Durable, Hello, Launch, Launches, LogData, ReadLog, Reports, Stops, Welcome
from cress.protocol.proof import HEADER, NONCE, ExecutorProof
from tests import waiting
from tests.forked import Forked

PATIENCE = waiting.PATIENCE

_PROGRAM = """
import sys
from pathlib import Path
from cress.center import run
from cress.model.access import Visibility
from cress.center.settings import CenterSettings
from cress.model.resources import Dimensions
data, port, pipe, host, option, dimension, topology, groups, zone, socket, visibility, store, files, more = sys.argv[1:]
if files:
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
sys.exit(run.run_center(CenterSettings(
    data=Path(data), port=int(port), parent_pipe=pipe == "pipe", host=host,
    options=tuple(option.split()), dimensions=Dimensions((dimension,) if dimension else ()),
    topology=Path(topology) if topology else None, groups=Path(groups) if groups else None, zone=zone,
    socket=Path(socket) if socket else None, visibility=Visibility(visibility or "all"), store=store,
    secrets_key=Path(data).with_name(Path(data).name + "-keys") / "secrets.key",
    **eval(f"dict({more})"),
)))
"""


def eventually(what: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What the function gives as soon as it is true; fails when that takes too long."""
    return waiting.wait_until(what, patience=patience)


def run_to_end(
    data: Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    option: str = "",
    dimension: str = "",
    topology: str = "",
    groups: str = "",
    zone: str = "",
) -> subprocess.CompletedProcess[str]:
    """A center that is expected to end by itself."""
    words = [str(data), str(port), "", host, option, dimension, topology, groups, zone, "", "", "", "", ""]
    with tempfile.TemporaryDirectory() as folder:
        process = Forked(_PROGRAM, words, Path(folder, "said"))
        _, said = process.communicate(PATIENCE)
    return subprocess.CompletedProcess(words, process.wait(), "", said)


def give_token(data: Path) -> None:
    """Give a data directory the token that the centers of a shared store have in common, unless it has one."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (data / "token").exists():
        (data / "token").write_text("of-the-whole-cluster-" + "x" * 20 + "\n")
        (data / "token").chmod(0o600)


class Center:
    """A center on ``data``; ends with the ``with``. ``forked``: from a process that has imported it already."""

    def __init__(
        self,
        data: Path,
        *,
        pipe: bool = False,
        forked: bool = False,
        option: str = "",
        dimension: str = "",
        topology: str = "",
        groups: str = "",
        zone: str = "",
        socket: str = "",
        visibility: str = "",
        store: str = "",
        files: int = 0,
        more: str = "",
        standby: bool = False,
    ) -> None:
        """``files``: most open files; ``more``: further settings, as keyword arguments."""
        self.data = data
        if store:
            give_token(data)
        end = "pipe" if pipe else ""
        given = (option, dimension, topology, groups, zone, socket, visibility, store, str(files or ""), more)
        words = [str(data), "0", end, "127.0.0.1", *given]
        self.process: subprocess.Popen[str] | Forked
        if forked:
            self.process = Forked(_PROGRAM, words, data.with_name("said"))
        else:
            command = [sys.executable, "-c", _PROGRAM, *words]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if standby:
            self.attach()
        else:
            self.wait()

    def wait(self) -> None:
        """Wait until it leads."""
        self.attach()
        eventually(self.leads)

    def attach(self) -> None:
        """Wait until it listens."""
        self.address = eventually(self._address)
        self.token = (self.data / "token").read_text().strip()
        self.http = self.client()

    def leads(self) -> bool:
        """True if it leads, at least as far as it knows."""
        centers = self.get("/v1/centers")["centers"]
        return any(each["leads"] and each["here"] for each in centers)

    def _address(self) -> Any:
        assert self.process.poll() is None, self.process.communicate()[1]
        with contextlib.suppress(OSError, ValueError):
            address = json.loads((self.data / "center.json").read_text())
            return address if address["pid"] == self.process.pid else None
        return None

    def client(self, **headers: str) -> httpx.Client:
        given = {"Authorization": f"Bearer {self.token}", **headers}
        return httpx.Client(base_url=self.address["url"], headers=given, timeout=PATIENCE, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "http"):
            self.http.close()
        if self.process.poll() is None:
            self.process.terminate()
        if isinstance(self.process, Forked) or not (self.process.stderr is None or self.process.stderr.closed):
            try:
                self.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
                raise

    def stop(self) -> int:
        """Stop it cleanly; its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    # --- short words for calls -----------------------------------------------------------------------------------

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.http.post(path, json=body if body is not None else {})
        assert answer.status_code == status, answer.text
        return answer.json()

    def submit(self, **job: Any) -> int:
        return int(self.post("/v1/jobs", {"jobs": [{"command": ["true"]} | job]}, 201)["jobs"][0]["id"])

    def put_groups(self, text: str, status: int = 200, *, dry_run: bool = False, **body: Any) -> Any:
        answer = self.http.put("/v1/groups", params={"dry_run": dry_run}, json={"text": text, **body})
        assert answer.status_code == status, answer.text
        return answer.json()

    def executor(self, name: str = "n1", **hello: Any) -> Executor:
        return Executor(self, name, **hello)


class SecureCenter(Center):
    """A center that speaks TLS; ``http`` trusts its authority."""

    def client(self, **headers: str) -> httpx.Client:
        # Over TLS the secret is signed with; these tests are about other tokens, so the local socket does.
        given = {"Authorization": f"Bearer {self.token}", **headers}
        transport = httpx.HTTPTransport(uds=str(self.data / "api.sock"))
        return httpx.Client(base_url="http://localhost", headers=given, transport=transport, timeout=60)

    def outside(self, token: str) -> httpx.Client:
        context = ssl.create_default_context(cafile=self.data / "tls" / "ca.pem")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.address["url"], headers=headers, verify=context, trust_env=False, timeout=60)


class SealedWire:
    """A connection to the executors' port as those of today open it: each side proves that it knows the token, and
    seals its messages.
    """

    def __init__(self, center: Center) -> None:
        proof = ExecutorProof(center.token, secrets.token_bytes(NONCE))
        self._opened = open_wire(center, headers={HEADER: proof.header})
        self.wire = self._opened.__enter__()
        assert self.wire.response is not None
        own, self.seals = proof.check(self.wire.response.headers.get(HEADER))
        self.wire.send(own)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def send(self, message: Any) -> None:
        self.wire.send(self.seals.out.seal(messages.encode(message)))

    def receive(self) -> messages.FromCenter:
        data = self.wire.recv(PATIENCE)
        assert isinstance(data, bytes)
        message: messages.FromCenter = messages.decode_from_center(self.seals.into.open(data))
        return message


class Executor(SealedWire):
    """An executor that starts nothing: the test says what becomes of its attempts."""

    def __init__(
        self,
        center: Center,
        name: str = "n1",
        resource: str = "<4, 8G>",
        reports: tuple[Report, ...] = (),
        version: int = messages.VERSION,
        boot: str = "b",
        **more: Any,
    ) -> None:
        super().__init__(center)
        self.send(
            Hello(
                version=version,
                name=name,
                resource=resource,
                boot=boot,
                reports=reports,
                **{"attributes": {"os": "x"}, **more},
            )
        )
        self.first = self.receive()

    @property
    def epoch(self) -> int:
        assert isinstance(self.first, Welcome), self.first
        return self.first.epoch

    def launches(self) -> tuple[Launch, ...]:
        message = self.receive()
        assert isinstance(message, Launches), message
        return message.launches

    def stops(self) -> Stops:
        message = self.receive()
        assert isinstance(message, Stops), message
        return message

    def started(self, *attempts: int, pid: int = 7) -> None:
        self.send(Reports(reports=tuple(Started(attempt=attempt, at=_utc(), pid=pid) for attempt in attempts)))

    def ended(self, *attempts: int, code: int | None = 0, cause: Cause = Cause.EXITED) -> Durable:
        """Report these ends; the answer that says they are durable."""
        self.send(Reports(reports=tuple(ended(attempt, code=code, cause=cause) for attempt in attempts)))
        return self.durable()

    def durable(self) -> Durable:
        message = self.receive()
        assert isinstance(message, Durable), message
        return message

    def answer_logs(self, text: bytes, *, over: bool, first: int = 0) -> ReadLog:
        """Answer one question for a log from ``text``, of which what is before ``first`` is gone."""
        question = self.receive()
        assert isinstance(question, ReadLog), question
        start = max(question.offset, first)
        gone = start - question.offset
        kept = len(text) - first if gone else 0
        self.send(LogData(id=question.id, data=text[start:], over=over, gone=gone, kept=kept))
        return question

    def closed(self) -> bool:
        """Whether the center closes the connection, whatever it says before."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.wire.recv(PATIENCE)
        return True


def ended(attempt: int, *, code: int | None = 0, cause: Cause = Cause.EXITED) -> Ended:
    return Ended(attempt=attempt, cause=cause, code=code, started=_utc(), at=_utc())


def open_wire(
    center: Center, token: str = "", origin: str | None = None, headers: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[ClientConnection]:
    """A connection to the executors' port, with the token itself (protocol 5) or with other headers."""
    headers = {"Authorization": f"Bearer {token}"} if token else headers or {}
    opened: contextlib.AbstractContextManager[ClientConnection] = connect(
        center.address["executor_url"],
        additional_headers=headers,
        origin=origin,  # type: ignore[arg-type]
        compression=None,
        proxy=None,
        open_timeout=PATIENCE,
        # Their thread would draw random numbers while strategies of properties draw theirs.
        ping_interval=None,
    )
    return opened


def _utc() -> int:
    return time.time_ns() // 1000


@contextlib.contextmanager
def lines_of(center: Center, path: str) -> Iterator[Iterator[bytes]]:
    """The parts of a streamed answer, as they come."""
    with center.http.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer.iter_bytes()
