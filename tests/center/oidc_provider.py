"""A small provider of OpenID Connect with the device flow, made of Authlib's server: a program of its own for tests.

What a user would do in a browser, and what a provider may do wrong, is told it at ``/test/…``.
"""

# mypy: disallow-subclassing-any=False, warn-return-any=False

from __future__ import annotations

import sys
import time
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants.code import OpenIDToken
from flask import Flask, jsonify, request
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

app = Flask("provider")
app.config["OAUTH2_SCOPES_SUPPORTED"] = ["openid", "email", "profile"]
# What the tests change: the life of codes, how ID tokens are made.
settings: dict[str, Any] = {"expires_in": 60, "alg": "RS256", "aud": "cress", "iss": "", "life": 300, "key": "own"}
codes: dict[str, DeviceCredentialDict] = {}
grants: dict[str, tuple[dict[str, Any], bool]] = {}
keys = [RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})]
stranger = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})


class Client(ClientMixin):
    """The public client ``cress``."""

    def get_client_id(self) -> str:
        return "cress"

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_client_secret(self, client_secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == DeviceCodeGrant.GRANT_TYPE


class IdTokens(OpenIDToken):
    def get_client_algorithm(self, client: Client) -> str:
        return str(settings["alg"])

    def get_encode_header(self, client: Client) -> dict[str, Any]:
        return {"alg": settings["alg"], "kid": keys[-1].kid}

    def get_compatible_claims(self, request: Any) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": settings["iss"], "aud": settings["aud"], "iat": now, "exp": now + settings["life"]}

    def resolve_client_private_key(self, client: Client) -> Any:
        return keys[-1] if settings["key"] == "own" else stranger

    def generate_user_info(self, user: dict[str, Any], scope: str) -> UserInfo:
        return UserInfo(user)


class Device(DeviceAuthorizationEndpoint):
    INTERVAL = 1

    def get_verification_uri(self) -> str:
        return f"{settings['iss']}/device"

    def save_device_credential(self, client_id: str, scope: str, data: dict[str, Any]) -> None:
        data["expires_in"] = settings["expires_in"]
        expires = time.time() + data["expires_in"]
        codes[data["device_code"]] = DeviceCredentialDict(client_id=client_id, scope=scope, expires_at=expires, **data)


class DeviceGrant(DeviceCodeGrant):
    def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
        return codes.get(device_code)

    def query_user_grant(self, user_code: str) -> tuple[dict[str, Any], bool] | None:
        return grants.get(user_code)

    def should_slow_down(self, credential: DeviceCredentialDict) -> bool:
        return False


server = AuthorizationServer(
    app,
    query_client=lambda client_id: Client() if client_id == "cress" else None,
    save_token=lambda *_: None,
)
server.register_endpoint(Device)
server.register_grant(DeviceGrant, [IdTokens()])


@app.get("/.well-known/openid-configuration")
def configuration() -> Any:
    here = f"http://127.0.0.1:{sys.argv[1]}"
    return jsonify(
        issuer=here,
        jwks_uri=f"{here}/keys",
        token_endpoint=f"{here}/token",
        device_authorization_endpoint=f"{here}/code",
    )


@app.get("/keys")
def published() -> Any:
    return jsonify(keys=[key.as_dict(private=False) for key in keys])


@app.post("/code")
def code() -> Any:
    return server.create_endpoint_response("device_authorization")


@app.post("/token")
def token() -> Any:
    return server.create_token_response()


@app.post("/test/answer")
def answer() -> Any:
    """The user answers at the page: ``claims`` are those of the user, ``approved`` whether the sign-in is wanted."""
    told = request.get_json()
    grants[told["code"]] = {"sub": "u1", **told.get("claims", {})}, told["approved"]
    return jsonify(done=True)


@app.post("/test/settings")
def change() -> Any:
    settings.update(request.get_json())
    return jsonify(settings)


@app.post("/test/rotate")
def rotate() -> Any:
    """Sign with a new key; the old one is not published any more."""
    keys[:] = [RSAKey.generate_key(2048, {"kid": str(int(str(keys[-1].kid)) + 1), "use": "sig"})]
    return jsonify(done=True)


if __name__ == "__main__":
    settings["iss"] = f"http://127.0.0.1:{sys.argv[1]}"
    make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True).serve_forever()
