"""Signing in with `cress login`: a center over TLS, a provider of OpenID Connect, and a user's commands, each a
process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.center.providers import ProviderProcess
from tests.system.cluster import PATIENCE, Cluster, wait_until

REFUSED, INTERRUPTED = 3, 130


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    with ProviderProcess(tmp_path_factory.mktemp("provider") / "log") as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: ProviderProcess) -> Iterator[Cluster]:
    """A center with TLS at which users of example.com sign in."""
    cluster = Cluster()
    try:
        assert cluster.cress("tls", "init").returncode == 0
        options = ("--oidc-issuer", provider.url, "--oidc-client-id", "cress", "--oidc-domain", "example.com")
        cluster.start_center(*options, "--oidc-life", "1h")
        yield cluster
    finally:
        cluster.stop()


class Laptop:
    """The machine of a user, with a configuration of its own."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster, self.home = cluster, home
        self.url = f"https://127.0.0.1:{cluster.port('url')}"
        self.file = home / "config" / "cress" / "logins.json"
        own = {name: value for name, value in os.environ.items() if not name.startswith("CRESS_")}
        ca = cluster.data / "tls" / "ca.pem"
        self.environment = own | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "CRESS_CA": str(ca)}
        self.environment |= {"XDG_DATA_HOME": str(home / "data"), "PYTHONUNBUFFERED": "1"}

    def cress(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cress", *words]
        given = self.environment | more
        return subprocess.run(command, env=given, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def begin(self) -> tuple[subprocess.Popen[str], str]:
        """Start `cress login`; return it and the code that it shows."""
        command = [sys.executable, "-m", "cress", "login", self.url]
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"Open http\S+/device and enter the code (\S+)", line)
        if found is None:
            pytest.fail(line + "".join(process.communicate()))
        return process, found[1]

    def login(self, provider: ProviderProcess, *, approved: bool = True, **claims: object) -> tuple[int, str]:
        """Sign in as a user would; return the exit code and what was said."""
        process, code = self.begin()
        given = {"email": "ann@example.com", "email_verified": True, **claims}
        provider.tell("answer", code=code, approved=approved, claims=given)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out + err


@pytest.fixture
def laptop(cluster: Cluster, tmp_path: Path) -> Laptop:
    return Laptop(cluster, tmp_path)


def test_a_user_signs_in_works_and_signs_out(cluster: Cluster, provider: ProviderProcess, laptop: Laptop) -> None:
    code, said = laptop.login(provider)
    assert code == 0, said
    assert f"signed in at {laptop.url} as ann, role user, until" in said
    assert (laptop.file.stat().st_mode & 0o777, laptop.file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    token = json.loads(laptop.file.read_text())["logins"][0]["token"]
    assert token not in said
    # Without a word about the center, and with its address alone.
    assert laptop.cress("whoami").stdout.startswith("ann, role user (token login-")
    assert laptop.cress("whoami", CRESS_URL=laptop.url).stdout.startswith("ann, role user")
    job = laptop.home / "job.yaml"
    job.write_text("command: 'true'\n")
    assert laptop.cress("submit", str(job)).returncode == 0
    assert json.loads(laptop.cress("jobs", "--json").stdout)["jobs"][0]["user"] == "ann"
    (shown,) = json.loads(laptop.cress("token", "--json").stdout)["tokens"]
    assert 3500 < shown["expires"] - time.time() <= 3600
    out = laptop.cress("logout")
    assert (out.returncode, out.stdout) == (0, f"signed out at {laptop.url}\n"), out.stderr
    assert token not in laptop.file.read_text()
    assert "wrong token" in laptop.cress("whoami", CRESS_URL=laptop.url, CRESS_TOKEN=token).stderr
    again = laptop.cress("logout")
    assert (again.returncode, "not signed in" in again.stderr) == (2, True)
    log = cluster.cress("audit", "--json").stdout
    assert '"POST /v1/login"' in log
    assert '"sign-in"' in log


def test_what_ends_a_sign_in_stores_nothing(cluster: Cluster, provider: ProviderProcess, laptop: Laptop) -> None:
    assert cluster.cress("users", "set", "eve", "--role", "none").returncode == 0
    for approved, email, sentence in (
        (False, "ann@example.com", "the sign-in was denied at the provider"),
        (True, "eve@example.com", "eve has the role none, and may not sign in"),
        (True, "ann@evil.com", "only users of example.com may sign in"),
        (True, "root@example.com", "root is a system account"),
    ):
        code, said = laptop.login(provider, approved=approved, email=email)
        assert (code, sentence in said) == (REFUSED, True), said
    provider.tell("settings", expires_in=1)
    process, _ = laptop.begin()
    provider.tell("settings", expires_in=60)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "the code has expired before anybody signed in" in err) == (REFUSED, True), err
    provider.tell("settings", aud="another")
    code, said = laptop.login(provider)
    provider.tell("settings", aud="cress")
    assert (code, "the sign-in is not believed: it is for another program" in said) == (REFUSED, True), said
    assert not laptop.file.exists()


def test_an_interrupted_sign_in_is_quiet(laptop: Laptop) -> None:
    process, _ = laptop.begin()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == INTERRUPTED
    assert "Traceback" not in out + err
    assert "not signed in" in err
    assert not laptop.file.exists()


def test_a_role_that_was_set_counts_and_a_sign_in_that_is_over_says_so(
    cluster: Cluster, provider: ProviderProcess, laptop: Laptop
) -> None:
    assert cluster.cress("users", "set", "oda", "--role", "operator").returncode == 0
    code, said = laptop.login(provider, email="oda@example.com")
    assert (code, "as oda, role operator" in said) == (0, True), said
    assert cluster.cress("users", "set", "oda", "--role", "viewer").returncode == 0
    assert laptop.cress("whoami").stdout.startswith("oda, role viewer")
    kept = json.loads(laptop.file.read_text())
    kept["logins"][0]["expires"] = time.time() - 1
    laptop.file.write_text(json.dumps(kept))
    over = laptop.cress("jobs")
    assert (over.returncode, f"(cress login {laptop.url})" in over.stderr) == (2, True), over.stderr
    laptop.file.chmod(0o644)
    assert "other users may read or change" in laptop.cress("jobs").stderr


def test_addresses_at_which_nobody_can_sign_in(laptop: Laptop) -> None:
    plain = laptop.cress("login", "http://127.0.0.1:1")
    assert (plain.returncode, "would travel to http://127.0.0.1:1 unencrypted" in plain.stderr) == (2, True)
    nowhere = laptop.cress("login")
    assert (nowhere.returncode, "the address of the center is missing" in nowhere.stderr) == (2, True)


@pytest.mark.long
def test_a_provider_that_goes_away_is_said_and_the_center_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    laptop = Laptop(cluster, tmp_path)
    with ProviderProcess(tmp_path / "log") as gone:
        pass
    second = Cluster()
    try:
        second.start_center("--oidc-issuer", gone.url, "--oidc-client-id", "cress")
        url = f"http://127.0.0.1:{second.port('url')}"
        away = laptop.cress("login", url, CRESS_INSECURE="1")
        assert (away.returncode, f"cannot be reached at {gone.url}" in away.stderr) == (REFUSED, True), away.stderr
        wait_until(lambda: second.cress("status").returncode == 0, "an answer")
    finally:
        second.stop()
