"""Ports with real sockets: who listens, what can be used, and a start that fails because somebody else was first."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import ports
from cress.model.reports import Cause, Ended
from cress.model.run import Run
from cress.protocol.messages import Launch, Ports
from cress.shell.executor.foreign_ports import ForeignPorts
from tests.executor.centers import AgentProcess, Center, center, clean_up
from tests.executor.harness import Client, SupervisorProcess, shell, until
from tests.ports import free_port, free_ports

FOREVER = shell("exec sleep 1000", job=1, ports=(("web", 0),))


def listener(address: str = "127.0.0.1", port: int = 0, *, reuse: bool = True) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if reuse:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen()
    return sock


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_who_listens_is_seen_and_in_the_way(address: str) -> None:
    try:
        sock = listener(address)
    except OSError:
        pytest.skip("no such address here")
    with sock:
        port = port_of(sock)
        assert port in ports.listening()
        assert ports.taken((free_port(), port)) == port
    assert port not in ports.listening()
    assert ports.taken((port,)) == 0


def test_datagrams_count_too() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = port_of(sock)
        assert port in ports.listening()
        assert ports.taken((port,)) == port


def test_who_only_talks_from_a_port_does_not_listen_on_it() -> None:
    with listener() as server, socket.create_connection(server.getsockname()) as client:
        assert port_of(client) not in ports.listening()


def test_a_connection_that_only_waits_for_late_packets_is_no_hindrance() -> None:
    server = listener()
    port = port_of(server)
    with socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        accepted.close()  # the first to close is the one that waits
        assert client.recv(1) == b""
    server.close()
    assert ports.taken((port,)) == 0


def test_foreign_ports_are_all_that_are_listened_on_but_our_own() -> None:
    foreign = ForeignPorts()
    with listener() as ours, listener() as theirs:
        foreign.launched([Launch(1, 1, 0, (port_of(ours),))])
        first = foreign.news(ports.listening())
        assert first is not None
        assert port_of(theirs) in first
        assert port_of(ours) not in first
        foreign.ended(1)
        second = foreign.news(ports.listening())
        assert second is not None
        assert port_of(ours) in second, "the task is over, so whoever listens there is none of ours"
        foreign.begin({2: (port_of(ours),)})
        # Other programs of this machine may begin to listen at any moment, so both are about the same list.
        seen = ports.listening()
        third = foreign.news(seen)
        assert third is not None
        assert port_of(ours) not in third
        assert foreign.news(seen) is None, "the center knows"
        foreign.told = None
        assert foreign.news(ports.listening()) is not None, "told in any case"


# --- the supervisor -----------------------------------------------------------------------------------------------


def test_a_taken_port_is_a_failed_start_that_names_it(client: Client) -> None:
    with listener() as sock:
        port = port_of(sock)
        client.launch(FOREVER, 5, ports=(free_port(), port))
        end = client.wait_ended(5)
        assert (end.cause, end.port, end.code, end.started) == (Cause.PORT, port, None, 0)
        assert end.error == f"port {port} is in use on this node"
        assert 5 not in client.started
    client.launch(shell("exit 3", ports=(("web", port),)), 6, ports=(port,))
    assert client.wait_ended(6).code == 3, "free again"


def test_a_task_can_use_its_port_at_once(client: Client) -> None:
    port = free_port()
    program = "import os, socket; socket.create_server(('', int(os.environ['CRESS_PORT']))); print('ok')"
    client.launch(Run(job=1, command=("python3", "-c", program), ports=(("web", 0),)), 5, ports=(port,))
    assert client.wait_ended(5).code == 0


def test_a_supervisor_that_comes_after_another_still_knows_the_ports(parent: SupervisorProcess) -> None:
    client = parent.start()
    one, two = free_ports(2)
    client.launch(FOREVER, 5, ports=(one, two))
    client.launch(shell("exit 0"), 6)
    client.wait_started(5)
    client.wait_ended(6)
    parent.kill()
    client = parent.start()
    assert client.inventory.ports == {5: (one, two)}
    client.stop(5)
    client.wait_ended(5)
    parent.kill()
    assert parent.start().inventory.ports == {}


# --- the agent ----------------------------------------------------------------------------------------------------


@pytest.fixture
def above() -> Iterator[Center]:
    with center() as it:
        yield it


@pytest.fixture
def agent(tmp_path: Path, above: Center) -> Iterator[AgentProcess]:
    it = AgentProcess(tmp_path / "executor", above.port)
    yield it
    it.close()
    clean_up(tmp_path / "executor")


def test_the_center_hears_who_listens_and_who_does_not_any_more(agent: AgentProcess, above: Center) -> None:
    session = above.session()
    assert session.hello.address == "127.0.0.1", "as the center is reached"
    with listener() as sock:
        port = port_of(sock)
        until(lambda: port in session.strangers[-1], "the stranger to be seen")
    until(lambda: port not in session.strangers[-1], "the stranger to be gone")
    agent.terminate()


def test_what_our_own_tasks_listen_on_is_no_news_also_for_another_agent(
    agent: AgentProcess, above: Center, tmp_path: Path
) -> None:
    session = above.session()
    port = free_port()
    program = "import os, socket; s = socket.create_server(('', int(os.environ['CRESS_PORT']))); s.accept()"
    session.launch(Run(job=1, command=("python3", "-c", program), ports=(("web", 0),)), 5, ports=(port,))
    until(lambda: port in ports.listening(), "the task to listen")
    agent.kill()
    again = AgentProcess(tmp_path / "executor", above.port)
    try:
        second = above.session()
        with listener() as sock:
            until(lambda: port_of(sock) in second.strangers[-1], "a look at all ports")
        assert all(port not in seen for seen in (*session.strangers, *second.strangers))
        with socket.create_connection(("127.0.0.1", port)):
            second.wait_ended(5)
    finally:
        again.close()


def test_who_stood_in_the_way_is_told_first_and_told_again_when_gone(agent: AgentProcess, above: Center) -> None:
    session = above.session()
    with listener() as sock:
        port = port_of(sock)
        session.launch(FOREVER, 5, ports=(port,))
        assert session.wait_ended(5).cause is Cause.PORT
        heard = list(session.heard)
        end = next(i for i, each in enumerate(heard) if isinstance(each, Ended))
        before = [session.hello.listening, *(each.ports for each in heard[:end] if isinstance(each, Ports))]
        assert port in before[-1]
        # The center counts the port as taken from here on: it hears of the ports once more, changed or not.
        until(lambda: any(isinstance(each, Ports) for each in session.heard[end:]), "the next word about ports")
    until(lambda: port not in session.strangers[-1], "the stranger to be gone")
    agent.terminate()
