"""A test in the place of the center: a small real WebSocket server that speaks the protocol."""

from __future__ import annotations

import contextlib
import http
import json
import logging
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from cress.model.node import Load as Measured
from cress.model.reports import Checked, Ended, Started
from cress.model.run import Run
from cress.protocol.messages import (
    Beat,
    Data,
    Durable,
    ExecData,
    ExecOver,
    FromCenter,
    Hello,
    Launch,
    Launches,
    Load,
    LogData,
    Ports,
    ReadLog,
    Refused,
    Stop,
    Stops,
    Term,
    Welcome,
    decode_from_agent,
    encode,
)
from cress.protocol.proof import HEADER, NONCE, CenterProof, Seals
from tests.executor.harness import PATIENCE, kill_attempts, until
from tests.forked import Forked
from tests.known_versions import tell_versions

TOKEN = "the-token"

# What starts an agent: its settings as JSON.
PROGRAM = """
import json, pathlib, sys
from cress.executor import ExecutorSettings, run
settings = json.loads(sys.argv[1])
settings["directory"] = pathlib.Path(settings["directory"])
sys.exit(run(ExecutorSettings(**settings)))
"""


class Session:
    """One connection of an agent."""

    def __init__(self, connection: ServerConnection, seals: Seals, hello: Hello) -> None:
        self.connection = connection
        self.seals = seals
        self._turn = threading.Lock()
        self.hello = hello
        self.started: dict[int, Started] = {}
        self.ended: dict[int, Ended] = {}
        self.checked: queue.Queue[Checked] = queue.Queue()
        self.commands: queue.Queue[ExecData | ExecOver] = queue.Queue()
        self.logs: queue.Queue[LogData] = queue.Queue()
        self.loads: queue.Queue[Measured] = queue.Queue()
        self.data: queue.Queue[tuple[str, ...]] = queue.Queue()
        self.term = 0
        self.beats: list[int] = []
        self.strangers: list[tuple[int, ...]] = [hello.listening]
        self.heard: list[object] = []  # reports and ports in the order in which they came
        self.answers = True  # to beats
        self.over = threading.Event()
        self._take_in(hello.reports)

    def send(self, order: FromCenter) -> None:
        self.send_bytes(encode(order))

    def send_bytes(self, message: bytes) -> None:
        with self._turn:
            self.connection.send(self.seals.out.seal(message))

    def launch(self, run: Run, *attempts: int, ports: tuple[int, ...] = ()) -> None:
        launches = tuple(Launch(each, run.job, 0, ports) for each in attempts)
        self.send(Launches(epoch=1, runs=(run,), launches=launches))

    def stop(self, attempt: int, grace: float) -> None:
        self.send(Stops(epoch=1, stops=(Stop(attempt, round(grace * 1e6)),)))

    def wait_started(self, attempt: int) -> Started:
        return until(lambda: self.started.get(attempt), f"the start of {attempt}")

    def wait_ended(self, attempt: int) -> Ended:
        return until(lambda: self.ended.get(attempt), f"the end of {attempt}")

    def wait_checked(self) -> Checked:
        """The next report of checks."""
        return self.checked.get(timeout=PATIENCE)

    def durable(self, *attempts: int) -> None:
        self.send(Durable(epoch=1, attempts=attempts))

    def read(
        self, attempt: int, offset: int = 0, stream: str = "stdout", wait: float = 0.0, limit: int = 1000
    ) -> LogData:
        """Ask for a log, and wait for the answer."""
        self.send(ReadLog(id=7, attempt=attempt, stream=stream, offset=offset, limit=limit, wait=round(wait * 1000)))
        data = self.logs.get(timeout=PATIENCE)
        assert data.id == 7
        return data

    def listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            for message in self.connection:
                assert isinstance(message, bytes)
                decoded = decode_from_agent(self.seals.into.open(message))
                if isinstance(decoded, LogData):
                    self.logs.put(decoded)
                elif isinstance(decoded, (ExecData, ExecOver)):
                    self.commands.put(decoded)
                elif isinstance(decoded, Ports):
                    self.strangers.append(decoded.ports)
                    self.heard.append(decoded)
                elif isinstance(decoded, Load):
                    self.loads.put(decoded.load)
                elif isinstance(decoded, Data):
                    self.data.put(decoded.data)
                elif isinstance(decoded, Beat):
                    self.beats.append(decoded.sent)
                    if self.answers:
                        self.send(Term(epoch=1, sent=decoded.sent, term=self.term))
                else:
                    assert not isinstance(decoded, Hello)
                    self._take_in(decoded.reports)
        self.over.set()

    def _take_in(self, reports: tuple[Any, ...]) -> None:
        self.heard += reports
        for report in reports:
            if isinstance(report, Checked):
                self.checked.put(report)
            else:
                (self.started if isinstance(report, Started) else self.ended)[report.attempt] = report


