"""Events, followed logs and commands end when their credential does: real connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from cress.center.access.open_answers import REASON
from cress.protocol.messages import Exec, ExecOver
from tests.center.program import PATIENCE, Center, Executor
from tests.center.test_execution import begun, opened


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("open") / "data", forked=True, visibility="own") as center:
        yield center


def token_of(center: Center, user: str, **more: Any) -> str:
    return str(center.post("/v1/tokens", {"name": "t", "user": user, "rotate": False, **more}, 201)["secret"])


def revoke(center: Center, user: str) -> None:
    assert center.http.delete(f"/v1/tokens/t?user={user}").status_code == 200


def rotate(center: Center, user: str) -> None:
    center.post("/v1/tokens", {"name": "t", "user": user, "rotate": True}, 201)


def shut_out(center: Center, user: str) -> None:
    assert center.http.put(f"/v1/users/{user}", json={"role": "none"}).status_code == 200


def lower(center: Center, user: str) -> None:
    assert center.http.put(f"/v1/users/{user}", json={"role": "viewer"}).status_code == 200


WAYS: dict[str, Callable[[Center, str], None]] = {
    "revoked": revoke,
    "rotated": rotate,
    "none": shut_out,
    "viewer": lower,
}


def stream(center: Center, path: str, token: str) -> socket.socket:
    """A connection on which an answer has begun."""
    url = urlsplit(center.address["url"])
    wire = socket.create_connection((url.hostname, url.port), PATIENCE)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    wire.sendall(head.encode())
    assert wire.recv(1 << 16).startswith(b"HTTP/1.1 200")
    return wire


def ended(wire: socket.socket) -> bool:
    """Return when the answer has ended, without the sign of a whole one."""
    data = b""
    try:
        while part := wire.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    return not data.endswith(b"0\r\n\r\n")


def goes_on(wire: socket.socket) -> bool:
    """Return whether the answer is still open after a look at its credential."""
    wire.settimeout(1.2)
    try:
        while wire.recv(1 << 16):
            pass
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_ends_with_its_token(own: Center, way: str) -> None:
    other = f"other-{way}"
    with (
        stream(own, "/v1/events", token_of(own, way)) as wire,
        stream(own, "/v1/events", token_of(own, other)) as stays,
    ):
        WAYS[way](own, way)
        assert ended(wire)
        assert goes_on(stays)


def test_a_stream_ends_when_its_token_expires(own: Center) -> None:
    with stream(own, "/v1/events", token_of(own, "eve", expires=2.0)) as wire:
        assert ended(wire)


def test_a_followed_log_and_a_command_end_with_their_token(own: Center) -> None:
    token = token_of(own, "ann")
    with Executor(own) as executor:
        own.http.headers["Authorization"] = f"Bearer {token}"
        try:
            path, _ = begun(own, executor)
        finally:
            own.http.headers["Authorization"] = f"Bearer {own.token}"
        with (
            opened(own, path, token) as person,
            stream(own, path.replace("tasks/0/exec", "logs?follow=true"), token) as log,
        ):
            person.send(json.dumps({"command": ["cat"]}))
            begin = next(message for message in iter(executor.receive, None) if isinstance(message, Exec))
            revoke(own, "ann")
            word = json.loads(person.recv(PATIENCE))
            assert (word["over"], word["why"]) == (True, REASON)
            assert (
                next(message for message in iter(executor.receive, None) if isinstance(message, ExecOver)).id
                == begin.id
            )
            assert ended(log)


def test_the_owner_of_the_data_directory_is_not_looked_at(own: Center) -> None:
    with stream(own, "/v1/events", own.token) as wire:
        lower(own, "somebody")
        assert goes_on(wire)
