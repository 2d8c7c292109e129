"""ID tokens that a center believes, and those that it does not: with the keys of a real provider."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cress.center.access.oidc import KEPT, PAUSE, Provider
from cress.center.access.sign_in_errors import BadIdToken, ProviderDown
from cress.center.settings import Oidc
from cress.cli.center import oidc_of
from cress.model.access import Role
from cress.model.errors import InputError, NotAccepted
from cress.model.times import HOUR
from tests.center.program import Center
from tests.center.providers import ProviderProcess

USUAL = {"alg": "RS256", "aud": "cress", "life": 300, "key": "own"}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    with ProviderProcess(tmp_path_factory.mktemp("provider") / "log") as process:
        yield process


@pytest.fixture(autouse=True)
def usual(process: ProviderProcess) -> None:
    process.tell("settings", **USUAL, iss=process.url)


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def provider(process: ProviderProcess, clock: Clock | None = None, **more: Any) -> Provider:
    return Provider(Oidc(issuer=process.url, client_id="cress", **more), ("boss",), clock or Clock())


def sign_in(own: Provider, token: str) -> str:
    return asyncio.run(own.user_of(token))


def test_a_user_of_the_provider_is_called_as_the_claim_says(process: ProviderProcess) -> None:
    assert sign_in(provider(process), process.id_token("ann@example.com")) == "ann@example.com"
    assert sign_in(provider(process, domain="example.com"), process.id_token("Ann@Example.com")) == "Ann"
    named = provider(process, claim="preferred_username")
    assert sign_in(named, process.id_token(preferred_username="bob")) == "bob"
    assert sign_in(provider(process, claim="sub"), process.id_token(sub="u77")) == "u77"


@pytest.mark.parametrize(
    ("more", "claims", "sentence"),
    [
        ({}, {"email_verified": False}, "has not verified the address"),
        ({}, {"email_verified": "true"}, "has not verified the address"),
        ({"domain": "example.com"}, {"email": "ann@evil.com"}, "only users of example.com"),
        ({"domain": "example.com"}, {"email": "ann@example.com@evil.com"}, "only users of example.com"),
        ({"domain": "example.com"}, {"email": "ann"}, "only users of example.com"),
        ({"domain": "example.com"}, {"email": "boss@example.com"}, "boss is a system account"),
        ({"domain": "example.com"}, {"email": "root@example.com"}, "root is a system account"),
        ({"domain": "example.com"}, {"email": "@example.com"}, "cannot be a name here"),
        ({"claim": "preferred_username"}, {"preferred_username": "a b"}, "cannot be a name here"),
        (
            {"claim": "preferred_username"},
            {"preferred_username": ["root"]},
            "does not send the claim preferred_username",
        ),
        ({"claim": "preferred_username"}, {}, "does not send the claim preferred_username"),
    ],
)
def test_users_who_cannot_be_named_are_refused(
    process: ProviderProcess, more: dict[str, Any], claims: dict[str, Any], sentence: str
) -> None:
    assert pwd.getpwnam("root").pw_uid == 0
    with pytest.raises(NotAccepted, match=sentence):
        sign_in(provider(process, **more), process.id_token(**claims))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"key": "another"}, "its signature is wrong"),
        ({"aud": "another"}, "for another program"),
        ({"aud": ["cress", "another"]}, "for several programs"),
        ({"iss": "https://another.example.com"}, "from another provider"),
        ({"life": -400}, "has expired"),
    ],
)
def test_an_id_token_that_was_not_made_for_this_is_not_believed(
    process: ProviderProcess, change: dict[str, Any], sentence: str
) -> None:
    process.tell("settings", **change)
    with pytest.raises(BadIdToken, match=sentence):
        sign_in(provider(process), process.id_token())


def forged(
    process: ProviderProcess, algorithm: str, key: Any, header: dict[str, Any] | None = None, **more: Any
) -> str:
    """An ID token with good claims, signed by somebody else."""
    now = int(time.time())
    claims = {"iss": process.url, "aud": "cress", "sub": "u1", "iat": now, "exp": now + 300}
    claims |= {"email": "ann@example.com", "email_verified": True, **more}
    kid = process.http.get("/keys").json()["keys"][0]["kid"]
    return jwt.encode(claims, key, algorithm, {"kid": kid, **(header or {})})


def test_forgeries_are_not_believed(process: ProviderProcess) -> None:
    own = provider(process)
    published = jwt.PyJWK(process.http.get("/keys").json()["keys"][0], "RS256")
    modulus = published.key.public_numbers().n.to_bytes(256, "big")
    stranger = rsa.generate_private_key(65537, 2048)
    for token, sentence in (
        (forged(process, "none", None), "signed with 'none'"),
        (forged(process, "HS256", modulus), "signed with 'HS256'"),
        (forged(process, "RS256", stranger), "its signature is wrong"),
        (forged(process, "PS512", stranger), "its signature is wrong"),
        (forged(process, "ES256", ec.generate_private_key(ec.SECP256R1())), "its signature is wrong"),
        (forged(process, "RS256", stranger, {"kid": "9"}), "a key that the provider does not have"),
        # Keys and addresses in the header are the sender's word.
        (forged(process, "RS256", stranger, {"kid": "9", "jwk": {}, "jku": "http://evil"}), "does not have"),
        (forged(process, "RS256", stranger, {"typ": "at+jwt"}), "an access token"),
        ("x.y.z", "is not a signed token"),
        ("", "is not a signed token"),
        ("a" * 60_000, "is not a signed token"),
    ):
        with pytest.raises(BadIdToken, match=sentence):
            sign_in(own, token)
    good = process.id_token()
    head, body, signature = good.split(".")
    with pytest.raises(BadIdToken, match="its signature is wrong"):
        sign_in(own, f"{head}.{body}.{signature[:-8]}AAAAAAAA")
    assert sign_in(own, good) == "ann@example.com"


def test_an_id_token_is_good_for_one_sign_in_soon_after_it_was_made(process: ProviderProcess) -> None:
    clock = Clock()
    own = provider(process, clock)
    token, later = process.id_token(), process.id_token()
    sign_in(own, token)
    with pytest.raises(BadIdToken, match="was used already"):
        sign_in(own, token)
    clock.ahead = HOUR / 1e6
    with pytest.raises(BadIdToken, match="of an earlier sign-in"):
        sign_in(own, later)


def test_the_provider_may_change_its_keys_at_any_time(process: ProviderProcess) -> None:
    clock = Clock()
    own = provider(process, clock)
    old = process.id_token("old@example.com")
    assert sign_in(own, process.id_token()) == "ann@example.com"
    process.tell("rotate")
    with pytest.raises(BadIdToken, match="does not have"):
        sign_in(own, process.id_token())  # unknown keys are asked for every few seconds at most
    clock.ahead = PAUSE + 1
    assert sign_in(own, process.id_token()) == "ann@example.com"
    # The new keys are known now, and the old one is not among them.
    with pytest.raises(BadIdToken, match="does not have"):
        sign_in(own, old)


def test_a_provider_that_is_away_is_said_and_keys_that_are_known_do_for_a_while(tmp_path: Any) -> None:
    clock = Clock()
    with ProviderProcess(tmp_path / "log") as gone:
        own = provider(gone, clock)
        tokens = [gone.id_token(f"u{number}@example.com") for number in range(3)]
        assert sign_in(own, tokens[0]) == "u0@example.com"
    assert sign_in(own, tokens[1]) == "u1@example.com"
    clock.ahead = KEPT + 1
    for _ in range(2):  # the second time without asking it again
        with pytest.raises(ProviderDown, match="cannot be reached at http"):
            sign_in(own, tokens[2])


def test_a_provider_that_does_not_answer_is_asked_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(500)

    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **more: real(transport=Answers(answer), **more))
    clock = Clock()
    own = Provider(Oidc(issuer="https://id", client_id="cress"), clock=clock)
    token = jwt.encode({"sub": "x"}, rsa.generate_private_key(65537, 2048), "RS256")
    for ahead, times in ((0.0, 1), (1.0, 1), (PAUSE + 1, 2)):
        clock.ahead = ahead
        with pytest.raises(ProviderDown, match="HTTP 500"):
            sign_in(own, token)
        assert len(asked) == times


def test_a_center_without_a_provider_says_so(shared: Center) -> None:
    for method in ("GET", "POST"):
        answer = shared.http.request(method, "/v1/login", json={} if method == "POST" else None)
        assert (answer.status_code, "this center has no sign-in" in answer.text) == (404, True)


def test_an_id_token_is_accepted_once_also_by_the_next_center(process: ProviderProcess, tmp_path: Path) -> None:
    """The used ones were in memory alone: after a restart, one that was seen on its way was good again."""
    body = {"id_token": process.id_token()}
    more = f"oidc=__import__('cress.center.settings', fromlist=['x']).Oidc(issuer={process.url!r}, client_id='cress')"
    codes = []
    for _ in range(2):
        with Center(tmp_path / "data", forked=True, more=more) as center:
            answers = [center.http.post("/v1/login", json=body) for _ in range(2)]
            codes += [answer.status_code for answer in answers]
            if answers[0].status_code == 201:
                # Its user signs out at once.
                made = answers[0].json()
                with center.client(Authorization=f"Bearer {made['secret']}") as ann:
                    assert ann.request("DELETE", f"/v1/tokens/{made['token']['name']}").status_code == 200
                    assert ann.get("/v1/whoami").status_code == 401
    assert codes == [201, 401, 401, 401]


class Answers(httpx.MockTransport):
    """A provider that answers nonsense."""


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (httpx.Response(500), "HTTP 500"),
        (httpx.Response(302, headers={"Location": "http://evil"}), "HTTP 302"),
        (httpx.Response(200, content=b"<html>"), "is not JSON"),
        (httpx.Response(200, content=b"[" * 100_000), "is not JSON"),
        (httpx.Response(200, content=b"[]"), "is not JSON"),
        (httpx.Response(200, content=b" " * (2**20 + 1)), "is too long"),
        (httpx.Response(200, json={"issuer": "https://evil"}), "gives its name as 'https://evil'"),
        (httpx.Response(200, json={"issuer": "https://id"}), "does not say where its keys are"),
        (httpx.Response(200, json={"issuer": "https://id", "jwks_uri": "http://id/keys"}), "does not say where"),
        (httpx.Response(200, json={"issuer": "https://id", "jwks_uri": "https://id/keys"}), "has no keys"),
    ],
)
def test_a_provider_that_answers_nonsense_is_said(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, sentence: str
) -> None:
    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **more: real(transport=Answers(lambda _: answer), **more))
    own = Provider(Oidc(issuer="https://id", client_id="cress"))
    token = jwt.encode({"sub": "x"}, rsa.generate_private_key(65537, 2048), "RS256")
    with pytest.raises(ProviderDown, match=sentence):
        sign_in(own, token)


def test_options_that_make_no_sense_are_told() -> None:
    assert oidc_of("", "", "email", "", "user", "12h") is None
    good = oidc_of("https://id.example.com", "cress", "email", "@example.com", "none", "1h")
    assert good is not None
    assert (good.domain, good.role, good.life, good.scope) == ("example.com", Role.NONE, HOUR, "openid email")
    for options, sentence in (
        (("", "cress", "email", "", "user", "12h"), "the provider is missing"),
        (("http://id.example.com", "cress", "email", "", "user", "12h"), "is not an address with TLS"),
        (("https://id", "", "email", "", "user", "12h"), "the id of Cress at the provider is missing"),
        (("https://id", "c", "email", "", "admin", "12h"), "admin for all users who sign in"),
        (("https://id", "c", "email", "", "king", "12h"), "is not a role"),
        (("https://id", "c", "email", "", "user", "0s"), "is not a time that a sign-in can last"),
    ):
        with pytest.raises(InputError, match=sentence):
            oidc_of(*options)
