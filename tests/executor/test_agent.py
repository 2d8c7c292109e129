"""The agent with a real supervisor below it and a real WebSocket server above it."""

from __future__ import annotations

import http
import os
import signal
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.server import ServerProtocol

import cress
from cress.model.errors import InputError
from cress.model.reports import Cause
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from cress.protocol.messages import VERSION, Refused, Welcome, encode
from cress.protocol.proof import HEADER, NONCE, CenterProof
from tests.executor.centers import TOKEN, AgentProcess, Center, center, clean_up, supervisor_pid
from tests.executor.harness import PATIENCE, left_over, shell, until

FOREVER = shell("echo ready; exec sleep 1000")


class Start(Protocol):
    """Starts an agent of the test's own directory."""

    def __call__(self, port: int | None = None, **settings: Any) -> AgentProcess: ...


@pytest.fixture
def above() -> Iterator[Center]:
    """The center."""
    with center() as it:
        yield it


@pytest.fixture
def start(tmp_path: Path, above: Center) -> Iterator[Start]:
    """Starts agents; nothing of them is left afterwards."""
    agents: list[AgentProcess] = []
    directory = tmp_path / "executor"

    def start_one(port: int | None = None, **settings: Any) -> AgentProcess:
        agents.append(AgentProcess(directory, above.port if port is None else port, **settings))
        return agents[-1]

    yield start_one
    for agent in agents:
        agent.close()
    clean_up(directory)


