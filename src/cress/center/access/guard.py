"""The guard of the API: ASGI middleware that checks Host, caller, Content-Type and size of every request."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from cress.center.access.callers import Callers
from cress.center.access.open_answers import OpenAnswers
from cress.center.access.rights import Caller, may_call
from cress.center.web.asgi import App, Receive, Scope, Send, address_of
from cress.center.web.request_rates import RequestRates
from cress.center.web.signed_api import SignedApi, checked_body, is_proof, sealed
from cress.protocol.calls import CALLS
from cress.protocol.join_tokens import PREFIX
from cress.protocol.proof import ProofError
from cress.protocol.signatures import PATH, SCHEME, STALE
from cress.protocol.views import ErrorView, to_json
from cress.shell.center.signed_requests import Accepted, Stale

MOST_BODY = 16 * 2**20
NOT_JSON = (
    "the body is not application/json: the API takes JSON only, and files in YAML are read by `cress "
    "submit`, `cress apply` "
    "and `cress validate` (Content-Type: application/json)"
)
# These calls need no user's token. The description of the API says nothing about this cluster, and the certificate of
# the authority is public. A joining node shows a join token, and a user who signs in shows an ID token.
OPEN_PATHS = frozenset({"/openapi.json", "/docs", PATH, *(row.path for row in CALLS if row.open)})
# Signed requests: their signature is checked last.
_SIGNED = SCHEME.encode() + b" "
TOO_MANY = "too many requests; try again in {} s"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Refuses requests that are not allowed.

    A web page in a browser on this machine can send requests to the center. The check of Host stops a page that points
    its own host name to this address, the token stops other pages (it is never in a cookie), and the check of
    Content-Type stops forms.
    """

    def __init__(
        self, app: App, *, token: str, names: Iterable[str], callers: Callers, rates: RequestRates | None = None
    ) -> None:
        self._app = app
        self._rates = rates or RequestRates(0, 0)
        self._callers = callers
        self._open = OpenAnswers(callers)
        self._token = b"Bearer " + token.encode()
        self._signed = SignedApi(token)
        self._names = frozenset(name.lower().encode() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        if scope["type"] in ("http", "websocket"):
            prefix = "websocket." if scope["type"] == "websocket" else ""
            refusal = self._refusal(scope)
            wait = self._wait(scope)
            if wait:
                await _answer(send, 429, "too_many", TOO_MANY.format(wait), prefix=prefix, wait=wait)
                return
            if refusal is not None:
                await _answer(send, *refusal, prefix=prefix)
                return
            try:
                if is_proof(scope):
                    await self._signed.prove(scope, send)
                    return
                accepted = self._accepted(scope)
                if accepted is not None:
                    scope["state"]["caller"] = self._callers.of_secret(address_of(scope))
                if accepted is not None and prefix:
                    receive, send = sealed(accepted, receive, send)
                elif accepted is not None:
                    receive = await checked_body(accepted, receive, MOST_BODY)
            except ProofError as error:
                how = STALE if isinstance(error, Stale) else SCHEME
                await _answer(send, 401, "unauthorized", str(error), prefix=prefix, how=how)
                return
            if "caller" in scope["state"] and "signed_in" in scope["state"]:
                scope["state"]["signed_in"]()
            await self._open.answer(self._app, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _wait(self, scope: Scope) -> int:
        """Return the seconds until the request may be repeated; 0 admits it. Owner and root are always admitted."""
        caller: Caller | None = scope["state"].get("caller")
        if caller is not None and self._callers.is_lasting(caller):
            return 0
        if caller is None and any(
            name == b"authorization" and value.startswith(_SIGNED) for name, value in scope["headers"]
        ):
            return 0  # the owner, or a failed proof, which is slowed down elsewhere
        return self._rates.wait(scope, "" if caller is None else caller.user)

    def _caller(self, scope: Scope, given: list[bytes]) -> Caller | None:
        """Return the caller with these credentials; None if they are unknown."""
        if not given:
            peer = scope["state"].get("peer")
            return None if peer is None else self._callers.of_account(peer)
        if len(given) > 1:
            return None
        if hmac.compare_digest(given[0], self._token):
            return self._callers.of_secret(address_of(scope))
        kind, _, text = given[0].partition(b" ")
        return self._callers.of_token(text.decode("latin-1"), address_of(scope)) if kind.lower() == b"bearer" else None

    def _accepted(self, scope: Scope) -> Accepted | None:
        """Return the accepted request if it is signed; None if it needs no signature. Raises ProofError."""
        for name, value in scope["headers"]:
            if name == b"authorization" and value.startswith(_SIGNED):
                return self._signed.accept(scope, value)
        return None

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        head = _Head(scope)
        if len(head.hosts) != 1 or _without_port(head.hosts[0].lower()) not in self._names:
            shown = head.hosts[0].decode("latin-1")[:100] if head.hosts else ""
            return 403, "forbidden", f"the center is not called {shown!r} (its address, or a name that it was given)"
        if head.origin:
            # Browsers let a page open a WebSocket to any host, and send simple requests to it. A page of another port
            # is one of another program.
            _, _, place = head.origin.lower().partition(b"://")
            if place != head.hosts[0].lower():
                shown = head.origin.decode("latin-1")[:100]
                return 403, "forbidden", f"a page of {shown!r} may not connect to the center"
        given = head.given
        if not (len(given) == 1 and given[0].startswith(_SIGNED)):
            caller = self._caller(scope, given)
            if caller is not None:
                scope["state"]["caller"] = caller
                if not may_call(caller, scope["path"]):
                    what = f"the token of job {caller.job} opens calls about that job only, and no exec"
                    return 403, "forbidden", f"{what} (docs/users.md#tokens-of-jobs)"
            elif scope["path"] not in OPEN_PATHS:
                return 401, "unauthorized", _unknown(scope, given)
        if head.has_body and head.kind.split(b";")[0].strip().lower() != b"application/json":
            return 415, "unsupported", NOT_JSON
        if head.length and (not head.length.isdigit() or int(head.length) > MOST_BODY):
            return 413, "too_large", f"the body has more than {MOST_BODY // 2**20} MB"
        return None


class _Head:
    """The headers of a request that the guard checks."""

    def __init__(self, scope: Scope) -> None:
        self.hosts: list[bytes] = []
        self.given: list[bytes] = []
        self.kind, self.length, self.origin, self.has_body = b"", b"", b"", False
        for name, value in scope["headers"]:
            if name == b"host":
                self.hosts.append(value)
            elif name == b"authorization":
                self.given.append(value)
            elif name == b"content-type":
                self.kind = value
            elif name == b"content-length":
                self.length, self.has_body = value, value != b"0"
            elif name == b"transfer-encoding":
                self.has_body = True
            elif name == b"origin":
                self.origin = value


def _unknown(scope: Scope, given: list[bytes]) -> str:
    peer = scope["state"].get("peer")
    if not given and peer is not None:
        return f"the account {peer} of this machine is not a user of the cluster"
    if any(PREFIX.encode() in value for value in given):
        return "a join token is valid only for POST /v1/join (use it with `cress join` on a node)"
    what = "wrong token" if given else "no token"
    return f"{what} (Authorization: Bearer TOKEN, from `cress token create`, or the file token in the data directory)"


def _without_port(host: bytes) -> bytes:
    if host.startswith(b"["):
        end = host.find(b"]")
        rest = host[end + 1 :]
        return host[: end + 1] if end > 0 and (not rest or (rest[:1] == b":" and rest[1:].isdigit())) else b""
    name, colon, port = host.partition(b":")
    return name.removesuffix(b".") if not colon or port.isdigit() else b""


async def _answer(
    send: Send, status: int, code: str, message: str, *, prefix: str = "", how: str = "Bearer", wait: int = 0
) -> None:
    body = to_json(ErrorView(code=code, message=message))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", how.encode()))
    if status == 429:
        headers.append((b"retry-after", str(wait).encode()))
    if status in (413, 429):
        # The rest of the body is not read, so the connection is closed.
        headers.append((b"connection", b"close"))
    await send({"type": prefix + "http.response.start", "status": status, "headers": headers})
    await send({"type": prefix + "http.response.body", "body": body})
