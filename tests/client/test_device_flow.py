"""The device flow against a provider in memory: pauses, refusals, and answers that make no sense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from cress.client.device_flow import DeviceCode, DeviceFlow, SignInFailed, is_secure
from cress.client.errors import Unreachable

ISSUER = "https://id.example.com"
FOUND = {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token", "device_authorization_endpoint": f"{ISSUER}/code"}
CODE = {
    "device_code": "d",
    "user_code": "AB-CD",
    "verification_uri": f"{ISSUER}/device",
    "expires_in": 60,
    "interval": 2,
}
DONE = {"id_token": "eyJ"}


class Provider:
    """Answers in turn; ``now`` is a clock that only sleeping moves."""

    def __init__(self, *answers: Any, found: Any = FOUND, code: Any = CODE) -> None:
        self.answers = list(answers)
        self.first = {f"{ISSUER}/.well-known/openid-configuration": found, f"{ISSUER}/code": code}
        self.asked: list[tuple[str, Mapping[str, str] | None]] = []
        self.now = 0.0
        self.pauses: list[float] = []

    def send(self, url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        self.asked.append((url, form))
        answer = self.first[url] if url in self.first else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return 200, answer
        if isinstance(answer, int):
            return answer, b"<html>"
        return 400 if "error" in answer else 200, json.dumps(answer).encode()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def sign_in(self) -> str:
        flow = DeviceFlow(ISSUER, "cress", "openid email", self.send, self.sleep, lambda: self.now)
        return flow.wait(flow.begin())


PENDING, SLOW = {"error": "authorization_pending"}, {"error": "slow_down"}


def test_the_provider_is_asked_in_its_own_time_until_the_user_has_signed_in() -> None:
    provider = Provider(PENDING, PENDING, DONE)
    assert provider.sign_in() == "eyJ"
    assert provider.pauses == [2, 2, 2]
    assert provider.asked[1] == (f"{ISSUER}/code", {"client_id": "cress", "scope": "openid email"})
    assert provider.asked[2][1] == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "d",
        "client_id": "cress",
    }


def test_slow_down_lengthens_every_pause_that_follows() -> None:
    provider = Provider(SLOW, PENDING, SLOW, DONE)
    provider.sign_in()
    assert provider.pauses == [2, 7, 7, 12]


def test_a_provider_that_is_away_for_a_while_is_asked_more_seldom() -> None:
    provider = Provider(httpx.ConnectTimeout("x"), 503, DONE)
    assert provider.sign_in() == "eyJ"
    assert provider.pauses == [2, 4, 8]


def test_a_provider_that_says_nothing_about_pauses_is_asked_every_five_seconds() -> None:
    provider = Provider(DONE, code={name: value for name, value in CODE.items() if name != "interval"})
    provider.sign_in()
    assert provider.pauses == [5]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"error": "access_denied"}, "was denied"),
        ({"error": "expired_token"}, "has expired"),
        ({"error": "invalid_client", "error_description": "unknown"}, "invalid_client unknown"),
        ({"access_token": "a"}, "no ID token"),
        (b"<html>", "is not a provider"),
        (b'{"id_token": 7}', "is not a provider"),
    ],
)
def test_what_ends_a_sign_in_is_said(answer: Any, sentence: str) -> None:
    with pytest.raises(SignInFailed, match=sentence):
        Provider(PENDING, answer).sign_in()


def test_a_code_that_nobody_enters_expires_here_too() -> None:
    provider = Provider(*[PENDING] * 100)
    with pytest.raises(SignInFailed, match="has expired"):
        provider.sign_in()
    assert provider.now <= 60 + 2


@pytest.mark.parametrize(
    ("found", "code", "sentence"),
    [
        (FOUND | {"issuer": "https://evil.example.com"}, CODE, "gives its name as 'https://evil"),
        ({"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token"}, CODE, "no device flow"),
        (FOUND | {"device_authorization_endpoint": "http://id.example.com/code"}, CODE, "not an address with TLS"),
        (404, CODE, "HTTP 404"),
        (b"{", CODE, "is not a provider"),
        (FOUND, {"error": "unauthorized_client"}, "gives no code .unauthorized_client"),
        (FOUND, {"user_code": "x"}, "is not a provider"),
    ],
)
def test_a_provider_that_cannot_sign_in_is_said_before_a_code_is_shown(found: Any, code: Any, sentence: str) -> None:
    with pytest.raises(SignInFailed, match=sentence):
        Provider(found=found, code=code).sign_in()
    with pytest.raises(Unreachable):
        Provider(found=httpx.ConnectError("no")).sign_in()


def test_a_provider_cannot_make_a_client_wait_for_ever_or_without_pause() -> None:
    endless = DeviceCode(device_code="d", user_code="u", verification_uri="v", expires_in=1e12, interval=1e12)
    provider = Provider(*[PENDING] * 1000)
    flow = DeviceFlow(ISSUER, "cress", "openid", provider.send, provider.sleep, lambda: provider.now)
    flow.begin()
    with pytest.raises(SignInFailed, match="has expired"):
        flow.wait(endless)
    assert provider.now <= 3700
    assert min(provider.pauses) == 60


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://id.example.com", True),
        ("http://127.0.0.1:80", True),
        ("http://localhost/x", True),
        ("http://[::1]/", True),
        ("http://id.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("ftp://127.0.0.1", False),
        ("https://", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_addresses_that_are_believed(url: str, *, secure: bool) -> None:
    assert is_secure(url) is secure
