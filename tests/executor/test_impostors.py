"""Programs that listen on the center's port without knowing the token: they get nothing, and nothing that they say counts."""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from cress.protocol.messages import Launch, Launches, Refused, Welcome, encode
from cress.protocol.proof import HEADER
from tests.executor.centers import TOKEN, AgentProcess, Center, clean_up
from tests.executor.harness import shell, until


class Impostor:
    """Answers every handshake with the same header, then sends messages; records everything that it gets."""

    def __init__(self, port: int, answer: str | None, *messages: bytes) -> None:
        self.got: queue.Queue[str | bytes] = queue.Queue()
        self.handshakes: list[str] = []
        self._answer, self._messages = answer, messages
        quiet = logging.getLogger("tests.quiet")
        quiet.setLevel(logging.CRITICAL)
        self.server = serve(self._serve, "127.0.0.1", port, process_response=self._respond, logger=quiet)
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()

    def _respond(self, _: ServerConnection, request: Request, response: Response) -> None:
        self.handshakes.append(str(request.headers))
        if self._answer is not None:
            response.headers[HEADER] = self._answer

    def _serve(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for message in self._messages:
                connection.send(message)
            while True:
                self.got.put(connection.recv())


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "executor"
    clean_up(tmp_path / "executor")


def test_an_impostor_gets_no_token_and_launches_nothing_and_the_center_is_believed_afterwards(
    directory: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "launched"
    run = shell(f"touch {proof}")
    orders = (
        encode(Welcome(epoch=2**40, cluster="c")),
        encode(Launches(epoch=2**40, runs=(run,), launches=(Launch(1, run.job, 0),))),
        encode(Refused(what="go away", permanent=True)),
    )
    center = Center()
    agent = AgentProcess(directory, center.port, retry_first=0.05)
    try:
        session = center.session()
        session.send(Welcome(epoch=1, cluster="c", sent=session.hello.sent))
        session.launch(shell("exit 0", job=2), 2)
        session.wait_ended(2)
        recorded = session.connection.response.headers[HEADER] if session.connection.response else ""
        port = center.port
        center.close()
        for answer in (None, "1 " + "00" * 32 + " " + "00" * 32, recorded):
            impostor = Impostor(port, answer, *orders)
            until(lambda: len(impostor.handshakes) >= 3, "three tries")  # noqa: B023
            impostor.close()
            assert impostor.got.empty(), "nothing but the handshake is told to it"
            assert TOKEN not in "".join(impostor.handshakes)
        with contextlib.closing(Center(port)) as back:
            session = back.session()
            assert (session.hello.epoch, session.hello.cluster) == (1, "c"), "the impostor's epoch left no trace"
            session.launch(shell("exit 0", job=3), 3)
            session.wait_ended(3)
        assert not proof.exists()
        agent.process.send_signal(signal.SIGTERM)
        _, said = agent.ended()
        assert "it did not prove that it knows the token; nothing was told to it" in said
        assert "its proof is not made with this executor's token" in said
        assert "Traceback" not in said
    finally:
        agent.close()