def test_says_hello_with_what_it_has_found(start: Start, above: Center) -> None:
    agent = start(rack="r7", labels={"disk": "ssd", "python": "mine"}, address="10.1.2.3", ports=[7000, 7099])
    hello = above.session().hello
    assert (hello.version, hello.name, hello.rack, hello.reports) == (VERSION, "node1", "r7", ())
    assert hello.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (hello.address, hello.ports) == ("10.1.2.3", (7000, 7099))
    assert hello.attributes["Hostname"] == socket.gethostname()
    assert hello.attributes["Cress"] == cress.__version__
    assert hello.attributes["OSKernel"] == os.uname().release
    assert (hello.attributes["disk"], hello.attributes["python"]) == ("ssd", "mine")
    assert "Python" not in hello.attributes, "what the operator says counts"
    assert above.port in hello.listening, "the center is a stranger, too"
    dimensions = Dimensions()
    try:
        amounts = dict(zip(dimensions.names, parse_vector(hello.resource, dimensions), strict=True))
    except InputError as error:
        pytest.fail(f"{hello.resource}: {error}")
    assert amounts["cpu"] == 1000 * len(os.sched_getaffinity(0))
    assert amounts["memory"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    code, said = agent.terminate()
    assert code == 0
    assert f"node node1 is registered at ws://127.0.0.1:{above.port}" in said


def test_a_declared_resource_is_what_is_declared(start: Start, above: Center) -> None:
    start(resource="<4,8G,1G,500M>")
    assert above.session().hello.resource == "<4,8G,1G,500M>"


def test_runs_tasks_and_tells_how_they_ended(start: Start, above: Center) -> None:
    agent = start()
    session = above.session()
    session.launch(shell("exit 3"), 5)
    assert session.wait_ended(5).code == 3
    assert session.started[5].at == session.ended[5].started
    session.launch(FOREVER, 6)
    session.wait_started(6)
    session.stop(6, grace=PATIENCE)
    assert (session.wait_ended(6).cause, session.ended[6].code) == (Cause.STOPPED, -15)
    agent.terminate()


def test_a_task_does_not_learn_the_token(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    session.launch(shell("env; cat /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline"), 5)
    session.wait_ended(5)
    output = (tmp_path / "executor" / "attempts" / "5" / "stdout").read_text()
    assert "CRESS_ATTEMPT=5" in output
    assert "CRESS_TOKEN" not in output
    assert "secret" not in output
    assert "the-token" not in output


# --- logs -------------------------------------------------------------------------------------------------------------


def test_logs_are_read_while_they_are_written(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    session.launch(
        shell("printf one; echo problem >&2; while ! [ -e ../../../go ]; do sleep 0.02; done; printf two"), 5
    )
    session.wait_started(5)
    first = session.read(5, wait=PATIENCE)
    assert (first.data, first.over) == (b"one", False)
    assert session.read(5, stream="stderr", wait=PATIENCE).data == b"problem\n"
    nothing = session.read(5, offset=3)
    assert (nothing.data, nothing.over, nothing.error) == (b"", False, "")
    (tmp_path / "executor" / "go").touch()
    assert session.read(5, offset=3, wait=PATIENCE).data == b"two"
    session.wait_ended(5)
    end = session.read(5, offset=3)
    assert (end.data, end.over) == (b"two", True)
    part = session.read(5, offset=1, limit=2)
    assert (part.data, part.over) == (b"ne", False)
    assert session.read(5, offset=99).over


def test_waiting_for_a_log_ends_with_the_attempt(start: Start, above: Center) -> None:
    start()
    session = above.session()
    session.launch(shell("sleep 0.5"), 5)
    end = session.read(5, wait=PATIENCE)
    assert (end.data, end.over, end.error) == (b"", True, "")


def test_what_cannot_be_read_is_explained(start: Start, above: Center) -> None:
    start()
    session = above.session()
    for ask, error in (
        ({"attempt": 77}, "nothing is known of attempt 77 on this node"),
        ({"attempt": 5, "stream": "../../journal"}, "no stream '../../journal'; one of stdout, stderr, times"),
    ):
        data = session.read(**ask)
        assert (data.data, data.over, data.error) == (b"", True, error)
    session.launch(shell("rm ../stdout; ln -s /etc/passwd ../stdout"), 5)
    session.wait_ended(5)
    data = session.read(5)
    assert data.data == b""
    assert data.error.startswith("stdout cannot be read")


# --- connections that go ----------------------------------------------------------------------------------------------


def test_a_center_that_comes_back_hears_what_happened_meanwhile(start: Start, tmp_path: Path) -> None:
    with center() as first:
        start(first.port)
        session = first.session()
        session.launch(FOREVER, 5)
        session.launch(shell("while ! [ -e ../../../go ]; do sleep 0.02; done; exit 6", job=2), 6)
        session.launch(shell("exit 7", job=3), 7, 8)
        for attempt in (5, 6):
            session.wait_started(attempt)
        session.wait_ended(7)
        session.wait_ended(8)
        session.durable(8)
        session.launch(shell("true", job=4), 9)
        session.wait_ended(9)
        port = first.port
    (tmp_path / "executor" / "go").touch()
    until(lambda: 6 not in left_over(tmp_path / "executor"))
    with center(port) as second:
        session = second.session()
        assert session.started.keys() >= {5}
        assert session.wait_ended(6).code == 6
        assert session.ended[7].code == 7
        assert 8 not in session.ended, "it was durable"


def test_a_killed_agent_is_no_matter_for_the_tasks(start: Start, above: Center, tmp_path: Path) -> None:
    agent = start()
    session = above.session()
    session.launch(FOREVER, 5)
    session.launch(shell("while ! [ -e ../../../go ]; do sleep 0.02; done; exit 6", job=2), 6)
    session.wait_started(5)
    session.wait_started(6)
    supervisor = agent.supervisor()
    agent.kill()
    (tmp_path / "executor" / "go").touch()
    until(lambda: 6 not in left_over(tmp_path / "executor"))
    again = start()
    session = above.session()
    assert again.supervisor() == supervisor
    assert session.wait_ended(6).code == 6
    assert session.started[5].pid
    assert 5 not in session.ended
    assert left_over(tmp_path / "executor") == {5}


def test_a_killed_supervisor_is_started_again_and_finds_its_tasks(start: Start, above: Center) -> None:
    agent = start()
    session = above.session()
    session.launch(FOREVER, 5)
    pid = session.wait_started(5).pid
    os.kill(agent.supervisor(), signal.SIGKILL)
    again = above.session()
    assert again.wait_started(5).pid == pid
    again.stop(5, grace=PATIENCE)
    assert again.wait_ended(5).cause is Cause.STOPPED


def test_a_center_that_hangs_up_is_tried_again(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        agent = start(deaf.getsockname()[1])
        address = f"ws://127.0.0.1:{deaf.getsockname()[1]}"
        deaf.settimeout(PATIENCE)
        connection, _ = deaf.accept()
        connection.close()
        again, _ = deaf.accept()
        again.close()
        agent.process.send_signal(signal.SIGTERM)
        code, said = agent.ended()
    assert code == 0
    assert f"the center at {address} cannot be reached" in said


def test_a_center_that_falls_silent_is_left(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        start(listener.getsockname()[1], ping_interval=0.1, ping_timeout=0.3)
        first, _ = listener.accept()
        with first:
            # It takes the agent in, and then never says a word again.
            protocol = ServerProtocol()
            while not (events := protocol.events_received()):
                protocol.receive_data(first.recv(4096))
            assert isinstance(events[0], Request)
            proof = CenterProof(TOKEN, bytes(NONCE), events[0].headers[HEADER])
            response = protocol.accept(events[0])
            response.headers[HEADER] = proof.header
            protocol.send_response(response)
            first.sendall(b"".join(protocol.data_to_send()))
            while not (events := protocol.events_received()):
                protocol.receive_data(first.recv(4096))
            assert isinstance(events[0], Frame)
            seals = proof.check(bytes(events[0].data))
            protocol.send_binary(seals.out.seal(encode(Welcome(epoch=1))))
            first.sendall(b"".join(protocol.data_to_send()))
            second, _ = listener.accept()
            second.close()


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_wrong_token_ends_an_executor_that_belongs_to_no_cluster_yet(start: Start, above: Center) -> None:
    code, said = start(token="wrong").ended()
    assert code == 3
    assert said.splitlines()[-1].endswith(
        f"the server at ws://127.0.0.1:{above.port} is not this executor's center: "
        "wrong cluster or wrong token; nothing was sent to it. Give this executor the token of the center's data "
        "directory, or find "
        "out which program listens there"
    )
    assert "Traceback" not in said


def test_a_listener_without_a_proof_ends_an_executor_that_belongs_to_no_cluster_yet(
    start: Start, above: Center
) -> None:
    above.status = http.HTTPStatus.UNAUTHORIZED
    code, said = start().ended()
    assert code == 3
    assert "it answers with HTTP 401 and no proof that it knows the token" in said


def test_a_refusal_for_good_is_told_and_ends_the_agent(start: Start, above: Center) -> None:
    above.refusal = Refused(what="it speaks version 0", hint="the same version of cress on both", permanent=True)
    code, said = start().ended()
    assert code == 3
    assert said.splitlines()[-1].endswith(
        "the center refused this executor: it speaks version 0 (the same version of cress on both)"
    )


def test_another_refusal_is_tried_again(start: Start, above: Center) -> None:
    above.refusal = Refused(what="a node of the name 'node1' is connected already")
    agent = start()
    until(lambda: above.refusals >= 2)
    above.status = http.HTTPStatus.SERVICE_UNAVAILABLE
    above.refusal = None
    before = above.refusals
    until(lambda: above.refusals >= before + 3)
    above.status = None
    above.session()
    _, said = agent.terminate()
    assert "is connected already; trying again" in said
    assert "answers with HTTP 503; trying again" in said


def test_a_second_agent_of_a_directory_is_refused(start: Start, above: Center, tmp_path: Path) -> None:
    first = start()
    above.session()
    code, said = start().ended()
    assert code == 3
    assert said == (
        f"{tmp_path / 'executor'} is in use by another executor (pid {first.process.pid}); "
        "stop that one first, or choose another directory\n"
    )


def test_an_address_that_is_none_is_refused(start: Start) -> None:
    code, said = start(center_url="http://somewhere").ended()
    assert code == 3
    assert "'http://somewhere' is not an address of a center (ws://host:port)" in said


def test_a_journal_of_a_newer_release_ends_the_agent_with_its_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "executor").mkdir()
    title = b"cress journal 99"
    (tmp_path / "executor" / "journal").write_bytes(b"%s %08x\n" % (title, zlib.crc32(title)))
    code, said = start().ended()
    assert code == 3
    assert "executor/journal was written by a newer release" in said
    assert "Traceback" not in said


def test_a_damaged_journal_does_not_keep_an_executor_from_its_center(
    start: Start, above: Center, tmp_path: Path
) -> None:
    (tmp_path / "executor").mkdir()
    (tmp_path / "executor" / "journal").write_bytes(b"something else, of some length")
    start()
    above.session()
    log = tmp_path / "executor" / "supervisor.log"
    assert "does not begin as a journal of Cress does; it was set aside" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


# --- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_stops_the_tasks_and_tells_their_ends(
    start: Start, above: Center, tmp_path: Path, number: signal.Signals
) -> None:
    agent = start(grace=PATIENCE)
    session = above.session()
    session.launch(shell("trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"), 5)
    until(lambda: session.read(5, wait=1).data)
    supervisor = agent.supervisor()
    agent.process.send_signal(number)
    end = session.wait_ended(5)
    assert (end.cause, end.code) == (Cause.SHUTDOWN, 4)
    session.durable(5)
    assert agent.ended()[0] == 0
    assert supervisor_pid(tmp_path / "executor") is None, supervisor
    start()
    assert above.session().hello.reports == ()


def test_a_stop_without_a_center_stops_the_tasks_and_keeps_their_ends(
    start: Start, above: Center, tmp_path: Path
) -> None:
    with center() as first:
        agent = start(first.port)
        session = first.session()
        session.launch(FOREVER, 5)
        session.wait_started(5)
    session.over.wait(PATIENCE)
    assert agent.terminate()[0] == 0
    assert left_over(tmp_path / "executor") == set()
    assert supervisor_pid(tmp_path / "executor") is None
    start()
    assert above.session().wait_ended(5).cause is Cause.SHUTDOWN


def test_keep_tasks_leaves_them_running(start: Start, above: Center, tmp_path: Path) -> None:
    agent = start(keep_tasks=True)
    session = above.session()
    session.launch(FOREVER, 5)
    pid = session.wait_started(5).pid
    assert agent.terminate()[0] == 0
    assert left_over(tmp_path / "executor") == {5}
    start()
    assert above.session().wait_started(5).pid == pid


def test_an_agent_whose_parent_is_gone_leaves_and_the_tasks_stay(start: Start, above: Center, tmp_path: Path) -> None:
    agent = start(parent_pipe=True)
    session = above.session()
    session.launch(FOREVER, 5)
    session.wait_started(5)
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    agent.process.wait(PATIENCE)
    assert agent.process.returncode == 0
    assert agent.process.stderr is not None
    agent.process.stderr.close()
    assert left_over(tmp_path / "executor") == {5}
    assert supervisor_pid(tmp_path / "executor") is not None
