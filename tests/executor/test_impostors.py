"""Programs that listen on the center's port without knowing the token: they get nothing, and nothing that they say
counts.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, serve

from cress.protocol.messages import Launch, Launches, Refused, Welcome, encode
from cress.protocol.proof import HEADER, NONCE, CenterProof
from tests.executor.centers import TOKEN, AgentProcess, Center, clean_up
from tests.executor.harness import PATIENCE, shell, until


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
        assert "it did not prove that it knows the token; nothing was sent to it" in said
        assert "wrong cluster or wrong token" in said
        assert "Traceback" not in said
    finally:
        agent.close()


HANDSHAKES = {
    "closed at once": (0, b""),
    "closed after the request": (1, b""),
    "reset after the request": (2, b""),
    "half an answer": (1, b"HTTP/1.1 101 Sw"),
    "no HTTP": (1, b"hello\r\n\r\n"),
    "a redirect to nowhere": (1, b"HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n"),
    "a redirect to another protocol": (
        1,
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    ),
    "not allowed": (1, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
}


def test_whatever_happens_to_a_handshake_the_agent_lives_and_tries_again(directory: Path) -> None:
    """A center that is stopped just now closes connections at any moment between the handshake and the hello."""
    with contextlib.closing(Center()) as first:
        port = first.port
        agent = AgentProcess(directory, port, retry_first=0.05)
        session = first.session()
        session.send(Welcome(epoch=1, cluster="c", sent=session.hello.sent))
        session.launch(shell("exit 0", job=2), 2)
        session.wait_ended(2)
    try:
        with socket.create_server(("127.0.0.1", port)) as door:
            door.settimeout(PATIENCE)
            for step, answer in HANDSHAKES.values():
                wire, _ = door.accept()
                if step:
                    wire.recv(4096)
                wire.sendall(answer)
                if step == 2:
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                wire.close()
            # A proven center that is gone before the hello, with and without a goodbye.
            for goodbye in (b"", bytes([0x88, 2]) + struct.pack(">H", 1013)):
                wire, _ = door.accept()
                protocol = ServerProtocol()
                while not (events := protocol.events_received()):
                    protocol.receive_data(wire.recv(4096))
                assert isinstance(events[0], Request)
                response = protocol.accept(events[0])
                response.headers[HEADER] = CenterProof(TOKEN, bytes(NONCE), events[0].headers[HEADER]).header
                protocol.send_response(response)
                wire.sendall(b"".join(protocol.data_to_send()) + goodbye)
                wire.close()
        with contextlib.closing(Center(port)) as back:
            session = back.session()
            assert session.hello.cluster == "c"
        agent.process.send_signal(signal.SIGTERM)
        code, said = agent.ended()
        assert code == 0
        assert "Traceback" not in said
    finally:
        agent.close()
