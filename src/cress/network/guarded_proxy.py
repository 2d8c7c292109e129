"""A proxy for a program that follows addresses of users itself: each of its connections is checked by the rules.

Such a program, as ``skopeo``, follows redirects, and sends passwords where a registry says. It is started in a network
of its own, whose only way out is this proxy. Programs in Go ask no proxy for addresses of the machine itself; in that
network nothing answers there but the ``door`` to the one server that was named.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

from cress.model.allowed_sources import Network, parse_address
from cress.network.connection_guard import ConnectionGuard, RefusedError

_T = TypeVar("_T")

# A new network (linux/sched.h); the call that brings an interface up (linux/sockios.h), and its flags (linux/if.h).
_NEW_NETWORK, _SET_FLAGS, _UP = 0x4000_0000, 0x8914, 0x1
# Seconds to reach a server, and for connections to end with the program; bytes of the head of a request at most, and of
# one read.
PATIENCE, LAST, MOST_HEAD, _PART = 30.0, 1.0, 1 << 16, 1 << 16
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_HOP = (b"proxy-", b"connection:", b"keep-alive:")
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_MADE = b"HTTP/1.1 200 Connection established\r\n\r\n"


class GuardedProxy:
    """The proxy for one run of a program, for connections that ``guard`` allows.

    ``door``: host and port of the server that is named. ``refusals`` are the sentences about connections that were
    refused, ``failures`` those about servers that did not answer. It needs the right to make networks.
    """

    def __init__(self, guard: ConnectionGuard, door: tuple[str, int]) -> None:
        self.refusals: list[str] = []
        self.failures: list[str] = []
        self._guard = guard
        self._door = door
        self._listeners: dict[socket.socket, bool] = {}  # whether connections go to the door
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = False
        self._port = 0

    def run(self, work: Callable[[Mapping[str, str]], _T]) -> _T:
        """Return what ``work`` returns, called in a thread whose new processes have the network with this proxy.

        It gets the environment for them. Raise OSError if there can be no such network. No thread stays but those that
        still look for a server, which end by themselves.
        """
        done: list[_T] = []
        failed: list[BaseException] = []
        ready = threading.Event()
        ended, end = socket.socketpair()

        def inside() -> None:
            try:
                self._enter()
                ready.set()
                done.append(work(self._environment()))
            except BaseException as error:  # noqa: BLE001 - it is raised again in the thread of the caller
                failed.append(error)
            finally:
                ready.set()
                end.close()

        worker = threading.Thread(target=inside)
        worker.start()
        ready.wait()
        # In this thread, since the connections are made from the network of this process.
        self._serve(ended)
        worker.join()
        ended.close()
        if failed:
            raise failed[0]
        return done[0]

    def _enter(self) -> None:
        """Give this thread a network of its own, and listen in it."""
        library = ctypes.CDLL(None, use_errno=True)
        if library.unshare(_NEW_NETWORK):
            number = ctypes.get_errno()
            if number == errno.ENOSPC:
                # Everybody would read this number as a full disk.
                raise OSError(errno.EUSERS, "no network can be made for it: the node has no more (max_net_namespaces)")
            raise OSError(number, f"no network can be made for it: {os.strerror(number)}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
            fcntl.ioctl(wire, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        listener = socket.create_server(("127.0.0.1", 0))
        self._port = listener.getsockname()[1]
        self._listeners[listener] = False
        host, port = self._door
        address = parse_address("127.0.0.1" if host == "localhost" else host)
        if address is not None and address.is_loopback and port != self._port:
            family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
            self._listeners[socket.create_server((str(address), port), family=family)] = True

    def _environment(self) -> dict[str, str]:
        known = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
        proxy = f"http://127.0.0.1:{self._port}"
        return known | {name: proxy for lower in _PROXIES[:2] for name in (lower, lower.upper())}

    def _serve(self, ended: socket.socket) -> None:
        """Accept connections until the other end of ``ended`` is closed."""
        threads = []
        with selectors.DefaultSelector() as selector:
            for wire in (ended, *self._listeners):
                selector.register(wire, selectors.EVENT_READ)
            while ended not in (ready := [key.fileobj for key, _ in selector.select()]):
                for listener, to_door in self._listeners.items():
                    if listener in ready:
                        with contextlib.suppress(OSError):  # it is gone already
                            near = listener.accept()[0]
                            thread = threading.Thread(target=self._answer, args=(near, to_door), daemon=True)
                            try:
                                thread.start()
                            except RuntimeError as error:
                                self.failures.append(f"a connection could not be served: {error}")
                                near.close()
                            else:
                                threads.append(thread)
        with self._lock:
            self._over = True
            for wire in self._open:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + LAST
        for thread in threads:
            # Nothing ends the search for a server that does not answer.
            thread.join(max(0.0, end - time.monotonic()))
        for listener in self._listeners:
            listener.close()

    def _answer(self, near: socket.socket, to_door: bool) -> None:
        with near, contextlib.suppress(OSError, ValueError):
            near.settimeout(PATIENCE)
            with self._noted(near):
                if to_door:
                    self._connect(near, *self._door, b"", b"", direct=True)
                    return
                head = _head_of(near)
                try:
                    host, port, asked, answer = self._request(head)
                except ValueError as error:  # also of a port that cannot be
                    self.failures.append(f"a request could not be read: {error}")
                    near.sendall(_FAILED)
                except RefusedError as error:
                    self.refusals.append(str(error))
                    near.sendall(_REFUSED)
                else:
                    self._connect(near, host, port, asked, answer)

    def _request(self, data: bytes) -> tuple[str, int, bytes, bytes]:
        """Return host and port of a request, and what is to be sent there, and back. Raise ValueError, RefusedError."""
        head, _, body = data.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        method, target, version = line.split(b" ")
        if method == b"CONNECT":
            parts = urlsplit(b"//" + target)
            return (parts.hostname or b"").decode(), parts.port or 443, body, _MADE
        parts = urlsplit(target)
        host, port = (parts.hostname or b"").decode(), parts.port or 80
        if (host, port) != self._door and not self._guard.allows_scheme("http"):
            raise RefusedError(f"{host}:{port} would be asked without encryption (--allow-scheme http)")
        path = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
        lines = [known for known in lines if not known.lower().startswith(_HOP)]
        asked = b"\r\n".join((b" ".join((method, path, version)), b"Connection: close", *lines, b"", body))
        return host, port, asked, b""

    def _connect(
        self, near: socket.socket, host: str, port: int, asked: bytes, answer: bytes, *, direct: bool = False
    ) -> None:
        """Connect to a server, and pass on what both sides send, after ``asked`` and ``answer``.

        ``direct``: not by way of another proxy.
        """
        try:
            far = self._reach(host, port, None if direct else _next_proxy(host, port))
        except RefusedError as error:
            self.refusals.append(str(error))
            near.sendall(_REFUSED)
            return
        except (OSError, ValueError) as error:  # ValueError: no name can be written so
            self.failures.append(f"{host}:{port} cannot be reached: {getattr(error, 'strerror', None) or error}")
            near.sendall(_FAILED)
            return
        with far, self._noted(far):
            far.sendall(asked)
            near.sendall(answer)
            _relay(near, far)

    def _reach(self, host: str, port: int, beyond: SplitResult | None) -> socket.socket:
        """Return a connection to the first address of a server that answers, or by way of the proxy ``beyond``.

        Raise OSError, RefusedError.
        """
        wrong: OSError = OSError(f"{host} has no address")
        addresses = self._guard.allowed_addresses(host, port)
        if beyond is not None:
            return _tunnel(beyond, host, port)
        # For all together: a host may have any number of addresses that do not answer.
        deadline = time.monotonic() + PATIENCE
        for address in addresses:
            left = deadline - time.monotonic()
            if self._over or left <= 0:
                break
            try:
                return socket.create_connection((address, port), left)
            except OSError as error:
                wrong = error
        raise wrong

    @contextlib.contextmanager
    def _noted(self, wire: socket.socket) -> Iterator[None]:
        """Have a connection ended with the proxy."""
        with self._lock:
            if self._over:
                raise OSError("the program has ended")
            self._open.add(wire)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(wire)


def _next_proxy(host: str, port: int) -> SplitResult | None:
    """Return the proxy that the environment of this process names for a server; ``None``: none.

    Raise OSError for one that cannot be used.
    """
    address = getproxies_environment().get("https", "")
    if not address or _is_direct(host, port):
        return None
    try:
        found = urlsplit(address if "://" in address else f"http://{address}")
        if found.scheme != "http":
            raise OSError(f"the proxy of this node is for {found.scheme}, and only http:// can be used (HTTPS_PROXY)")
        if not found.hostname or found.port == 0:
            raise ValueError  # noqa: TRY301 - told as the others
    except ValueError:
        raise OSError("the proxy of this node is not http://HOST:PORT (HTTPS_PROXY)") from None
    return found


def _is_direct(host: str, port: int) -> bool:
    """Return whether ``NO_PROXY`` has a server: as a name, also of a domain above, an address or a network, or ``*``.

    Names and addresses may have a port.
    """
    address = parse_address(host)
    for entry in getproxies_environment().get("no", "").lower().split(","):
        name = entry.strip()
        network = _network_of(name)
        if network is None and name.rpartition(":")[2].isdecimal():
            name, _, digits = name.rpartition(":")
            if int(digits) != port:
                continue
            network = _network_of(name)
        if network is not None:
            if address is not None and address in network:
                return True
            continue
        domain = name.removeprefix("*").lstrip(".")
        if name == "*" or (domain and f".{host.lower()}".endswith(f".{domain}")):
            return True
    return False


def _network_of(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _tunnel(proxy: SplitResult, host: str, port: int) -> socket.socket:
    """Return a connection to a server by way of another proxy. Raise OSError."""
    wire = socket.create_connection((proxy.hostname or "", proxy.port or 80), PATIENCE)
    try:
        target = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
        lines = [b"CONNECT " + target + b" HTTP/1.1", b"Host: " + target]
        if proxy.username:
            word = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            lines.append(b"Proxy-Authorization: Basic " + base64.b64encode(word.encode()))
        wire.sendall(b"\r\n".join((*lines, b"", b"")))
        answer = _head_of(wire).partition(b"\r\n")[0]
    except (OSError, ValueError) as error:
        wire.close()
        raise OSError(f"the proxy {proxy.hostname}: {error}") from None
    if answer.split(b" ")[1:2] != [b"200"]:
        wire.close()
        raise OSError(f"the proxy {proxy.hostname} answers {answer.decode(errors='replace')}")
    return wire


def _head_of(wire: socket.socket) -> bytes:
    """Return the head of a request, and what has come after it."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = wire.recv(_PART)
        if not data or len(head) > MOST_HEAD:
            raise ValueError("no request")
        head += data
    return head


def _relay(near: socket.socket, far: socket.socket) -> None:
    """Pass on what both sides send, until both have ended."""
    others = {near: far, far: near}
    for wire in others:
        wire.settimeout(None)
    with selectors.DefaultSelector() as selector:
        for wire in others:
            selector.register(wire, selectors.EVENT_READ)
        while selector.get_map():
            ready = {key.fileobj for key, _ in selector.select()}
            for wire in [known for known in others if known in ready]:
                data = wire.recv(_PART)
                if data:
                    others[wire].sendall(data)
                else:
                    selector.unregister(wire)
                    others[wire].shutdown(socket.SHUT_WR)
