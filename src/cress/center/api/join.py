"""Calls about joining nodes: join tokens, the certificate of the authority, and the join itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import Caller
from cress.center.access.tokens import fresh_join, has_digest
from cress.center.api.bodies import read, reply
from cress.center.api.context import caller_of, committer_of, note
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes
from cress.center.web.asgi import address_of
from cress.lifecycle.inputs import AddJoinToken, RevokeJoinToken, UseJoinToken
from cress.lifecycle.join_tokens import check_use, uses
from cress.model.access import MOST_NAME, JoinToken, Role, checked_name
from cress.model.errors import InputError, NotAccepted
from cress.model.times import SECOND
from cress.protocol.access_views import AuthorityView, JoinedView, JoinTokensPage, JoinTokenView, NewJoinToken
from cress.protocol.bodies import JoinBody, JoinTokenBody
from cress.protocol.calls import access_calls
from cress.protocol.join_tokens import parsed_join_token

if TYPE_CHECKING:
    from cress.center.tls.admission import Admission

# Most nodes of one token, and most seconds before it expires: a year.
MOST_USES, MOST_LIFE = 10_000, 365 * 86_400.0
NO_AUTHORITY = "this center does not make the certificates of its executors, so no node can join by a token"
AUTHORITY_HINT = "`cress tls init` makes an authority for it (docs/tls.md)"

router = Routes()


@router.answers(access_calls.AUTHORITY)
async def authority(request: Request) -> Response:
    """Return the certificate of the center's authority; needs no token."""
    admission: Admission | None = request.app.state.admission
    if admission is None:
        raise UnknownResource(f"{NO_AUTHORITY} ({AUTHORITY_HINT})")
    return reply(AuthorityView(certificate=admission.ca))


@router.answers(access_calls.JOIN_TOKENS)
async def join_tokens(request: Request) -> Response:
    """List the join tokens."""
    known = committer_of(request).machine.tables.join_tokens.values()
    counts = uses(committer_of(request).machine.tables)
    views = (_view(request, token, counts[token.id]) for token in sorted(known, key=lambda token: token.name))
    return reply(JoinTokensPage(tokens=tuple(views)))


@router.answers(access_calls.CREATE_JOIN_TOKEN)
async def create_join_token(request: Request) -> Response:
    """Create a join token; only this answer contains its secret."""
    body = await read(request, JoinTokenBody)
    name = checked_name(body.name, "name")
    if not 1 <= body.uses <= MOST_USES:
        raise InputError(f"{body.uses} uses", hint=f"1 to {MOST_USES:,}", field="uses")
    if not 0 < body.expires <= MOST_LIFE:
        raise InputError(f"{body.expires:g} seconds", hint="more than 0, at most a year", field="expires")
    if not body.nodes or len(body.nodes) > MOST_NAME or not body.nodes.isprintable():
        hint = f"such as gpu-*, at most {MOST_NAME} characters"
        raise InputError(f"{body.nodes[:40]!r} is not a pattern of names", hint=hint, field="nodes")
    made = fresh_join(_admission(request).pin)
    utc = committer_of(request).clock.utc()
    token = JoinToken(
        id=made.id,
        name=name,
        user=caller_of(request).user,
        digest=made.digest,
        created=utc,
        expires=utc + round(body.expires * SECOND),
        uses=body.uses,
        nodes=body.nodes,
    )
    await committer_of(request).submit(AddJoinToken(token=token))
    return reply(NewJoinToken(token=_view(request, token), secret=made.text), 201)


@router.answers(access_calls.REVOKE_JOIN_TOKEN)
async def revoke_join_token(request: Request, name: str) -> Response:
    """Revoke a join token by name or id, effective at once. Nodes that have joined stay."""
    known = committer_of(request).machine.tables.join_tokens
    token = known.get(name) or next((known_token for known_token in known.values() if known_token.name == name), None)
    if token is None:
        raise UnknownResource(
            f"there is no join token {name[:100]!r} (`cress token list --join` shows the join tokens)"
        )
    view = _view(request, token, uses(committer_of(request).machine.tables)[token.id])
    await committer_of(request).submit(RevokeJoinToken(id=token.id))
    return reply(view)


@router.answers(access_calls.JOIN)
async def join(request: Request) -> Response:
    """Return a certificate for a new node, which shows a join token in place of a user's (Authorization: Bearer).

    The same request with the same key may be repeated; it counts once.
    """
    committer = committer_of(request)
    admission = _admission(request)
    token = _shown(request)
    body = await read(request, JoinBody)
    note(request, f"node {body.node[:MOST_NAME]}")
    from cress.center.tls.admission import SigningRequest

    asked = SigningRequest(body.node, body.request)
    use = UseJoinToken(id=token.id, node=asked.node, key=asked.digest)
    check_use(committer.machine.tables, use, committer.clock.utc())
    await asyncio.to_thread(admission.check, asked, is_member=asked.node in committer.machine.nodes)
    # The use is counted before the certificate is made: a request that fails afterwards is repeated and counts once.
    await committer.submit(use)
    certificate = await asyncio.to_thread(admission.issue, asked, is_member=asked.node in committer.machine.nodes)
    host = urlsplit(f"//{request.headers['host']}").hostname or ""
    place = f"[{host}]" if ":" in host else host
    url = f"wss://{place}:{admission.executor_port}"
    return reply(JoinedView(node=asked.node, certificate=certificate, ca=admission.ca, executor_url=url))


def _shown(request: Request) -> JoinToken:
    """Return the join token in a request. Raises HTTPException."""
    given = request.headers.getlist("authorization")
    kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    parts = parsed_join_token(text) if kind.lower() == "bearer" else None
    token = None if parts is None else committer_of(request).machine.tables.join_tokens.get(parts.id)
    if parts is None or token is None or not has_digest(parts.secret, token.digest):
        why = "the join token is wrong, or was revoked" if parts else "a node joins with a join token"
        message = f"{why} (Authorization: Bearer TOKEN, from `cress token create NAME --join`)"
        raise HTTPException(401, message, headers={"WWW-Authenticate": "Bearer"})
    address = address_of(request.scope)
    # For the audit log; a join token permits no other call.
    request.scope["state"]["caller"] = Caller(token.user, Role.NONE, how=f"join token {token.name}", address=address)
    return token


def _admission(request: Request) -> Admission:
    admission: Admission | None = request.app.state.admission
    if admission is None:
        raise NotAccepted(NO_AUTHORITY, hint=AUTHORITY_HINT)
    return admission


def _view(request: Request, token: JoinToken, used: int = 0) -> JoinTokenView:
    return JoinTokenView(
        id=token.id,
        name=token.name,
        user=token.user,
        nodes=token.nodes,
        uses=token.uses,
        used=used,
        created=token.created / SECOND,
        expires=token.expires / SECOND,
        expired=token.is_over(committer_of(request).clock.utc()),
    )
