"""Attacks of users and nodes on a center, from outside: stolen and forged executors, orders about others, commands in
foreign tasks.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from cress.center.files.licence_file import read_licences
from cress.center.files.topology import read_topology
from cress.center.tls.authority import Authority
from cress.cli.devicefile import read_device_file
from cress.executor.bundle import BundleFolder
from cress.model.errors import InputError
from cress.model.reports import Cause, Started
from cress.protocol.messages import (
    VERSION,
    Beat,
    Hello,
    Launches,
    Refused,
    Reports,
    Term,
    Welcome,
    decode_from_center,
    encode,
)
from cress.protocol.proof import HEADER, NONCE, ExecutorProof
from tests.center.program import PATIENCE, Center, SealedWire, SecureCenter, ended, eventually


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("attacks") / "data", forked=True, visibility="own") as center:
        yield center


def token_of(center: Center, user: str) -> str:
    body = {"name": secrets.token_hex(4), "user": user}
    return str(center.post("/v1/tokens", body, 201)["secret"])


def test_a_command_in_a_foreign_task_finds_no_such_job(own: Center) -> None:
    ann, bob = token_of(own, "ann"), token_of(own, "bob")
    body = {"jobs": [{"command": "true"}]}
    http = httpx.post(
        f"{own.address['url']}/v1/jobs", json=body, headers={"Authorization": f"Bearer {ann}"}, trust_env=False
    )
    number = http.json()["jobs"][0]["id"]
    url = own.address["url"].replace("http:", "ws:")
    for token, status in ((bob, 404), (ann, 409), ("no", 401)):
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(
                f"{url}/v1/jobs/{number}/tasks/0/exec",
                additional_headers={"Authorization": f"Bearer {token}"},
                open_timeout=PATIENCE,
            ),
        ):
            pass
        assert refused.value.response.status_code == status


def test_a_user_cannot_pose_as_an_executor(own: Center) -> None:
    token = token_of(own, "ann")
    url = own.address["executor_url"]
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers={"Authorization": f"Bearer {token}"}):
        pass
    assert refused.value.response.status_code == 401
    # Nor with a proof that is made with the user's token.
    proof = ExecutorProof(token, secrets.token_bytes(NONCE))
    with connect(url, additional_headers={HEADER: proof.header}) as wire:
        wire.send(b"x" * 32)
        with pytest.raises(ConnectionClosed):
            wire.recv(PATIENCE)
    assert own.get("/v1/nodes")["nodes"] == []


def test_an_executor_speaks_for_the_attempts_of_its_own_node_only(tmp_path: Any) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor("n1") as honest:
        number = center.submit(name="victim", tasks=2)
        attempts = [launch.attempt for launch in honest.launches()]
        honest.started(*attempts)
        eventually(lambda: center.get(f"/v1/jobs/{number}")["tasks"]["running"] == 2)
        with center.executor("n2") as liar:
            liar.send(Reports(reports=(ended(attempts[0], code=1), Started(attempt=attempts[1], at=1, pid=1))))
            # A report that it may make comes after: the lie has been read.
            liar.send(Reports(reports=(ended(10**6, code=0),)))
            eventually(lambda: center.get("/v1/nodes/n2")["state"] == "up")
            view = center.get(f"/v1/jobs/{number}")
            assert (view["state"], view["tasks"]["running"]) == ("running", 2)
            assert {task["attempts"][0]["node"] for task in center.get(f"/v1/jobs/{number}/tasks")["tasks"]} == {"n1"}


def test_nobody_takes_the_name_of_a_node_that_is_connected(tmp_path: Any) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor("n1") as honest:
        number = center.submit(tasks=1)
        (launch,) = honest.launches()
        honest.started(launch.attempt)
        with center.executor("n1", boot="another") as rival:
            assert not isinstance(rival.first, Hello)
            assert "n1" in str(rival.first)
        assert center.get(f"/v1/jobs/{number}")["state"] in ("starting", "running")
        honest.ended(launch.attempt)


def test_an_epoch_that_an_executor_makes_up_deposes_nobody(tmp_path: Any) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor("n1", bound=True) as honest:
        number = center.submit(tasks=2)
        first, second = honest.launches()
        honest.started(first.attempt)
        for epoch in (2, 3, 10**6, 2**40, 2**48):
            for name in ("n1", "n2"):
                with center.executor(name, epoch=epoch) as liar:
                    _is_told_of_its_directory(liar.first, epoch)
        honest.send(Beat(sent=1))
        assert isinstance(honest.receive(), Term)
        honest.started(second.attempt)
        honest.ended(first.attempt, second.attempt)
        assert center.get(f"/v1/jobs/{number}")["state"] == "succeeded"
        assert center.get("/v1/state")["problem"] == ""
        # Many at once cost the others nothing, and all are answered.
        with ExitStack() as crowd:
            for each in [crowd.enter_context(SealedWire(center)) for _ in range(50)]:
                each.send(Hello(version=VERSION, name="n3", resource="<1, 1G>", boot="b", epoch=2))
            center.submit()
            assert honest.launches()


def test_a_node_with_a_certificate_deposes_nobody_either(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "data" / "tls")
    authority.issue_center(["127.0.0.1"])
    wires = []
    for node in ("n1", "n2"):
        authority.issue_node(node, tmp_path / node)
        wires.append(BundleFolder(tmp_path / node).context())
    with SecureCenter(tmp_path / "data", forked=True) as center:
        url = center.address["executor_url"]
        with (
            connect(url, ssl=wires[0], compression=None, proxy=None) as honest,
            connect(url, ssl=wires[1], compression=None, proxy=None) as liar,
        ):
            hello = Hello(version=VERSION, name="n1", resource="<4, 8G>", boot="b", attributes={"os": "x"})
            honest.send(encode(hello))
            assert isinstance(decode_from_center(honest.recv(PATIENCE, decode=False)), Welcome)
            liar.send(encode(msgspec.structs.replace(hello, name="n2", epoch=2)))
            _is_told_of_its_directory(decode_from_center(liar.recv(PATIENCE, decode=False)), 2)
            center.submit()
            assert isinstance(decode_from_center(honest.recv(PATIENCE, decode=False)), Launches)
        assert center.get("/v1/state")["problem"] == ""


def _is_told_of_its_directory(answer: object, epoch: int) -> None:
    assert isinstance(answer, Refused)
    assert answer.what.startswith(
        f"the executor names epoch {epoch} without the proof of a center, but this center, the newest one by its "
        "store, has epoch 1"
    )
    assert "move its directory away" in answer.hint
    # It may be the store that is too old: when that is put right, everybody comes back.
    assert not answer.permanent


@pytest.mark.parametrize(
    "name",
    ["x" * 10_000_000, "a\x1b[2J", "../../etc", "a/b", "\u202e evil", "<script>", "a\nb"],
    ids=lambda name: repr(name[:9]),
)
def test_names_that_are_weapons_are_refused_in_a_short_sentence(own: Center, name: str) -> None:
    for path, body in (("/v1/jobs", {"jobs": [{"command": "true", "name": name}]}), ("/v1/tokens", {"name": name})):
        answer = own.http.post(path, json=body)
        assert answer.status_code in (413, 422), (path, answer.text[:300])
        assert len(answer.text) < 2_000
        assert "\x1b" not in answer.text
    answer = own.http.put(
        "/v1/users/" + name[:300].replace("/", "%2F").replace("\x1b", "%1B").replace("\n", "%0A"), json={"role": "user"}
    )
    assert answer.status_code in (404, 422)


def test_a_thousand_idle_connections_keep_nobody_out(own: Center) -> None:
    host, port = own.address["url"].removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(1_000)]
    try:
        for half in idle[:500]:
            half.sendall(b"GET /v1/state HTTP/1.1\r\nHost: ")
        assert own.get("/v1/state")["problem"] == ""
    finally:
        for each in idle:
            each.close()


HOSTILE_PARTS = [
    "../users",
    "..%2F..%2Fusers",
    "%2e%2e/%2e%2e/etc/passwd",
    "%00",
    "%0d%0aX-Evil: 1",
    "%F0%9F%92%A9",
    "%ff%fe",
    "-1",
    "1e999",
    "9" * 400,
    "٣",
    "1%20OR%201=1",
    "x" * 5_000,
    "%1b[2J",
    "{id}",
]


def test_no_address_makes_the_center_fail_or_leads_elsewhere(own: Center) -> None:
    document = own.get("/openapi.json")
    with own.client(Authorization=f"Bearer {token_of(own, 'ann')}") as ann:
        for path, methods in document["paths"].items():
            if "{" not in path or path.endswith("/watch"):
                continue
            for method in methods:
                for part in HOSTILE_PARTS:
                    address = re.sub(r"\{\w+\}", "{}", path).replace("{}", part)
                    answer = ann.request(method, address, json=None if method == "get" else {})
                    assert answer.status_code in (403, 404, 405, 409, 415, 422, 401, 400, 200), (
                        method,
                        address,
                        answer.text,
                    )
                    assert answer.status_code != 200 or answer.json()["places"] == [], (method, address, answer.text)
                    assert "x-evil" not in answer.headers
                    assert "\x1b" not in answer.text


@pytest.mark.parametrize(
    "body", [b"[" * 1_000_000, b'{"jobs":' * 100_000, b'{"jobs":[{"x":' + b"[" * 500_000, b"\xff" * 1_000]
)
def test_deep_and_broken_bodies_are_mistakes(own: Center, body: bytes) -> None:
    for method, path in (
        ("POST", "/v1/jobs"),
        ("POST", "/v1/apply"),
        ("PUT", "/v1/groups"),
        ("POST", "/v1/jobs/cancel"),
    ):
        answer = own.http.request(method, path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (413, 422), (path, answer.text[:300])
        assert len(answer.text) < 2_000


def test_what_an_executor_says_is_text_without_control_characters_on_a_terminal(tmp_path: Any) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\nroot@host # \u202e"
    with Center(tmp_path / "data", forked=True) as center, center.executor("n1") as executor:
        number = center.submit(name="victim")
        (launch,) = executor.launches()
        report = msgspec.structs.replace(ended(launch.attempt, code=None, cause=Cause.FILES), error=evil)
        executor.send(Reports(reports=(report,)))
        eventually(lambda: center.get(f"/v1/jobs/{number}")["state"] == "failed")
        environment = {**os.environ, "CRESS_DATA": str(center.data)}
        for words in (["job", str(number)], ["jobs"], ["events", "--all"], ["nodes"]):
            done = subprocess.run(
                [sys.executable, "-m", "cress", *words],
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            for text in (done.stdout, done.stderr):
                assert not set(text) & {"\x1b", "\x07", "\r", "\u202e"}, (words, text)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


def test_files_of_yaml_that_explode_are_mistakes(tmp_path: Any) -> None:
    for name, reader in (("racks", read_topology), ("licences", read_licences), ("devices", read_device_file)):
        for text in (f"{BOMB}{name}: *a11\n", f"{name}: &x [*x]\n"):
            (tmp_path / "file").write_text(text)
            with pytest.raises(InputError) as refused:
                reader(tmp_path / "file")
            assert len(str(refused.value)) < 10_000
