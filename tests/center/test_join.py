"""Nodes that join by a token: names and keys that are refused, over the API of a center with an authority."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cress.center.tls.admission import Admission, SigningRequest
from cress.center.tls.authority import Authority
from cress.model.errors import InputError, NotAccepted
from cress.protocol.join_tokens import fingerprint, join_token_text, parsed_join_token
from tests.center.program import Center, SecureCenter
from tests.center.test_users import token_of


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request(own: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(own, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "tls")


@pytest.fixture
def admission(authority: Authority) -> Admission:
    return Admission(authority, 7412)


def asked(node: str = "n1", own: ec.EllipticCurvePrivateKey | None = None) -> SigningRequest:
    return SigningRequest(node, request(own or key()))


def test_a_text_is_a_join_token_or_not() -> None:
    text = join_token_text("0123456789ab", "f" * 64, "a_b-c")
    assert parsed_join_token(text) == ("0123456789ab", "f" * 64, "a_b-c")
    for wrong in (
        "",
        "cress_1_2",
        "cressjoin_",
        "cressjoin_1_2",
        f"cressjoin_1_{'f' * 63}_x",
        f"cressjoin__{'f' * 64}_x",
    ):
        assert parsed_join_token(wrong) is None


def test_a_node_gets_a_certificate_for_its_key_alone(admission: Admission) -> None:
    own = key()
    pem = admission.issue(asked("n1", own), is_member=False)
    made = x509.load_pem_x509_certificate(pem.encode())
    assert made.public_key() == own.public_key()
    assert fingerprint(admission.ca) == admission.pin
    again = x509.load_pem_x509_certificate(admission.issue(asked("n1", own), is_member=True).encode())
    assert again.public_key() == own.public_key(), "the same key may ask again, also when the node has joined"


def test_a_name_that_another_key_has_is_refused(admission: Admission, authority: Authority, tmp_path: Path) -> None:
    admission.issue(asked("n1"), is_member=False)
    authority.issue_node("n2", tmp_path / "n2")
    for node, is_member in (("n1", True), ("n1", False), ("n2", False), ("n3", True)):
        with pytest.raises(NotAccepted, match=f"there is a node {node} with another key"):
            admission.issue(asked(node), is_member=is_member)


def test_a_revoked_name_is_refused_for_every_key(admission: Admission, authority: Authority, tmp_path: Path) -> None:
    own = key()
    admission.issue(asked("n1", own), is_member=False)
    for node in ("n1", "never-seen"):
        authority.revoke(node)
        with pytest.raises(NotAccepted, match=f"certificates of node {node} were revoked"):
            admission.issue(asked(node, own), is_member=False)
    # The operator's next bundle is that of the node, and nobody else joins in its place.
    authority.issue_node("n1", tmp_path / "n1")
    with pytest.raises(NotAccepted, match="with another key"):
        admission.issue(asked("n1", own), is_member=False)


def test_a_name_whose_certificate_has_expired_and_that_no_node_has_is_free(
    admission: Admission, authority: Authority, tmp_path: Path
) -> None:
    authority.issue_node("n1", tmp_path / "n1", life=1_000_000)
    with pytest.raises(NotAccepted):
        admission.check(asked("n1"), is_member=False)
    time.sleep(1.1)
    with pytest.raises(NotAccepted):
        admission.check(asked("n1"), is_member=True)
    admission.issue(asked("n1"), is_member=False)


def test_requests_that_prove_no_key_are_refused() -> None:
    good = request(key())
    lines = good.splitlines()
    # Another signature of the right length.
    lines[-2] = lines[-2][:4] + ("A" if lines[-2][4] != "A" else "B") + lines[-2][5:]
    for node, pem, sentence in (
        ("n1", "", "not a certificate signing request"),
        ("n1", "\ud800".encode("utf-8", "replace").decode(), "not a certificate signing request"),
        ("n1", "\n".join(lines), "signature is wrong|not a certificate signing request"),
        ("n1", request(rsa.generate_private_key(65537, 2048)), "key is of another kind"),
        ("a/b", good, "is not a name of a node"),
        ("*", good, "is not a name of a node"),
    ):
        with pytest.raises(InputError, match=sentence):
            SigningRequest(node, pem)


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    """A center with an authority of its own."""
    data = tmp_path_factory.mktemp("join") / "data"
    Authority.create(data / "tls").issue_center(["127.0.0.1"])
    with SecureCenter(data, forked=True) as center:
        yield center


def join(center: Center, token: str, node: str, own: ec.EllipticCurvePrivateKey | None = None) -> httpx.Response:
    assert isinstance(center, SecureCenter)
    with center.outside(token) as http:
        return http.post("/v1/join", json={"node": node, "request": request(own or key())})


def join_token(center: Center, name: str, **more: object) -> str:
    return str(center.post("/v1/join-tokens", {"name": name, **more}, 201)["secret"])


def test_nodes_join_as_often_as_a_token_says(center: Center) -> None:
    token, own = join_token(center, "two", uses=2, nodes="a-?"), key()
    made = join(center, token, "a-1", own)
    assert made.status_code == 200, made.text
    answer = made.json()
    port = center.address["executor_url"].rpartition(":")[2]
    assert (answer["node"], answer["executor_url"]) == ("a-1", f"wss://127.0.0.1:{port}")
    assert join(center, token, "a-1", own).status_code == 200
    other = join(center, token, "a-1")
    assert (other.status_code, "with another key" in other.text) == (409, True)
    elsewhere = join(center, token, "b-1")
    assert (elsewhere.status_code, "is for nodes a-?, not for b-1" in elsewhere.text) == (409, True)
    assert join(center, token, "a-2").status_code == 200
    over = join(center, token, "a-3")
    assert (over.status_code, "used up: 2 of 2" in over.text) == (409, True)
    (shown,) = [each for each in center.get("/v1/join-tokens")["tokens"] if each["name"] == "two"]
    assert (shown["used"], shown["uses"]) == (2, 2)
    assert "digest" not in shown


def test_tokens_that_let_no_node_join_say_why(center: Center) -> None:
    short = join_token(center, "short", expires=0.001)
    gone = join_token(center, "gone")
    assert center.http.delete("/v1/join-tokens/gone").status_code == 200
    for token, status, sentence in (
        ("", 401, "a node joins with a join token"),
        (token_of(center, "ann"), 401, "a node joins with a join token"),
        (center.token, 401, "a node joins with a join token"),
        (gone, 401, "is wrong, or was revoked"),
        (short[:-1] + ("A" if short[-1] != "A" else "B"), 401, "is wrong, or was revoked"),
        (short, 409, "the join token short has expired"),
    ):
        answer = join(center, token, "late")
        assert (answer.status_code, sentence in answer.json()["message"]) == (status, True), answer.text
    assert not (center.data / "tls" / "nodes" / "late.pem").exists()


def test_a_join_token_opens_no_other_call(center: Center) -> None:
    token = join_token(center, "only")
    assert isinstance(center, SecureCenter)
    with center.outside(token) as http:
        for path in ("/v1/whoami", "/v1/jobs", "/v1/join-tokens"):
            answer = http.get(path)
            assert (answer.status_code, "a join token is valid only for" in answer.text) == (401, True)


def test_joins_are_in_the_audit_log(center: Center) -> None:
    token = join_token(center, "told")
    join(center, token, "node-1")
    join(center, "cressjoin_x", "node-2")
    refused, taken = center.get("/v1/audit", limit=2)["entries"]
    assert (taken["what"], taken["how"], taken["why"]) == ("POST /v1/join", "join token told", "node node-1")
    assert (refused["what"], refused["status"]) == ("POST /v1/join", 401)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"uses": 0}, "uses"),
        ({"uses": 10_001}, "uses"),
        ({"expires": 0}, "expires"),
        ({"expires": 4e7}, "expires"),
        ({"nodes": ""}, "nodes"),
        ({"nodes": "x" * 65}, "nodes"),
        ({"name": "a b"}, "name"),
    ],
)
def test_join_tokens_that_make_no_sense(center: Center, body: dict[str, object], field: str) -> None:
    answer = center.http.post("/v1/join-tokens", json={"name": "odd", **body})
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, field)


def test_uses_outlive_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    Authority.create(data / "tls").issue_center(["127.0.0.1"])
    own = key()
    with SecureCenter(data, forked=True) as before:
        token = join_token(before, "two", uses=2)
        assert join(before, token, "n1", own).status_code == 200
        before.kill()
    with SecureCenter(data, forked=True) as after:
        assert join(after, token, "n1", own).status_code == 200, "counted already"
        assert [join(after, token, node).status_code for node in ("n2", "n3")] == [200, 409]
    secret = token.split("_", 3)[3].encode()
    assert not [path for path in data.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_a_center_without_an_authority_says_so(shared: Center) -> None:
    answer = shared.http.post("/v1/join-tokens", json={"name": "none"})
    assert (answer.status_code, "`cress tls init` makes an authority" in answer.json()["message"]) == (409, True)
    assert shared.http.get("/v1/ca").status_code == 404
