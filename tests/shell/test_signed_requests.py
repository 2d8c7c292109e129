"""Signed requests: what a relay that sees every request can do with them. No sockets."""

from __future__ import annotations

import pytest

from cress.model.times import SECOND
from cress.protocol.proof import NONCE, ProofError
from cress.protocol.signatures import SessionKey, begin, center_proof, parse
from cress.shell.center import signed_requests
from cress.shell.center.signed_requests import FRESH, WINDOW, SignedRequests, Stale

TOKEN = "the-token-of-the-cluster"
NOW = 5 * SECOND
BODY = b'{"jobs":[]}'


class Scene:
    """A center, and clients that have begun a session with it."""

    def __init__(self, own: bytes = b"own") -> None:
        self.requests = SignedRequests(TOKEN, own)

    def session(self, number: int = 1, now: int = NOW) -> SessionKey:
        nonce = bytes([number % 256, number // 256]) * (NONCE // 2)
        return begin(TOKEN, nonce, self.requests.prove(nonce.hex(), bytes(8), now))

    def sent(self, header: str, target: str = "/v1/jobs", key: str = "", method: str = "POST", now: int = NOW) -> None:
        accepted = self.requests.accept(header, method, target, key, now)
        assert accepted.signature.body == parse(header).body


def test_each_request_is_accepted_once_in_any_order() -> None:
    scene = Scene()
    session = scene.session()
    headers = [session.sign(number, "POST", "/v1/jobs", "", BODY) for number in range(1, 6)]
    for header in (headers[2], headers[0], headers[4], headers[1], headers[3]):
        scene.sent(header)
    for header in headers:
        with pytest.raises(ProofError, match="sent before"):
            scene.sent(header)


def test_numbers_far_behind_are_refused() -> None:
    scene = Scene()
    session = scene.session()
    scene.sent(session.sign(WINDOW + 9, "POST", "/v1/jobs", "", BODY))
    scene.sent(session.sign(10, "POST", "/v1/jobs", "", BODY))
    with pytest.raises(ProofError):
        scene.sent(session.sign(9, "POST", "/v1/jobs", "", BODY))


def test_what_is_asked_cannot_be_changed() -> None:
    session = Scene().session()
    header = session.sign(1, "POST", "/v1/jobs", "key", BODY)
    other = session.sign(2, "POST", "/v1/jobs", "key", b"other")
    forged = header.replace(parse(header).body, parse(other).body)
    for method, target, key, sent in (
        ("PUT", "/v1/jobs", "key", header),
        ("POST", "/v1/jobs?dry_run=true", "key", header),
        ("POST", "/v1/jobs", "other", header),
        ("POST", "/v1/jobs", "key", forged),
        ("POST", "/v1/jobs", "key", header.replace("number=1", "number=3")),
    ):
        with pytest.raises(ProofError, match="not made with the center's token"):
            Scene().sent(sent, target, key, method)


def test_a_session_begins_soon_or_never_and_not_again_when_it_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_requests, "MOST_SESSIONS", 2)
    scene = Scene()
    header = scene.session().sign(1, "POST", "/v1/jobs", "", BODY)
    with pytest.raises(Stale):
        scene.sent(header, now=NOW + FRESH + 1)
    with pytest.raises(Stale):
        Scene(own=b"another run").sent(header)
    scene.sent(header, now=NOW + FRESH)
    for number in (2, 3):
        scene.sent(scene.session(number, NOW + number).sign(1, "POST", "/v1/jobs", "", BODY), now=NOW + number)
    with pytest.raises(Stale):
        scene.sent(header, now=NOW + 4)  # it would be accepted a second time otherwise
    scene.sent(scene.session(4, NOW + 5).sign(1, "POST", "/v1/jobs", "", BODY), now=NOW + 5)


def test_a_center_that_knows_nothing_is_not_believed() -> None:
    nonce = bytes(NONCE)
    for answer in (
        None,
        "",
        "1 x",
        center_proof("another token", nonce, nonce),
        center_proof(TOKEN, b"x" * NONCE, nonce),
    ):
        with pytest.raises(ProofError):
            begin(TOKEN, nonce, answer)


@pytest.mark.parametrize(
    "header", ["", "Bearer x", "Cress", "Cress session=, number=1, body=, mac=", "Cress number=1", "Cress session=é"]
)
def test_what_is_no_signature_is_refused(header: str) -> None:
    with pytest.raises(ProofError):
        Scene().sent(header)


@pytest.mark.parametrize("number", ["-1", "", "1e308", str(2**53), str(2**64), "٣", "9" * 5000])
def test_a_number_is_a_number(number: str) -> None:
    header = Scene().session().sign(1, "POST", "/v1/jobs", "", BODY).replace("number=1", f"number={number}")
    with pytest.raises(ProofError, match="number"):
        parse(header)


def test_the_messages_of_a_websocket_are_sealed_by_both_sides() -> None:
    session = Scene().session()
    client, center = session.seals(1, client=True), session.seals(1, client=False)
    assert center.into.open(client.out.seal(b"run")) == b"run"
    assert client.into.open(center.out.seal(b"output")) == b"output"
    with pytest.raises(ProofError):
        session.seals(2, client=False).into.open(client.out.seal(b"run"))