class Center:
    """Takes agents in, or refuses them."""

    def __init__(self, port: int = 0) -> None:
        self.sessions: queue.Queue[Session] = queue.Queue()
        self.refusals = 0
        self.refusal: Refused | None = None
        self.term = 0
        self.status: http.HTTPStatus | None = None
        self.token = TOKEN
        self._proofs: dict[ServerConnection, CenterProof] = {}
        quiet = logging.getLogger("tests.quiet")
        quiet.setLevel(logging.CRITICAL)
        self.server = serve(
            self._serve,
            "127.0.0.1",
            port,
            process_request=self._check,
            process_response=self._prove,
            compression=None,
            logger=quiet,
            max_size=None,
        )
        self.port = self.server.socket.getsockname()[1]
        self._connections: list[ServerConnection] = []
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def session(self) -> Session:
        """The next connection that says hello."""
        return self.sessions.get(timeout=PATIENCE)

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        for connection in self._connections:
            connection.close()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if self.status is not None:
            self.refusals += 1
            return connection.respond(self.status, "no\n")
        assert "Authorization" not in request.headers, "an agent never sends the token"
        self._proofs[connection] = CenterProof(self.token, secrets.token_bytes(NONCE), request.headers[HEADER])
        return None

    def _prove(self, connection: ServerConnection, _: Request, response: Response) -> None:
        if connection in self._proofs:
            response.headers[HEADER] = self._proofs[connection].header

    def _serve(self, connection: ServerConnection) -> None:
        self._connections.append(connection)
        try:
            seals = self._proofs.pop(connection).check(connection.recv())  # type: ignore[arg-type]
            hello = decode_from_agent(seals.into.open(connection.recv()))  # type: ignore[arg-type]
        except ConnectionClosed:
            return
        assert isinstance(hello, Hello)
        if self.refusal is not None:
            connection.send(seals.out.seal(encode(self.refusal)))
            self.refusals += 1
            return
        session = Session(connection, seals, hello)
        session.term = self.term
        session.send(Welcome(epoch=1, sent=hello.sent, term=self.term))
        self.sessions.put(session)
        session.listen()


class AgentProcess:
    """An agent, in a process of its own: forked from one that has imported it, or ``alone``, started as programs are.

    One with a search ``path`` of its own, or a pipe from its parent, is always alone.
    """

    def __init__(
        self, directory: Path, port: int, path: Path | None = None, *, alone: bool = False, **settings: Any
    ) -> None:
        self.directory = directory
        everything = {
            "name": "node1",
            "directory": str(directory),
            "center_url": f"ws://127.0.0.1:{port}",
            "token": TOKEN,
            "retry_most": 0.2,
            **settings,
        }
        if path is None:
            tell_versions(directory)
        words = [json.dumps(everything)]
        environment = {**os.environ, "CRESS_TOKEN": "another-secret"} | ({} if path is None else {"PATH": str(path)})
        self.process: subprocess.Popen[str] | Forked
        if path is None and not alone and not settings.get("parent_pipe"):
            said = Path(tempfile.mkdtemp(dir=directory.parent, prefix="said-"), "said")
            self.process = Forked(PROGRAM, words, said, environment)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )

    def ended(self) -> tuple[int, str]:
        """Wait for its end: the exit code, and what it told the operator."""
        _, said = self.process.communicate(timeout=PATIENCE)
        code = self.process.returncode
        assert code is not None
        return code, said

    def terminate(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        # The pipe stays open: communicate would close it, which means something else.
        self.process.wait(PATIENCE)
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def kill_supervisor(self) -> None:
        """kill -9."""
        os.kill(self.supervisor(), signal.SIGKILL)

    def supervisor(self) -> int:
        """The pid of the supervisor that it started."""
        return until(lambda: supervisor_pid(self.directory), "a supervisor")

    def close(self) -> None:
        if self.process.returncode is None:
            self.kill()


def supervisor_pid(directory: Path) -> int | None:
    """The supervisor of the directory, if it lives."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((directory / "supervisor.lock").read_text())
        if f"{directory}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


def clean_up(directory: Path) -> None:
    """Leave nothing of an executor behind."""
    pid = supervisor_pid(directory)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: supervisor_pid(directory) is None)
    kill_attempts(directory)


@contextlib.contextmanager
def center(port: int = 0) -> Iterator[Center]:
    """A center for a while."""
    it = Center(port)
    try:
        yield it
    finally:
        it.close()
