"""Calls about sign-in with OpenID Connect: the provider, and a token for a user who has signed in there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import Caller
from cress.center.access.sign_in_errors import BadIdToken
from cress.center.access.tokens import fresh
from cress.center.api.bodies import read, reply
from cress.center.api.context import committer_of, note
from cress.center.api.errors import Forbidden, UnknownResource
from cress.center.api.routes import Routes
from cress.center.views.tokens import token_view
from cress.center.web.asgi import address_of
from cress.lifecycle.inputs import AddToken
from cress.model.access import Role, Token
from cress.model.errors import NotAccepted
from cress.protocol.access_views import LoginView, NewToken
from cress.protocol.bodies import LoginBody
from cress.protocol.calls import access_calls

if TYPE_CHECKING:
    from cress.center.access.oidc import Provider

NO_PROVIDER = "this center has no sign-in (an operator starts it with --oidc-issuer, docs/users.md)"
HOW = "sign-in"

router = Routes()


@router.answers(access_calls.PROVIDER)
async def provider(request: Request) -> Response:
    """Return the provider at which users sign in; needs no token."""
    settings = _provider(request).settings
    return reply(LoginView(issuer=settings.issuer, client_id=settings.client_id, scope=settings.scope))


@router.answers(access_calls.LOGIN)
async def login(request: Request) -> Response:
    """Return an expiring token for the ID token of a user who has just signed in at the provider; needs no token."""
    own = _provider(request)
    body = await read(request, LoginBody)
    committer = committer_of(request)
    try:
        user = await own.user_of(body.id_token)
        name = own.name_of_token(body.id_token)
        if any(token.user == user and token.name == name for token in committer.machine.tables.tokens.values()):
            raise BadIdToken("it was used already")  # noqa: TRY301 – told as the others
    except BadIdToken as error:
        note(request, f"the ID token: {error}")
        message = f"the sign-in is not believed: {error} (`cress login` begins another)"
        raise HTTPException(401, message, headers={"WWW-Authenticate": "Bearer"}) from None
    except NotAccepted as error:
        note(request, str(error))
        raise
    known = committer.machine.tables.users.get(user)
    role = own.settings.role if known is None else known.role
    # For the audit log.
    request.scope["state"]["caller"] = Caller(user, role, how=HOW, address=address_of(request.scope))
    if role is Role.NONE:
        what = "is not a user of this cluster yet" if known is None else "has the role none"
        raise Forbidden(f"{user} {what}, and may not sign in (an admin can change that: cress users set {user})")
    made = fresh()
    utc = committer.clock.utc()
    token = Token(
        id=made.id,
        name=name,
        user=user,
        role=role,
        digest=made.digest,
        created=utc,
        expires=utc + own.settings.life,
    )
    await committer.submit(AddToken(token=token))
    return reply(NewToken(token=token_view(token, utc), secret=made.text), 201)


def _provider(request: Request) -> Provider:
    found: Provider | None = request.app.state.provider
    if found is None:
        raise UnknownResource(NO_PROVIDER)
    return found
