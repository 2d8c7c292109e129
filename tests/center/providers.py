"""The provider of OpenID Connect as a process, and its users."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.ports import free_port
from tests.system.cluster import PATIENCE

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class ProviderProcess:
    """A provider that runs until the ``with`` ends."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        program = Path(__file__).with_name("oidc_provider.py")
        with log.open("ab") as said:
            self.process = subprocess.Popen([sys.executable, str(program), str(port)], stdout=said, stderr=said)
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the provider does not listen"
            try:
                self.http.get("/keys")
                break
            except httpx.TransportError:
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait(PATIENCE)

    def tell(self, what: str, **told: Any) -> None:
        assert self.http.post(f"/test/{what}", json=told).status_code == 200

    def id_token(self, email: str = "ann@example.com", **claims: Any) -> str:
        """The ID token of a user who signs in."""
        code = self.http.post("/code", data={"client_id": "cress", "scope": "openid email"}).json()
        given = {"email": email, "email_verified": True, **claims}
        self.tell("answer", code=code["user_code"], approved=True, claims=given)
        form = {"grant_type": GRANT, "device_code": code["device_code"], "client_id": "cress"}
        return str(self.http.post("/token", data=form).json()["id_token"])
