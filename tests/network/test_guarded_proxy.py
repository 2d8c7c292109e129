"""The proxy for programs that follow addresses of users: what it lets through, and how."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from cress.model.allowed_sources import AllowedSources
from cress.network import guarded_proxy
from cress.network.connection_guard import ConnectionGuard
from cress.network.guarded_proxy import GuardedProxy, _next_proxy, _tunnel
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")

ASK = """
import sys, urllib.request
for address in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(address, timeout=20).read().decode())
    except OSError as error:
        print(error)
"""


class Server(BaseHTTPRequestHandler):
    """A server that answers with what it was asked; also a proxy that makes no connections."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.requestline)
        text = f"{self.path} of {self.headers['Host']}, {self.headers['Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_CONNECT(self) -> None:
        self.asked.append(f"{self.requestline} {self.headers['Proxy-Authorization']}")
        self.send_error(403)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Server.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def asked(proxy: GuardedProxy, *addresses: str) -> list[str]:
    def work(environment: Mapping[str, str]) -> str:
        command = [sys.executable, "-I", "-c", ASK, *addresses]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    before = threading.active_count()
    try:
        return proxy.run(work).splitlines()
    finally:
        assert threading.active_count() == before


def test_each_connection_is_checked_and_told(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = AllowedSources(hosts=("any", f"127.0.0.1:{port}"))
    proxy = GuardedProxy(ConnectionGuard(rules), ("127.0.0.1", port))
    said = asked(
        proxy, f"http://127.0.0.1:{port}/a?b=c", "http://127.0.0.1:9/", "http://169.254.169.254/", "http://[::1]"
    )
    assert said[0] == f"/a?b=c of 127.0.0.1:{port}, close"
    assert [line.startswith("HTTP Error 403") for line in said[1:]] == [True] * 3
    assert [line.partition(",")[0] for line in proxy.refusals] == [
        "127.0.0.1 is a loopback address",
        "169.254.169.254 is a link-local address",
        "::1 is a loopback address",
    ]
    # By way of a proxy that the operator has named, which here refuses.
    monkeypatch.setenv("https_proxy", f"http://ann:w%20d@127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "")
    Server.asked.clear()
    proxy = GuardedProxy(ConnectionGuard(rules), ("127.0.0.1", port))
    assert asked(proxy, f"http://127.0.0.1:{port}/a")[0].startswith("HTTP Error 502")
    assert Server.asked == [f"CONNECT 127.0.0.1:{port} HTTP/1.1 Basic YW5uOncgZA=="]
    assert proxy.failures == [f"127.0.0.1:{port} cannot be reached: the proxy 127.0.0.1 answers HTTP/1.0 403 Forbidden"]


def test_a_program_cannot_go_past_it(port: int) -> None:
    """Not even to the server that is allowed, but by the door."""
    text = f"""
import socket
for port in ({port}, {port} - 1):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        print("open")
    except OSError as error:
        print(error.strerror)
print(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(("192.0.2.1", 53)) != 0)
"""

    def work(environment: Mapping[str, str]) -> str:
        command = [sys.executable, "-I", "-c", text]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    rules = AllowedSources(hosts=(f"127.0.0.1:{port}",))
    proxy = GuardedProxy(ConnectionGuard(rules), ("127.0.0.1", port))
    assert proxy.run(work).splitlines() == ["open", "Connection refused", "True"]


def test_what_it_cannot_pass_on_is_refused_with_a_reason(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that got no answer said only that its connection had ended."""
    rules = AllowedSources(schemes=("https",), hosts=("any", f"127.0.0.1:{port}", "127.0.0.1:9"))
    proxy = GuardedProxy(ConnectionGuard(rules), ("127.0.0.1", port))
    wide = "a" * 70
    requests = {
        "GET http://127.0.0.1:9/ HTTP/1.1": "403",
        "CONNECT 127.0.0.1:70000 HTTP/1.1": "502",
        f"CONNECT {wide}.org:443 HTTP/1.1": "502",
        "nothing": "502",
    }
    for line, code in requests.items():
        near, far = socket.socketpair()
        with near:
            near.sendall(line.encode() + b"\r\n\r\n")
            proxy._answer(far, to_door=False)
            assert near.recv(100).split()[1:2] == [code.encode()], line
    assert proxy.refusals == ["127.0.0.1:9 would be asked without encryption (--allow-scheme http)"]
    assert [failure.partition(":")[0] for failure in proxy.failures] == [
        "a request could not be read",
        f"{wide}.org",
        "a request could not be read",
    ]
    # The server that is named may be asked so, and all of a body comes there.
    assert proxy._request(b"POST http://127.0.0.1:%d/a HTTP/1.1\r\nProxy-A: b\r\nC: d\r\n\r\nx\r\nproxy-y" % port)[
        2
    ] == (b"POST /a HTTP/1.1\r\nConnection: close\r\nC: d\r\n\r\nx\r\nproxy-y")
    # All addresses of a host together have the time of one.
    monkeypatch.setattr(guarded_proxy, "PATIENCE", 0.2)
    guard = ConnectionGuard(rules)
    monkeypatch.setattr(guard, "allowed_addresses", lambda *_: [f"192.0.2.{n}" for n in range(20)])
    tried: list[float] = []

    def silent(_: object, patience: float) -> None:
        tried.append(patience)
        time.sleep(patience / 2 + 0.05)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(TimeoutError):
        GuardedProxy(guard, ("127.0.0.1", port))._reach("silent.org", 443, None)
    assert len(tried) < 5


def test_a_node_that_has_no_more_networks_is_not_said_to_have_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(unshare=lambda _: ctypes.set_errno(errno.ENOSPC) or 1)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    with pytest.raises(OSError, match="the node has no more") as caught:
        GuardedProxy(ConnectionGuard(AllowedSources()), ("registry.org", 443)).run(lambda _: None)
    assert caught.value.errno == errno.EUSERS


@pytest.mark.parametrize(
    ("host", "port", "direct"),
    [
        ("files.example.org", 443, True), ("example.org", 443, True), ("anexample.org", 443, False),
        ("10.1.2.3", 443, True), ("11.1.2.3", 443, False), ("192.0.2.7", 443, True), ("fd00::7", 443, True),
        ("registry.here", 5000, True), ("registry.here", 443, False), ("2001:db8::1", 5000, True),
        ("2001:db8::1", 443, False), ("a.lab", 80, True),
    ],
)  # fmt: skip
def test_servers_that_are_reached_without_the_next_proxy(
    host: str, port: int, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ".example.org, 10.0.0.0/8,192.0.2.7,fd00::/8,registry.here:5000,[2001:db8::1]:5000,*.lab,"
    monkeypatch.setenv("no_proxy", named)
    monkeypatch.setenv("https_proxy", "proxy.here:3128")
    found = _next_proxy(host, port)
    assert (found is None) is direct
    assert found is None or (found.hostname, found.port) == ("proxy.here", 3128)


@pytest.mark.parametrize("proxy", ["https://proxy.here:3128", "socks5://proxy.here", "http://proxy.here:x", "http://"])
def test_a_proxy_that_cannot_be_used_is_told(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for TLS was spoken to in plain text, with its password."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(OSError, match="the proxy of this node is"):
        _next_proxy("example.org", 443)


def test_the_address_of_a_server_has_brackets_for_the_next_proxy(port: int) -> None:
    with pytest.raises(OSError, match="403"):
        _tunnel(urlsplit(f"http://127.0.0.1:{port}"), "2001:db8::1", 443)
    assert Server.asked == ["CONNECT [2001:db8::1]:443 HTTP/1.1 None"]


def test_a_server_that_does_not_answer_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look(*_: object) -> socket.socket:
        assert over.wait(PATIENCE)
        raise OSError

    monkeypatch.setattr(GuardedProxy, "_reach", look)
    monkeypatch.setattr("cress.network.guarded_proxy.LAST", 0.1)

    def work(environment: Mapping[str, str]) -> str:
        text = ASK.replace("timeout=20", "timeout=0.1")
        command = [sys.executable, "-I", "-c", text, "http://192.0.2.1/"]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    before = threading.active_count()
    assert "timed out" in GuardedProxy(ConnectionGuard(AllowedSources()), ("192.0.2.1", 80)).run(work)
    assert threading.active_count() == before + 1
    over.set()
    while threading.active_count() > before:
        time.sleep(0.01)
