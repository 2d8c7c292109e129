"""One probe of a check: a port must accept connections, a page must answer, or a command must succeed."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import quote

from cress.executor.exec.helper_process import ExecError, HelperProcess
from cress.model.run import Check
from cress.model.times import SECOND
from cress.model.units import format_duration
from cress.model.whole_numbers import whole_number

# Bytes read of an answer, or of a command's output.
MOST = 16_384
# Characters of it that are reported.
MOST_SAID = 200
_SAFE = "/?&=%:;,@+$!*'()~#[]"


class Target:
    """The target of a check: the attempt, and the addresses to try for its ports, the likeliest first."""

    def __init__(self, attempt: int, first: int, address: str = "") -> None:
        self.attempt = attempt
        self.first = first
        self.addresses = ["127.0.0.1", "::1"]
        # A host name would need a resolver in a thread; checks by command serve for that.
        if _is_address(address) and address not in self.addresses:
            self.addresses.append(address)


async def ask(check: Check, port: int, target: Target, helper: HelperProcess) -> str:
    """Probe once. Return the reason why the check fails; empty: it passes."""
    try:
        async with asyncio.timeout(check.timeout / SECOND):
            if check.command:
                return await _run(check, target, helper)
            why = ""
            # A program may listen at only one of the addresses.
            for place, address in enumerate(target.addresses):
                with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as wire:
                    wire.setblocking(False)
                    try:
                        await asyncio.get_running_loop().sock_connect(wire, (address, port))
                    except OSError as error:
                        why = why or _unreachable(port, error)
                        continue
                    if place:
                        target.addresses.insert(0, target.addresses.pop(place))
                    return await _get(wire, check.url, port) if check.url else ""
            return why
    except TimeoutError:
        what = check.command[0] if check.command else f"{check.url} on port {port}" if check.url else f"port {port}"
        verb = "did not end" if check.command else "did not answer"
        return f"{what} {verb} within {format_duration(check.timeout)}"


async def _get(wire: socket.socket, path: str, port: int) -> str:
    """Request a page over HTTP/1.1; nothing after the status line is read."""
    loop = asyncio.get_running_loop()
    where = quote(path, safe=_SAFE)
    request = (
        f"GET {where} HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: cress-check\r\nAccept: */*\r\nConnection: "
        "close\r\n\r\n"
    )
    try:
        await loop.sock_sendall(wire, request.encode())
        answer = b""
        while True:
            while b"\n" not in answer and len(answer) < MOST:
                part = await loop.sock_recv(wire, MOST)
                if not part:
                    return f"{path} on port {port}: the connection was closed without an answer"
                answer += part
            line = answer.partition(b"\n")[0]
            words = line.decode("latin-1").split(None, 2)
            if len(words) < 2 or not words[0].startswith("HTTP/"):
                return f"port {port} does not speak HTTP"
            status = whole_number(words[1])
            if status is None:
                return f"port {port} does not speak HTTP"
            if status >= 200 or status == HTTPStatus.SWITCHING_PROTOCOLS:
                break
            # An interim response (1xx): its head ends with an empty line.
            while b"\r\n\r\n" not in answer and len(answer) < MOST:
                part = await loop.sock_recv(wire, MOST)
                if not part:
                    return f"{path} on port {port}: the connection was closed without an answer"
                answer += part
            answer = answer.partition(b"\r\n\r\n")[2]
    except OSError as error:
        return f"{path} on port {port}: {(error.strerror or 'broken').lower()}"
    return "" if status < 400 else f"{path} on port {port} answers {' '.join(words[1:])[:MOST_SAID].strip()}"


async def _run(check: Check, target: Target, helper: HelperProcess) -> str:
    """Run the command in the task."""
    reading, writing = os.pipe()
    said = bytearray()
    loop = asyncio.get_running_loop()
    null = os.open(os.devnull, os.O_RDONLY)
    os.set_blocking(reading, False)
    try:
        try:
            session = await helper.enter(target.first, target.attempt, check.command, streams=(null, writing, writing))
        finally:
            os.close(null)
            os.close(writing)
        loop.add_reader(reading, _collect, reading, said)
        try:
            await asyncio.wait({session.over})
            _collect(reading, said)
            code = session.over.result()
        finally:
            loop.remove_reader(reading)
            helper.kill(session)
    except ExecError as error:
        return str(error)
    finally:
        os.close(reading)
    if not code:
        return ""
    lines = said.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")[-MOST_SAID:]
    how = f"was killed by signal {code - 128}" if code > 128 else f"exited with {code}"
    return f"{check.command[0]} {how}" + (f": {last}" if last else "")


def _collect(fd: int, said: bytearray) -> None:
    """Read the available output, and keep the end of all output so far."""
    try:
        data = os.read(fd, MOST)
    except BlockingIOError:
        return
    if not data:
        asyncio.get_running_loop().remove_reader(fd)
    said += data
    del said[:-MOST]


def port_of(check: Check, ports: Sequence[tuple[str, int]]) -> int:
    """Return the number of a check's port; 0: no port has that name."""
    name = check.on if check.url else check.port
    if (number := whole_number(name)) is not None:
        return number
    if not name:
        return ports[0][1] if ports else 0
    return next((number for known, number in ports if known == name), 0)


def _unreachable(port: int, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens on port {port}"
    return f"port {port} cannot be reached: {(error.strerror or str(error)).lower()}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
