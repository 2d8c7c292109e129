"""Programs on the API's port that do not know the token, and relays: they get no token, and change nothing that is
asked.
"""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

import cress
from cress.client import Address, Unauthorized, Unproven, Unreachable
from cress.client import Client as Http
from cress.client.route import Route, SignedCalls
from cress.protocol.proof import HEADER, NONCE
from cress.protocol.signatures import begin
from tests.client.server import serving
from tests.system.cluster import Cluster, wait_until


def test_an_impostor_on_the_port_gets_a_random_number_and_nothing_else() -> None:
    with serving() as impostor, Http(impostor.url, "the-secret-token") as client:
        for token in ("", "another token"):
            impostor.token = token
            for call in (client.nodes, lambda: client.submit([{"command": "x"}]), lambda: client.exec(1, ["sh"])):
                with pytest.raises(Unproven, match=r"[Tt]he token was not sent"):
                    call()
        assert {each.line.partition("=")[0] for each in impostor.asked} == {"GET /v1/proof?nonce"}
        assert "the-secret-token" not in repr(impostor.asked)
        assert not any("Authorization" in each.headers for each in impostor.asked)


def test_after_a_kill_the_port_is_not_asked_whoever_has_it(tmp_path: Path) -> None:
    """``center.json`` stays, and names the Unix socket of the center, which nobody else can make."""
    with serving() as impostor:
        tmp_path.chmod(0o700)
        (tmp_path / "token").write_text("the-secret-token")
        (tmp_path / "token").chmod(0o600)
        (tmp_path / "center.json").write_text(f'{{"url": "{impostor.url}", "pid": 1, "socket": "api.sock"}}')
        gone = socket.socket(socket.AF_UNIX)
        gone.bind(str(tmp_path / "api.sock"))
        gone.close()
        with cress.Client(data=tmp_path) as client, pytest.raises(Unreachable, match="no center answers"):
            client.nodes()
        assert impostor.asked == []


def test_a_call_begins_another_session_when_the_center_does_not_know_it_any_more() -> None:
    with serving() as server, Http(server.url, server.token) as client:
        server.body = {"nodes": []}
        client.nodes()
        server.status, server.headers = 401, {"WWW-Authenticate": "Cress stale"}
        with pytest.raises(Unauthorized):
            client.nodes()
        assert len(server.sessions) == 2
        server.status = 200
        client.nodes()
        server.check(server.asked[-1])


# --- with a real center -----------------------------------------------------------------------------------------------


@pytest.fixture
def address(cluster: Cluster) -> tuple[str, str]:
    """The address of the API, and the token."""
    return str(cluster.address("url")), (cluster.data / "token").read_text().strip()


def test_a_client_with_address_and_token_is_served_and_its_commands_in_tasks_are_sealed(
    address: tuple[str, str],
) -> None:
    with cress.Client(*address) as client:
        job = client.submit({"command": "sleep 1000", "resource": "<0.1, 10M>", "name": "signed"})
        try:
            wait_until(lambda: job.tasks()[0].state == "running", "its task")
            done = job.exec(["sh", "-c", "cat; exit 4"], stdin="in")
            assert done == (4, "in", "")
            with pytest.raises(cress.ClientError, match="has no task 7"):
                job.exec(["true"], task=7)
        finally:
            job.cancel()


def test_a_relay_can_neither_repeat_nor_change_a_request(address: tuple[str, str]) -> None:
    url, token = address
    seen: list[httpx.Request] = []
    text = {"text": "groups: [}"}
    with httpx.Client(base_url=url, auth=SignedCalls(token), event_hooks={"request": [seen.append]}) as honest:
        assert honest.put("/v1/groups?dry_run=true", json=text).status_code == 422
    given = {"Authorization": seen[-1].headers["Authorization"], "Content-Type": "application/json"}
    with httpx.Client(base_url=url, headers=given) as relay:
        again = relay.put("/v1/groups?dry_run=true", content=seen[-1].content)
        assert (again.status_code, again.json()["message"]) == (401, "the request was sent before")
        for method, path in (("PUT", "/v1/groups"), ("POST", "/v1/groups?dry_run=true"), ("GET", "/v1/state")):
            assert relay.request(method, path, content=seen[-1].content).status_code == 401
    nonce = bytes(NONCE)
    with httpx.Client(base_url=url) as relay:
        session = begin(token, nonce, relay.get(f"/v1/proof?nonce={nonce.hex()}").headers[HEADER])
        header = session.sign(1, "PUT", "/v1/groups", "", b"signed")
        answer = relay.put("/v1/groups", json=text, headers={"Authorization": header})
        assert (answer.status_code, answer.json()["message"]) == (401, "the body is not the one that was signed")
        assert relay.get("/v1/proof?nonce=12").status_code == 401


def test_a_long_path_of_a_data_directory_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    route = Route(Address("http://localhost", "t" * 20, folder, folder / "api.sock"))
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(route.socket)
        listening.listen()
        assert (folder / "api.sock").exists()
    finally:
        listening.close()
        route.close()
